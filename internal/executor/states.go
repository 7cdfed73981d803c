package executor

import (
	"log/slog"
	"time"
)

// State is how a host is doing. Its value is that of the metric host_state.
type State int32

// The states of a host.
const (
	// Healthy is a host that is chosen by price alone.
	Healthy State = iota
	// SlowStart is a host that was ejected, and is chosen less at first.
	SlowStart
	// Probing is a host that was suspect or ejected, and has yet to show with
	// a few keys at a time that it is healthy.
	Probing
	// Suspect is a host of which an answer is overdue. It is asked only for
	// keys that have no other replica.
	Suspect
	// Ejected is a host that failed again and again. It is asked only for keys
	// that have no other replica.
	Ejected
)

var stateNames = [...]string{"healthy", "slow_start", "probing", "suspect", "ejected"}

// String returns the state in lower case, such as slow_start.
func (s State) String() string {
	if s < 0 || int(s) >= len(stateNames) {
		return "unknown"
	}
	return stateNames[s]
}

// What moves a host from one state to another:
//
//	from      to        when
//	healthy   suspect   a plan finds that answers of it are overdue          suspect
//	suspect   probing   nothing is overdue any more, or it answers a probe   onProgress, onAnswer
//	probing   healthy   enough was answered in time                          onAnswer
//	probing   suspect   answers are overdue again                            suspect
//	any       ejected   it has failed several times in a row                 onFailure
//	ejected   healthy   it answers a probe; slow start begins                onAnswer
//
// An ejected host that is being probed is shown as probing.

const (
	// strikeGap doubles with each strike, up to mostGap.
	strikeGap = 50 * time.Millisecond
	mostGap   = 2 * time.Second
	// mostGood is the most answers in time that are required.
	mostGood = 4
	// strikesMemory is how long a host must be healthy for its strikes to be forgotten.
	strikesMemory = 10 * time.Second
)

// state returns the state to report. Unlike current it is Suspect once answers are overdue,
// before a plan finds that, and it may be SlowStart. The mutex is held.
func (h *host) state(now int64) State {
	switch s := State(h.current.Load()); {
	case s == Ejected && h.probing.Load():
		return Probing
	case s != Healthy:
		return s
	case h.overdue(now):
		return Suspect
	case h.slowUntil.Load() > now:
		return SlowStart
	}
	return Healthy
}

// suspect marks a host as suspect if answers of it are overdue.
//
// A host that limps (does everything, twenty times slower) answers in the end, and would be
// trusted and hedged again many times a second. So each strike in a row costs more: one
// answer in time at once after the first, then 2 with a gap of 0.2 s, 3 with 0.4 s, 4 with
// 0.8, 1.6 and 2 s from then on.
func (h *host) suspect(now int64) {
	if h.is(Suspect, Ejected) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.is(Suspect, Ejected) || h.overdueAt.Load() > now {
		return
	}
	if h.is(Healthy) && now-h.history.clearedAt > int64(strikesMemory) {
		h.history.strikes = 0
	}
	h.history.strikes++
	h.probeAt.Store(now + int64(suspectGap))
	h.enter(Suspect, now, "answers are overdue; asking other replicas until they come",
		"oldest", time.Duration(now-h.oldest.sentAt), "strikes", h.history.strikes)
}

// onProgress moves a suspect of which nothing is overdue any more to probing. The
// mutex is held.
func (h *host) onProgress(now int64) {
	if h.is(Suspect) && h.overdueAt.Load() > now {
		h.beginProbing(now)
	}
}

func (h *host) beginProbing(now int64) {
	h.history.good = 0
	h.history.goodAt = now
	h.enter(Probing, now, "answers again; probing it")
	h.probeAt.Store(now)
	if h.history.strikes > 1 {
		h.history.goodAt += h.gap()
	}
}

func (h *host) gap() int64 {
	return int64(min(strikeGap<<min(h.history.strikes, 16), mostGap))
}

// onAnswer counts an answer as a sign of health. The mutex is held.
func (h *host) onAnswer(o *outstanding, took time.Duration, now int64) {
	h.history.failures = 0
	h.gone.Store(false)
	if h.is(Healthy) {
		if h.slowUntil.Load() <= now {
			h.history.backoff = 0
		}
		return
	}
	if h.is(Ejected) {
		if o.sentAt >= h.history.since {
			h.writeOff(o.sentAt)
			h.slowUntil.Store(now + int64(h.executor.limits.SlowStart))
			h.clear(now, "answers again; slow start")
		}
		return
	}
	if h.is(Suspect) && o.kind == KindProbe {
		h.writeOff(o.sentAt)
		h.beginProbing(now)
	} else if !h.is(Probing) || o.sentAt < h.history.since {
		return
	}
	if int64(took) > o.within {
		h.history.good = 0
		return
	}
	if o.sentAt < h.history.goodAt {
		return
	}
	h.history.good++
	h.history.goodAt = now + h.gap()
	if h.history.good >= min(h.history.strikes, mostGood) {
		h.clear(now, "healthy again")
	}
}

// clear makes the host healthy. The mutex is held.
func (h *host) clear(now int64, why string) {
	h.probeAt.Store(unset)
	h.history.clearedAt = now
	h.enter(Healthy, now, why)
}

// ejects reports whether a failure counts against the host. A query that the host refuses
// as invalid does not, nor does a single key that it cannot read.
func (o *outstanding) ejects(r Reason) bool {
	return !r.harmless() && (r != ReasonReadFailure || o.keys > 1)
}

// onFailure counts a failure, and ejects the host after several in a row. The mutex is
// held.
func (h *host) onFailure(o *outstanding, reason Reason, now int64) {
	if h.is(Ejected) {
		// Only probes count: keys without another replica are asked of it as often as
		// lookups come. To refuse a query is an answer.
		switch {
		case o.kind != KindProbe || o.sentAt < h.history.since:
		case !o.ejects(reason) && !o.lost:
			h.onAnswer(o, time.Duration(now-o.sentAt), now)
		default:
			h.backOff(now)
		}
		return
	}
	if !o.ejects(reason) {
		return
	}
	h.history.failures++
	if h.history.failures >= h.executor.limits.EjectAfter {
		h.eject(o.view, reason, now)
	}
}

// eject ejects the host, unless a third of the hosts of its datacenter are ejected already.
// If there is another datacenter, hosts that cannot be reached may exceed that limit. The
// mutex is held; those of other hosts are not needed.
func (h *host) eject(v *view, reason Reason, now int64) {
	h.executor.ejecting.Lock()
	defer h.executor.ejecting.Unlock()
	peers := v.peers(h)
	out := 0
	for _, i := range peers {
		if other := v.hosts[i]; other != h && other.is(Ejected) {
			out++
		}
	}
	if out >= third(peers) && (len(v.later) == 0 || !reason.Free()) {
		return
	}
	h.backOff(now)
	h.enter(Ejected, now, "fails again and again; ejected",
		"failures", h.history.failures, "reason", string(reason), "for", h.history.backoff)
}

// onAbandon counts an unanswered probe of an ejected host as a failure. The mutex is held.
func (h *host) onAbandon(o *outstanding, now int64) {
	if o.kind == KindProbe && h.is(Ejected) && !o.settled {
		h.backOff(now)
	}
}

// backOff doubles the backoff and sets when the host is probed next. The mutex is held.
func (h *host) backOff(now int64) {
	l := h.executor.limits
	h.history.backoff = min(max(2*h.history.backoff, l.EjectMin), l.EjectMax)
	h.probeAt.Store(now + int64(h.history.backoff))
}

// enter changes the state, and counts and logs the change. The mutex is held.
func (h *host) enter(s State, now int64, why string, attrs ...any) {
	was := State(h.current.Swap(int32(s)))
	h.history.since = now
	if s == Healthy {
		h.lost.Store(false)
	}
	if was == s {
		return
	}
	h.metrics.states[s].Inc()
	// A limping host becomes suspect many times a minute: only one change in ten seconds is
	// logged at level info, and every ejection.
	level := slog.LevelInfo
	if s != Ejected && was != Ejected {
		if now-h.history.loggedAt < int64(10*time.Second) {
			level = slog.LevelDebug
		} else {
			h.history.loggedAt = now
		}
	}
	h.executor.logger.Log(h.executor.ctx, level, "host changed state",
		append([]any{"event", why, "host", h.Addr, "state", s.String(), "was", was.String()}, attrs...)...)
}
