// Package admin serves the operators' pages: status, ring, hot keys, metrics, log level
// and profiles. It decides what an operator sees of the proxy. The only thing that it
// can change is the log level.
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

// Config selects what the pages show.
type Config struct {
	// Version is the version of the build, shown by /status.
	Version string
	// Pprof serves the Go profiler at /debug/pprof.
	Pprof bool
	// ClearHotKeys makes /hotkeys show keys in clear, not hashed.
	ClearHotKeys bool
}

// Lookup is the service that the pages describe. *lookup.Service is one.
type Lookup interface {
	Table(keyspace, table string) (*lookup.Table, error)
	Tables() []*lookup.Table
	Ring() *ring.Ring
}

// Deps are the sources of the pages. Lookup and NotReady are required; if another field
// is nil, its part of the pages is left out.
type Deps struct {
	// Lookup provides the tables and the ring.
	Lookup Lookup
	// NotReady returns why the proxy does not accept lookups; empty if it does.
	NotReady func() string
	// Gatherer provides the metrics for /metrics.
	Gatherer prometheus.Gatherer
	// Hosts, SLA, Config, Admission and Shadow are shown by /status as JSON.
	Hosts, SLA, Config, Admission, Shadow func() any
	// Datacenters returns the fail-over order, shown by /status as JSON; nil for none.
	Datacenters func() any
	// Board is shown by /status as a page and by /status/live as JSON.
	Board *status.Board
	// YAML returns the configuration in use without secrets, for /status/config.
	YAML func() ([]byte, error)
	// HotKeys returns the k most requested keys of each table, shown by /hotkeys.
	HotKeys func(k int) []lookup.HotKeys
	// LogLevel is shown and changed by /log/level.
	LogLevel *slog.LevelVar
	// Log receives a record when the level changes; nil discards it.
	Log *slog.Logger
}

// pages serves the pages.
type pages struct {
	cfg     Config
	deps    Deps
	started time.Time
	hotKeys *keyNamer
}

// New returns the handler of the pages. It takes the time of the call as the start of
// the process. The pages must not be reachable from a public network.
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
