// Package server decides what clients see: it turns gRPC and HTTP/JSON requests into
// lookups, and their outcomes and errors into wire messages. It also decides what a
// connection may hold, and in which order the listeners open and close. What to read is
// decided by package lookup.
//
// A request is checked in this order, and refused by the first check that fails:
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

// DefaultMaxRequestBytes is the largest request that a listener accepts when Config
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

	// protocol is defaultProtocol unless a test has another.
	protocol protocol
}

// listeners are the listeners by name.
func (c Config) listeners() map[string]Listener {
	return map[string]Listener{"grpc": c.GRPC, "http": c.HTTP, "admin": c.Admin}
}

// Lookup is the service behind the listeners. *lookup.Service is one.
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
	ObserveLookup(ctx context.Context, table string, keys int, code lookup.Code, d time.Duration, resp *lookup.Response)
}

// ObserverFunc makes a function an Observer.
type ObserverFunc func(ctx context.Context, table string, keys int, code lookup.Code, d time.Duration, resp *lookup.Response)

// ObserveLookup calls f.
func (f ObserverFunc) ObserveLookup(ctx context.Context, table string, keys int, code lookup.Code, d time.Duration, resp *lookup.Response) {
	f(ctx, table, keys, code, d, resp)
}

// Deps is what a Server works with. Lookup is required; a nil field of the rest
// leaves its part of the answers out.
type Deps struct {
	// Lookup answers.
	Lookup Lookup
	// Admission decides which lookups begin; nil begins all.
	Admission *admission.Controller
	// Memory is the budget of bytes of the process; nil is one without a limit.
	Memory *memory.Budget
	// Ready returns why the proxy is not ready, empty when it is; nil is ready.
	Ready func() string
	// Observer takes every lookup that has ended.
	Observer Observer
	// Clients identifies the sender of a request; nil takes every caller for
	// identity.Anonymous.
	Clients *identity.Registry
	// Audit records the requests that are refused because of their sender.
	Audit *identity.Audit
	// Pages are the operators' pages, beside /livez and /readyz on the admin listener;
	// nil has none.
	Pages http.Handler
	// Registerer receives the metrics of the listeners.
	Registerer prometheus.Registerer
	// Log takes what an operator should know; nil discards it. Access is logged
	// at debug level, without keys.
	Log *slog.Logger
	// Incidents takes the panics of requests and background work; nil only logs them.
	Incidents *incident.Log
	// Tracer records lookups; nil records none.
	Tracer *tracing.Tracer
	// HTTPContext returns the context that an HTTP request is answered with, from that of
	// the request; nil keeps it. A gRPC call has its own by GRPCOptions.
	HTTPContext func(context.Context, *http.Request) context.Context
	// GRPCOptions are added to those of the gRPC server.
	GRPCOptions []grpc.ServerOption
}

// Server is the listeners and what they serve. Its life is New, Start, Drain and
// Shutdown, in this order.
type Server struct {
	cfg  Config
	deps Deps
	log  *slog.Logger

	// lookups answers, behind admission.
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
	// taking ends by stopTaking when Shutdown begins.
	taking     context.Context
	stopTaking context.CancelFunc
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

// Shutdown stops taking requests and returns when those in-flight are answered. Calls of
// the open services, such as watches of the health, are ended. When ctx ends before, their connections are closed and the error is that of
// ctx. The admin listener closes last, so that metrics can be scraped to the
// end.
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

// stopGRPC lets calls in-flight finish until ctx ends.
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
