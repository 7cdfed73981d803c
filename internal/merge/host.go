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
	// straggler is after how long nobody waits for a read any more, in the time that reads of the
	// table take at the host.
	straggler = 4
	// recentReads is how many of the last reads the quickest is one of, or one of twice as many.
	recentReads = 64
	// enoughKeys is how many keys that wait go at once. A statement then costs a node a tenth of
	// what its keys do; where it costs less relative to them, fewer keys are enough:
	// enoughStatements is how many times what a statement takes they take.
	enoughKeys, enoughStatements = 75, 10
	// maxBytes is how many bytes of cells a shared statement should return at most: half of
	// what a node is asked for at a time without pages, which are read one key after
	// the other.
	maxBytes = 1 << 20
	// raiseEvery is how often a read that took longer than a straggler raises what is usual: a
	// pause of the host or the proxy settles many at once, and was one event.
	raiseEvery = 50 * time.Millisecond
	// urgent is for how long after other work was asked of a host batch work goes there one
	// statement at a time, whatever waits.
	urgent = time.Second
)

// host is what one host has in-flight, and what waits for it.
type host struct {
	reader *Reader
	// sent and sentKeys are all statements and their keys.
	sent, sentKeys atomic.Int64

	mu sync.Mutex
	// inFlight are the reads that the host has not settled.
	inFlight []*sending
	// queue has what waits, in the order in which it was asked.
	queue []*waiter
	// urgentUntil is until when batch work goes one statement at a time.
	urgentUntil int64
	// tables has what reads of a table are like, by keyspace and name.
	tables map[[2]string]usual
	// alarm looks again when something in-flight is overdue, at alarmAt.
	alarm   *time.Timer
	alarmAt int64
}

func newHost(r *Reader) *host {
	return &host{reader: r, tables: make(map[[2]string]usual)}
}

// idle reports whether nothing is in-flight.
func (h *host) idle() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.inFlight)+len(h.queue) == 0
}

// waiter is a sub-query that waits, or a participant of a shared read.
type waiter struct {
	ctx      context.Context //nolint:containedctx // of one call of Read, which waits
	query    *executor.SubQuery
	priority identity.Priority
	// until is when it waits no longer.
	until int64

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

// busy reports whether a read is in-flight that the sub-query could be a part of, and that is
// neither a straggler nor, unless it is batch work, of the same lookup. The mutex is held.
func (h *host) busy(q *executor.SubQuery, priority identity.Priority, now int64) bool {
	return slices.ContainsFunc(h.inFlight, func(s *sending) bool {
		own := s.query.Query == q.Query && priority != identity.Batch
		return s.priority == priority && !own && s.overdueAt > now && compatible(&s.query, q)
	})
}

// waits reports whether a sub-query has to wait if so many keys do, its own included. The mutex
// is held.
func (h *host) waits(q *executor.SubQuery, priority identity.Priority, keys int, now int64) bool {
	whatever := priority == identity.Batch && now < h.urgentUntil
	return (whatever || keys < h.enough(q.Query)) && h.busy(q, priority, now)
}

// until is when a sub-query that is asked now waits no longer: it waits here for as long as reads
// wait at the host, which is what they take beyond the quickest. What the way there takes does not
// count, since nobody makes it shorter by waiting. The mutex is held.
func (h *host) until(q *executor.SubQuery, priority identity.Priority, now int64) int64 {
	if priority == identity.Batch {
		return math.MaxInt64
	}
	u := h.tables[tableOf(q.Query)]
	return now + max(int64(u.took)-u.quickest(), 0)
}

// enough is how many keys of a query go at once; 0, so that none waits, if its keys may be expensive.
func (h *host) enough(q *executor.Query) int {
	switch c := h.reader.cfg.Costs(q); {
	case c.KeyCost > 0:
		return int(min(enoughStatements*c.StatementCost/c.KeyCost, enoughKeys))
	case c.Keys > 0:
		return enoughKeys
	}
	return 0
}

// dispatch sends what need not wait any longer. The mutex is held.
func (h *host) dispatch(now int64) {
	var held []*waiter // one of each kind
	for i := 0; i < len(h.queue); {
		w := h.queue[i]
		if slices.ContainsFunc(held, w.mayJoin) {
			i++
			continue
		}
		switch keys, until := h.waiting(w); {
		case until > now && h.waits(w.query, w.priority, keys, now):
			held = append(held, w)
			i++
		default: // those before it are held
			h.send(h.take(w), now)
		}
	}
	h.setAlarm(now)
}

// mayJoin reports whether two sub-queries may go as one statement.
func (w *waiter) mayJoin(other *waiter) bool {
	return w.priority == other.priority && compatible(w.query, other.query)
}

// waiting is how many keys wait that may go together with a sub-query, its own included, and
// until when at most. The mutex is held.
func (h *host) waiting(with *waiter) (keys int, until int64) {
	until = math.MaxInt64
	for _, w := range h.queue {
		if w.mayJoin(with) {
			keys += len(w.query.Keys)
			until = min(until, w.until)
		}
	}
	return keys, until
}

// take takes a sub-query out of the queue, and those that go with it: until they are enough. The
// mutex is held.
func (h *host) take(first *waiter) (parts []*waiter) {
	keys, enough, most := 0, h.enough(first.query.Query), h.mostBytes(first.query.Query)
	h.queue = slices.DeleteFunc(h.queue, func(w *waiter) bool {
		n := len(w.query.Keys)
		if w != first && (keys == 0 || keys >= enough || keys+n > most || !w.mayJoin(first)) {
			return false
		}
		keys += n
		parts = append(parts, w)
		return true
	})
	return parts
}

// send sends sub-queries as one statement. The mutex is held.
func (h *host) send(parts []*waiter, now int64) {
	if len(parts) > 1 {
		s := newShared(h, parts, now)
		go s.run()
		return
	}
	w := parts[0]
	w.alone = h.start(w.query, w.priority, now)
	w.wake <- struct{}{}
}

// setAlarm has the queue looked at when somebody waits no longer, or for a read no longer. The mutex is held.
func (h *host) setAlarm(now int64) {
	if len(h.queue) == 0 {
		return
	}
	next := int64(math.MaxInt64)
	for _, w := range h.queue {
		next = min(next, w.until)
	}
	for _, s := range h.inFlight {
		if s.overdueAt > now {
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

// ring looks whether something is overdue.
func (h *host) ring() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.alarmAt = 0
	h.dispatch(h.reader.now())
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
	return w.alone.pass(w.ctx)
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

// usual is what the reads of a table are like at a host, as moving averages: how long they take,
// in nanoseconds, and how many bytes a key has. Zero is not known.
type usual struct {
	took, bytes float64
	// raisableAt is from when on a straggler counts again.
	raisableAt int64
	// reads are all so far; least is the shortest of the last of them, up to recentReads, and
	// leastBefore that of as many before these.
	reads, least, leastBefore int64
}

// quickest is how long the shortest of the recent reads took, in nanoseconds.
func (u *usual) quickest() int64 {
	if u.reads <= recentReads {
		return u.least
	}
	return min(u.least, u.leastBefore)
}

// settled learns how long a read took that ends now. One that was a straggler counts as just
// that, and once in raiseEvery.
func (u *usual) settled(took, now int64) {
	if u.reads%recentReads == 0 {
		u.leastBefore, u.least = u.least, took
	}
	u.least = min(u.least, took)
	u.reads++
	most := int64(straggler * u.took)
	if u.took > 0 && took > most {
		if now < u.raisableAt {
			return
		}
		took, u.raisableAt = most, now+int64(raiseEvery)
	}
	learn(&u.took, float64(took))
}

func tableOf(q *executor.Query) [2]string { return [2]string{q.Table.Keyspace, q.Table.Name} }

// mostBytes is how many keys a shared statement may have for the bytes that it returns. The
// mutex is held.
func (h *host) mostBytes(q *executor.Query) int {
	return int(maxBytes / max(h.tables[tableOf(q)].bytes, 1))
}

// learn moves an average.
func learn(average *float64, x float64) {
	if *average == 0 {
		*average = x
	}
	*average += gain * (x - *average)
}

// bytesOf is how many bytes a key has for the size of later statements. One that is too large is
// as much as a statement may return, though none of it came.
func bytesOf(r *partition.Result) int {
	if r.Status == partition.TooLarge && !errors.Is(r.Err, executor.ErrCrowded) {
		return max(r.Bytes, maxBytes)
	}
	return r.Bytes
}
