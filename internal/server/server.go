// Package server is the front doors: it turns gRPC and HTTP/JSON requests into
// lookups and their outcome into wire messages, and serves health, metrics and
// status to operators. It decides what clients see of an error, and in which
// order the doors open and close; what to read is decided by lookup.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/qosproxy/qosproxy/internal/admission"
	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/status"
	"github.com/qosproxy/qosproxy/internal/tracing"
)

// DefaultMaxRequestBytes is the largest request either door accepts when Config
// says nothing: 4 MiB, gRPC's own default.
const DefaultMaxRequestBytes = 4 << 20

// Config is where and how to listen.
type Config struct {
	// GRPC, HTTP and Admin are the three listeners; one without address is off.
	GRPC, HTTP, Admin Listener
	// MaxRequestBytes is the largest request body or message, in bytes; 0 means
	// DefaultMaxRequestBytes.
	MaxRequestBytes int
	// Limits bound the connections of each listener.
	Limits Limits
	// Pprof serves the Go profiler at /debug/pprof of the admin listener.
	Pprof bool
	// ClearHotKeys shows keys at /hotkeys as they are; otherwise their hashes.
	ClearHotKeys bool
	// Version is shown by /status.
	Version string

	// without switches a safeguard off, for the test that shows it is needed.
	without safeguards
}

// safeguards are named after what they turn off.
type safeguards struct{ streams, headers, pings, resets bool }

// listeners are the listeners by name.
func (c Config) listeners() map[string]Listener {
	return map[string]Listener{"grpc": c.GRPC, "http": c.HTTP, "admin": c.Admin}
}

// Lookup is the service behind the doors. *lookup.Service is one.
type Lookup interface {
	Table(keyspace, table string) (*lookup.Table, error)
	Tables() []*lookup.Table
	Get(ctx context.Context, req *lookup.Request) (*lookup.Response, error)
	Stream(ctx context.Context, req *lookup.Request, emit func(i int, r partition.Result) error) (lookup.Stats, error)
	Explain(ctx context.Context, req *lookup.Request) (*lookup.Plan, error)
	Ring() *ring.Ring
}

// Observer is told of every lookup once it has ended.
type Observer interface {
	// ObserveLookup takes the table as keyspace.table (empty when the request
	// named none that may be read), the keys asked, the code (OK, PARTIAL,
	// PARTIAL_OK or the
	// name of a gRPC code), the time from the arrival of the request to its
	// encoded answer, and the response: nil when the request was refused, and
	// without rows when it was streamed. It is called concurrently and must not
	// keep resp.
	ObserveLookup(ctx context.Context, table string, keys int, code string, d time.Duration, resp *lookup.Response)
}

// ObserverFunc makes a function an Observer.
type ObserverFunc func(ctx context.Context, table string, keys int, code string, d time.Duration, resp *lookup.Response)

// ObserveLookup calls f.
func (f ObserverFunc) ObserveLookup(ctx context.Context, table string, keys int, code string, d time.Duration, resp *lookup.Response) {
	f(ctx, table, keys, code, d, resp)
}

// Deps is what a Server works with. Lookup is required; a nil field of the rest
// leaves its part of the answers out.
type Deps struct {
	// Lookup answers.
	Lookup Lookup
	// Admission decides which lookups start; nil starts all.
	Admission *admission.Controller
	// Ready returns why the proxy is not ready, empty when it is; nil is ready.
	Ready func() string
	// Observer is told of every lookup.
	Observer Observer
	// Clients says who sends a request; nil takes everybody for identity.Anonymous.
	Clients *identity.Registry
	// Audit is told of the requests that are refused for who sent them.
	Audit *identity.Audit
	// Gatherer is what /metrics shows.
	Gatherer prometheus.Gatherer
	// Registerer receives the metrics of the listeners.
	Registerer prometheus.Registerer
	// Hosts, SLA and Config are shown by /status as JSON.
	Hosts, SLA, Config func() any
	// Board is shown by /status as a page and by /status/live as JSON; nil has neither.
	Board *status.Board
	// YAML returns the configuration in use without secrets, for /status/config; nil
	// has no such page.
	YAML func() ([]byte, error)
	// HotKeys returns the k hottest keys of each table, shown by /hotkeys; nil, or of
	// nothing, has no such page.
	HotKeys func(k int) []lookup.HotKeys
	// LogLevel is shown and changed by /log/level.
	LogLevel *slog.LevelVar
	// Log takes what an operator should know; nil discards it. Access is logged
	// at debug level, without keys.
	Log *slog.Logger
	// Tracer records lookups; nil records none.
	Tracer *tracing.Tracer
	// GRPCOptions are added to those of the gRPC server.
	GRPCOptions []grpc.ServerOption
}

// Server is the listeners and what they serve. Its life is New, Start, Drain and
// Shutdown, in this order.
type Server struct {
	cfg  Config
	deps Deps
	log  *slog.Logger

	started  time.Time
	hotKeys  *keyNamer
	draining atomic.Bool
	health   *healthServer
	grpc     *grpc.Server
	http     *http.Server
	admin    *http.Server

	// addrs are the bound addresses by listener name; set by Start.
	addrs map[string]net.Addr
	// secured are the certificates by listener name; set by Start.
	secured map[string]*listenerTLS
	// maxConnections is the limit of each listener.
	maxConnections atomic.Int64
	metrics        *metrics
	// stop ends the background work of the server; serving waits for it.
	stop    context.CancelFunc
	serving sync.WaitGroup
	failed  chan error
}

// New returns a server that does not listen yet.
func New(cfg Config, deps Deps) *Server {
	if cfg.MaxRequestBytes <= 0 {
		cfg.MaxRequestBytes = DefaultMaxRequestBytes
	}
	cfg.Limits = cfg.Limits.orDefault()
	s := &Server{
		cfg: cfg, deps: deps, log: deps.Log, addrs: map[string]net.Addr{}, secured: map[string]*listenerTLS{},
		metrics: newMetrics(), failed: make(chan error, 3), stop: func() {},
	}
	s.maxConnections.Store(int64(cfg.Limits.MaxConnections))
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.hotKeys = newKeyNamer(cfg.ClearHotKeys)
	s.health = newHealthServer(s.unready)
	s.grpc = s.newGRPC()
	s.http = s.newHTTP(s.httpHandler())
	s.admin = s.newHTTP(s.adminHandler())
	return s
}

// unready returns why the proxy takes no lookups, empty when it does.
func (s *Server) unready() string {
	if s.draining.Load() {
		return "draining: the proxy is shutting down"
	}
	if s.deps.Ready == nil {
		return ""
	}
	return s.deps.Ready()
}

// Start binds every listener and serves them in the background. It binds all or
// none: the error names the listener and address that failed. The context bounds
// the binding only.
func (s *Server) Start(ctx context.Context) error {
	if err := s.metrics.register(s.deps.Registerer); err != nil {
		return fmt.Errorf("register the metrics of the listeners: %w", err)
	}
	var bound []bound
	for _, l := range []struct {
		name   string
		cfg    Listener
		alpn   []string
		listen func(net.Listener) error
	}{
		{"grpc", s.cfg.GRPC, []string{"h2"}, s.grpc.Serve},
		{"http", s.cfg.HTTP, []string{"h2", "http/1.1"}, s.http.Serve},
		{"admin", s.cfg.Admin, []string{"h2", "http/1.1"}, s.admin.Serve},
	} {
		if l.cfg.Address == "" {
			continue
		}
		b, err := s.bind(ctx, l.name, l.cfg, l.alpn, l.listen)
		if err != nil {
			for _, b := range bound {
				_ = b.Close()
			}
			return fmt.Errorf("listen for %s on %s: %w", l.name, l.cfg.Address, err)
		}
		bound = append(bound, b)
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	s.started = time.Now()
	s.serving.Go(func() { s.health.follow(background) })
	for _, b := range bound {
		s.addrs[b.name] = b.Addr()
		s.serving.Go(b.run)
		s.serving.Go(func() { s.serve(b) })
	}
	return nil
}

func (s *Server) serve(b bound) {
	s.log.Info("listening", "listener", b.name, "address", b.Addr().String(), "tls", b.tls != nil)
	err := b.serve(b.gate)
	if err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, grpc.ErrServerStopped) {
		s.failed <- fmt.Errorf("serve %s on %s: %w", b.name, b.Addr(), err)
	}
}

// Failed returns the channel on which a listener that broke after Start is
// reported. It is never closed.
func (s *Server) Failed() <-chan error { return s.failed }

// Addr returns the address that the listener grpc, http or admin is bound to;
// nil when it is off.
func (s *Server) Addr(listener string) net.Addr { return s.addrs[listener] }

// Drain makes the proxy not ready, so that balancers look elsewhere, and returns
// after delay or when ctx ends. Lookups are still answered meanwhile.
func (s *Server) Drain(ctx context.Context, delay time.Duration) {
	s.draining.Store(true)
	s.health.Shutdown()
	s.log.Info("draining", "delay", delay)
	select {
	case <-time.After(delay):
	case <-ctx.Done():
	}
}

// Shutdown stops taking requests and returns when those under way are answered.
// When ctx ends before, their connections are closed and the error is that of
// ctx. The admin listener closes last, so that metrics can be scraped to the
// end.
func (s *Server) Shutdown(ctx context.Context) error {
	s.draining.Store(true)
	s.health.Shutdown()
	var err error
	var doors sync.WaitGroup
	doors.Go(func() { s.stopGRPC(ctx) })
	doors.Go(func() { err = s.http.Shutdown(ctx) })
	doors.Wait()
	if ctx.Err() != nil {
		_ = s.http.Close()
	}
	err = errors.Join(err, s.admin.Shutdown(ctx))
	_ = s.admin.Close()
	s.stop()
	s.serving.Wait()
	if cause := ctx.Err(); cause != nil {
		return fmt.Errorf("shut down: requests were cut off: %w", cause)
	}
	return err
}

// stopGRPC lets calls under way finish until ctx ends.
func (s *Server) stopGRPC(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.grpc.GracefulStop()
	}()
	select {
	case <-done:
	case <-ctx.Done():
		s.grpc.Stop()
		<-done
	}
}
