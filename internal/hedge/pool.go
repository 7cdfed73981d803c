package hedge

import (
	"cmp"
	"math"
	"sync/atomic"
	"time"
)

// Limits are the numbers of a Pool.
type Limits struct {
	// Ratio is the share of the regular work that may be done in addition, 0 or
	// more. Zero refuses everything, the floor included.
	Ratio float64
	// Burst is the most that can be saved up, in units of work; a Pool begins
	// with half of it.
	Burst int
	// Floor is what may be taken per second, in units of work, though nothing is
	// saved up: a quiet table would otherwise never be hedged. A withdrawal larger
	// than Floor is followed by its share of seconds. What is taken so overdraws the
	// pool, up to Overdraft, so that the floor is not on top of the ratio.
	Floor float64
	// Overdraft is the most that the pool can be overdrawn, in units of work; 0 for as
	// much as Burst.
	Overdraft int
}

// Pool holds additional work to a share of the regular work. Its withdrawals are
// never more than Ratio × deposits + Floor × seconds + half a burst + one withdrawal;
// while deposits are steady, no more than the larger of the first two, plus two
// bursts and one withdrawal. Safe for concurrent use, without locks.
type Pool struct {
	limits Limits
	begin  time.Time
	// saved is in millionths of a unit, so that a deposit is one atomic addition.
	saved atomic.Int64
	// floorAt is when the floor may be drawn on next, since begin.
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

// Withdraw takes n units, all or none, from what is saved or else from the
// floor.
func (p *Pool) Withdraw(n int) bool { return p.withdraw(n, 0) }

// withdraw leaves at least so much saved, unless it takes from the floor.
func (p *Pool) withdraw(n, reserve int) bool { return p.spend(n, reserve) || p.fromFloor(n) }

// Saved is what can be taken without the floor, in units of work; negative when
// the floor was drawn on.
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

func (p *Pool) fromFloor(n int) bool {
	if p.limits.Floor <= 0 || p.limits.Ratio <= 0 {
		return false
	}
	now := int64(time.Since(p.begin))
	next := p.floorAt.Load()
	if now < next {
		return false
	}
	rest := int64(min(float64(n)/p.limits.Floor*float64(time.Second), math.MaxInt64/4))
	if !p.floorAt.CompareAndSwap(next, now+rest) {
		return false
	}
	p.overdraw(n)
	return true
}

// overdraw takes n units that may not be there, down to the overdraft that is allowed.
func (p *Pool) overdraw(n int) {
	least := -int64(cmp.Or(p.limits.Overdraft, p.limits.Burst)) * micro
	for {
		have := p.saved.Load()
		if p.saved.CompareAndSwap(have, max(have-int64(n)*micro, least)) {
			return
		}
	}
}

// refund gives back n units that were taken but not used.
func (p *Pool) refund(n int) { p.saved.Add(int64(n) * micro) }
