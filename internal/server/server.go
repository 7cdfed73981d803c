// Package server decides what clients see: it converts gRPC and HTTP/JSON requests to
// lookups, and their outcomes and errors to wire messages. It also decides what a
// connection may hold, and in which order the listeners open and close. Package lookup
// decides what to read.
//
// A request passes these checks in order. The first that fails refuses it:
//
//  1. Connection (gate.go, conn.go): max_connections, half-open connections, the TLS
//     handshake, calls that are reset at once.
//  2. Headers, before the message is read (header_checks.go for gRPC, httpHandler and
//     serveBatchGet for HTTP): who asks (identify.go), deep overload
//     (admission.Controller.AtHeaders), memory for the call (memory.Peer.Begin).
//  3. Message (grpc_memory.go, readBody): its size, its memory and the time it takes.
//  4. Request (call.resolve): its form, the table and columns that the client may read
//     (authorize.go), max_keys, each key.
//  5. Admission (admission.Admitted, around the lookup service): limits and shares. Here
//     the deadline is known, and every key is answered with SHED.
//  6. Lookup (lookup.Service): the rules of a request, the ring.
//  7. Answer (call.get, keyStream.read): the memory that it takes.
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
	"github.com/qosproxy/qosproxy/internal/incident"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/memory"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/tracing"
)

// DefaultMaxRequestBytes is the default of Config.MaxRequestBytes: 4 MiB, gRPC's own
// default.
const DefaultMaxRequestBytes = 4 << 20

// Config says where and how to listen.
type Config struct {
	// GRPC, HTTP and Admin are the three listeners; one without an address is off.
	GRPC, HTTP, Admin Listener
	// MaxRequestBytes is the largest request body or message, in bytes; 0 means
	// DefaultMaxRequestBytes.
	MaxRequestBytes int
	// Limits bound the connections of each listener.
	Limits Limits

	// protocol is defaultProtocol unless a test sets another.
	protocol protocol
}

// listeners returns the listeners by name.
func (c Config) listeners() map[string]Listener {
	return map[string]Listener{"grpc": c.GRPC, "http": c.HTTP, "admin": c.Admin}
}

// Lookup is the service behind the listeners, such as a *lookup.Service.
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
	// ObserveLookup is called concurrently. table is keyspace.table, or empty when the
	// request named none that may be read; keys is the number of keys asked for; code is
	// OK, PARTIAL, PARTIAL_OK or the name of a gRPC code; d is the time from the arrival of
	// the request to its encoded answer, or to the last answer of a host when it was
	// streamed. resp is nil when the request was refused, has no rows when it was streamed,
	// and must not be kept.
	ObserveLookup(ctx context.Context, table string, keys int, code lookup.Code, d time.Duration, resp *lookup.Response)
}

// ObserverFunc is a function that implements Observer.
type ObserverFunc func(ctx context.Context, table string, keys int, code lookup.Code, d time.Duration, resp *lookup.Response)

// ObserveLookup calls f.
func (f ObserverFunc) ObserveLookup(ctx context.Context, table string, keys int, code lookup.Code, d time.Duration, resp *lookup.Response) {
	f(ctx, table, keys, code, d, resp)
}

// Deps are the parts that a Server works with. Only Lookup is required; a feature whose
// field is nil is off.
type Deps struct {
	// Lookup answers the requests.
	Lookup Lookup
	// Admission decides which lookups may begin; nil means all.
	Admission *admission.Controller
	// Memory is the budget of bytes of the process; nil means no limit.
	Memory *memory.Budget
	// Ready returns why the proxy is not ready, empty if it is; nil means always ready.
	Ready func() string
	// Observer is told of every lookup that has ended.
	Observer Observer
	// Clients identifies the sender of a request; nil means that every caller is
	// identity.Anonymous.
	Clients *identity.Registry
	// Audit records requests that are refused because of who sent them.
	Audit *identity.Audit
	// Pages are the operators' pages, beside /livez and /readyz on the admin listener; nil
	// for none.
	Pages http.Handler
	// Registerer receives the metrics of the listeners.
	Registerer prometheus.Registerer
	// Log receives what an operator should know; nil discards it. Access is logged at debug
	// level, without keys.
	Log *slog.Logger
	// Incidents records panics of requests and background work; nil only logs them.
	Incidents *incident.Log
	// Tracer records lookups; nil records none.
	Tracer *tracing.Tracer
	// HTTPContext returns the context with which an HTTP request is answered, given that of
	// the request; nil keeps it. GRPCOptions can do the same for gRPC calls.
	HTTPContext func(context.Context, *http.Request) context.Context
	// GRPCOptions are added to those of the gRPC server.
	GRPCOptions []grpc.ServerOption
}

// Server has the listeners and the services behind them. Call New, Start, Drain and
// Shutdown, in this order.
type Server struct {
	cfg  Config
	deps Deps
	log  *slog.Logger

	// lookups is Deps.Lookup behind admission.
	lookups admission.Lookups

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
	memory         *memory.Budget
	// taking is cancelled by stopTaking when Shutdown begins.
	taking     context.Context
	stopTaking context.CancelFunc
	// stop ends the background work of the server; serving waits for it.
	stop    context.CancelFunc
	serving sync.WaitGroup
	failed  chan error
}

// New returns a server that is not listening yet.
func New(cfg Config, deps Deps) *Server {
	if cfg.MaxRequestBytes <= 0 {
		cfg.MaxRequestBytes = DefaultMaxRequestBytes
	}
	if cfg.protocol == (protocol{}) {
		cfg.protocol = defaultProtocol
	}
	cfg.Limits = cfg.Limits.orDefault()
	s := &Server{
		cfg: cfg, deps: deps, log: deps.Log, addrs: map[string]net.Addr{}, secured: map[string]*listenerTLS{},
		metrics: newMetrics(), failed: make(chan error, 3), stop: func() {},
	}
	if s.memory = deps.Memory; s.memory == nil {
		s.memory = memory.New(0)
	}
	s.taking, s.stopTaking = context.WithCancel(context.Background())
	s.maxConnections.Store(int64(cfg.Limits.MaxConnections))
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.deps.Incidents == nil {
		s.deps.Incidents, _ = incident.New(s.log, nil) // fails only at a registerer
	}
	if s.lookups = deps.Lookup; deps.Admission != nil {
		s.lookups = admission.NewAdmitted(deps.Lookup, deps.Admission)
	}
	s.health = newHealthServer(s.unready)
	s.grpc = s.newGRPC()
	s.http = s.newHTTP(s.httpHandler())
	s.admin = s.newHTTP(s.adminHandler())
	return s
}

// Start binds every listener and serves them in the background. It binds all or none: the
// error names the listener and the address that failed. ctx bounds only the binding.
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
	s.serving.Go(func() { s.deps.Incidents.Keep(background, "health of the gRPC service", s.health.follow) })
	s.serving.Go(func() { s.deps.Incidents.Keep(background, "time limits of requests and answers", s.expire) })
	for _, b := range bound {
		s.addrs[b.name] = b.Addr()
		s.serving.Go(func() {
			s.deps.Incidents.Keep(background, "accepting of connections", func(context.Context) { b.run(s.deps.Incidents) })
		})
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

// Failed returns the channel that reports listeners which fail after Start. It is never
// closed.
func (s *Server) Failed() <-chan error { return s.failed }

// Addr returns the address to which the listener grpc, http or admin is bound; nil if it is
// off.
func (s *Server) Addr(listener string) net.Addr { return s.addrs[listener] }

// Drain makes the proxy not ready, so that balancers send no more requests, and returns
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

// Shutdown stops accepting requests and returns when those in-flight are answered. It ends
// calls of the open services, such as watches of the health. If ctx ends first, it closes
// the connections and returns the error of ctx. The admin listener closes last, so that
// metrics can be scraped to the end.
func (s *Server) Shutdown(ctx context.Context) error {
	s.draining.Store(true)
	s.health.Shutdown()
	s.stopTaking()
	var err error
	var front sync.WaitGroup
	front.Go(func() { s.stopGRPC(ctx) })
	front.Go(func() { err = s.http.Shutdown(ctx) })
	front.Wait()
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

// stopGRPC lets calls in-flight finish, until ctx ends.
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
