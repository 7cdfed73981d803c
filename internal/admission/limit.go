package admission

import "time"

// How the keys in-flight are held to what the hosts keep up with. A ratio is the time that
// a lookup took over the time it may take, its budget.
const (
	// checkEvery is the time between two looks at the evidence, a fifth of the shortest target
	// that is usual, and sampleTime that between two decisions: what the last one did must show.
	checkEvery, sampleTime = 25 * time.Millisecond, 100 * time.Millisecond
	// impatient is how long a limit that refuses lookups waits for enough of them until it
	// is raised all the same.
	impatient = time.Second
	// enough is how many lookups the limit is lowered for, or a deadline refused: with an SLO
	// of 95 %, two standard deviations are then 4.5 %.
	enough = 100
	// margin is where the slowest lookups of the SLO are kept while lookups are refused, and
	// sharedMargin where these are refused in favour of others, of which fewer may be late than
	// the SLO allows. DESIGN.md has what was measured of both.
	margin, sharedMargin = 0.8, 0.6
	// rankRoom is how many limits of room a rank has for each rank below it that asks, which
	// gives way: with one, 3.1 % of the interactive lookups beside a crowd were refused while
	// single hosts paused, with two 0.2 %, with three 0.01 %.
	rankRoom = 3
	// trialTime is how long a lowered limit is tried before it is judged: hosts work off what
	// they were sent before, and one that pauses for some tenths of a second decides nothing.
	trialTime = 2 * time.Second
	// longestHold bounds how long a limit that did harm is not lowered again: 10 s, doubled
	// each time that it did again, so that a table whose target cannot be met loses little.
	longestHold = 5 * time.Minute
)

// load is the keys in-flight, and the limit of them.
type load struct {
	least, most float64
	// limit is most unless it is lowered: then it was found from lookups that were late.
	limit   float64
	lowered bool

	// lookups and inflight, in keys, are in-flight.
	lookups, inflight int
	// ranked are the keys in-flight by rank of their lookup.
	ranked [ranks]int
	// oldest to newest are the lookups in-flight.
	oldest, newest *Permit
	// asking are the ranks that have asked of late, and heaviest the usage of the heaviest
	// client of each priority.
	asking   [ranks]bool
	heaviest [priorities]float64

	checked time.Time
	sample  sample
	// recent are the lookups of the last seconds.
	recent seconds
	// changed is when the limit was lowered while the lookups that began before are
	// in-flight; they say nothing about it. Zero when there are none.
	changed time.Time
	trial   trial
	// suspect is set when the last sample was late.
	suspect bool
	// until is when the limit may be lowered again after it did harm, and hold how long
	// that was.
	until time.Time
	hold  time.Duration
}

// trial is a limit that was lowered and has not helped yet.
type trial struct {
	// limit is what it was before; 0 when there is no trial.
	limit float64
	// before is what was answered until began, which is zero while that is not known.
	began  time.Time
	before tally
	// after is what was answered since.
	after tally
}

func (l *load) start(now time.Time) {
	l.sample.begin, l.sample.passed = now, now
}

func (l *load) bound(limits Limits) {
	l.least, l.most = float64(max(limits.MinConcurrency, 1)), float64(max(limits.MaxConcurrency, 1))
	if !l.lowered {
		l.limit = l.most
	}
	l.limit = l.within(l.limit)
}

func (l *load) within(limit float64) float64 { return min(max(limit, l.least), l.most) }

func (l *load) enter(p *Permit) {
	l.sample.pass(l.inflight, p.began)
	l.lookups++
	l.inflight += p.units
	l.ranked[p.rank] += p.units
	p.older = l.newest
	if l.newest == nil {
		l.oldest = p
	} else {
		l.newest.newer = p
	}
	l.newest = p
}

func (l *load) leave(p *Permit, o Outcome, now time.Time) {
	l.sample.pass(l.inflight, now)
	l.lookups--
	l.inflight -= p.units
	l.ranked[p.rank] -= p.units
	if p.older == nil {
		l.oldest = p.newer
	} else {
		p.older.newer = p.newer
	}
	if p.newer == nil {
		l.newest = p.older
	} else {
		p.newer.older = p.older
	}
	p.older, p.newer = nil, nil
	// A lookup that failed at once, or was abandoned, says nothing about how fast the hosts are.
	if p.budget > 0 && (o.Answered > 0 || o.Late > 0) && !p.abandoned(o, now) {
		l.note(p, now, o.Late == 0)
	}
}

// note takes a lookup that has ended, or is overdue, as evidence. Each counts once.
func (l *load) note(p *Permit, now time.Time, answered bool) {
	ratio := float64(now.Sub(p.began)) / float64(p.budget)
	inTime := answered && ratio <= 1
	l.sample.count(p.units, answered, inTime)
	if p.noted {
		return
	}
	p.noted = true
	slack := p.table.slo.slack()
	l.sample.add(p.rank, ratio, slack, inTime)
	l.recent.add(p.class, !inTime, slack, now)
}

// overdue takes the lookups in-flight that are late already: the more the hosts fall behind,
// the later do lookups end to tell of it.
func (l *load) overdue(now time.Time) {
	for p := l.oldest; p != nil; p = p.newer {
		if p.budget > 0 && !p.noted && now.Sub(p.began) > p.budget {
			l.note(p, now, false)
		}
	}
}

// check looks at the evidence, and changes the limit when there is enough of it.
func (l *load) check(now time.Time) {
	l.checked = now
	if l.lowered && l.lookups == 0 && now.Sub(l.sample.passed) >= impatient {
		// What the hosts were behind with they have worked off. Kept, the limit would refuse the
		// first of those that come now, and too few to tell otherwise.
		l.lowered, l.limit, l.trial, l.suspect = false, l.most, trial{}, false
		l.sample = sample{begin: now, passed: now}
	}
	l.overdue(now)
	if l.settling(now) {
		return
	}
	s := &l.sample
	age := now.Sub(s.begin)
	switch {
	case s.lookups >= enough && (age >= sampleTime || s.collapsed()):
	case s.refused && age >= impatient, age >= recentWindow*time.Second:
	default:
		return
	}
	s.pass(l.inflight, now)
	l.decide(now)
	l.sample = sample{begin: now, passed: now}
}

// settling reports whether lookups that began under a former limit are in-flight. They are
// waited for as long as one decision takes at most.
func (l *load) settling(now time.Time) bool {
	switch {
	case l.changed.IsZero():
		return false
	case l.oldest != nil && l.oldest.began.Before(l.changed) && now.Sub(l.changed) < impatient:
		return true
	}
	l.changed = time.Time{}
	l.sample = sample{begin: now, passed: now}
	return true
}

// decide sets the limit by a sample.
func (l *load) decide(now time.Time) {
	s := &l.sample
	recent := l.recent.sum(recentWindow, now)
	burns := exceeds(recent.late, recent.allowed)
	sound := s.lookups >= enough || l.lowered
	late := sound && exceeds(s.late, s.allowed)
	switch {
	case s.refused && l.trial.harms(s.tally(now), now):
		l.hold = min(max(2*l.hold, recentWindow*time.Second), longestHold)
		l.lowered, l.limit, l.until, l.trial = false, l.within(l.trial.limit), now.Add(l.hold), trial{}
	case late && burns:
		// What was answered while the hosts began to fall behind is no measure of what they
		// answer, so a limit is tried when two samples were late. When most lookups are late
		// there is no time for that.
		if now.After(l.until) && (l.suspect || s.collapsed()) {
			l.lower(now)
		}
	case s.refused:
		// Little's law: as long as the hosts are busy, latency goes by what is in-flight, and
		// that is more than the limit where lookups are large.
		if by := l.margin() / s.slowest(); by > 1 {
			l.limit = l.within(max(l.limit, s.mean(now)) * min(by, 2))
		} else if s.allowed >= 1 && l.lowered && now.After(l.until) {
			l.limit = l.within(l.limit * max(by, 0.5))
		}
	case !burns:
		l.lowered, l.limit, l.trial = false, l.most, trial{}
	}
	if sound {
		l.suspect = late && burns
	}
	if sound && !late { // it has helped, or nothing was wrong
		l.trial, l.hold = trial{}, 0
	}
}

// lower sets a limit below what was in-flight on average. How late the slowest lookups would
// have been is not known, as their callers do not wait: their number has to do.
func (l *load) lower(now time.Time) {
	s := &l.sample
	if l.trial.limit == 0 {
		l.trial.limit = l.limit
	}
	if l.suspect && l.trial.began.IsZero() {
		l.trial.began, l.trial.before = now, s.tally(now)
	}
	by := l.margin() * (1 - s.late/float64(s.lookups))
	if limit := l.within(min(s.mean(now), l.limit) * max(by, 0.5)); limit < l.limit {
		l.limit, l.lowered, l.changed = limit, true, now
	}
}

// harms takes what was answered under a limit that is tried, and reports whether it does harm:
// the share of the highest rank that is late is not even halved, and fewer lookups are answered in time than
// before, or fewer in all and no more in time. Then it is not for what is in-flight that they
// are late.
func (t *trial) harms(s tally, now time.Time) bool {
	if t.began.IsZero() {
		return false
	}
	t.after.add(s)
	if now.Sub(t.began) < trialTime {
		return false
	}
	b, a := &t.before, &t.after
	if before, since := lateShares(b, a); 2*since < before {
		return false
	}
	return b.exceeds(a, b.inTime, a.inTime) || b.exceeds(a, b.answered, a.answered) && !a.exceeds(b, a.inTime, b.inTime)
}

// margin is the ratio at which the slowest lookups of the SLO are kept.
func (l *load) margin() float64 {
	ranks := 0
	for _, asks := range l.asking {
		if asks {
			ranks++
		}
	}
	if ranks > 1 {
		return sharedMargin
	}
	return margin
}

// room is how many keys may be in-flight for a lookup of a rank to start. Each rank has a
// limit of its own above the ranks below it that ask: those were let in while there was
// room, and give way.
func (l *load) room(rank int) float64 {
	if !l.lowered {
		return l.limit
	}
	times := 1.0
	for _, asks := range l.asking[rank+1:] {
		if asks {
			times += rankRoom
		}
	}
	return min(times*l.limit, l.most)
}

// fits reports whether a lookup of a rank may start. It does while there is room, whatever
// its size, so that large ones are not starved; and two at a time whatever the limit that was
// found, as one alone leaves hosts idle.
func (l *load) fits(rank int) bool {
	if float64(l.inflight) < l.room(rank) || l.lowered && l.lookups < 2 {
		return true
	}
	l.sample.refused = true
	return false
}
