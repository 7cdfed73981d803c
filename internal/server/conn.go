package server

import (
	"container/list"
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/qosproxy/qosproxy/internal/memory"
	"github.com/qosproxy/qosproxy/internal/reasons"
)

// conn is a connection accepted by a gate.
type conn struct {
	net.Conn
	gate *gate
	// place is its element in gate.fresh, nil when it is not there; guarded by the mutex of
	// the gate.
	place *list.Element
	// unidentified is its element in gate.unidentified, guarded likewise. identified is set
	// once an identified client has called on the connection.
	unidentified *list.Element
	identified   atomic.Bool
	// settled is set once the connection is no longer fresh, or was closed for being so.
	settled atomic.Bool
	closed  sync.Once
	// peer is the address of the other end.
	peer connAddr
	// unwanted is the number of calls begun, minus two for each call that the peer did not
	// reset at once; never below 0.
	unwanted atomic.Int64
	// reset is set once the connection has been closed because of unwanted.
	reset atomic.Bool
	// memory counts what its calls hold; nil where that is not counted by connection.
	memory *memory.Peer
	// until is the write deadline that the server has set, in Unix nanoseconds; 0 without
	// one.
	until atomic.Int64
}

// connAddr is the address of a peer with its connection. The address is all that gRPC tells
// a call about the connection on which it arrived.
type connAddr struct {
	net.Addr
	conn *conn
}

// maxUnwanted is the highest conn.unwanted of a connection that stays open: the calls that
// may be in-flight, and 100.
const maxUnwanted = maxStreams + 100

// begin counts a call and reports whether it may go on: it may if unwanted is at most most.
// A peer that resets most of its calls at once (rapid reset) loses its connection: each
// such call costs the proxy as much as a refused one, and the peer next to nothing. Envoy
// does the same (overload.premature_reset_total_stream_count).
func (c *conn) begin(most int64) bool {
	n := c.unwanted.Add(1)
	// Wanted calls may lower the count below most, and further calls raise it again.
	if n > most && !c.reset.Swap(true) {
		c.gate.metrics.refusals(refusedResets).Inc()
		_ = c.Close()
	}
	return n <= most
}

// want notes that a call was not reset at once: it offsets itself and one other call.
func (c *conn) want() {
	for {
		n := c.unwanted.Load()
		if c.unwanted.CompareAndSwap(n, max(n-2, 0)) {
			return
		}
	}
}

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return c.peer }

// settle notes that there is a client at the other end.
func (c *conn) settle() {
	if c.settled.Swap(true) {
		return
	}
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	c.gate.forget(c)
}

// identify notes that an identified client has called. Calls of the open services do not
// count. c may be nil.
func (c *conn) identify() {
	if c == nil || c.identified.Load() || c.identified.Swap(true) {
		return
	}
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	c.gate.identify(c)
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.gate.metered {
		c.memory.Received(n)
	}
	if n > 0 && c.gate.tls == nil && !c.settled.Load() {
		c.settle()
	}
	return n, err
}

// Write implements net.Conn. It closes the connection of a peer that does not accept the
// bytes within the write timeout: gRPC would wait forever.
func (c *conn) Write(b []byte) (int, error) {
	deadline := time.Now().Add(c.gate.limits.WriteTimeout)
	if until := c.until.Load(); until != 0 && until < deadline.UnixNano() {
		deadline = time.Unix(0, until)
	}
	if err := c.Conn.SetWriteDeadline(deadline); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		// gRPC ends a connection with failed writes only once reads fail too.
		_ = c.Close()
	}
	return n, err
}

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	c.keep(t)
	return c.Conn.SetDeadline(t)
}

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.keep(t)
	return c.Conn.SetWriteDeadline(t)
}

func (c *conn) keep(t time.Time) {
	if t.IsZero() {
		c.until.Store(0)
		return
	}
	c.until.Store(t.UnixNano())
}

// CloseWrite lets net/http close its side first, where the connection can.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close implements net.Conn.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.closed.Do(func() {
		c.memory.Close()
		c.gate.mu.Lock()
		defer c.gate.mu.Unlock()
		c.gate.forget(c)
		c.gate.identify(c)
		c.gate.open--
		c.gate.metrics.open.Dec()
	})
	return err
}

// expiryKey is the context key of the time at which an HTTP connection is too old.
type expiryKey struct{}

// withExpiry returns a ConnContext that stores when the connection will be too old.
func withExpiry(age time.Duration) func(context.Context, net.Conn) context.Context {
	return func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, expiryKey{}, time.Now().Add(jitter(age)))
	}
}

// expiredConn reports whether the connection of a request is too old.
func expiredConn(ctx context.Context) bool {
	at, ok := ctx.Value(expiryKey{}).(time.Time)
	return ok && time.Now().After(at)
}

// atOnce is how soon a reset counts as at once: less than this after the request of a unary
// call was received, or after the handler of a stream began.
const atOnce = time.Millisecond

// connOf returns the connection of a call; nil when it did not come through a gate.
func (s *Server) connOf(ctx context.Context) *conn {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	a, _ := p.Addr.(connAddr)
	return a.conn
}

var errResets = withDetails(status.New(codes.ResourceExhausted, "most calls of this connection were reset as soon as they were begun"),
	outcomeDetails(outcome{reason: shed.reason, why: reasons.Resets})...)

// waited tells the connection of a call that has ended that the peer did not reset it at
// once. start is the time from which atOnce counts. After an error of receiving the request, which
// is received, gRPC itself ends the context of the call: only the code tells that from a reset.
func (s *Server) waited(ctx context.Context, start time.Time, received error) {
	refused := received != nil && status.Code(received) != codes.Canceled
	if c := s.connOf(ctx); c != nil && (refused || ctx.Err() != context.Canceled || time.Since(start) >= atOnce) {
		c.want()
	}
}
