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

// Limits bound what the peers of one listener may hold of it. The zero value of
// a field but MaxConnectionAge means that of DefaultLimits.
type Limits struct {
	// MaxConnections is the most connections at a time. One more takes the place of the
	// oldest without a call of a client, or is closed at once.
	MaxConnections int
	// HandshakeTimeout bounds a TLS handshake, and after it the time until the
	// preface of HTTP/2 or the headers of a request have come.
	HandshakeTimeout time.Duration
	// WriteTimeout is how long a peer may take to receive what is written to it
	// at once (some 16 KiB) before its connection is closed.
	WriteTimeout time.Duration
	// IdleTimeout is how long a connection is kept without a request.
	IdleTimeout time.Duration
	// MaxConnectionAge is after how long, ±10 %, a peer is asked to connect anew;
	// 0 never asks.
	MaxConnectionAge time.Duration
}

// DefaultLimits returns the limits of a proxy that is not told otherwise.
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

// The limits that are the same for everybody.
const (
	// maxHeaderBytes bounds the headers of a request, after decompression.
	maxHeaderBytes = 16 << 10
	// maxStreams is how many requests may be in-flight on one connection. A peer that
	// opens and resets streams (rapid reset) waits until the handlers of those it has
	// reset are done, so that this is also how many of them others find before them in
	// the queue for a CPU.
	maxStreams = 250
	// maxFrameBytes is the largest HTTP/2 frame that is read: the least there is.
	maxFrameBytes = 16 << 10
	// requestTimeout bounds the time until a request has come, body or message included.
	requestTimeout = 30 * time.Second
	// maxElements is how many elements of lists and members of objects a request may have
	// besides its keys, which max_keys bounds, and besides those of all keys but the longest:
	// keys are decoded one at a time. No partition key that Cassandra takes has as many.
	maxElements = 64 << 10
	// elementBytes is what an element takes when it is decoded, though two bytes can be one.
	elementBytes = 128
	// streamWindow and connWindow are how many bytes a peer may send ahead of the
	// reader, by request and by connection: gRPC would raise them with the speed of a peer.
	streamWindow = 64 << 10
	connWindow   = 1 << 20
	// ageGrace is how long the calls of a connection that is too old may take.
	ageGrace = 30 * time.Second
	// Balancers that drop idle connections silently are met by pings, and
	// clients may ping every 10 s, also without a call, as most are set to.
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
	// headerBytes and streams are as maxHeaderBytes and maxStreams.
	headerBytes, streams uint32
	// pingInterval is the least time between two pings of a client.
	pingInterval time.Duration
	// unwanted is as maxUnwanted.
	unwanted int64
}

// defaultProtocol is for everybody.
var defaultProtocol = protocol{headerBytes: maxHeaderBytes, streams: maxStreams, pingInterval: minPingInterval, unwanted: maxUnwanted}

// grpcLimits are the limits as options of the gRPC server.
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
		// In HTTP/2 the header makes the server say goodbye to the connection,
		// and end it when its last stream has.
		if expiredConn(r.Context()) {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// jitter returns a duration within 10 % of d, so that connections which were
// made at once do not end at once.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64()))
}
