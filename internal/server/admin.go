package server

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/qosproxy/qosproxy/internal/ring"
)

// adminHandler serves operators: probes, metrics, status, ring, log level and
// profiles. It has no place on a public network.
func (s *Server) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", s.serveReady)
	mux.HandleFunc("GET /status", s.serveStatus)
	s.servePages(mux)
	mux.HandleFunc("GET /ring", s.serveRing)
	if s.deps.HotKeys != nil {
		mux.HandleFunc("GET /hotkeys", s.serveHotKeys)
	}
	if s.deps.Gatherer != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(s.deps.Gatherer, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	}
	if s.deps.LogLevel != nil {
		mux.HandleFunc("GET /log/level", s.serveLogLevel)
		mux.HandleFunc("PUT /log/level", s.setLogLevel)
		mux.HandleFunc("POST /log/level", s.setLogLevel)
	}
	if s.cfg.Pprof {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// serveReady says whether the proxy takes lookups, and why not. Kubernetes then
// sends none; it does not restart the process, as it would for /livez. Watchers of the
// gRPC health service are told first: whoever reads that this proxy is ready may stop
// another.
func (s *Server) serveReady(w http.ResponseWriter, _ *http.Request) {
	s.health.refresh()
	if reason := s.unready(); reason != "" {
		writeText(w, http.StatusServiceUnavailable, "not ready: "+reason+"\n")
		return
	}
	writeText(w, http.StatusOK, "ok\n")
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

// statusRing is the ring in a few numbers.
type statusRing struct {
	Hosts     int      `json:"hosts"`
	LocalDC   string   `json:"local_dc,omitempty"`
	Keyspaces []string `json:"keyspaces"`
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
}

func (s *Server) serveStatus(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Vary", "Accept")
	if s.deps.Board != nil && wantsHTML(r) {
		servePage(w, "page.html")
		return
	}
	reason := s.unready()
	page := statusPage{
		Version:   s.cfg.Version,
		Started:   s.started.UTC(),
		UptimeSec: time.Since(s.started).Seconds(),
		Ready:     reason == "",
		Reason:    reason,
		Tables:    []string{},
	}
	if r := s.deps.Lookup.Ring(); r != nil {
		page.Ring = &statusRing{Hosts: r.Len(), LocalDC: r.LocalDC(), Keyspaces: r.Keyspaces()}
	}
	for _, t := range s.deps.Lookup.Tables() {
		page.Tables = append(page.Tables, t.Schema.String())
	}
	if s.deps.Hosts != nil {
		page.Hosts = s.deps.Hosts()
	}
	if s.deps.SLA != nil {
		page.SLA = s.deps.SLA()
	}
	if s.deps.Config != nil {
		page.Config = s.deps.Config()
	}
	if s.deps.Admission != nil {
		page.Admission = s.deps.Admission.Status()
	}
	writeIndented(w, page)
}

// writeIndented writes JSON that a person can read without a tool.
func writeIndented(w http.ResponseWriter, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		writeError(w, httpError{status: internal.http, code: internal.label, message: "the answer could not be written as JSON: " + err.Error()})
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, http.StatusOK, append(body, '\n'))
}

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

// serveRing shows who owns what: as JSON, or as text for a terminal.
func (s *Server) serveRing(w http.ResponseWriter, r *http.Request) {
	snapshot := s.deps.Lookup.Ring()
	if snapshot == nil {
		e := errorOf(r, s.notReady())
		if reason := s.unready(); reason != "" {
			e.message = reason
		}
		writeError(w, e)
		return
	}
	page := describeRing(snapshot)
	if wantsText(r) {
		writeText(w, http.StatusOK, page.text())
		return
	}
	writeIndented(w, page)
}

// wantsText reports whether a page is for a terminal: by ?format=text, or by its
// Accept header.
func wantsText(r *http.Request) bool {
	format := r.URL.Query().Get("format")
	return format == "text" || format == "" && strings.HasPrefix(r.Header.Get("Accept"), "text/plain")
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

// text is one table of hosts for each keyspace.
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

func (s *Server) serveLogLevel(w http.ResponseWriter, _ *http.Request) {
	writeText(w, http.StatusOK, strings.ToLower(s.deps.LogLevel.Level().String())+"\n")
}

// setLogLevel takes ?level=debug, info, warn or error.
func (s *Server) setLogLevel(w http.ResponseWriter, r *http.Request) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(r.URL.Query().Get("level"))); err != nil {
		writeError(w, badRequest("level", "expected ?level=debug, info, warn or error"))
		return
	}
	s.deps.LogLevel.Set(level)
	s.log.Info("log level changed", "level", level)
	s.serveLogLevel(w, r)
}
