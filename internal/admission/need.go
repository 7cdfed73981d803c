package admission

import (
	"fmt"
	"math/bits"
	"time"
)

const (
	// needWindow is how long a latency counts; two windows are kept, so that it
	// is known for one to two of them.
	needWindow = 5 * time.Second
	// needSamples is how many lookups must have been answered to say what they
	// need at the least.
	needSamples = 50
	// needRetry is when load may have fallen enough.
	needRetry = 100 * time.Millisecond
)

// need is the shortest time that lookups of one table take, by size: class i is
// of up to 2^i keys.
type need struct {
	begin     time.Time
	now, past [12]least
}

type least struct {
	took  time.Duration
	count int
}

func needClass(keys int) int { return min(bits.Len(uint(max(keys, 1)-1)), len(need{}.now)-1) }

// observe takes a lookup of which every key was answered.
func (n *need) observe(keys int, took time.Duration, now time.Time) {
	n.advance(now)
	l := &n.now[needClass(keys)]
	if l.count == 0 || took < l.took {
		l.took = took
	}
	l.count++
}

func (n *need) advance(now time.Time) {
	switch age := now.Sub(n.begin); {
	case age < needWindow:
		return
	case age < 2*needWindow:
		n.past = n.now
	default:
		n.past = [len(n.past)]least{}
	}
	n.now = [len(n.now)]least{}
	n.begin = now
}

// of returns the shortest time that a lookup of about so many keys has taken
// lately; false when too few were seen.
func (n *need) of(keys int, now time.Time) (time.Duration, bool) {
	n.advance(now)
	a, b := n.past[needClass(keys)], n.now[needClass(keys)]
	switch {
	case a.count+b.count < needSamples:
		return 0, false
	case a.count == 0 || b.count > 0 && b.took < a.took:
		return b.took, true
	}
	return a.took, true
}

// hopeless refuses a lookup that has less time left than the fastest of its size
// took lately: starting it could only take work from others.
func (c *Controller) hopeless(p *Permit, now time.Time) *Refusal {
	if p.ask.Deadline.IsZero() || c.without.need {
		return nil
	}
	least, known := p.table.need.of(p.ask.Keys, now)
	left := p.ask.Deadline.Sub(now)
	if !known || left >= least {
		return nil
	}
	return &Refusal{ReasonDeadline, needRetry, fmt.Sprintf(
		"%s are left, and lookups of this size need at least %s at present; allow more time, or ask for fewer keys",
		max(left, 0).Round(100*time.Microsecond), least.Round(100*time.Microsecond))}
}
