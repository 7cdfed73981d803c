package executor

import (
	"time"
)

// flight is a sub-query from the moment it is sent until its host has settled
// it, which may be long after its lookup has ended. It holds nothing of the
// lookup, so that an abandoned one costs little memory.
type flight struct {
	host  *host
	view  *view
	table *TableState
	kind  string
	keys  int
	// sent is when it left; allowance is how long its answer may take before the
	// host is suspect.
	sent      int64
	allowance int64
	// traceID is of the lookup, for an exemplar; usually empty.
	traceID string

	// The rest is behind the mutex of the host.
	prev, next *flight
	listed     bool
	// overtaken is how many later ones were answered in time once this was late.
	overtaken int
	landing   landing
	settledAt int64
	settled   bool
	// counted is how many of hedgeDelays it has been counted for.
	counted int
}

// landing is how a flight came back.
type landing uint8

const (
	inAir landing = iota
	answered
	failed
	// abandoned: its reader gave up waiting, for the lookup has no more use for
	// the answer. The host still owes it.
	abandoned
)

// launch counts a sub-query as in flight.
func (h *host) launch(f *flight) {
	h.keys.Add(int64(f.keys))
	h.subQueries.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	f.listed = true
	f.prev = h.newest
	if f.prev == nil {
		h.oldest = f
	} else {
		f.prev.next = f
	}
	h.newest = f
	h.foresee()
}

// foresee sets when what the host owes will be late. The mutex is held.
func (h *host) foresee() {
	late, nextLate := int64(unset), int64(unset)
	if f := h.oldest; f != nil {
		late = f.sent + f.allowance
		if f.next != nil {
			nextLate = f.next.sent + f.next.allowance
		}
	}
	h.lateAt.Store(late)
	h.nextLateAt.Store(nextLate)
}

// land records how the reader came back.
func (f *flight) land(how landing, reason Reason) {
	h, now := f.host, f.host.executor.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	f.landing = how
	at := now
	if f.settled {
		at = f.settledAt
	}
	h.executor.metrics.opportunities.count(f, at)
	switch how {
	case answered:
		h.unlist(f)
		h.measure(f, at)
		h.onAnswer(f, time.Duration(at-f.sent), now)
	case failed:
		h.unlist(f)
		h.onFailure(f, reason, now)
	case abandoned:
		if f.settled {
			h.measure(f, f.settledAt)
		}
		h.onAbandon(f, now)
	case inAir:
	}
	h.onProgress(now)
}

// settle records that the host owes nothing more for the flight. It may be
// called more than once, and before or after land.
func (f *flight) settle() {
	h, now := f.host, f.host.executor.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if f.settled {
		return
	}
	f.settled, f.settledAt = true, now
	h.settledAt.Store(now)
	h.keys.Add(-int64(f.keys))
	h.subQueries.Add(-1)
	h.unlist(f)
	if f.landing == abandoned {
		h.executor.metrics.opportunities.count(f, now)
		h.measure(f, now)
	}
	h.onProgress(now)
}

// measure takes the latency of a flight that came back at a moment. Losers are
// measured when their host answers: without them the percentiles would only see
// the fast. The mutex is held.
func (h *host) measure(f *flight, at int64) {
	took := time.Duration(at - f.sent)
	observe(h.metrics.duration(f.kind), took, f.traceID)
	if f.kind == KindFirst {
		f.table.latencies.Observe(f.keys, took)
	}
	h.learn(f, took, at)
	if int64(took) <= f.allowance {
		h.overtake(f, at)
	}
}

// mostOvertaken is how many answers must overtake a late one until it says nothing
// of its host any more, as many as there are duplicate acknowledgements until a TCP
// segment is taken for lost (RFC 5681).
const mostOvertaken = 3

// overtake writes off what is late and was overtaken by answers that came in time:
// the host waits for somebody else there (as a coordinator does whose snitch chose
// a frozen replica), or has lost it with a connection, and is itself well. The
// answers of a host that limps are late themselves. The mutex is held.
func (h *host) overtake(by *flight, now int64) {
	if h.executor.without.overtaking {
		return
	}
	for f := h.oldest; f != nil && f.sent < by.sent && f.sent+f.allowance <= now; {
		next := f.next
		if f.overtaken++; f.overtaken >= mostOvertaken {
			h.unlist(f)
		}
		f = next
	}
}

// unlist takes a flight out of those the host owes an answer. The mutex is held.
func (h *host) unlist(f *flight) {
	if !f.listed {
		return
	}
	f.listed = false
	if f.prev == nil {
		h.oldest = f.next
	} else {
		f.prev.next = f.next
	}
	if f.next == nil {
		h.newest = f.prev
	} else {
		f.next.prev = f.prev
	}
	f.prev, f.next = nil, nil
	h.foresee()
}

// writeOff gives up on the answers that are owed since before a moment: a later
// one has come, so these are lost and say nothing of the host any more. They
// remain in flight until they are settled. The mutex is held.
func (h *host) writeOff(before int64) {
	for h.oldest != nil && h.oldest.sent < before {
		h.unlist(h.oldest)
	}
}
