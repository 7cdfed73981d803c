package merge

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/partition"
)

const (
	// maxKeys is the most keys of a shared statement. Larger ones save nothing: a
	// statement then costs a node a thirtieth of what its keys do.
	maxKeys = 200
	// maxBytes is how many bytes of cells a shared statement should return at most: half of
	// what a node is asked for at a time without pages, which are read one key after
	// the other.
	maxBytes = 1 << 20
)

// host is what one host has in-flight, and what waits for it.
type host struct {
	reader *Reader
	// sent and sentKeys are all statements and their keys.
	sent, sentKeys atomic.Int64

	mu sync.Mutex
	// inFlight are the reads that the host has not settled; counted is how many of them are
	// not overdue.
	inFlight []*sending
	counted  int
	// queue is ordered: what goes first is first.
	queue []*waiter
	limit limiting
	// usual is how reads have fared, relative to what was expected of them.
	usual spread
	// bytes are those of a key's rows, by keyspace and table.
	bytes map[[2]string]float64
	// alarm looks again when something in-flight is overdue, at alarmAt.
	alarm   *time.Timer
	alarmAt int64
}

func newHost(r *Reader) *host {
	return &host{reader: r, limit: r.policies.limit(), bytes: make(map[[2]string]float64)}
}

// idle reports whether nothing is in-flight.
func (h *host) idle() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.inFlight)+len(h.queue) == 0
}

// sending is one read as the host has it.
type sending struct {
	host *host
	// parts are whom Settled is told; query is what the next reader is given.
	query executor.SubQuery
	parts []*waiter
	told  func()

	sentAt, overdueAt int64
	// subQueries are how many it is of that were not overtaken, at least 1, and waited is how
	// long they have waited in all.
	subQueries int
	waited     int64
	expected   time.Duration
	// overdue is set once it does not count any more.
	overdue bool
	// settled is set once the host has settled it, at settledAt; good once the reader has
	// returned results.
	settled, good bool
	settledAt     int64
	bytes         int
}

// free reports whether another read may be sent. The mutex is held.
func (h *host) free(now int64) bool {
	if h.counted < h.limit.most() {
		return true
	}
	for _, s := range h.inFlight {
		if !s.overdue && s.overdueAt <= now {
			s.overdue = true
			h.counted--
		}
	}
	return h.counted < h.limit.most()
}

// start counts a read of so many keys as in-flight, of sub-queries that were asked at such
// times. The mutex is held.
func (h *host) start(q *executor.Query, keys int, now int64, parts ...*waiter) *sending {
	s := &sending{host: h, sentAt: now}
	for _, w := range parts {
		if !w.overtaken {
			s.subQueries++
			s.waited += now - w.askedAt
		}
	}
	s.subQueries = max(s.subQueries, 1)
	if f := h.reader.cfg.Expected; f != nil {
		if expected, ok := f(q, keys); ok {
			s.expected = expected
		}
	}
	s.overdueAt = now + int64(h.reader.policies.overdue(&h.usual, s.expected))
	h.inFlight = append(h.inFlight, s)
	h.counted++
	h.limit.sent(h.counted)
	return s
}

// pass sends a sub-query as it is.
func (s *sending) pass(ctx context.Context, q *executor.SubQuery) (results []partition.Result, err error) {
	s.told = q.Settled
	s.query = *q
	s.query.Settled = s.settle
	panics := true
	defer func() {
		if panics { // for whom it concerns, which is the caller alone
			s.settle()
		}
	}()
	results, err = s.perform(ctx)
	panics = false
	return results, err
}

// perform asks the host.
func (s *sending) perform(ctx context.Context) ([]partition.Result, error) {
	r := s.host.reader
	r.metrics.observe(s.query.Query, len(s.query.Keys))
	s.host.sent.Add(1)
	s.host.sentKeys.Add(int64(len(s.query.Keys)))
	results, err := r.cfg.Reader.Read(ctx, &s.query)
	if err == nil {
		s.answered(results)
	}
	return results, err
}

// settle is the Settled of the read: the host may be sent another.
func (s *sending) settle() {
	h := s.host
	h.mu.Lock()
	if s.settled {
		h.mu.Unlock()
		return
	}
	now := h.reader.now()
	h.end(s, now)
	h.limit.took(s.subQueries, time.Duration(int64(s.subQueries)*(now-s.sentAt)+s.waited), time.Duration(s.subQueries)*s.expected)
	h.dispatch(now)
	h.mu.Unlock()
	if s.told != nil {
		s.told()
	}
	for _, w := range s.parts {
		w.query.Settled()
	}
}

// end takes a read out of those in-flight. The mutex is held.
func (h *host) end(s *sending, now int64) {
	s.settled, s.settledAt = true, now
	if i := slices.Index(h.inFlight, s); i >= 0 {
		h.inFlight = slices.Delete(h.inFlight, i, i+1)
	}
	if !s.overdue {
		h.counted--
	}
	h.learn(s)
}

// answered takes note that the read has returned results.
func (s *sending) answered(results []partition.Result) {
	for i := range results {
		s.bytes += bytesOf(&results[i])
	}
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	s.good = true
	s.host.learn(s)
}

// bytesOf is how many bytes a key has for the size of later statements. One that is too large is
// as much as a statement may return, though none of it came.
func bytesOf(r *partition.Result) int {
	if r.Status == partition.TooLarge && !errors.Is(r.Err, executor.ErrCrowded) {
		return max(r.Bytes, maxBytes)
	}
	return r.Bytes
}

// learn takes how a read has fared, once it is settled and has returned results: the time
// of a failure says nothing, and neither does that of one that was given up. The mutex is held.
func (h *host) learn(s *sending) {
	if !s.settled || !s.good {
		return
	}
	h.weigh(s.query.Query, len(s.query.Keys), s.bytes)
	if s.expected > 0 {
		h.usual.add(float64(s.settledAt-s.sentAt) / float64(s.expected))
	}
}

// weigh takes how many bytes came for so many keys. The mutex is held.
func (h *host) weigh(q *executor.Query, keys, bytes int) {
	name := [2]string{q.Table.Keyspace, q.Table.Name}
	x := float64(bytes) / float64(max(keys, 1))
	if known, ok := h.bytes[name]; ok {
		x = known + gain*(x-known)
	}
	h.bytes[name] = x
}

// most is how many keys a shared statement may have. The mutex is held.
func (h *host) most(q *executor.Query) int {
	known := h.bytes[[2]string{q.Table.Keyspace, q.Table.Name}]
	return int(min(maxKeys, maxBytes/max(known, 1)))
}

// waiter is a sub-query that waits, or a participant of a shared read.
type waiter struct {
	ctx      context.Context //nolint:containedctx // of one call of Read, which waits
	query    *executor.SubQuery
	share    bool
	askedAt  int64
	priority identity.Priority
	deadline int64
	// overtaken is set once a read of a higher priority was sent while this one waited: how long
	// it waits then says nothing of the host.
	overtaken bool

	// wake receives once, when alone or shared is set and, for shared, its outcome.
	wake   chan struct{}
	alone  *sending
	shared *shared

	// The rest is of a participant. at are the positions of its keys in the shared read.
	at      []int32
	gone    bool
	results []partition.Result
	err     error
	bytes   int
	// crowded is set when a key lacked room for which this participant is not to blame.
	crowded bool
}

// enqueue puts a sub-query into the queue: behind all of its priority that are due
// before it. The mutex is held.
func (h *host) enqueue(w *waiter) {
	i, _ := slices.BinarySearchFunc(h.queue, w, func(a, b *waiter) int {
		if a.priority < b.priority || a.priority == b.priority && a.deadline <= b.deadline {
			return -1
		}
		return 1
	})
	h.queue = slices.Insert(h.queue, i, w)
}

// dispatch sends what may be sent. The mutex is held.
func (h *host) dispatch(now int64) {
	h.send(now)
	if len(h.queue) == 0 {
		return
	}
	if first := h.queue[0]; !first.overtaken {
		h.limit.waits(time.Duration(now - first.askedAt))
	}
	if h.send(now); len(h.queue) == 0 { // the limit may have become larger
		return
	}
	next := int64(math.MaxInt64)
	for _, s := range h.inFlight {
		if !s.overdue {
			next = min(next, s.overdueAt)
		}
	}
	switch {
	case h.alarm == nil:
		h.alarm = time.AfterFunc(time.Duration(next-now), h.ring)
	case next != h.alarmAt:
		h.alarm.Reset(time.Duration(next - now))
	}
	h.alarmAt = next
}

// send sends what is first in the queue while there is room. The mutex is held.
func (h *host) send(now int64) {
	for len(h.queue) > 0 && h.free(now) {
		parts := h.take()
		if len(parts) == 1 {
			w := parts[0]
			w.alone = h.start(w.query.Query, len(w.query.Keys), now, w)
			w.wake <- struct{}{}
			continue
		}
		s := newShared(h, parts, now)
		go s.run()
	}
}

// ring looks whether something is overdue.
func (h *host) ring() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.alarmAt = 0
	h.dispatch(h.reader.now())
}

// take takes the sub-queries that go next out of the queue: the first, and those that may
// go with it. Others of its priority go until the statement is large; later ones only as
// far as they double its keys, for it takes longer with each. The mutex is held.
func (h *host) take() []*waiter {
	first := h.queue[0]
	parts := []*waiter{first}
	keys, most := len(first.query.Keys), h.most(first.query.Query)
	less := 0
	h.queue = slices.DeleteFunc(h.queue, func(w *waiter) bool {
		n := len(w.query.Keys)
		switch {
		case w == first:
			return true
		case keys+less+n > most || !first.share || !w.share || !compatible(first.query, w.query):
			return false
		case w.priority == first.priority:
			keys += n
		case less+n > keys:
			return false
		default:
			less += n
		}
		parts = append(parts, w)
		return true
	})
	for _, lower := range [][]*waiter{parts, h.queue} {
		for _, w := range lower {
			w.overtaken = w.overtaken || w.priority > first.priority
		}
	}
	return parts
}

// wait waits until the sub-query is answered or its context ends.
func (w *waiter) wait(h *host) ([]partition.Result, error) {
	select {
	case <-w.wake:
	case <-w.ctx.Done():
		if h.withdraw(w) {
			return nil, executor.ErrUnsent
		}
		if w.shared != nil {
			w.shared.leave(w)
			return nil, context.Cause(w.ctx)
		}
		<-w.wake
	}
	if w.alone == nil {
		return w.outcome(h)
	}
	if w.ctx.Err() != nil {
		h.recall(w.alone)
		return nil, executor.ErrUnsent
	}
	return w.alone.pass(w.ctx, w.query)
}

// withdraw takes a sub-query out of the queue, and reports whether it was there.
func (h *host) withdraw(w *waiter) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.Index(h.queue, w)
	if i < 0 {
		return false
	}
	h.queue = slices.Delete(h.queue, i, i+1)
	return true
}

// recall ends a read that was to be sent and was not.
func (h *host) recall(s *sending) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.reader.now()
	h.end(s, now)
	h.dispatch(now)
}
