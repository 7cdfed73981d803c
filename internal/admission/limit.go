package admission

import (
	"cmp"
	"time"
)

// Constants of the limit of keys in-flight. DESIGN.md has the measurements.
const (
	// checkEvery is the time between two checks of the evidence, a fifth of the shortest usual
	// target. sampleTime is that between two decisions, so that the last one shows its effect.
	checkEvery, sampleTime = 25 * time.Millisecond, 100 * time.Millisecond
	// patience is how long a lowered limit waits for enough lookups before it decides by fewer,
	// and how long nothing must have been refused before it is lifted.
	patience = time.Second
	// growth is how many times as many keys in-flight the late lookups must have found as those
	// in time, for load to be the reason.
	growth = 1.5
	// margin is the part of their time that lookups at the percentile of the SLO are to take
	// while lookups are refused: at 0.7, 0.10 % of the interactive ones beside a crowd on slow
	// hosts were late, at 0.6 0.01 %. loneMargin is that while only one rank asks, which has
	// nobody to leave headroom to: where lookups vary by 25 ms, a third of the possible ones
	// were in time at 0.6, all but 10 % at 0.7, and all but 4 % at 0.8; but at 0.8 10 % of the
	// admitted were late in make chaos.
	margin, loneMargin = 0.6, 0.7
	// rankRoom is how many more limits of headroom a rank has for each lower one that asks:
	// with two, 0.12 % of the interactive lookups were refused on noisy hosts, with three none.
	rankRoom = 3
	// trialTime is how long the share of late lookups may stay above half of what it was before
	// the limit was lowered, until the limit is lifted. One that has helped before outlives a
	// stall of all hosts.
	trialTime = 2 * time.Second
	// probeStep is the factor by which a probe raises a limit at a time. With 4, even in the
	// first step alone, closed loops had 0.967 of what is in time without a limit; without
	// steps, 95 % were in time under ten times the load, not 99.
	probeStep = 8
	// longestHold bounds how long a limit stands until a probe raises it to see whether it
	// still helps, and how long one that did not is not lowered again.
	longestHold = 5 * time.Minute
)

// load is the keys in-flight and their limit.
type load struct {
	least, most float64
	// limit is most unless it is lowered; former is what it was before a probe, 0 without one.
	limit, former float64
	// halved is what the limit was before it was halved, and restored the halved one from when it
	// was set back to that until lookups are in time; 0 otherwise.
	halved, restored float64
	// lowered is when the limit was lowered, zero while it is not, and before the share of
	// lookups that were late then. helped is when the limit last showed that it helps, or else
	// when it was lowered; useful is set once that share was seen halved.
	lowered, helped time.Time
	before          float64
	useful          bool
	// changed is when the limit was last changed at once: earlier lookups say nothing about it.
	changed time.Time
	// refused is when a lookup was last refused for the limit, and turned how many were since
	// the last sample.
	refused time.Time
	turned  int
	// demand is the highest rate of lookups asked for, per second, since the limit was lowered
	// or a probe showed that it helps.
	demand float64
	// hold is how long the limit stands before a probe while one rank alone asks: 10 s, doubled
	// each time that it is lowered again before nothing was refused. until is when a limit that
	// did not help may be lowered again.
	hold  time.Duration
	until time.Time

	// open are the lookups in-flight, inflight their keys, and ranked these by rank.
	open     map[*Permit]struct{}
	inflight int
	ranked   [ranks]int
	// asked is when each rank last asked.
	asked [ranks]time.Time

	checked time.Time
	sample  sample
	// recent are the lookups of the last minute.
	recent seconds
}

func (l *load) bound(limits Limits) {
	l.least, l.most = float64(max(limits.MinConcurrency, 1)), float64(max(limits.MaxConcurrency, 1))
	if l.lowered.IsZero() {
		l.limit = l.most
	}
	l.limit = l.within(l.limit)
}

func (l *load) within(limit float64) float64 { return min(max(limit, l.least), l.most) }

func (l *load) enter(p *Permit) {
	p.found = l.inflight
	l.inflight += p.units
	l.ranked[p.rank] += p.units
	l.open[p] = struct{}{}
}

func (l *load) leave(p *Permit) {
	l.inflight -= p.units
	l.ranked[p.rank] -= p.units
	delete(l.open, p)
}

// note counts a lookup that has ended or is overdue as evidence, once.
func (l *load) note(p *Permit, late bool, now time.Time) {
	took := now.Sub(p.began)
	if p.budget == 0 || p.noted {
		return
	}
	p.noted = true
	late = late || took > p.budget
	l.recent.add(p, late, now)
	p.table.ladder.seconds.add(p, late, now)
	if !p.began.Before(l.changed) {
		l.sample.add(p, took, late)
	}
}

// check looks at the evidence, and changes the limit when there is enough of it.
func (l *load) check(now time.Time) {
	l.checked = now
	for p := range l.open { // while hosts stall, nothing ends that could show it
		if !p.waits && now.Sub(p.began) > p.budget {
			l.note(p, true, now)
		}
	}
	if !l.lowered.IsZero() && now.Sub(l.refused) >= patience {
		l.hold = 0
		l.lift()
	}
	s := &l.sample
	age := now.Sub(s.begin)
	switch lowered := !l.lowered.IsZero(); {
	case (s.lookups >= enough || (l.former != 0 || l.halved != 0) && s.lookups >= few) && age >= sampleTime:
	case s.collapsed() && (s.lookups >= enough || lowered && s.lookups >= few):
	case lowered && age >= patience, age >= shortWindow*time.Second:
	default:
		return
	}
	if s.lookups > 0 {
		l.decide(s, now)
	}
	l.sample, l.turned = sample{begin: now, ratios: s.ratios[:0]}, 0
}

// decide sets the limit by a sample.
func (l *load) decide(s *sample, now time.Time) {
	share, recent := s.share(), l.recent.sum(shortWindow, now)
	rate := float64(s.lookups+l.turned) / now.Sub(s.begin).Seconds()
	l.demand = max(l.demand, rate)
	switch {
	case l.lowered.IsZero():
		if s.lookups >= enough && s.collapsed() && now.After(l.until) && s.overloaded(&recent) {
			if now.Sub(l.until) > longestHold {
				l.hold = 0
			}
			l.lowered, l.helped, l.refused, l.before, l.useful = now, now, now, share, false
			l.demand = 0
			l.hold = min(max(2*l.hold, shortWindow*time.Second), longestHold)
			l.set(cmp.Or(recent.usual(), float64(l.inflight)/2), now)
		}
		return
	case (l.former != 0 || now.Sub(l.lowered) >= l.hold || rate < l.demand/2) && s.alone():
		if l.probe(s, now); l.former == 0 {
			l.demand = rate
		}
		return
	case 2*share <= l.before:
		l.helped, l.useful = now, true
	case now.Sub(l.helped) >= trialTime && (!l.useful || !s.stalled() || now.Sub(l.helped) >= l.hold):
		l.until = now.Add(min(2*l.hold, longestHold))
		l.lift()
		return
	}
	if l.refused.After(s.begin) {
		l.steer(s, now)
	}
}

// probe raises the limit with each sample, to see whether it still helps. If most lookups are
// late again, it does: it is restored, and stands twice as long as before. If nothing is
// refused any more, check lifts it. A few lookups are a sample, enough to show whether most are
// late. Lifting the limit at once would admit everything until lookups are late.
func (l *load) probe(s *sample, now time.Time) {
	if l.former == 0 {
		l.former = l.limit
	}
	if !s.collapsed() {
		l.limit = l.within(probeStep * l.limit)
		return
	}
	if l.helped = now; now.Sub(l.lowered) >= l.hold {
		l.lowered, l.hold = now, min(2*l.hold, longestHold)
	}
	l.set(l.former, now)
	l.former = 0
}

// steer moves the limit to where lookups at the percentile of the SLO take the margin of their
// time. By Little's law latency is proportional to what is in-flight as long as the hosts are
// busy. When most lookups are late the limit is halved, and restored as soon as others are in time:
// it was a pause, as for the garbage collection of a node. If most are late then, it was not.
func (l *load) steer(s *sample, now time.Time) {
	goal := margin
	if l.lone(now) {
		goal = loneMargin
	}
	by := goal / max(s.slowest(), goal/2)
	switch {
	case s.collapsed() && l.restored != 0: // it was not a pause
		l.set(l.restored, now)
		l.halved, l.restored = 0, 0
	case s.collapsed():
		l.halved = max(l.halved, l.limit)
		l.set(l.limit/2, now)
	case l.halved != 0 && by > 1:
		l.restored = l.limit
		l.set(l.halved, now)
		l.halved = 0
	case l.halved != 0 && s.exceeds() && now.Sub(l.changed) < patience: // of the pause
	default:
		l.halved, l.restored = 0, 0
		if by > 1 || s.allowed >= 1 || s.exceeds() {
			l.limit = l.within(l.limit * by)
		}
	}
}

// lone reports whether only one rank has asked recently.
func (l *load) lone(now time.Time) bool {
	n := 0
	for _, at := range l.asked {
		if now.Sub(at) < usageMemory {
			n++
		}
	}
	return n == 1
}

// outranked reports whether a higher priority than that of p has asked recently.
func (l *load) outranked(p *Permit) bool {
	for _, at := range l.asked[:2*p.class] {
		if p.began.Sub(at) < usageMemory {
			return true
		}
	}
	return false
}

// set changes the limit at once.
func (l *load) set(limit float64, now time.Time) {
	l.limit, l.changed = l.within(limit), now
}

func (l *load) lift() {
	l.limit, l.former, l.lowered, l.changed = l.most, 0, time.Time{}, time.Time{}
	l.halved, l.restored = 0, 0
}

// fits reports whether a lookup of a rank may start. It may while those in-flight of its rank
// and above leave headroom, whatever its size, so that large ones are not starved. Lower ranks
// do not count: they were admitted while there was headroom, and soon end. Each that asks adds
// headroom instead, since lookups that wait at pausing hosts would fill the limit. Two may
// start whatever a lowered limit is, as one alone leaves hosts idle.
func (l *load) fits(rank int, now time.Time) bool {
	own := 0
	for _, keys := range l.ranked[:rank+1] {
		own += keys
	}
	l.asked[rank] = now
	room := l.limit
	for _, at := range l.asked[rank+1:] {
		if now.Sub(at) < usageMemory {
			room += rankRoom * l.limit
		}
	}
	if float64(own) < room && float64(l.inflight) < l.most || !l.lowered.IsZero() && len(l.open) < 2 {
		return true
	}
	l.refused = now
	l.turned++
	return false
}
