package admin

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"text/tabwriter"

	"github.com/qosproxy/qosproxy/internal/ring"
)

// ringPage is the answer of /ring as JSON.
type ringPage struct {
	LocalDC   string         `json:"local_dc,omitempty"`
	Hosts     []ringHost     `json:"hosts"`
	Keyspaces []ringKeyspace `json:"keyspaces"`
}

type ringHost struct {
	ID      string `json:"id"`
	Address string `json:"address"`
	DC      string `json:"dc"`
	Rack    string `json:"rack"`
	Release string `json:"release"`
	Tokens  int    `json:"tokens"`
}

type ringKeyspace struct {
	Keyspace    string             `json:"keyspace"`
	Replication string             `json:"replication"`
	Ownership   map[string]float64 `json:"ownership,omitempty"`
	Problem     string             `json:"problem,omitempty"`
}

// serveRing shows who owns which share: as JSON, or as text for a terminal.
func (p *pages) serveRing(w http.ResponseWriter, r *http.Request) {
	snapshot := p.deps.Lookup.Ring()
	if snapshot == nil {
		reason := cmp.Or(p.deps.NotReady(), "the proxy does not know the cluster yet; retry in a moment")
		w.Header().Set("Retry-After", "1")
		writeError(w, http.StatusServiceUnavailable, unavailable, "", reason)
		return
	}
	writePage(w, r, describeRing(snapshot))
}

func describeRing(r *ring.Ring) ringPage {
	page := ringPage{LocalDC: r.LocalDC(), Hosts: []ringHost{}, Keyspaces: []ringKeyspace{}}
	for _, h := range r.Hosts() {
		page.Hosts = append(page.Hosts, ringHost{h.ID, h.Addr, h.DC, h.Rack, h.Release, len(h.Tokens)})
	}
	for _, name := range r.Keyspaces() {
		k := ringKeyspace{Keyspace: name}
		if replication, ok := r.Replication(name); ok {
			k.Replication = replication.String()
		}
		if p, ok := r.Placement(name); ok {
			k.Ownership = make(map[string]float64, r.Len())
			for i, share := range p.Ownership() {
				k.Ownership[r.Hosts()[i].Addr] = share
			}
		} else {
			k.Problem = r.PlacementError(name).Error()
		}
		page.Keyspaces = append(page.Keyspaces, k)
	}
	return page
}

// text returns one table of hosts for each keyspace.
func (p ringPage) text() string {
	var b strings.Builder
	for _, k := range p.Keyspaces {
		fmt.Fprintf(&b, "%s (%s)\n", k.Keyspace, k.Replication)
		if k.Problem != "" {
			fmt.Fprintf(&b, "  %s\n\n", k.Problem)
			continue
		}
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(t, "  HOST\tDC\tRACK\tTOKENS\tOWNS")
		for _, h := range p.Hosts {
			_, _ = fmt.Fprintf(t, "  %s\t%s\t%s\t%d\t%.1f%%\n", h.Address, h.DC, h.Rack, h.Tokens, 100*k.Ownership[h.Address])
		}
		_ = t.Flush()
		b.WriteByte('\n')
	}
	return b.String()
}
