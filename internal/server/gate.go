package server

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
)

// maxFresh is the most connections of a listener that have not shown yet that
// there is a client behind them: those in a TLS handshake and, without TLS, those
// that have sent nothing. They are never more than a quarter of all connections.
const maxFresh = 256

// gate is a listener that holds its peers to the limits. TLS handshakes are done
// here, so that the servers behind it only get connections that have ended
// theirs.
//
// A connection above the limit is closed at once, for one that waits in the
// kernel's queue looks to its client like a proxy that hangs. When too many are
// fresh the oldest goes: those that open connections and let them lie lose them
// first, while a client that is in earnest needs some milliseconds.
type gate struct {
	net.Listener
	limits  Limits
	max     *atomic.Int64
	tls     *tls.Config
	metrics doorMetrics

	ready  chan accepted
	ctx    context.Context
	cancel context.CancelFunc
	shakes sync.WaitGroup

	mu    sync.Mutex
	open  int
	fresh list.List // of *conn, the oldest first
}

// accepted is what Accept returns.
type accepted struct {
	conn net.Conn
	err  error
}

// newGate returns a gate before a listener; run has it accept. A nil config is
// without TLS.
func newGate(l net.Listener, limits Limits, most *atomic.Int64, config *tls.Config, m doorMetrics) *gate {
	g := &gate{Listener: l, limits: limits, max: most, tls: config, metrics: m, ready: make(chan accepted)}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g
}

// run accepts connections until the gate is closed.
func (g *gate) run() {
	for g.ctx.Err() == nil {
		raw, err := g.Listener.Accept()
		if err != nil {
			// The server decides whether to try again, and when.
			g.deliver(accepted{err: err})
			continue
		}
		c := g.admit(raw)
		switch {
		case c == nil:
		case g.tls == nil:
			g.deliver(accepted{conn: c})
		default:
			g.shakes.Go(func() { g.shake(c) })
		}
	}
	g.shakes.Wait()
}

// admit counts a connection, or closes it and returns nil.
func (g *gate) admit(raw net.Conn) *conn {
	most := int(g.max.Load())
	g.mu.Lock()
	if g.open >= most {
		g.mu.Unlock()
		g.metrics.refused.WithLabelValues(g.metrics.name, refusedFull).Inc()
		_ = raw.Close()
		return nil
	}
	c := &conn{Conn: raw, gate: g}
	c.peer = connAddr{raw.RemoteAddr(), c}
	g.open++
	g.metrics.open.Inc()
	c.place = g.fresh.PushBack(c)
	var oldest *conn
	if g.fresh.Len() > max(1, min(maxFresh, most/4)) {
		oldest = g.fresh.Front().Value.(*conn)
		oldest.settled.Store(true)
		g.forget(oldest)
	}
	g.mu.Unlock()
	if oldest != nil {
		g.metrics.refused.WithLabelValues(g.metrics.name, refusedFresh).Inc()
		_ = oldest.Close()
	}
	return c
}

// shake does the TLS handshake of a connection.
func (g *gate) shake(c *conn) {
	ctx, cancel := context.WithTimeout(g.ctx, g.limits.HandshakeTimeout)
	defer cancel()
	secured := tls.Server(c, g.tls)
	if err := secured.HandshakeContext(ctx); err != nil {
		if !c.settled.Load() {
			g.metrics.refused.WithLabelValues(g.metrics.name, refusedHandshake).Inc()
		}
		_ = c.Close()
		return
	}
	c.settle()
	g.deliver(accepted{conn: secured})
}

// deliver hands a connection to the server, unless the gate is closed.
func (g *gate) deliver(a accepted) {
	select {
	case g.ready <- a:
	case <-g.ctx.Done():
		if a.conn != nil {
			_ = a.conn.Close()
		}
	}
}

// Accept implements net.Listener.
func (g *gate) Accept() (net.Conn, error) {
	select {
	case a := <-g.ready:
		return a.conn, a.err
	case <-g.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. Connections that have been accepted stay.
func (g *gate) Close() error {
	g.cancel()
	return g.Listener.Close()
}

// forget takes a connection from the fresh ones. The mutex is held.
func (g *gate) forget(c *conn) {
	if c.place != nil {
		g.fresh.Remove(c.place)
		c.place = nil
	}
}

// conn is a connection through a gate.
type conn struct {
	net.Conn
	gate *gate
	// place is where it is among the fresh ones, nil when it is not; of the mutex
	// of the gate.
	place *list.Element
	// settled is set once it is not fresh any more, or has been dropped for being so.
	settled atomic.Bool
	closed  sync.Once
	// peer is the address of the other end.
	peer connAddr
	// unwanted is how many more calls its peer has begun than twice those that it did not
	// reset at once, 0 at least.
	unwanted atomic.Int64
	// until is the write deadline that the server has set, in nanoseconds of Unix
	// time; 0 without one.
	until atomic.Int64
}

// connAddr is the address of a peer, which leads back to its connection: all that gRPC
// tells a call of the connection it came by.
type connAddr struct {
	net.Addr
	conn *conn
}

// maxUnwanted is how many more calls than it had a use for a peer may have begun: those
// that may be under way, and 100.
const maxUnwanted = maxStreams + 100

// begin notes a call and reports whether it may go on. A peer that resets most of its calls
// at once (rapid reset) loses its connection: each costs the proxy as much as one that is
// refused, and its peer next to nothing. Envoy does likewise
// (overload.premature_reset_total_stream_count).
func (c *conn) begin() bool {
	n := c.unwanted.Add(1)
	if n == maxUnwanted+1 {
		c.gate.metrics.refused.WithLabelValues(c.gate.metrics.name, refusedResets).Inc()
		_ = c.Close()
	}
	return n <= maxUnwanted
}

// want notes that a call was not reset at once: it makes good for itself and another.
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

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && c.gate.tls == nil && !c.settled.Load() {
		c.settle()
	}
	return n, err
}

// Write implements net.Conn. A peer that does not take the bytes within the write
// timeout breaks the connection: gRPC would wait for it without end.
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
		// gRPC ends a connection whose writes fail when its reads fail too.
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

// CloseWrite lets net/http end its side first where the connection can.
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
		c.gate.mu.Lock()
		defer c.gate.mu.Unlock()
		c.gate.forget(c)
		c.gate.open--
		c.gate.metrics.open.Dec()
	})
	return err
}

// expiryKey is the context key of when an HTTP connection is too old.
type expiryKey struct{}

// withExpiry returns what keeps, for each connection, when it is too old.
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

// errNotSecured means that a connection reached a door of TLS without it, which
// only a mistake in this package can cause.
var errNotSecured = errors.New("the connection has no TLS")

// handshaken are the credentials of gRPC connections whose handshake a gate has
// done: it tells calls of the certificate of their peer.
type handshaken struct {
	credentials.TransportCredentials
}

// ServerHandshake implements credentials.TransportCredentials.
func (handshaken) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secured, ok := c.(*tls.Conn)
	if !ok {
		return nil, nil, errNotSecured
	}
	return secured, credentials.TLSInfo{
		State:          secured.ConnectionState(),
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
	}, nil
}
