package admission

import (
	"cmp"
	"time"
)

// How the keys in-flight are held to what the hosts keep up with. DESIGN.md has what was
// measured.
const (
	// checkEvery is the time between two looks at the evidence, a fifth of the shortest target
	// that is usual, and sampleTime that between two decisions: what the last one did must show.
	checkEvery, sampleTime = 25 * time.Millisecond, 100 * time.Millisecond
	// patience is how long a lowered limit waits for enough lookups to be changed by, and how
	// long nothing is refused until it is lifted.
	patience = time.Second
	// growth is how many times as many keys the late lookups must have found in-flight as those
	// in time, for the load to be why they are late.
	growth = 1.5
	// margin is the part of their time that the slowest lookups of the SLO take while lookups
	// are refused: at 0.7, 0.10 % of the interactive ones beside a crowd on slow hosts were late,
	// at 0.6 0.01 %. loneMargin is that while one rank asks, who has nobody to leave room to: at
	// 0.6 a third of the possible was in time where lookups vary by 25 ms, at 0.7 all but 10 %, at
	// 0.8 all but 4 %; but there 10 % of what was let in were late in make chaos.
	margin, loneMargin = 0.6, 0.7
	// rankRoom is how many limits of room more a rank has for each lower one that asks: with two,
	// 0.12 % of the interactive lookups were refused on noisy hosts, with three none.
	rankRoom = 3
	// trialTime is how long the share that is late may stay above half of what it was before
	// the limit was lowered. A limit that has been of use outlives a stall of all hosts.
	trialTime = 2 * time.Second
	// probeStep is how many times a limit is raised at once: with 4, closed loops had 0.967 of what
	// is in time without a limit, even if in the first step alone; without steps ten times the load
	// had 95 % in time, not 99.
	probeStep = 8
	// longestHold bounds how long a limit stands until it is raised to see whether it is of use
	// yet, and how long one that was of none is not lowered again.
	longestHold = 5 * time.Minute
)

// load is the keys in-flight, and the limit of them.
type load struct {
	least, most float64
	// limit is most unless it is lowered; former is what it was before a probe, 0 without one.
	limit, former float64
	// lowered is since when, and zero while it is not; before is the share of lookups that were
	// late then, and helped when it was last seen halved, if it is useful, or as lowered.
	lowered, helped time.Time
	before          float64
	useful          bool
	// changed is when the limit was last lowered at once: what began before says nothing about it.
	changed time.Time
	// refused is when a lookup last found no room, and turned how many did since the last sample.
	refused time.Time
	turned  int
	// demand is the most lookups a second that were asked for while the limit stood, since it was
	// lowered or was of use to a probe.
	demand float64
	// hold is how long the limit stands where ranks need it not: 10 s, doubled each time that it
	// is lowered again before nothing is refused. After it did not help, until is when that may be.
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
	// recent are the lookups of the last seconds.
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

// note takes a lookup that has ended, or is overdue, as evidence. Each counts once.
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
	for p := range l.open { // stalled hosts end nothing that could tell of it
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
	case (s.lookups >= enough || l.former != 0 && s.lookups >= few) && age >= sampleTime:
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

// probe raises the limit with each sample, to see whether it is of use yet. When most lookups are
// late again it is, and stands twice as long as before; when nothing is refused any more, it ends.
// A few lookups are a sample, as most of them are late or not.
// To lift it at once would let in all that comes until that is late.
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

// steer moves the limit to where the slowest lookups of the SLO are at the margin: by Little's
// law latency goes by what is in-flight as long as the hosts are busy.
func (l *load) steer(s *sample, now time.Time) {
	goal := margin
	if l.lone(now) {
		goal = loneMargin
	}
	switch by := goal / max(s.slowest(), goal/2); {
	case s.collapsed():
		l.set(l.limit/2, now)
	case by > 1 || s.allowed >= 1 || s.exceeds():
		l.limit = l.within(l.limit * by)
	}
}

// lone reports whether one rank alone has asked of late.
func (l *load) lone(now time.Time) bool {
	n := 0
	for _, at := range l.asked {
		if now.Sub(at) < usageMemory {
			n++
		}
	}
	return n == 1
}

// outranked reports whether a higher priority than that of p has asked of late.
func (l *load) outranked(p *Permit) bool {
	for _, at := range l.asked[:2*p.class] {
		if p.began.Sub(at) < usageMemory {
			return true
		}
	}
	return false
}

// set lowers the limit at once.
func (l *load) set(limit float64, now time.Time) {
	l.limit, l.changed = l.within(limit), now
}

func (l *load) lift() {
	l.limit, l.former, l.lowered, l.changed = l.most, 0, time.Time{}, time.Time{}
}

// fits reports whether a lookup of a rank may start. It does while those in-flight of its rank
// and above leave room, whatever its size, so that large ones are not starved. Lower ones do
// not count, as they were let in while there was room, and give way: what waits at hosts that
// pause takes their place. Two may start whatever the limit, as one alone leaves hosts idle.
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
