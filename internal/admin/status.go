package admin

import (
	"net/http"
	"time"
)

// statusRing summarizes the ring.
type statusRing struct {
	Hosts     int      `json:"hosts"`
	LocalDC   string   `json:"local_dc,omitempty"`
	Keyspaces []string `json:"keyspaces"`
	// Datacenters are the datacenters in fail-over order.
	Datacenters any `json:"datacenters,omitempty"`
}

// statusPage is the answer of /status as JSON.
type statusPage struct {
	Version   string      `json:"version,omitempty"`
	Started   time.Time   `json:"started"`
	UptimeSec float64     `json:"uptime_seconds"`
	Ready     bool        `json:"ready"`
	Reason    string      `json:"reason,omitempty"`
	Ring      *statusRing `json:"ring"`
	Tables    []string    `json:"tables"`
	Hosts     any         `json:"hosts,omitempty"`
	SLA       any         `json:"sla,omitempty"`
	Config    any         `json:"config,omitempty"`
	Admission any         `json:"admission,omitempty"`
	Shadow    any         `json:"shadow,omitempty"`
}

// serveStatus shows the status as JSON, or as a page for a browser.
func (p *pages) serveStatus(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Vary", "Accept")
	if p.deps.Board != nil && wantsHTML(r) {
		servePart(w, "page.html")
		return
	}
	reason := p.deps.NotReady()
	page := statusPage{
		Version:   p.cfg.Version,
		Started:   p.started.UTC(),
		UptimeSec: time.Since(p.started).Seconds(),
		Ready:     reason == "",
		Reason:    reason,
		Tables:    []string{},
	}
	if r := p.deps.Lookup.Ring(); r != nil {
		page.Ring = &statusRing{Hosts: r.Len(), LocalDC: r.LocalDC(), Keyspaces: r.Keyspaces()}
		if p.deps.Datacenters != nil {
			page.Ring.Datacenters = p.deps.Datacenters()
		}
	}
	for _, t := range p.deps.Lookup.Tables() {
		page.Tables = append(page.Tables, t.Schema.String())
	}
	for _, part := range []struct {
		into *any
		ask  func() any
	}{{&page.Hosts, p.deps.Hosts}, {&page.SLA, p.deps.SLA}, {&page.Config, p.deps.Config}, {&page.Admission, p.deps.Admission}, {&page.Shadow, p.deps.Shadow}} {
		if part.ask != nil {
			*part.into = part.ask()
		}
	}
	writeIndented(w, page)
}
