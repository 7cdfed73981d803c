package executor

import (
	"time"
)

// A host in trouble is asked for a few keys at a time, beside the lookups, until it
// is well. How many at most, and the gaps between these probes:.
const (
	// mostProbeKeys is a third of the 50 keys of a usual lookup.
	mostProbeKeys = 16
	// coldRelative times the usual latency of so many keys, and a host that is probed
	// is warmed up.
	coldRelative = 3
	// probeTimeout is how long a probe waits, and suspectGap how long after it
	// the next one is sent while the host owes older answers. Together they are
	// how long it takes at most to see that a host answers again which has lost
	// what it owed.
	probeTimeout = 400 * time.Millisecond
	suspectGap   = 400 * time.Millisecond
	// strikeGap doubles with each strike, up to mostGap.
	strikeGap = 50 * time.Millisecond
	mostGap   = 2 * time.Second
	// mostGood is how many answers in time are asked for at most.
	mostGood = 4
	// strikesMemory is how long a host must have been well to begin anew.
	strikesMemory = 10 * time.Second
)

// suspect marks a host that owes an answer for too long.
//
// A host that limps (does everything, twenty times slower) answers in the end,
// and would be trusted and hedged again many times a second. So each time in a
// row costs more: one answer in time at once after the first strike, then 2 with
// a gap of 0.2 s, 3 with 0.4 s, 4 with 0.8, 1.6 and from then on 2 s.
func (h *host) suspect(now int64) {
	if h.is(stateSuspect, stateEjected) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.is(stateSuspect, stateEjected) || h.lateAt.Load() > now {
		return
	}
	if h.is(stateHealthy) && now-h.trouble.clearedAt > int64(strikesMemory) {
		h.trouble.strikes = 0
	}
	h.trouble.strikes++
	h.probeAt.Store(now + int64(suspectGap))
	h.enter(stateSuspect, now, "owes answers for too long; asking others while it is",
		"oldest", time.Duration(now-h.oldest.sent), "strikes", h.trouble.strikes)
}

// onProgress moves a suspect that owes nothing old any more to probing. The
// mutex is held.
func (h *host) onProgress(now int64) {
	if h.is(stateSuspect) && h.lateAt.Load() > now {
		h.beginProbing(now)
	}
}

func (h *host) beginProbing(now int64) {
	h.trouble.good = 0
	h.trouble.goodAt = now
	h.enter(stateProbing, now, "answers again; probing it")
	h.probeAt.Store(now)
	if h.trouble.strikes > 1 {
		h.trouble.goodAt += h.gap()
		if h.executor.without.warming {
			h.probeAt.Store(h.trouble.goodAt)
		}
	}
}

func (h *host) gap() int64 {
	return int64(min(strikeGap<<min(h.trouble.strikes, 16), mostGap))
}

// onAnswer takes an answer as a sign of health. The mutex is held.
func (h *host) onAnswer(f *flight, took time.Duration, now int64) {
	h.trouble.failures = 0
	h.gone.Store(false)
	if h.is(stateHealthy) {
		if h.slowUntil.Load() <= now {
			h.trouble.backoff = 0
		}
		return
	}
	if h.is(stateEjected) {
		if f.sent >= h.trouble.since {
			h.writeOff(f.sent)
			h.slowUntil.Store(now + int64(h.executor.limits.SlowStart))
			h.clear(now, "answers again; slow start")
		}
		return
	}
	if h.is(stateSuspect) && f.kind == KindProbe {
		h.writeOff(f.sent)
		h.beginProbing(now)
	} else if !h.is(stateProbing) || f.sent < h.trouble.since {
		return
	}
	if int64(took) > f.allowance {
		h.trouble.good = 0
		return
	}
	if f.sent < h.trouble.goodAt {
		return
	}
	h.trouble.good++
	h.trouble.goodAt = now + h.gap()
	if h.trouble.good >= min(h.trouble.strikes, mostGood) {
		h.clear(now, "is well again")
	}
}

// clear makes the host healthy. The mutex is held.
func (h *host) clear(now int64, why string) {
	h.probeAt.Store(unset)
	h.trouble.clearedAt = now
	h.enter(stateHealthy, now, why)
}

// ejects reports whether a failure speaks against the host. A query that the
// host refuses as invalid does not, nor does a single key it cannot read.
func (f *flight) ejects(r Reason) bool {
	switch r {
	case ReasonInvalid:
		return false
	case ReasonReadFailure:
		return f.keys > 1
	case ReasonUnreachable, ReasonDisconnected, ReasonUnavailable, ReasonTimeout, ReasonOverloaded, ReasonOther, reasonFull:
	}
	return true
}

// onFailure takes a failure as a sign of illness. The mutex is held.
func (h *host) onFailure(f *flight, reason Reason, now int64) {
	h.gone.Store(reason.free())
	if h.executor.without.ejection {
		return
	}
	if h.is(stateEjected) {
		if f.sent >= h.trouble.since {
			h.backOff(now)
		}
		return
	}
	if !f.ejects(reason) {
		return
	}
	h.trouble.failures++
	if h.trouble.failures >= h.executor.limits.EjectAfter {
		h.eject(f.view, reason, now)
	}
}

// eject takes the host out, unless a third of the hosts are out already. The
// mutex is held; those of other hosts are not needed.
func (h *host) eject(v *view, reason Reason, now int64) {
	h.executor.ejecting.Lock()
	defer h.executor.ejecting.Unlock()
	out := 0
	for _, i := range v.data {
		if other := v.hosts[i]; other != h && other.is(stateEjected) {
			out++
		}
	}
	if out >= v.third() {
		return
	}
	h.backOff(now)
	h.enter(stateEjected, now, "fails again and again; ejected",
		"failures", h.trouble.failures, "reason", string(reason), "for", h.trouble.backoff)
}

// onAbandon takes a probe of an ejected host that went unanswered as a failure.
// The mutex is held.
func (h *host) onAbandon(f *flight, now int64) {
	if f.kind == KindProbe && h.is(stateEjected) && !f.settled {
		h.backOff(now)
	}
}

// backOff sets when the host is probed next. The mutex is held.
func (h *host) backOff(now int64) {
	l := h.executor.limits
	h.trouble.backoff = min(max(2*h.trouble.backoff, l.EjectMin), l.EjectMax)
	h.probeAt.Store(now + int64(h.trouble.backoff))
}
