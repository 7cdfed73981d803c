package executor

import (
	"errors"
	"time"
)

// outstanding is a sub-query from the moment it is sent until its host has settled
// it, which may be long after its lookup has ended. It holds nothing of the
// lookup, so that an abandoned one costs little memory.
type outstanding struct {
	host  *host
	view  *view
	table *TableState
	kind  Kind
	keys  int
	// sentAt is when it was sent; within is how long its answer may take before it is
	// overdue.
	sentAt, within int64
	// traceID is of the lookup, for an exemplar; usually empty.
	traceID string

	// The rest is behind the mutex of the host.
	prev, next *outstanding
	// listed is set while it is among those that the host has yet to answer.
	listed bool
	// overtaken is how many later ones were answered in time once this was overdue.
	overtaken int
	phase     phase
	settledAt int64
	settled   bool
	// lost is set when it will not be answered, since its connection is gone or it was asked
	// nothing.
	lost bool
	// blamed is set once the host was held to account for keys that were lost, and some once
	// it has answered a key.
	blamed, some bool
	// counted is how many of hedgeDelays it has been counted for.
	counted int
}

// phase is how far a sub-query is for its reader.
type phase uint8

const (
	inFlight phase = iota
	answered
	failed
	// abandoned: its reader gave up waiting, for the lookup has no more use for
	// the answer, which is still outstanding at the host.
	abandoned
)

// add counts a sub-query as outstanding, whose keys are counted already.
func (h *host) add(o *outstanding) {
	h.subQueries.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	o.listed = true
	o.prev = h.newest
	if o.prev == nil {
		h.oldest = o
	} else {
		o.prev.next = o
	}
	h.newest = o
	h.foreseeNew(o)
}

// foresee sets when what is outstanding will be overdue. That is not in the order in which it
// was sent: reads of one table take longer than those of another. The mutex is held.
func (h *host) foresee() {
	at, nextAt := int64(unset), int64(unset)
	for o := h.oldest; o != nil; o = o.next {
		at, nextAt = sooner(at, nextAt, o.overdueAt())
	}
	h.overdueAt.Store(at)
	h.nextOverdueAt.Store(nextAt)
}

// foreseeNew is foresee when only one sub-query is new. The mutex is held.
func (h *host) foreseeNew(o *outstanding) {
	at, nextAt := sooner(h.overdueAt.Load(), h.nextOverdueAt.Load(), o.overdueAt())
	h.overdueAt.Store(at)
	h.nextOverdueAt.Store(nextAt)
}

// sooner returns the two soonest of three moments, of which the first two are in order.
func sooner(first, second, other int64) (int64, int64) {
	if other < first {
		return other, first
	}
	return first, min(second, other)
}

func (o *outstanding) overdueAt() int64 { return o.sentAt + o.within }

// returned records that the reader has returned an error, or nil, and what that means.
func (o *outstanding) returned(err error, how phase, reason Reason, some bool) {
	if errors.Is(err, ErrUnsent) {
		o.withdraw()
		return
	}
	o.end(how, reason, some)
}

// end records how the reader returned, and whether some key was answered.
func (o *outstanding) end(how phase, reason Reason, some bool) {
	h, now := o.host, o.host.executor.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	o.phase = how
	at := now
	if o.settled {
		at = o.settledAt
	}
	h.executor.metrics.opportunities.count(o, at)
	switch how {
	case answered:
		h.unlist(o)
		h.measure(o, at)
		h.onAnswer(o, time.Duration(at-o.sentAt), now)
	case failed:
		h.unlist(o)
		h.gone.Store(!some && reason.Free())
		// Which replicas are dead is no fault of a coordinator that answers for the others.
		if reason != ReasonUnavailable || !o.some && !some {
			o.blame(reason, now)
		}
	case abandoned:
		if o.settled && !o.lost {
			h.measure(o, o.settledAt)
		}
		h.onAbandon(o, now)
	case inFlight:
	}
	h.onProgress(now)
}

// partial takes note of results that came before the others: of how their statement ended,
// and whether some key was answered.
func (o *outstanding) partial(how phase, reason Reason, some bool) {
	h, now := o.host, o.host.executor.now()
	if some {
		h.settledAt.Store(now)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	o.some = o.some || some
	if how == failed && reason != ReasonUnavailable { // for which end has to know them all
		o.blame(reason, now)
	}
}

// blame holds the host to account for keys that were lost, once for each sub-query: one
// event loses many. The mutex of the host is held.
func (o *outstanding) blame(reason Reason, now int64) {
	if o.blamed {
		return
	}
	o.blamed = true
	o.host.onFailure(o, reason, now)
}

// settle records that nothing more is outstanding of the sub-query. It may be
// called more than once, and before or after end.
func (o *outstanding) settle() {
	h, now := o.host, o.host.executor.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if o.settled {
		return
	}
	o.settled, o.settledAt = true, now
	if !o.lost { // else it is no sign of life
		h.settledAt.Store(now)
	}
	h.addKeys(-o.keys)
	h.subQueries.Add(-1)
	h.unlist(o)
	if o.phase == abandoned {
		h.executor.metrics.opportunities.count(o, now)
		if !o.lost {
			h.measure(o, now)
		}
	}
	h.onProgress(now)
}

// lose records that the host will not answer: how long that took is not what its reads take.
func (o *outstanding) lose() {
	o.host.mu.Lock()
	defer o.host.mu.Unlock()
	o.lost = true
}

// withdraw takes back a sub-query that was never sent. Its host has not settled anything, so
// the state of the host stays as it is.
func (o *outstanding) withdraw() {
	h := o.host
	h.mu.Lock()
	defer h.mu.Unlock()
	if o.settled {
		return
	}
	o.settled, o.phase = true, abandoned
	h.addKeys(-o.keys)
	h.subQueries.Add(-1)
	h.unlist(o)
	h.executor.metrics.opportunities.count(o, h.executor.now())
}

// measure takes the latency of a sub-query that was answered at a moment. Losers are
// measured when their host answers: without them the percentiles would only see
// the fast. The mutex is held.
func (h *host) measure(o *outstanding, at int64) {
	took := time.Duration(at - o.sentAt)
	observe(h.metrics.durations[o.kind], took, o.traceID)
	if o.kind == KindFirst || o.kind == KindReread {
		o.table.latencies.Observe(o.keys, took)
	}
	h.learn(o, took, at)
	if int64(took) <= o.within {
		h.overtake(o, at)
	}
}

// overtake writes off what is overdue and was overtaken by answers that came in time:
// the host waits for somebody else there (as a coordinator does whose snitch chose
// a frozen replica), or has lost it with a connection, and is itself healthy. The
// answers of a host that limps are late themselves. The mutex is held.
func (h *host) overtake(by *outstanding, now int64) {
	if h.overdueAt.Load() > now {
		return
	}
	for o := h.oldest; o != nil && o.sentAt < by.sentAt; {
		next := o.next
		if o.overdueAt() <= now {
			if o.overtaken++; o.overtaken >= h.executor.policies.overtakenAfter {
				h.unlist(o)
			}
		}
		o = next
	}
}

// unlist takes a sub-query out of those the host has yet to answer. The mutex is held.
func (h *host) unlist(o *outstanding) {
	if !o.listed {
		return
	}
	h.unlink(o)
	if o.overdueAt() <= h.nextOverdueAt.Load() {
		h.foresee()
	}
}

// unlink takes a listed sub-query out of the list. The mutex is held.
func (h *host) unlink(o *outstanding) {
	o.listed = false
	if o.prev == nil {
		h.oldest = o.next
	} else {
		o.prev.next = o.next
	}
	if o.next == nil {
		h.newest = o.prev
	} else {
		o.next.prev = o.prev
	}
	o.prev, o.next = nil, nil
}

// writeOff gives up on what was sent before a moment: a later answer has come, so these are
// lost and say nothing of the host any more. They remain outstanding until they are
// settled. The mutex is held.
func (h *host) writeOff(before int64) {
	for h.oldest != nil && h.oldest.sentAt < before {
		h.unlink(h.oldest)
	}
	h.foresee()
}
