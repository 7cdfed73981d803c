package hedge

import (
	"cmp"
	"math"
	"sync/atomic"
	"time"
)

// Limits configures a Pool.
type Limits struct {
	// Ratio is the share of the regular work that may be done in addition, 0 or more. Zero
	// refuses everything, including the floor.
	Ratio float64
	// Burst is the most that can be saved up, in units of work. A Pool begins with half of
	// it.
	Burst int
	// Floor is what may be taken per second, in units of work, if nothing is saved up: a
	// quiet table would otherwise never be hedged. After n units the floor is closed for
	// n/Floor seconds. Taking from it overdraws the pool, by up to Overdraft, so that the
	// floor does not add to the ratio.
	Floor float64
	// Overdraft is the most by which the pool can be overdrawn, in units of work; 0 means
	// Burst.
	Overdraft int
}

// Pool limits additional work to a share of the regular work. Its withdrawals never exceed
// Ratio × deposits + Floor × seconds + half a burst + one withdrawal. While deposits are
// steady they do not exceed the larger of the first two terms, plus two bursts and one
// withdrawal. Pool is safe for concurrent use, without locks.
type Pool struct {
	limits Limits
	begin  time.Time
	// saved is in millionths of a unit, so that a deposit is one atomic addition.
	saved atomic.Int64
	// floorAt is when the floor opens next, in nanoseconds since begin.
	floorAt atomic.Int64
}

const micro = 1_000_000

// NewPool returns a pool with half its burst saved up.
func NewPool(l Limits) *Pool {
	p := &Pool{limits: l, begin: time.Now()}
	if l.Ratio > 0 {
		p.saved.Store(int64(l.Burst) * micro / 2)
	}
	return p
}

// Deposit saves the share of n units of regular work, up to the burst.
func (p *Pool) Deposit(n int) {
	most := int64(p.limits.Burst) * micro
	add := int64(math.Round(p.limits.Ratio * float64(n) * micro))
	for {
		have := p.saved.Load()
		if have >= most || add == 0 {
			return
		}
		if p.saved.CompareAndSwap(have, min(have+add, most)) {
			return
		}
	}
}

// Withdraw takes n units, all or none, from what is saved or else from the floor, and
// reports whether it could.
func (p *Pool) Withdraw(n int) bool {
	_, ok := p.withdraw(n, 0)
	return ok
}

// withdrawal is what refund gives back.
type withdrawal struct {
	// saved is in millionths of a unit: less than was withdrawn if the overdraft did not reach.
	saved int64
	// The floor was open since opened, and is closed until closed; both 0 if it was not used.
	opened, closed int64
}

// withdraw is Withdraw but leaves the reserve saved, unless it takes from the floor.
func (p *Pool) withdraw(n, reserve int) (withdrawal, bool) {
	if p.spend(n, reserve) {
		return withdrawal{saved: int64(n) * micro}, true
	}
	return p.fromFloor(n)
}

// Saved returns what can be taken without the floor, in units of work; negative while
// overdrawn.
func (p *Pool) Saved() float64 { return float64(p.saved.Load()) / micro }

func (p *Pool) spend(n, reserve int) bool {
	take, least := int64(n)*micro, int64(reserve)*micro
	for {
		have := p.saved.Load()
		if have-take < least {
			return false
		}
		if p.saved.CompareAndSwap(have, have-take) {
			return true
		}
	}
}

func (p *Pool) fromFloor(n int) (withdrawal, bool) {
	if p.limits.Floor <= 0 || p.limits.Ratio <= 0 {
		return withdrawal{}, false
	}
	now := int64(time.Since(p.begin))
	next := p.floorAt.Load()
	if now < next {
		return withdrawal{}, false
	}
	rest := int64(min(float64(n)/p.limits.Floor*float64(time.Second), math.MaxInt64/4))
	if !p.floorAt.CompareAndSwap(next, now+rest) {
		return withdrawal{}, false
	}
	return withdrawal{saved: p.overdraw(n), opened: next, closed: now + rest}, true
}

// overdraw takes n units that may not be saved, down to the overdraft. It returns how much it
// took, in millionths of a unit.
func (p *Pool) overdraw(n int) int64 {
	least := -int64(cmp.Or(p.limits.Overdraft, p.limits.Burst)) * micro
	for {
		have := p.saved.Load()
		rest := min(have, max(have-int64(n)*micro, least))
		if p.saved.CompareAndSwap(have, rest) {
			return have - rest
		}
	}
}

// refund undoes a withdrawal, and opens the floor again unless it was used since.
func (p *Pool) refund(w withdrawal) {
	p.saved.Add(w.saved)
	if w.closed != 0 {
		p.floorAt.CompareAndSwap(w.closed, w.opened)
	}
}
