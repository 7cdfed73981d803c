package server

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/qosproxy/qosproxy/internal/lookup"
)

// Limits bound what the peers of one listener may hold. The zero value of any field but
// MaxConnectionAge means its value in DefaultLimits.
type Limits struct {
	// MaxConnections is the maximum number of open connections. A further one replaces the
	// oldest on which no identified client has called, or else is closed at once.
	MaxConnections int
	// HandshakeTimeout bounds a TLS handshake, and then the time until the preface of HTTP/2
	// or the headers of a request have arrived.
	HandshakeTimeout time.Duration
	// WriteTimeout is how long a peer may take to receive one write before its connection is
	// closed: some 16 KiB of gRPC, or a whole answer over HTTP.
	WriteTimeout time.Duration
	// IdleTimeout is how long a connection is kept without a request.
	IdleTimeout time.Duration
	// MaxConnectionAge is the age, ±10 %, at which a peer is asked to reconnect; 0 never
	// asks.
	MaxConnectionAge time.Duration
}

// DefaultLimits returns the limits of a proxy without configured ones.
func DefaultLimits() Limits {
	return Limits{
		MaxConnections:   2048,
		HandshakeTimeout: 5 * time.Second,
		WriteTimeout:     30 * time.Second,
		IdleTimeout:      5 * time.Minute,
		MaxConnectionAge: 30 * time.Minute,
	}
}

func (l Limits) orDefault() Limits {
	d := DefaultLimits()
	if l.MaxConnections <= 0 {
		l.MaxConnections = d.MaxConnections
	}
	for _, f := range []struct {
		field    *time.Duration
		fallback time.Duration
	}{{&l.HandshakeTimeout, d.HandshakeTimeout}, {&l.WriteTimeout, d.WriteTimeout}, {&l.IdleTimeout, d.IdleTimeout}} {
		if *f.field <= 0 {
			*f.field = f.fallback
		}
	}
	return l
}

// The limits that cannot be configured.
const (
	// maxHeaderBytes bounds the headers of a request, after decompression.
	maxHeaderBytes = 16 << 10
	// maxStreams is how many requests may be in-flight on one connection. A peer that opens
	// and resets streams (rapid reset) must wait until the handlers of the reset ones end. So
	// this is also how many of them the requests of others may find ahead of them in the
	// queue for a CPU.
	maxStreams = 250
	// maxFrameBytes is the largest HTTP/2 frame accepted: the smallest limit that HTTP/2
	// allows.
	maxFrameBytes = 16 << 10
	// requestTimeout bounds the time until a request has arrived with its body or message.
	requestTimeout = 30 * time.Second
	// maxElements is how many elements of lists and members of objects a request may have.
	// Keys do not count, as max_keys bounds them, nor elements of any key but the longest:
	// keys are decoded one at a time. No partition key that Cassandra accepts has as many.
	maxElements = 64 << 10
	// elementBytes is the memory of a decoded element, which may be two bytes when encoded.
	elementBytes = 128
	// streamWindow and connWindow are how many bytes a peer may send ahead of the reader, by
	// request and by connection: by default gRPC raises them with the speed of the peer.
	streamWindow = 64 << 10
	connWindow   = 1 << 20
	// ageGrace is how long the calls of a connection that is too old may take.
	ageGrace = 30 * time.Second
	// Pings serve balancers that silently drop idle connections. Clients may ping every 10 s,
	// also without a call, as most are configured to.
	pingInterval    = time.Minute
	pingTimeout     = 10 * time.Second
	minPingInterval = 10 * time.Second
)

// tooManyElements refuses a request with more than maxElements; field may be empty.
func tooManyElements(field string) error {
	return lookup.Invalid(field, "more than %d values, names and conditions are in one request, or in one key; send several lookups", maxElements)
}

// protocol is what a peer may do on one gRPC connection.
type protocol struct {
	// headerBytes and streams are like maxHeaderBytes and maxStreams.
	headerBytes, streams uint32
	// pingInterval is the minimum time between two pings of a client.
	pingInterval time.Duration
	// unwanted is like maxUnwanted.
	unwanted int64
}

// defaultProtocol applies outside tests.
var defaultProtocol = protocol{headerBytes: maxHeaderBytes, streams: maxStreams, pingInterval: minPingInterval, unwanted: maxUnwanted}

// grpcLimits returns the limits as options of the gRPC server.
func (s *Server) grpcLimits() []grpc.ServerOption {
	l, p := s.cfg.Limits, s.cfg.protocol
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(s.cfg.MaxRequestBytes), // after decompression
		grpc.MaxHeaderListSize(p.headerBytes),
		grpc.MaxConcurrentStreams(p.streams),
		grpc.InitialWindowSize(streamWindow),
		grpc.InitialConnWindowSize(connWindow),
		grpc.ConnectionTimeout(l.HandshakeTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: l.IdleTimeout, MaxConnectionAge: l.MaxConnectionAge, MaxConnectionAgeGrace: ageGrace,
			Time: pingInterval, Timeout: pingTimeout,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: p.pingInterval, PermitWithoutStream: true}),
	}
}

// limitHTTP sets the limits of an HTTP server.
func (s *Server) limitHTTP(h *http.Server) {
	l := s.cfg.Limits
	h.MaxHeaderBytes = maxHeaderBytes
	h.ReadHeaderTimeout = l.HandshakeTimeout
	h.ReadTimeout = requestTimeout
	h.IdleTimeout = l.IdleTimeout
	h.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams: maxStreams,
		MaxReadFrameSize:     maxFrameBytes,
		SendPingTimeout:      pingInterval,
		PingTimeout:          pingTimeout,
		WriteByteTimeout:     l.WriteTimeout,

		MaxReceiveBufferPerStream:     streamWindow,
		MaxReceiveBufferPerConnection: connWindow,
	}
	h.ConnContext = withConn
	if l.MaxConnectionAge <= 0 {
		return
	}
	expiring := withExpiry(l.MaxConnectionAge)
	h.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return withConn(expiring(ctx, c), c) }
	next := h.Handler
	h.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// In HTTP/2 this header makes the server send GOAWAY, and close the connection when
		// its last stream has ended.
		if expiredConn(r.Context()) {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// jitter returns a duration within 10 % of d, so that connections opened at the same time do
// not end at the same time.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64()))
}
