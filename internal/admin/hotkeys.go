package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// How many keys /hotkeys shows for each table, by default and at most.
const (
	defaultHotKeys = 10
	maxHotKeys     = 100
)

// hotPage is the answer of /hotkeys as JSON.
type hotPage struct {
	Tables []hotTable `json:"tables"`
}

type hotTable struct {
	Table     string  `json:"table"`
	WindowSec float64 `json:"window_seconds"`
	Keys      uint64  `json:"keys"`
	OneIn     int     `json:"one_in"`
	Top       []hot   `json:"top"`
}

type hot struct {
	Key   json.RawMessage `json:"key"`
	Count uint64          `json:"count"`
	Error uint64          `json:"error"`
	Share float64         `json:"share"`
	Hosts []string        `json:"hosts"`
}

// serveHotKeys shows the most requested keys of ?table=keyspace.table, or of every
// table; ?k= is how many.
func (p *pages) serveHotKeys(w http.ResponseWriter, r *http.Request) {
	k, table := defaultHotKeys, r.URL.Query().Get("table")
	if text := r.URL.Query().Get("k"); text != "" {
		var err error
		if k, err = strconv.Atoi(text); err != nil || k < 1 || k > maxHotKeys {
			badRequest(w, "k", fmt.Sprintf("expected a number of keys from 1 to %d", maxHotKeys))
			return
		}
	}
	page := hotPage{Tables: []hotTable{}}
	for _, h := range p.deps.HotKeys(k) {
		if name := h.Table.Keyspace + "." + h.Table.Table; table == "" || table == name {
			page.Tables = append(page.Tables, p.hotTable(name, &h))
		}
	}
	if table != "" && len(page.Tables) == 0 {
		badRequest(w, "table", "no keys are counted of a table of that name; leave it out for all tables")
		return
	}
	writePage(w, r, page)
}

func (p *pages) hotTable(name string, h *lookup.HotKeys) hotTable {
	out := hotTable{Table: name, WindowSec: h.Window.Seconds(), Keys: h.Keys, OneIn: h.OneIn, Top: []hot{}}
	var definition *schema.Table
	if t, err := p.deps.Lookup.Table(h.Table.Keyspace, h.Table.Table); err == nil {
		definition = t.Schema
	}
	for i := range h.Top {
		k := &h.Top[i]
		shown := hot{Key: p.hotKeys.name(name, definition, k.Routing), Count: k.Count, Error: k.Error, Share: k.Share, Hosts: []string{}}
		for _, r := range k.Replicas {
			shown.Hosts = append(shown.Hosts, r.Addr)
		}
		out.Top = append(out.Top, shown)
	}
	return out
}

// text returns one list of keys for each table.
func (p hotPage) text() string {
	var b strings.Builder
	for _, table := range p.Tables {
		fmt.Fprintf(&b, "%s: about %d keys in %.0f s", table.Table, table.Keys, table.WindowSec)
		if table.OneIn > 1 {
			fmt.Fprintf(&b, ", one in %d looked at", table.OneIn)
		}
		b.WriteByte('\n')
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(t, "  KEY\tCOUNT\tERROR\tSHARE\tHOSTS")
		for _, k := range table.Top {
			_, _ = fmt.Fprintf(t, "  %s\t%d\t%d\t%.1f%%\t%s\n", k.Key, k.Count, k.Error, 100*k.Share, strings.Join(k.Hosts, ", "))
		}
		_ = t.Flush()
		b.WriteByte('\n')
	}
	return b.String()
}
