// Package admin is the operators' pages: status, ring, hot keys, metrics, log level and
// profiles. It decides what an operator sees of the proxy, and changes nothing but the
// level of the log.
package admin

import (
	"log/slog"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/status"
)

// Config is what the pages show.
type Config struct {
	// Version is that of the build, on /status.
	Version string
	// Pprof serves the Go profiler at /debug/pprof.
	Pprof bool
	// ClearHotKeys shows keys at /hotkeys as they are; otherwise their hashes.
	ClearHotKeys bool
}

// Lookup is the service that the pages describe. *lookup.Service is one.
type Lookup interface {
	Table(keyspace, table string) (*lookup.Table, error)
	Tables() []*lookup.Table
	Ring() *ring.Ring
}

// Deps is what the pages ask. Lookup and NotReady are required; a nil field of the rest
// leaves its part of the pages out.
type Deps struct {
	// Lookup has the tables and the ring.
	Lookup Lookup
	// NotReady returns why the proxy takes no lookups, empty when it does.
	NotReady func() string
	// Gatherer is what /metrics shows.
	Gatherer prometheus.Gatherer
	// Hosts, SLA, Config, Admission and Shadow are shown by /status as JSON.
	Hosts, SLA, Config, Admission, Shadow func() any
	// Datacenters returns the fail-over order, shown by /status as JSON; nil for none.
	Datacenters func() any
	// Board is shown by /status as a page and by /status/live as JSON.
	Board *status.Board
	// YAML returns the configuration in use without secrets, for /status/config.
	YAML func() ([]byte, error)
	// HotKeys returns the k hottest keys of each table, shown by /hotkeys.
	HotKeys func(k int) []lookup.HotKeys
	// LogLevel is shown and changed by /log/level.
	LogLevel *slog.LevelVar
	// Log is told of a change of the level; nil discards it.
	Log *slog.Logger
}

// pages serves the pages.
type pages struct {
	cfg     Config
	deps    Deps
	started time.Time
	hotKeys *keyNamer
}

// New returns the pages of a process that starts now. They have no place on a public
// network.
func New(cfg Config, deps Deps) http.Handler {
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	p := &pages{cfg: cfg, deps: deps, started: time.Now(), hotKeys: newKeyNamer(cfg.ClearHotKeys)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", p.serveStatus)
	if deps.Board != nil {
		p.routeStatusPage(mux)
	}
	mux.HandleFunc("GET /ring", p.serveRing)
	if deps.HotKeys != nil {
		mux.HandleFunc("GET /hotkeys", p.serveHotKeys)
	}
	if deps.Gatherer != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(deps.Gatherer, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	}
	if deps.LogLevel != nil {
		mux.HandleFunc("GET /log/level", p.serveLogLevel)
		mux.HandleFunc("PUT /log/level", p.setLogLevel)
		mux.HandleFunc("POST /log/level", p.setLogLevel)
	}
	if cfg.Pprof {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}
