package cassandra

import (
	"context"
	"sync/atomic"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// settleLimit is when a request counts as over although nobody said so. The
// driver says nothing when it closes a connection by its own decision (a host
// has left the cluster), and may say nothing when an answer and the end of the
// connection cross. By then a Cassandra with default timeouts has long dropped
// the work.
const settleLimit = 60 * time.Second

// voyage is one sub-query until every request of it has been answered or lost.
type voyage struct {
	open    atomic.Int32
	settled func()
}

// newVoyage returns a voyage that the caller holds; settled is called once, by
// whoever releases it last.
func newVoyage(settled func()) *voyage {
	v := &voyage{settled: settled}
	v.open.Store(1)
	return v
}

func (v *voyage) hold() { v.open.Add(1) }

func (v *voyage) release() {
	if v.open.Add(-1) == 0 {
		v.settled()
	}
}

// stream is one request of a voyage as the driver's streams see it: a context
// that the driver hands to streamObserver, which tells the request by it. The
// requests for further pages use the same stream, one after the other.
type stream struct {
	context.Context //nolint:containedctx // it is one: the driver is handed it as such
	voyage          *voyage
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
		s.voyage.hold()
	}
}

// StreamFinished is called when the answer is there, however late.
func (s *stream) StreamFinished(gocql.ObservedStream) { s.end() }

// StreamAbandoned is called when the connection broke before the answer.
func (s *stream) StreamAbandoned(gocql.ObservedStream) { s.end() }

func (s *stream) end() {
	if !s.waiting.CompareAndSwap(true, false) {
		return
	}
	if t := s.backstop.Load(); t != nil {
		t.Stop()
	}
	s.voyage.release()
}

// leave says that nobody waits for the request any more; err is how it ended
// for whoever did. A request that is still on its way keeps its voyage open.
func (s *stream) leave(err error) {
	if !s.waiting.Load() {
		return
	}
	if connectionLost(err) {
		s.end()
		return
	}
	t := time.AfterFunc(settleLimit, s.end)
	s.backstop.Store(t)
	if !s.waiting.Load() {
		t.Stop()
	}
}

// streamObserver tells the driver's streams of reads from its own.
type streamObserver struct{}

// StreamContext returns the stream of a read, or nil for the driver's own
// requests.
func (streamObserver) StreamContext(ctx context.Context) gocql.StreamObserverContext {
	if s, ok := ctx.Value(streamKey{}).(*stream); ok {
		return s
	}
	return nil
}
