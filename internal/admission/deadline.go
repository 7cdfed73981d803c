package admission

import (
	"fmt"
	"math/bits"
	"time"
)

const (
	// fastestWindow is how long a latency counts. Two windows are kept, so that it is known
	// for one to two of them.
	fastestWindow = recentWindow * time.Second / 2
	// sizes is the number of sizes of lookups, by powers of two: 1 key to 2,048 and more.
	sizes = 12
)

// fastest is the shortest time that lookups of one table take, by size: size i is of up to
// 2^i keys.
type fastest struct {
	begin     time.Time
	now, past [sizes]least
}

type least struct {
	took  time.Duration
	count int
}

func sizeOf(keys int) int { return min(bits.Len(uint(max(keys, 1)-1)), sizes-1) }

// observe takes a lookup of which every key was answered.
func (f *fastest) observe(keys int, took time.Duration, now time.Time) {
	f.advance(now)
	l := &f.now[sizeOf(keys)]
	if l.count == 0 || took < l.took {
		l.took = took
	}
	l.count++
}

func (f *fastest) advance(now time.Time) {
	age := now.Sub(f.begin)
	if age < fastestWindow {
		return
	}
	f.past, f.now = f.now, [sizes]least{}
	if age >= 2*fastestWindow {
		f.past = f.now
	}
	f.begin = now
}

// of returns the shortest time that a lookup of about so many keys has taken of late; 0 when
// too few were seen.
func (f *fastest) of(keys int, now time.Time) time.Duration {
	f.advance(now)
	a, b := f.past[sizeOf(keys)], f.now[sizeOf(keys)]
	switch {
	case a.count+b.count < enough:
		return 0
	case a.count == 0 || b.count > 0 && b.took < a.took:
		return b.took
	}
	return a.took
}

// hopeless refuses a lookup that has less time left than the fastest of its size took of
// late: starting it could only take work from others.
func (c *Controller) hopeless(p *Permit, now time.Time) *Refusal {
	if p.ask.Deadline.IsZero() {
		return nil
	}
	takes, left := p.table.fastest.of(p.ask.Keys, now), p.ask.Deadline.Sub(now)
	if left >= takes {
		return nil
	}
	return &Refusal{ReasonDeadline, retries[p.class], fmt.Sprintf(
		"%s are left, and lookups of this size need at least %s at present; allow more time, or ask for fewer keys",
		max(left, 0).Round(100*time.Microsecond), takes.Round(100*time.Microsecond))}
}
