package admission

import (
	"slices"
	"time"
)

// How the keys under way are held to what the hosts keep up with. Ratios are
// durations of lookups relative to the time they ought to take; see budget.
const (
	// setpoint is the ratio at which the hosts are kept, to begin with, when there is
	// more to do than they can: far enough from nothing that no host runs idle, and
	// from 1 that the slowest lookups still end in time. Where that is a few lookups it
	// rises up to highest, as long as these have time to spare.
	setpoint, highest = 0.44, 0.6
	// fewLookups is how many under way on average may leave hosts idle now and then, and
	// manyLookups how many do not.
	fewLookups, manyLookups = 8, 16
	// nearly is the ratio from which on a lookup was nearly late, and seldomLate the
	// share of them that is sought.
	nearly, seldomLate = 0.9, 0.005
	// climb is how fast the setpoint rises while no lookup is nearly late: from one end
	// to the other in 1,000 lookups. One that is costs what 1/seldomLate have gained.
	climb = (highest - setpoint) / 1000
	// tooSlow is the ratio from which on the keys under way are too many.
	tooSlow = 0.65
	// bursty is the share of the room for the keys under way below which, on average,
	// lookups that find it full are a burst: in overload it always is.
	bursty = 0.75
	// quantile of the ratios of an interval is the one that decides.
	quantile = 0.75
	// interval is the time between decisions, which waits up to slowInterval for
	// enoughRatios.
	interval     = 100 * time.Millisecond
	slowInterval = time.Second
	enoughRatios = 20
	// longestPause is how long lookups must be too slow, while little is under way,
	// until that is taken for overload and not for a pause.
	longestPause = time.Second
	// mostRatios bounds what is kept of one interval.
	mostRatios = 4096
	// steepest is how much one decision may lower the limit, and fastest how much
	// it may raise it.
	steepest, fastest = 0.5, 1.25
	// resting is the limit, in keys, while nothing is known: 90 ms of work for
	// three small hosts. headroom is how many times the limit that the hosts have
	// shown to keep up with it rests at on a larger cluster.
	resting  = 1856
	headroom = 1.5
	// shownMemory is what is kept of that limit from one decision to the next; half
	// of it is gone in about a minute.
	shownMemory = 0.999
)

// rooms are the shares of the limit up to which the lookups of each priority may
// start, relative to that of the highest who asks; spare is what the heaviest clients
// of a priority leave of theirs to the others, if there are any. Both hold while the
// limit is contended: from when it was reached or lowered until neither has happened
// for so long. Before, all of it is for all.
var rooms = [priorities]float64{1, 0.8, 0.6}

const (
	contended = 10 * time.Second
	spare     = 0.15
	// light is the usage, relative to that of the heaviest client of the same
	// priority, below which a client may take what is spared.
	light = 0.7
	// overdraft is how many times its room may be full of lookups that rank below: what
	// was let in first leaves in a moment, and keeps nobody out who ranks above it. A
	// burst of what usually needs less than seldom of its room may be as large, if
	// something ranks below that gives way.
	overdraft = 2
	seldom    = 0.9
	// lastingMemory is how long the limit must be lower until that, too, is less for
	// those who have something below them: hosts that pause for a moment lower it to a
	// half and less, and what ranks below is refused at once.
	lastingMemory = 2 * time.Second
)

// retries are when to ask again after an overload, by priority.
var retries = [priorities]time.Duration{100 * time.Millisecond, 250 * time.Millisecond, time.Second}

// load is what is under way, and the limit of it.
type load struct {
	least, most float64
	limit       float64
	// lasting is the limit on average over the last lastingMemory.
	lasting float64
	// target is the setpoint that was found.
	target float64
	// lookups and inflight, in keys, are under way; ranked is the latter by the rank of
	// the lookups.
	lookups  int
	inflight int
	ranked   [ranks]int
	// usual is how much was under way on average, of each rank and above, in the last
	// interval.
	usual [ranks]float64
	// oldest to newest are the lookups under way.
	oldest, newest *Permit
	// heaviest is the usage of the heaviest client of each priority, and others whether
	// there are light ones besides; top is the highest priority of those who ask.
	heaviest [priorities]float64
	others   [priorities]bool
	top      int
	// shown is the highest limit that the answers of late would have allowed,
	// fading.
	shown float64
	// lowered is when the limit was lowered last: the duration of a lookup that
	// started before does not tell of the present limit.
	lowered time.Time
	// contended is until when the limit is contended.
	contended time.Time

	// slow is since when every interval was too slow; zero if the last was not.
	slow   time.Time
	sample sample
	doubt  doubt
}

// sample is what an interval has shown so far.
type sample struct {
	begin, last time.Time
	// areas are the sums over time of what is under way, by rank, in key seconds, and
	// lookups that of the lookups, in seconds.
	areas   [ranks]float64
	lookups float64
	// ratios are of lookups that ended or are overdue; late of them are without
	// all answers.
	ratios   []float64
	late     int
	longest  time.Duration
	answered int
	refused  bool
	// room is what there was for the keys under way when a lookup was refused, the
	// least of all that were.
	room float64
}

func (l *load) start(now time.Time) {
	l.limit, l.lasting, l.target = resting, resting, setpoint
	l.top = priorities - 1 // nobody has asked
	l.sample = sample{begin: now, last: now}
	l.doubt.stretch = 1
}

func (l *load) bound(limits Limits) {
	l.least, l.most = float64(max(limits.MinConcurrency, 1)), float64(max(limits.MaxConcurrency, 1))
	l.limit = l.within(l.limit)
}

func (l *load) within(limit float64) float64 { return min(max(limit, l.least), l.most) }

// rest is the limit while nothing speaks for a lower one.
func (l *load) rest() float64 { return l.within(max(resting, headroom*l.shown)) }

// pass accounts for the time since the last change of inflight.
func (l *load) pass(now time.Time) {
	passed := now.Sub(l.sample.last).Seconds()
	for rank, keys := range l.ranked {
		l.sample.areas[rank] += float64(keys) * passed
	}
	l.sample.lookups += float64(l.lookups) * passed
	l.sample.last = now
}

func (l *load) enter(p *Permit) {
	l.pass(p.began)
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

func (l *load) leave(p *Permit, o Outcome, took time.Duration, now time.Time) {
	l.pass(now)
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
	l.sample.answered += o.Answered * p.units / p.ask.Keys
	// A lookup that failed at once, or whose caller hung up, says nothing about
	// how fast the hosts are.
	if p.budget > 0 && (o.Answered > 0 || o.Late > 0) {
		l.note(p, took, o.Late > 0)
	}
}

// note adds the ratio of a lookup.
func (l *load) note(p *Permit, took time.Duration, late bool) {
	if p.began.Before(l.lowered) || len(l.sample.ratios) == mostRatios {
		return
	}
	l.sample.ratios = append(l.sample.ratios, float64(took)/float64(p.budget))
	l.sample.longest = max(l.sample.longest, took)
	if late {
		l.sample.late++
	}
}

func (l *load) due(now time.Time) bool {
	age := now.Sub(l.sample.begin)
	return age >= slowInterval || age >= interval && len(l.sample.ratios) >= enoughRatios
}

// adjust ends an interval with a decision.
//
// In overload the time that a lookup takes is proportional to what is under way
// (Little's law), so that the limit at which lookups take the setpoint follows
// from one interval. Below it nothing is known about the limit but that it is
// higher: there it rises until it rests far above what is under way.
func (l *load) adjust(now time.Time, without safeguards) {
	l.pass(now)
	if !without.overdue {
		l.overdue(now)
	}
	s := &l.sample
	seconds := now.Sub(s.begin).Seconds()
	l.lasting += (l.limit - l.lasting) * min(seconds/lastingMemory.Seconds(), 1)
	mean, rate := 0.0, float64(s.answered)/seconds
	for rank, area := range s.areas {
		mean += area / seconds
		l.usual[rank] = mean
	}
	ratio := s.ratio()
	wait := !without.doubt && l.doubt.weigh(l, ratio, mean, rate, now)
	allowed := l.doubt.stretch
	if s.refused && !without.seek {
		l.seek(s.lookups / seconds)
	}
	fits := mean * l.target * allowed / max(ratio, 0.01)
	l.shown *= shownMemory
	if ratio > 0 && ratio <= tooSlow*allowed { // beyond, keys that time out would count as done
		l.shown = max(l.shown, fits)
	}
	switch {
	case wait, len(s.ratios) == 0 && s.refused:
		// Nothing has ended that tells of this limit.
	case ratio > tooSlow*allowed && !without.pauses && l.pause(mean, now):
		// Wait for more to tell a pause from overload.
	case ratio > tooSlow*allowed:
		l.doubt.remember(mean, rate)
		l.lower(max(min(fits, l.limit), mean*steepest), now)
	case s.refused && !without.bursts && mean < bursty*s.room:
		l.limit = min(l.limit*fastest, l.rest())
	case s.refused && fits < l.limit:
		l.limit = l.within(max(fits, l.limit*0.9))
	case s.refused:
		l.limit = l.within(min(fits, l.limit*fastest))
	case l.limit < l.rest():
		l.limit = min(l.limit*fastest, l.rest())
	default:
		l.limit = max(l.rest(), l.limit*0.99)
	}
	if ratio <= tooSlow*allowed {
		l.slow = time.Time{}
	}
	l.sample = sample{begin: now, last: now, ratios: s.ratios[:0]}
}

// seek moves the setpoint to where lookups are seldom nearly late, while so many are
// under way on average: how far the slowest are from the usual ones depends on hosts and
// lookups, and with few of them hosts run idle at the first setpoint. It is a
// stochastic approximation of a quantile (Robbins and Monro, 1951).
func (l *load) seek(lookups float64) {
	for _, ratio := range l.sample.ratios {
		if ratio < nearly {
			l.target += climb
		} else {
			l.target -= climb * (1/seldomLate - 1)
		}
	}
	idle := min(max((manyLookups-lookups)/(manyLookups-fewLookups), 0), 1)
	l.target = min(max(l.target, setpoint), setpoint+idle*(highest-setpoint))
}

// pause tells whether lookups that take too long may be so because everything stood
// still for a moment: little is under way, the limit has not been lowered, and it has
// not lasted.
func (l *load) pause(mean float64, now time.Time) bool {
	if l.slow.IsZero() {
		l.slow = l.sample.begin
	}
	return mean < resting/2 && l.limit >= min(resting, l.most) && now.Sub(l.slow) < longestPause
}

// lower sets a limit that is lower than the present one.
func (l *load) lower(to float64, now time.Time) {
	if to = l.within(to); to < l.limit {
		l.limit, l.lowered = to, now
		l.contended = now.Add(contended)
	}
}

// overdue adds the ratios of lookups under way that have taken too long already:
// the more the hosts fall behind, the later do lookups end to tell of it.
func (l *load) overdue(now time.Time) {
	for p := l.oldest; p != nil; p = p.newer {
		age := now.Sub(p.began)
		if p.budget > 0 && float64(age) >= tooSlow*float64(p.budget) {
			l.note(p, age, !p.ask.Deadline.IsZero() && !now.Before(p.ask.Deadline))
		}
	}
}

// ratio returns the ratio that decides; 0 without any.
func (s *sample) ratio() float64 {
	if len(s.ratios) == 0 {
		return 0
	}
	slices.Sort(s.ratios)
	return s.ratios[min(int(quantile*float64(len(s.ratios))), len(s.ratios)-1)]
}

// overloaded refuses what the hosts could not keep up with. A lookup starts while
// there is room, whatever its size, so that large ones are not starved.
func (c *Controller) overloaded(p *Permit, now time.Time) *Refusal {
	room := c.room(p, now)
	if c.without.limit || c.fits(p, room, now) {
		return nil
	}
	s := &c.load.sample
	if !s.refused || room < s.room {
		s.refused, s.room = true, room
	}
	c.load.contended = now.Add(contended)
	return &Refusal{ReasonOverload, retries[p.class],
		"the proxy has as much under way as the hosts keep up with; ask again later, or send less"}
}

// fits reports whether a lookup may start that has so much room for what does not rank
// below it.
func (c *Controller) fits(p *Permit, room float64, now time.Time) bool {
	l := &c.load
	if c.without.overdraft || now.After(l.contended) {
		return float64(l.inflight) < room
	}
	above := 0
	for _, keys := range l.ranked[:p.rank+1] {
		above += keys
	}
	own := room
	if usual := l.usual[p.rank]; usual < l.usual[ranks-1] {
		if !c.without.lasting {
			room *= max(l.lasting/l.limit, 1)
		}
		if usual < seldom*room {
			own = overdraft * room
		}
	}
	return float64(above) < own && float64(l.inflight) < overdraft*room
}

// room is how many keys of its rank and above may be under way for a lookup to start.
func (c *Controller) room(p *Permit, now time.Time) float64 {
	if now.After(c.load.contended) {
		return c.load.limit
	}
	share := 1.0
	if top := c.load.top; top < p.class && !c.without.priorities {
		share = rooms[p.class] / rooms[top]
	}
	if !p.light() && c.load.others[p.class] {
		share -= spare
	}
	return max(share*c.load.limit, 1)
}

// rank orders lookups by priority, and within one those of light clients before
// those of heavy ones.
func (c *Controller) rank(p *Permit, now time.Time) int {
	rank := 2 * p.class
	if c.without.priorities {
		rank = 0
	}
	if !c.without.fairness && p.client.recent(now) >= light*c.load.heaviest[p.class] {
		rank++
	}
	return rank
}

// ranks is the number of ranks.
const ranks = 2 * priorities

// light reports whether the client is not among the heaviest of its priority.
func (p *Permit) light() bool { return p.rank%2 == 0 }

// weigh finds out who asks: which priorities, and of each the heaviest client and
// whether there are others.
func (c *Controller) weigh(now time.Time) {
	l := &c.load
	l.heaviest, l.others, l.top = [priorities]float64{}, [priorities]bool{}, priorities-1
	for _, cl := range c.clients {
		class := classOf(cl.who.Priority)
		l.heaviest[class] = max(l.heaviest[class], cl.recent(now))
	}
	for _, cl := range c.clients {
		class, recent := classOf(cl.who.Priority), cl.recent(now)
		if recent < 1 {
			continue
		}
		l.top = min(l.top, class)
		l.others[class] = l.others[class] || recent < light*l.heaviest[class]
	}
}
