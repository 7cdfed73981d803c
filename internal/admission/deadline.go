package admission

import (
	"fmt"
	"math/bits"
	"time"
)

// fastestWindow is how long the fastest lookup counts, after which it is found anew.
const fastestWindow = shortWindow * time.Second

// fastest is the shortest time that lookups of one table take, by size: the i-th is of up to
// 2^i keys, the last of all above 1,024.
type fastest [12]struct {
	since time.Time
	took  time.Duration
	count int
}

func (f *fastest) sizeOf(keys int) int { return min(bits.Len(uint(keys-1)), len(f)-1) }

// observe learns from a lookup of which every key was answered.
func (f *fastest) observe(keys int, took time.Duration, now time.Time) {
	l := &f[f.sizeOf(keys)]
	if now.Sub(l.since) >= fastestWindow {
		l.since, l.took, l.count = now, took, 0
	}
	l.took = min(l.took, took)
	l.count++
}

// of returns the shortest time that a lookup of about so many keys has taken recently; 0 if too
// few were seen, so that lookups are tried again after all were refused.
func (f *fastest) of(keys int, now time.Time) time.Duration {
	l := &f[f.sizeOf(keys)]
	if l.count < enough || now.Sub(l.since) >= fastestWindow {
		return 0
	}
	return l.took
}

// checkDeadline refuses a lookup that has less time left than the fastest of its size took
// recently: starting it could only slow others down. A percentile would refuse some that have a
// chance.
func (c *Controller) checkDeadline(p *Permit) *Refusal {
	if p.table == nil || p.ask.Deadline.IsZero() {
		return nil
	}
	takes, left := p.table.fastest.of(p.ask.Keys, p.began), p.ask.Deadline.Sub(p.began)
	if takes == 0 || left >= takes { // without evidence it times out, as without admission
		return nil
	}
	return p.refusal(ReasonDeadline, fmt.Sprintf(
		"%s are left, and lookups of this size need at least %s at present; allow more time, or ask for fewer keys",
		max(left, 0).Round(100*time.Microsecond), takes.Round(100*time.Microsecond)))
}
