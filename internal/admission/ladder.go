package admission

import (
	"fmt"
	"time"

	"github.com/qosproxy/qosproxy/internal/identity"
)

// Ladder holds the burn rates of a table at which its brown-out steps are taken. A burn rate is
// the share of lookups that were late relative to the share that may be; it is at most 100 /
// (100 - percentile), which is 20 for a percentile of 95. Each field is not below the one
// before it; 0 leaves the step out.
type Ladder struct {
	Hedges          float64 // lookups are hedged only away from stalled hosts
	Optional        float64 // keys that the caller marked as optional are shed
	Batch, Standard float64 // lookups of these priorities are refused
}

// Level is how many brown-out steps a table has taken; each includes those before it.
type Level int

// The levels, from the lowest up, by what is given up.
const (
	LevelNone Level = iota
	LevelHedges
	LevelOptional
	LevelBatch
	LevelStandard
)

// String returns the name of the level, as in metrics and in the configuration.
func (l Level) String() string {
	return [...]string{"none", "hedges", "optional", "batch", "standard"}[l]
}

const (
	// stepEvery is the time that a step has to show its effect in the short window, before the
	// next one is taken or it ends.
	stepEvery = shortWindow * time.Second
	// A step that refuses lookups has helped if, 3 * stepEvery later, the burn rate is at most
	// helped times as high as before. Otherwise it is left out for longestHold, so that no more
	// than a tenth of these lookups is lost to it.
	helped = 0.8
)

// ladder is the state of the ladder of one table.
type ladder struct {
	seconds seconds
	looked  int64
	level   Level
	// moved is when the level was reached, and hot when the burn rate was last too high for a
	// lower one. entry is the burn rate at which each level was last reached from below. judged
	// is set once a level is known to have helped, or was reached because the burn rate fell.
	moved, hot time.Time
	entry      [LevelStandard + 1]float64
	judged     [LevelStandard + 1]bool
	// barred and the levels above it are left out until the time until.
	barred Level
	until  time.Time
}

// burns returns the burn rates over the windows. Both must be high for a step: the short one
// lets the ladder end steps quickly, the long one keeps one bad second from moving it.
func (l *ladder) burns(now time.Time) (short, long float64) {
	s, m := l.seconds.sum(shortWindow, now), l.seconds.sum(longWindow, now)
	return s.burn(few), m.burn(enough)
}

// at returns the burn rate of a level.
func (l Ladder) at(level Level) float64 {
	return [...]float64{0, l.Hedges, l.Optional, l.Batch, l.Standard}[level]
}

// reached returns the highest level, up to top, whose burn rate is reached.
func (l Ladder) reached(burn float64, top Level) Level {
	for top > LevelNone && (l.at(top) == 0 || burn < l.at(top)) {
		top--
	}
	return top
}

// takes reports whether a step is in force at a level.
func (l Ladder) takes(level, step Level) bool { return level >= step && l.at(step) > 0 }

// next returns the next level in a direction, 1 or -1, that is not left out.
func (l Ladder) next(level, direction Level) Level {
	for level += direction; level > LevelNone && l.at(level) == 0; level += direction {
	}
	return max(level, LevelNone)
}

// step moves the ladder by at most one level, once a second. A level ends below half of its
// burn rate: a load that swings about that would otherwise take it and leave it again and
// again.
func (l *ladder) step(limits Ladder, now time.Time) {
	if now.Unix() == l.looked {
		return
	}
	l.looked = now.Unix()
	short, long := l.burns(now)
	top := l.highest(now)
	if limits.reached(2*short, top) >= l.level {
		l.hot = now
	}
	to := l.level
	switch {
	case l.level >= LevelBatch && !l.judged[l.level] && now.Sub(l.moved) >= 3*stepEvery:
		if l.judged[l.level] = short <= helped*l.entry[l.level]; !l.judged[l.level] {
			l.barred, l.until = l.level, now.Add(longestHold)
			to = limits.next(l.level, -1)
		}
	case limits.reached(min(short, long), top) > l.level && now.Sub(l.moved) >= stepEvery:
		to = limits.next(l.level, 1)
		l.entry[to], l.judged[to] = short, false
	case now.Sub(l.hot) >= stepEvery:
		to = limits.next(l.level, -1)
		l.judged[to] = true
	}
	if to != l.level {
		l.level, l.moved, l.hot = to, now, now
	}
}

// highest returns the highest level that may help: lookups are refused only in favour of a
// higher priority, of which there must have been some.
func (l *ladder) highest(now time.Time) Level {
	top := LevelOptional
	switch minute := l.seconds.sum(longWindow, now); {
	case minute.seen(identity.Interactive):
		top = LevelStandard
	case minute.seen(identity.Standard):
		top = LevelBatch
	}
	if now.Before(l.until) {
		top = min(top, l.barred-1)
	}
	return top
}

// checkLadder brings the ladder of a table up to date and refuses what its level sheds.
func (c *Controller) checkLadder(p *Permit) *Refusal {
	if p.table == nil {
		return nil
	}
	l := &p.table.ladder
	l.step(c.limits.Ladder, p.began)
	takes := func(step Level) bool { return c.limits.Ladder.takes(l.level, step) }
	p.fewHedges, p.shedOptional = takes(LevelHedges), takes(LevelOptional)
	act := func(level Level) { c.metrics.actions.WithLabelValues(p.table.name, level.String()).Inc() }
	priority := identity.Priority(p.class)
	shed := map[identity.Priority]Level{identity.Batch: LevelBatch, identity.Standard: LevelStandard}[priority]
	if shed > LevelNone && takes(shed) {
		act(shed)
		return &Refusal{ReasonLadder, stepEvery, fmt.Sprintf(
			"lookups of %s are too slow at present, and those of priority %s give way; ask again later", p.table.name, priority)}
	}
	if p.fewHedges {
		act(LevelHedges)
	}
	if p.shedOptional {
		act(LevelOptional)
	}
	return nil
}
