package server

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/credentials"

	"github.com/qosproxy/qosproxy/internal/incident"
	"github.com/qosproxy/qosproxy/internal/memory"
)

// maxFresh is the maximum number of fresh connections of a listener, unless a quarter of
// the connections allowed is less. Fresh are those in a TLS handshake and, without TLS,
// those that have sent nothing yet.
const maxFresh = 256

// gate is a listener that enforces the limits of its peers. It does TLS handshakes
// itself, so that the servers behind it only see connections that have completed theirs.
//
// A connection above the limit replaces the oldest one on which no identified client has
// called. If there is none, it is closed at once: to its client, a connection waiting in
// the kernel's queue would look like a proxy that hangs. When too many are fresh the
// oldest is closed. This hits peers that open connections without using them, since a
// client needs only some milliseconds.
type gate struct {
	net.Listener
	limits  Limits
	max     *atomic.Int64
	tls     *tls.Config
	metrics listenerMetrics
	// memory counts connections; nil where they are not counted. If metered, the gate
	// counts the bytes of incomplete requests; otherwise whoever reads them does.
	memory  *memory.Budget
	metered bool
	// callBytes is how many bytes may be held for a call that is being received.
	callBytes int64

	ready  chan accepted
	ctx    context.Context
	cancel context.CancelFunc
	shakes sync.WaitGroup

	mu    sync.Mutex
	open  int
	fresh list.List // of *conn, the oldest first
	// unidentified are those on which no identified client has called, the oldest first;
	// empty where nobody is identified.
	unidentified list.List // of *conn
}

// accepted is what Accept returns.
type accepted struct {
	conn net.Conn
	err  error
}

// newGate returns a gate in front of a listener; run accepts its connections. A nil
// config means no TLS.
func newGate(l net.Listener, limits Limits, most *atomic.Int64, config *tls.Config, m listenerMetrics) *gate {
	g := &gate{Listener: l, limits: limits, max: most, tls: config, metrics: m, ready: make(chan accepted)}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g
}

// run accepts connections until the gate is closed. A panic in a handshake closes only
// its connection.
func (g *gate) run(incidents *incident.Log) {
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
			g.shakes.Go(func() {
				if incidents.Run(g.ctx, "TLS handshake", func() { g.shake(c) }) != nil {
					_ = c.Close()
				}
			})
		}
	}
	g.shakes.Wait()
}

// admit counts a connection and returns it, or closes it and returns nil.
func (g *gate) admit(raw net.Conn) *conn {
	most := int(g.max.Load())
	var replaced, oldest *conn
	g.mu.Lock()
	if g.open >= most {
		g.metrics.refusals(refusedFull).Inc()
		if g.unidentified.Len() == 0 {
			g.mu.Unlock()
			_ = raw.Close()
			return nil
		}
		replaced = g.unidentified.Front().Value.(*conn)
		g.forget(replaced)
		g.identify(replaced)
	}
	c := &conn{Conn: raw, gate: g}
	if g.memory != nil {
		var end func()
		if g.metered {
			end = func() { _ = c.Close() }
		}
		c.memory = g.memory.Peer(end, g.callBytes)
		c.unidentified = g.unidentified.PushBack(c)
	}
	c.peer = connAddr{raw.RemoteAddr(), c}
	g.open++
	g.metrics.open.Inc()
	c.place = g.fresh.PushBack(c)
	if g.fresh.Len() > max(1, min(maxFresh, most/4)) {
		oldest = g.fresh.Front().Value.(*conn)
		oldest.settled.Store(true)
		g.forget(oldest)
	}
	g.mu.Unlock()
	if replaced != nil {
		_ = replaced.Close()
	}
	if oldest != nil {
		g.metrics.refusals(refusedFresh).Inc()
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
			g.metrics.refusals(refusedHandshake).Inc()
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

// forget removes a connection from the fresh ones. The mutex is held.
func (g *gate) forget(c *conn) {
	if c.place != nil {
		g.fresh.Remove(c.place)
		c.place = nil
	}
}

// identify removes a connection from the unidentified ones. The mutex is held.
func (g *gate) identify(c *conn) {
	if c.unidentified != nil {
		g.unidentified.Remove(c.unidentified)
		c.unidentified = nil
	}
}

// errNotSecured means that a connection without TLS reached a listener with TLS, which
// only a mistake in this package can cause.
var errNotSecured = errors.New("the connection has no TLS")

// handshaken are the transport credentials of gRPC connections whose handshake a gate has
// done. They show calls the certificate of their peer.
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
