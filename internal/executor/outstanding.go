package executor

import (
	"errors"
	"time"

	"github.com/qosproxy/qosproxy/internal/hedge"
)

// outstanding is a sub-query from the moment it is sent until its host has settled it,
// which may be long after its lookup has ended. It refers to nothing of the lookup, so that
// an abandoned one costs little memory.
type outstanding struct {
	host *host
	view *view
	// latencies are those that it is compared with and adds to.
	latencies *hedge.Latencies
	kind      Kind
	keys      int
	// sentAt is when it was sent; within is how long its answer may take before it is
	// overdue.
	sentAt, within int64
	// traceID is that of the lookup, for an exemplar; usually empty.
	traceID string

	// The mutex of the host guards the rest.
	prev, next *outstanding
	// listed is set while it is in the list of what the host has yet to answer.
	listed bool
	// overtaken is how many later ones were answered in time once this one was overdue.
	overtaken int
	phase     phase
	settledAt int64
	settled   bool
	// lost is set if it will not be answered, since its connection is gone or the host was
	// not asked.
	lost bool
	// blamed is set once lost keys have counted, against the host or, while it is ejected, as what
	// its probe has shown. some is set once it has answered a key.
	blamed, some bool
	// counted is how many of hedgeDelays it has been counted for.
	counted int
}

// phase is how far a sub-query is, as its reader sees it.
type phase uint8

const (
	inFlight phase = iota
	answered
	failed
	// abandoned: its reader gave up waiting, as the lookup no longer needs the answer. The
	// host may still be working on it.
	abandoned
)

// add counts a sub-query as outstanding. Its keys are counted already.
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

// foresee sets when the first two of the listed sub-queries become overdue. That is not the
// order in which they were sent: reads of one table take longer than those of another. The
// mutex is held.
func (h *host) foresee() {
	at, nextAt := int64(unset), int64(unset)
	for o := h.oldest; o != nil; o = o.next {
		at, nextAt = sooner(at, nextAt, o.overdueAt())
	}
	h.overdueAt.Store(at)
	h.nextOverdueAt.Store(nextAt)
}

// foreseeNew is foresee when only o is new. The mutex is held.
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

// returned records that the reader has returned err, which may be nil, and what that means.
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
		// A coordinator that answers for other keys is not to blame for dead replicas.
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

// partial records results that came before the others: how their statement ended, and
// whether some key was answered.
func (o *outstanding) partial(how phase, reason Reason, some bool) {
	h, now := o.host, o.host.executor.now()
	if some {
		h.settledAt.Store(now)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	o.some = o.some || some
	if how == failed && reason != ReasonUnavailable { // end judges that one, by all results
		o.blame(reason, now)
	}
}

// blame counts lost keys against the host, once for each sub-query: one event loses many. If those
// that were lost first say nothing of the host, later ones may. The mutex of the host is held.
func (o *outstanding) blame(reason Reason, now int64) {
	if o.blamed || !o.ejects(reason) && !o.host.is(Ejected) {
		return
	}
	o.blamed = true
	o.host.onFailure(o, reason, now)
}

// settle records that nothing of the sub-query is outstanding any more. It may be called
// more than once, and before or after end.
func (o *outstanding) settle() {
	h, now := o.host, o.host.executor.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if o.settled {
		return
	}
	o.settled, o.settledAt = true, now
	if !o.lost { // a lost one is no sign of life
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

// lose records that the host will not answer. The time until then is not measured as a
// latency.
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

// measure records the latency of a sub-query that was answered at a moment. Attempts that
// lost are measured when their host answers: otherwise the percentiles would only see the
// fast. The mutex is held.
func (h *host) measure(o *outstanding, at int64) {
	took := time.Duration(at - o.sentAt)
	observe(h.metrics.durations[o.kind], took, o.traceID)
	if o.kind == KindFirst || o.kind == KindReread {
		o.latencies.Observe(o.keys, took)
	}
	h.learn(o, took, at)
	if int64(took) <= o.within {
		h.overtake(o, at)
	}
}

// overtake removes from the list the overdue sub-queries that enough later ones, answered
// in time, have overtaken. Either the host waits for another one there, as a coordinator
// does whose snitch chose a frozen replica, or it has lost them with a connection; it is
// itself healthy. A limping host answers the later ones late as well. The mutex is held.
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

// unlist removes a sub-query from the list, and foresees the rest anew. The mutex is held.
func (h *host) unlist(o *outstanding) {
	if !o.listed {
		return
	}
	h.unlink(o)
	if o.overdueAt() <= h.nextOverdueAt.Load() {
		h.foresee()
	}
}

// unlink removes a listed sub-query from the list. The mutex is held.
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

// writeOff removes from the list what was sent before a moment: a later answer has come, so
// these are lost and say nothing about the host any more. They remain outstanding until
// they are settled. The mutex is held.
func (h *host) writeOff(before int64) {
	for h.oldest != nil && h.oldest.sentAt < before {
		h.unlink(h.oldest)
	}
	h.foresee()
}
