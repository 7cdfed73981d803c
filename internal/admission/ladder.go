package admission

import (
	"fmt"
	"time"

	"github.com/qosproxy/qosproxy/internal/identity"
)

// Ladder is at which burn rates a table gives up what. A burn rate is the share
// of lookups that were late relative to the share that may be; it is at most
// 100 / (100 - percentile), which is 20 for a percentile of 95. Each field is a
// burn rate, not below the one before it; 0 leaves the step out.
type Ladder struct {
	// Hedges is where lookups are hedged only away from stalled hosts.
	Hedges float64
	// Optional is where keys that the caller marked as optional are shed.
	Optional float64
	// Batch and Standard are where lookups of these priorities are refused.
	Batch, Standard float64
}

// Level is how many steps of the ladder a table has taken. Each includes those before it.
type Level int

// The levels, from the lowest up.
const (
	// LevelNone means that the table meets its SLO.
	LevelNone Level = iota
	// LevelHedges means that hedges back off.
	LevelHedges
	// LevelOptional means that optional keys are shed.
	LevelOptional
	// LevelBatch means that batch lookups are refused.
	LevelBatch
	// LevelStandard means that standard lookups are refused.
	LevelStandard
)

var levelNames = [...]string{"none", "hedges", "optional", "batch", "standard"}

// String returns the name of the level, as in metrics and in the configuration.
func (l Level) String() string {
	if l < LevelNone || l > LevelStandard {
		return "unknown"
	}
	return levelNames[l]
}

const (
	// shortWindow and longWindow are the windows that must both burn, in seconds. The short
	// one makes the ladder quick to let go, the long one keeps one bad second from moving it.
	shortWindow, longWindow = recentWindow, 60
	// stepEvery is the time that a step has to take effect, in the short window, before the
	// next one or its end.
	stepEvery = shortWindow * time.Second
	// low is the share of the burn rate of a step below which it ends: a load that swings
	// about a burn rate would take it and leave it otherwise.
	low = 0.5
	// helped is the share of the former burn below which a step that refuses lookups has
	// helped, 3 * stepEvery later. One that has not is left out for longestHold, so that a
	// tenth of these lookups is lost to it.
	helped = 0.8
)

// ladder is the burn of one table, and its level.
type ladder struct {
	level   Level
	seconds seconds
	looked  int64
	// calm is since when the burn is low, moved when the level was reached, and entry the
	// burn at that time.
	calm, moved time.Time
	entry       float64
	// barred is the first level that is left out, until.
	barred Level
	until  time.Time
}

// burns returns the burn rates over the windows.
func (l *ladder) burns(now time.Time) (short, long float64) {
	s, m := l.seconds.sum(shortWindow, now), l.seconds.sum(longWindow, now)
	return s.burn(enough / 5), m.burn(enough)
}

// at returns the burn rate of a level.
func (l Ladder) at(level Level) float64 {
	return [...]float64{0, l.Hedges, l.Optional, l.Batch, l.Standard}[level]
}

// reached returns the highest level whose burn rate, times a factor, is reached.
func (l Ladder) reached(burn, factor float64) Level {
	for level := LevelStandard; level > LevelNone; level-- {
		if at := l.at(level); at > 0 && burn >= at*factor {
			return level
		}
	}
	return LevelNone
}

// next returns the next level in a direction, 1 or -1, up to highest; the same where none is.
func (l Ladder) next(level, direction, highest Level) Level {
	for to := level + direction; to >= LevelNone && to <= highest; to += direction {
		if l.at(to) > 0 || to == LevelNone {
			return to
		}
	}
	return level
}

// step moves by at most one level, once a second.
func (l *ladder) step(limits Ladder, now time.Time) {
	if now.Unix() == l.looked {
		return
	}
	l.looked = now.Unix()
	short, long := l.burns(now)
	highest := l.highest(now)
	up := min(limits.reached(min(short, long), 1), highest)
	switch {
	case l.fruitless(short, now):
		l.barred, l.until = l.level, now.Add(longestHold)
		l.move(limits.next(l.level, -1, l.level), short, now)
	case up > l.level:
		l.calm = time.Time{}
		if now.Sub(l.moved) >= stepEvery {
			l.move(limits.next(l.level, 1, up), short, now)
		}
	case l.level == LevelNone || min(limits.reached(short, low), highest) >= l.level:
		l.calm = time.Time{}
	case l.calm.IsZero():
		l.calm = now
	case now.Sub(l.calm) >= stepEvery:
		l.move(limits.next(l.level, -1, l.level), short, now)
	}
}

// highest is the highest level that may help: lookups are only refused in favour of lookups
// of a higher priority, of which there must be some.
func (l *ladder) highest(now time.Time) Level {
	top := LevelOptional
	switch seen := l.seconds.sum(longWindow, now).classes; {
	case seen[identity.Interactive]:
		top = LevelStandard
	case seen[identity.Standard]:
		top = LevelBatch
	}
	if now.Before(l.until) {
		top = min(top, l.barred-1)
	}
	return top
}

// fruitless reports whether a level that refuses lookups has not lowered the burn.
func (l *ladder) fruitless(burn float64, now time.Time) bool {
	return l.level >= LevelBatch && now.Sub(l.moved) >= 3*stepEvery && burn > helped*l.entry
}

func (l *ladder) move(to Level, burn float64, now time.Time) {
	l.level, l.moved, l.entry, l.calm = to, now, burn, time.Time{}
}

// browned brings the ladder of a table up to date and refuses what its level sheds.
func (c *Controller) browned(p *Permit, now time.Time) *Refusal {
	t := p.table
	t.ladder.step(c.limits.Ladder, now)
	p.level = t.ladder.level
	priority := identity.Priority(p.class)
	shed := map[identity.Priority]Level{identity.Batch: LevelBatch, identity.Standard: LevelStandard}[priority]
	if shed > LevelNone && p.level >= shed {
		t.metrics.actions[shed].Inc()
		return &Refusal{ReasonLadder, stepEvery, fmt.Sprintf(
			"lookups of %s are too slow at present, and those of priority %s give way; ask again later", t.name, priority)}
	}
	for level := LevelHedges; level <= min(p.level, LevelOptional); level++ {
		t.metrics.actions[level].Inc()
	}
	return nil
}
