package server

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// How many keys of a table /hotkeys shows, and at most.
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

// serveHotKeys shows which keys are asked for most: ?table=keyspace.table, of every
// table without it; ?k= how many.
func (s *Server) serveHotKeys(w http.ResponseWriter, r *http.Request) {
	k, table := defaultHotKeys, r.URL.Query().Get("table")
	if text := r.URL.Query().Get("k"); text != "" {
		var err error
		if k, err = strconv.Atoi(text); err != nil || k < 1 || k > maxHotKeys {
			writeError(w, badRequest("k", fmt.Sprintf("expected a number of keys from 1 to %d", maxHotKeys)))
			return
		}
	}
	page := hotPage{Tables: []hotTable{}}
	for _, h := range s.deps.HotKeys(k) {
		if name := h.Table.Keyspace + "." + h.Table.Table; table == "" || table == name {
			page.Tables = append(page.Tables, s.hotTable(name, &h))
		}
	}
	if table != "" && len(page.Tables) == 0 {
		writeError(w, badRequest("table", "no keys are counted of a table of that name; leave it out for all tables"))
		return
	}
	if wantsText(r) {
		writeText(w, http.StatusOK, page.text())
		return
	}
	writeIndented(w, page)
}

func (s *Server) hotTable(name string, h *lookup.HotKeys) hotTable {
	out := hotTable{Table: name, WindowSec: h.Window.Seconds(), Keys: h.Keys, OneIn: h.OneIn, Top: []hot{}}
	var definition *schema.Table
	if t, err := s.deps.Lookup.Table(h.Table.Keyspace, h.Table.Table); err == nil {
		definition = t.Schema
	}
	for i := range h.Top {
		k := &h.Top[i]
		shown := hot{Key: s.hotKeys.name(name, definition, k.Routing), Count: k.Count, Error: k.Error, Share: k.Share, Hosts: []string{}}
		for _, r := range k.Replicas {
			shown.Hosts = append(shown.Hosts, r.Addr)
		}
		out.Top = append(out.Top, shown)
	}
	return out
}

// text is one list of keys for each table.
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

// keyNamer names keys in reports: by a hash that cannot be found by trying keys, as
// its secret is known to this process alone, and that is the same in all reports of
// the process; or in clear. A token would be no secret: its hash has none.
type keyNamer struct {
	clear  bool
	secret [sha256.Size]byte
}

func newKeyNamer(clear bool) *keyNamer {
	n := &keyNamer{clear: clear}
	_, _ = rand.Read(n.secret[:]) // never fails
	return n
}

// name returns JSON: a key in clear is as in a request, and hashed when it cannot be
// shown so.
func (n *keyNamer) name(table string, definition *schema.Table, routing []byte) json.RawMessage {
	if n.clear && definition != nil {
		if text, ok := clearKey(definition, routing); ok {
			return text
		}
	}
	mac := hmac.New(sha256.New, n.secret[:])
	_, _ = mac.Write([]byte(table))
	_, _ = mac.Write([]byte{0})
	_, _ = mac.Write(routing)
	return json.RawMessage(`"#` + hex.EncodeToString(mac.Sum(nil)[:8]) + `"`)
}

// clearKey writes a key as JSON: its value, or an array of several.
func clearKey(definition *schema.Table, routing []byte) (json.RawMessage, bool) {
	columns := definition.PartitionKey
	if len(columns) == 1 {
		text, err := columns[0].Type.AppendJSON(nil, routing)
		return text, err == nil && json.Valid(text)
	}
	out := []byte{'['}
	for i, c := range columns {
		// CompositeType; see partition.NewKey.
		if len(routing) < 2 {
			return nil, false
		}
		n := int(binary.BigEndian.Uint16(routing))
		if len(routing) < n+3 {
			return nil, false
		}
		if i > 0 {
			out = append(out, ',')
		}
		var err error
		if out, err = c.Type.AppendJSON(out, routing[2:2+n]); err != nil {
			return nil, false
		}
		routing = routing[n+3:]
	}
	return append(out, ']'), true
}
