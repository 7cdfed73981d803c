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
	// A read is a straggler, for which nobody waits any more, once it has taken straggler times
	// as long as reads of its table usually take at the host.
	straggler = 4
	// The quickest read is sought among the last recentReads to 2*recentReads reads.
	recentReads = 64
	// enoughKeys is how many waiting keys are sent at once: a statement then costs a node a tenth
	// of what its keys cost. Where a statement costs less relative to a key, fewer keys are
	// enough: those that cost enoughStatements times as much as a statement.
	enoughKeys, enoughStatements = 75, 10
	// maxBytes is how many bytes of cells a shared statement should return at most: half of what
	// a node returns without pages. Pages are read one partition after the other.
	maxBytes = 1 << 20
	// raiseEvery is the least time between two stragglers that raise the usual time of reads: a
	// pause of the host or the proxy is one event, and settles many stragglers at once.
	raiseEvery = 50 * time.Millisecond
	// urgent is how long batch work is sent to a host one statement at a time, however many keys
	// wait, after other work was asked of it.
	urgent = time.Second
)

// host is the state of one host: the reads in-flight and the sub-queries that wait.
type host struct {
	reader *Reader
	// sent and sentKeys count all statements and their keys.
	sent, sentKeys atomic.Int64

	mu sync.Mutex
	// inFlight are the reads that the host has not settled.
	inFlight []*sending
	// queue holds the sub-queries that wait, in the order of their arrival.
	queue []*waiter
	// urgentUntil is until when batch work is sent one statement at a time.
	urgentUntil int64
	// tables holds what reads of a table are like, by keyspace and name.
	tables map[[2]string]usual
	// alarm calls ring at alarmAt, when something is overdue.
	alarm   *time.Timer
	alarmAt int64
}

func newHost(r *Reader) *host {
	return &host{reader: r, tables: make(map[[2]string]usual)}
}

// idle reports whether nothing is in-flight or waits.
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
	// until is when it is sent at the latest.
	until int64

	// wake receives once: when alone is set, or when the shared read has stored its outcome.
	wake   chan struct{}
	alone  *sending
	shared *shared

	// The fields below are of participants. at holds the positions of their keys in the shared
	// read.
	at      []int32
	gone    bool
	results []partition.Result
	err     error
	bytes   int
	// crowded is set when keys of others left no room for a key of this participant.
	crowded bool
	// unsettled counts what its Settled waits for: the shared read, and its outcome or, if it
	// is crowded, the read alone.
	unsettled atomic.Int32
}

// busy reports whether a read is in-flight for which the sub-query should wait: one that it could
// be a part of and that is no straggler. Reads of its own lookup count only for batch work. The
// mutex is held.
func (h *host) busy(q *executor.SubQuery, priority identity.Priority, now int64) bool {
	return slices.ContainsFunc(h.inFlight, func(s *sending) bool {
		own := s.query.Query == q.Query && priority != identity.Batch
		return s.priority == priority && !own && s.overdueAt > now && compatible(&s.query, q)
	})
}

// waits reports whether a sub-query must wait while so many keys do, its own included. The mutex
// is held.
func (h *host) waits(q *executor.SubQuery, priority identity.Priority, keys int, now int64) bool {
	whatever := priority == identity.Batch && now < h.urgentUntil
	return (whatever || keys < h.enough(q.Query)) && h.busy(q, priority, now)
}

// until returns when a sub-query that arrives now is sent at the latest. It waits here as long as
// reads wait at the host, which is how much longer they take than the quickest. The way to the
// host is part of both times and does not count: waiting does not make it shorter. The mutex is
// held.
func (h *host) until(q *executor.SubQuery, priority identity.Priority, now int64) int64 {
	if priority == identity.Batch {
		return math.MaxInt64
	}
	u := h.tables[tableOf(q.Query)]
	return now + max(int64(u.took)-u.quickest(), 0)
}

// enough returns how many waiting keys of a query are sent at once; 0, so that none waits, if its
// keys may be expensive.
func (h *host) enough(q *executor.Query) int {
	enough := 0
	switch c := h.reader.cfg.Costs(q); {
	case c.KeyCost > 0:
		enough = int(min(enoughStatements*c.StatementCost/c.KeyCost, enoughKeys))
	case c.Keys > 0:
		enough = enoughKeys
	}
	return capped(enough, q)
}

// capped returns a number of keys, or the cap of the query if that is less.
func capped(keys int, q *executor.Query) int {
	if q.Cap > 0 {
		return min(keys, q.Cap)
	}
	return keys
}

// dispatch sends what need not wait any longer. The mutex is held.
func (h *host) dispatch(now int64) {
	var held []*waiter // one of each statement and priority
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
		default: // those before it stay in the queue
			h.send(h.take(w), now)
		}
	}
	h.setAlarm(now)
}

// mayJoin reports whether two sub-queries may go as one statement.
func (w *waiter) mayJoin(other *waiter) bool {
	return w.priority == other.priority && compatible(w.query, other.query)
}

// waiting returns how many waiting keys may be sent together with a sub-query, its own included,
// and when they are sent at the latest. The mutex is held.
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

// take removes a sub-query from the queue, and others to be sent with it until their keys are
// enough or would return too many bytes. The mutex is held.
func (h *host) take(first *waiter) (parts []*waiter) {
	keys, enough, most := 0, h.enough(first.query.Query), capped(h.mostBytes(first.query.Query), first.query.Query)
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

// setAlarm has ring called when the next sub-query has waited long enough or the next read
// becomes a straggler. The mutex is held.
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

// ring is called by the alarm.
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
		if w.shared != nil && w.shared.leave(w) {
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

// withdraw removes a sub-query from the queue, and reports whether it was there.
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

// usual describes the reads of a table at a host. took is how long they take, in nanoseconds, and
// bytes how large the result of a key is; both are moving averages, 0 while unknown.
type usual struct {
	took, bytes float64
	// raisableAt is when a straggler may raise took again.
	raisableAt int64
	// reads counts all reads. least is the shortest time of the last ones, up to recentReads, and
	// leastBefore that of the recentReads before these.
	reads, least, leastBefore int64
}

// quickest returns how long the shortest of the recent reads took, in nanoseconds.
func (u *usual) quickest() int64 {
	if u.reads <= recentReads {
		return u.least
	}
	return min(u.least, u.leastBefore)
}

// settled learns from a read that ends now. A straggler counts as having taken just long enough
// to be one, and once in raiseEvery.
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

// mostBytes returns how many keys a shared statement may have so that it returns maxBytes. The
// mutex is held.
func (h *host) mostBytes(q *executor.Query) int {
	return int(maxBytes / max(h.tables[tableOf(q)].bytes, 1))
}

// learn moves an average towards x, or sets it to the first x.
func learn(average *float64, x float64) {
	if *average == 0 {
		*average = x
	}
	*average += gain * (x - *average)
}

// bytesOf returns the size of a key from which the size of later statements is learned. A key
// that is too large counts as maxBytes, though none of its rows came.
func bytesOf(r *partition.Result) int {
	if r.Status == partition.TooLarge && !errors.Is(r.Err, executor.ErrCrowded) {
		return max(r.Bytes, maxBytes)
	}
	return r.Bytes
}
