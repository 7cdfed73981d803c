package admission

import (
	"fmt"
	"time"

	"github.com/qosproxy/qosproxy/internal/identity"
)

// Ladder is at which burn rates a table gives up what. A burn rate is the share
// of lookups that were too slow relative to the share that may be; it is at most
// 100 / (100 - percentile), which is 20 for a percentile of 95. Each field is a
// burn rate, not below the one before it; 0 leaves the rung out.
type Ladder struct {
	// Hedges is where lookups are hedged only away from hosts that stand still.
	Hedges float64
	// Optional is where keys that the caller marked as optional are shed.
	Optional float64
	// Batch and Standard are where lookups of these priorities are refused.
	Batch, Standard float64
}

// Rung is how far up the ladder a table is. Each rung includes those below.
type Rung int

// The rungs, from the ground up.
const (
	// RungNone means that the table keeps its promise.
	RungNone Rung = iota
	// RungHedges means that hedges back off.
	RungHedges
	// RungOptional means that optional keys are shed.
	RungOptional
	// RungBatch means that batch lookups are refused.
	RungBatch
	// RungStandard means that standard lookups are refused.
	RungStandard
)

var rungNames = [...]string{"none", "hedges", "optional", "batch", "standard"}

// String returns the name of the rung, as in metrics and in the configuration.
func (r Rung) String() string {
	if r < RungNone || r > RungStandard {
		return "unknown"
	}
	return rungNames[r]
}

const (
	// shortWindow and longWindow are the windows that must both burn, in slices
	// of one second. The short one makes the ladder quick to let go, the long one
	// keeps one bad second from climbing it.
	shortWindow, longWindow = 10, 60
	// shortLeast and longLeast are how many lookups a window needs to count.
	shortLeast, longLeast = 20, 100
	// upEvery is the time that a rung has to take effect before the next, and
	// downAfter the time that the burn must have been low to take one back.
	upEvery, downAfter = 5 * time.Second, 15 * time.Second
	// low is the share of the burn rate of a rung below which it is taken back.
	low = 0.5
	// trial is how long a rung that refuses lookups has to lower the burn; when
	// it does not, it is left out for futile.
	trial, futile = 30 * time.Second, 5 * time.Minute
	// helped is the share of the former burn below which a rung has helped.
	helped = 0.8
	// ladderRetry is about when a rung may have been taken back.
	ladderRetry = downAfter
)

// ladder is the burn of one table, and its rung.
type ladder struct {
	rung Rung
	// slices are the last seconds, by number modulo longWindow.
	slices [longWindow]slice
	looked int64
	// calm is since when the burn is low, climbed when the rung was reached, and
	// entry the burn at that time.
	calm, climbed time.Time
	entry         float64
	// barred is the first rung that is left out, until.
	barred Rung
	until  time.Time
}

// slice is the lookups that ended in one second.
type slice struct {
	second      int64
	total, slow int
	classes     [priorities]int
}

func (l *ladder) at(now time.Time) *slice {
	second := now.Unix()
	s := &l.slices[second%longWindow]
	if s.second != second {
		*s = slice{second: second}
	}
	return s
}

// observe takes a lookup that ended.
func (l *ladder) observe(class int, slow bool, now time.Time) {
	s := l.at(now)
	s.total++
	s.classes[class]++
	if slow {
		s.slow++
	}
}

// window sums up the last n seconds, the one under way included.
func (l *ladder) window(n int64, now time.Time) slice {
	var sum slice
	for i := range l.slices {
		s := &l.slices[i]
		if s.second <= now.Unix()-n {
			continue
		}
		sum.total += s.total
		sum.slow += s.slow
		for class, n := range s.classes {
			sum.classes[class] += n
		}
	}
	return sum
}

// burn is the burn rate of the lookups of a slice; 0 when there are too few.
func (s slice) burn(p Promise, least int) float64 {
	if s.total == 0 || s.total < least {
		return 0
	}
	return float64(s.slow) / float64(s.total) / (1 - p.Percentile/100)
}

// at returns the burn rate of a rung.
func (l Ladder) at(r Rung) float64 {
	return [...]float64{0, l.Hedges, l.Optional, l.Batch, l.Standard}[r]
}

// reached returns the highest rung whose burn rate, times a factor, is reached.
func (l Ladder) reached(burn, factor float64) Rung {
	for r := RungStandard; r > RungNone; r-- {
		if at := l.at(r); at > 0 && burn >= at*factor {
			return r
		}
	}
	return RungNone
}

// next returns the next rung above, up to the highest.
func (l Ladder) next(r, highest Rung) Rung {
	for up := r + 1; up <= highest; up++ {
		if l.at(up) > 0 {
			return up
		}
	}
	return r
}

// below returns the next rung below.
func (l Ladder) below(r Rung) Rung {
	for down := r - 1; down > RungNone; down-- {
		if l.at(down) > 0 {
			return down
		}
	}
	return RungNone
}

// step moves by at most one rung, once a second.
func (l *ladder) step(p Promise, limits Ladder, without safeguards, now time.Time) {
	if now.Unix() == l.looked {
		return
	}
	l.looked = now.Unix()
	short, long := l.window(shortWindow, now), l.window(longWindow, now)
	leastShort, leastLong := shortLeast, longLeast
	if without.traffic {
		leastShort, leastLong = 1, 1
	}
	quick := short.burn(p, leastShort)
	burn := min(quick, long.burn(p, leastLong))
	highest := min(limits.reached(burn, 1), l.highest(long, without, now))
	if without.hysteresis {
		l.rung = min(limits.reached(quick, 1), l.highest(long, without, now))
		return
	}
	switch {
	case l.fruitless(quick, now):
		l.barred, l.until = l.rung, now.Add(futile)
		l.move(limits.below(l.rung), quick, now)
	case highest > l.rung:
		l.calm = time.Time{}
		if now.Sub(l.climbed) >= upEvery {
			l.move(limits.next(l.rung, highest), quick, now)
		}
	case l.rung == RungNone || limits.reached(quick, low) >= l.rung && l.highest(long, without, now) >= l.rung:
		l.calm = time.Time{}
	case l.calm.IsZero():
		l.calm = now
	case now.Sub(l.calm) >= downAfter:
		l.move(limits.below(l.rung), quick, now)
	}
}

// highest is the highest rung that may help: lookups are only refused in favour
// of lookups of a higher priority, of which there must be some.
func (l *ladder) highest(long slice, without safeguards, now time.Time) Rung {
	top := RungStandard
	if !without.purpose {
		switch {
		case long.classes[identity.Interactive] > 0:
		case long.classes[identity.Standard] > 0:
			top = RungBatch
		default:
			top = RungOptional
		}
		if now.Before(l.until) {
			top = min(top, l.barred-1)
		}
	}
	return top
}

// fruitless reports whether a rung that refuses lookups has not helped.
func (l *ladder) fruitless(burn float64, now time.Time) bool {
	return l.rung >= RungBatch && now.Sub(l.climbed) >= trial && burn > helped*l.entry
}

func (l *ladder) move(to Rung, burn float64, now time.Time) {
	l.rung, l.climbed, l.entry, l.calm = to, now, burn, time.Time{}
}

// climb brings the ladder of a table up to date and refuses what its rung sheds.
func (c *Controller) climb(p *Permit, now time.Time) *Refusal {
	t := p.table
	t.ladder.step(t.promise, c.limits.Ladder, c.without, now)
	p.rung = t.ladder.rung
	priority := identity.Priority(p.class)
	shed := p.rung >= RungBatch && priority == identity.Batch || p.rung >= RungStandard && priority == identity.Standard
	switch {
	case shed && priority == identity.Batch:
		t.metrics.actions[RungBatch].Inc()
	case shed:
		t.metrics.actions[RungStandard].Inc()
	case p.rung >= RungOptional:
		t.metrics.actions[RungHedges].Inc()
		t.metrics.actions[RungOptional].Inc()
	case p.rung == RungHedges:
		t.metrics.actions[RungHedges].Inc()
	}
	if !shed {
		return nil
	}
	return &Refusal{ReasonLadder, ladderRetry, fmt.Sprintf(
		"lookups of %s are too slow at present, and those of priority %s give way; ask again later", t.name, priority)}
}
