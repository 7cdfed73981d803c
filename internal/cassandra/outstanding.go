package cassandra

import (
	"context"
	"sync/atomic"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/qosproxy/qosproxy/internal/incident"
)

// settleLimit is after how long a request that nobody waits for counts as over although the driver
// has not said so. The driver says nothing when it closes a connection itself (a host has left the
// cluster), and may say nothing when an answer and the end of the connection cross. By then a
// Cassandra with default timeouts has long dropped the work.
const settleLimit = 60 * time.Second

// outstanding tracks a sub-query until every request of it has been answered or lost.
type outstanding struct {
	open    atomic.Int32
	settled func()
	// lost is called before settled if some request was lost, or none was sent; nil for nothing.
	lost          func()
	sent, anyLost atomic.Bool
	// incidents records panics; broken is the first, which fails the whole sub-query.
	incidents *incident.Log
	broken    atomic.Pointer[incident.Error]
}

// newOutstanding returns one that the caller holds. The last release calls settled, once.
func newOutstanding(settled func(), incidents *incident.Log) *outstanding {
	o := &outstanding{settled: settled, incidents: incidents}
	o.open.Store(1)
	return o
}

func (o *outstanding) hold() { o.open.Add(1) }

// release may be called by a goroutine of the driver, which no panic may reach.
func (o *outstanding) release() {
	if o.open.Add(-1) == 0 {
		_ = o.incidents.Run(context.Background(), "end of a read", o.settle)
	}
}

func (o *outstanding) settle() {
	if (o.anyLost.Load() || !o.sent.Load()) && o.lost != nil {
		o.lost()
	}
	o.settled()
}

// run runs a part of the sub-query, in any goroutine. Once a part has panicked, it returns that
// incident for all parts, even for those that have succeeded.
func (o *outstanding) run(ctx context.Context, part func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			o.broken.CompareAndSwap(nil, o.incidents.Record(ctx, "read from a host", r))
		}
		if broken := o.broken.Load(); broken != nil {
			err = broken
		}
	}()
	return part()
}

// stream is one request of a sub-query, and its context: the driver hands it to streamObserver,
// which identifies the request by it. The requests for further pages use the same stream, one after
// the other.
type stream struct {
	context.Context //nolint:containedctx // it is one: the driver is handed it as such
	outstanding     *outstanding
	waiting         atomic.Bool
	backstop        atomic.Pointer[time.Timer]
}

type streamKey struct{}

// Value returns the stream itself for streamKey.
func (s *stream) Value(key any) any {
	if key == (streamKey{}) {
		return s
	}
	return s.Context.Value(key)
}

// StreamStarted is called when a request is about to be written.
func (s *stream) StreamStarted(gocql.ObservedStream) {
	if s.waiting.CompareAndSwap(false, true) {
		s.outstanding.sent.Store(true)
		s.outstanding.hold()
	}
}

// StreamFinished is called when the answer is there, however late.
func (s *stream) StreamFinished(gocql.ObservedStream) { s.end(false) }

// StreamAbandoned is called when the connection broke before the answer.
func (s *stream) StreamAbandoned(gocql.ObservedStream) { s.end(true) }

// end ends the request: by its answer, or by the loss of it.
func (s *stream) end(lost bool) {
	if !s.waiting.CompareAndSwap(true, false) {
		return
	}
	if lost {
		s.outstanding.anyLost.Store(true)
	}
	if t := s.backstop.Load(); t != nil {
		t.Stop()
	}
	s.outstanding.release()
}

// leave is called when nobody waits for the request any more; err is what the reader got of it. A
// request without an answer keeps its sub-query outstanding, up to settleLimit.
func (s *stream) leave(err error) {
	if !s.waiting.Load() {
		return
	}
	if connectionLost(err) {
		s.end(true)
		return
	}
	t := time.AfterFunc(settleLimit, func() { s.end(true) })
	s.backstop.Store(t)
	if !s.waiting.Load() {
		t.Stop()
	}
}

// streamObserver tells the driver's requests for reads from its own.
type streamObserver struct{}

// StreamContext returns the stream of a read, or nil for the driver's own
// requests.
func (streamObserver) StreamContext(ctx context.Context) gocql.StreamObserverContext {
	if s, ok := ctx.Value(streamKey{}).(*stream); ok {
		return s
	}
	return nil
}
