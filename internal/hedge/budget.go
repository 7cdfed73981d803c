package hedge

import (
	"cmp"
	"math"
	"sync/atomic"
	"time"
)

// Limits are the numbers of a Budget.
type Limits struct {
	// Ratio is the share of the regular work that may be done in addition, 0 or
	// more. Zero refuses everything, the floor included.
	Ratio float64
	// Burst is the most that can be saved up, in units of work; a Budget begins
	// with half of it.
	Burst int
	// Floor is what may be taken per second, in units of work, though nothing is
	// saved up: a quiet table would otherwise never be hedged. A taking larger
	// than Floor is followed by its share of seconds. What is taken so is owed,
	// up to Debt, so that the floor is not on top of the ratio.
	Floor float64
	// Debt is the most that can be owed, in units of work; 0 for as much as Burst.
	Debt int
}

// Budget holds additional work to a share of the regular work. Its takings are
// never more than Ratio × deposits + Floor × seconds + half a burst + one taking;
// while deposits are steady, no more than the larger of the first two, plus two
// bursts and one taking. Safe for concurrent use, without locks.
type Budget struct {
	limits Limits
	begin  time.Time
	// saved is in millionths of a unit, so that a deposit is one atomic addition.
	saved atomic.Int64
	// floorAt is when the floor may be drawn on next, since begin.
	floorAt atomic.Int64
	denied  atomic.Uint64
}

const micro = 1_000_000

// NewBudget returns a budget with half its burst saved up.
func NewBudget(l Limits) *Budget {
	b := &Budget{limits: l, begin: time.Now()}
	if l.Ratio > 0 {
		b.saved.Store(int64(l.Burst) * micro / 2)
	}
	return b
}

// Deposit saves the share of n units of regular work, up to the burst.
func (b *Budget) Deposit(n int) {
	most := int64(b.limits.Burst) * micro
	add := int64(math.Round(b.limits.Ratio * float64(n) * micro))
	for {
		have := b.saved.Load()
		if have >= most || add == 0 {
			return
		}
		if b.saved.CompareAndSwap(have, min(have+add, most)) {
			return
		}
	}
}

// Withdraw takes n units, all or none, from what is saved or else from the
// floor. It counts a refusal.
func (b *Budget) Withdraw(n int) bool { return b.withdraw(n, 0) }

// withdraw leaves at least so much saved, unless it takes from the floor.
func (b *Budget) withdraw(n, reserve int) bool {
	ok := b.spend(n, reserve) || b.borrow(n)
	if !ok {
		b.denied.Add(1)
	}
	return ok
}

// Denied is how many withdrawals were refused.
func (b *Budget) Denied() uint64 { return b.denied.Load() }

// Saved is what can be taken without the floor, in units of work; negative when
// the floor was drawn on.
func (b *Budget) Saved() float64 { return float64(b.saved.Load()) / micro }

func (b *Budget) spend(n, reserve int) bool {
	take, least := int64(n)*micro, int64(reserve)*micro
	for {
		have := b.saved.Load()
		if have-take < least {
			return false
		}
		if b.saved.CompareAndSwap(have, have-take) {
			return true
		}
	}
}

func (b *Budget) borrow(n int) bool {
	if b.limits.Floor <= 0 || b.limits.Ratio <= 0 {
		return false
	}
	now := int64(time.Since(b.begin))
	next := b.floorAt.Load()
	if now < next {
		return false
	}
	rest := int64(min(float64(n)/b.limits.Floor*float64(time.Second), math.MaxInt64/4))
	if !b.floorAt.CompareAndSwap(next, now+rest) {
		return false
	}
	b.owe(n)
	return true
}

// owe takes n units that may not be there, down to the debt that is allowed.
func (b *Budget) owe(n int) {
	least := -int64(cmp.Or(b.limits.Debt, b.limits.Burst)) * micro
	for {
		have := b.saved.Load()
		if b.saved.CompareAndSwap(have, max(have-int64(n)*micro, least)) {
			return
		}
	}
}

// refund gives back n units that were taken but not used.
func (b *Budget) refund(n int) { b.saved.Add(int64(n) * micro) }

// Allowance is what a table may spend on hedges: a share of its keys and, so
// that a few keys do not become many requests, a share of its sub-queries. Safe
// for concurrent use.
type Allowance struct {
	keys, subQueries, rescues, load *Budget
	denied                          atomic.Uint64
}

// Wanted is a hedge that an Allowance is asked for.
type Wanted struct {
	// Keys are asked again, in so many SubQueries.
	Keys, SubQueries int
	// Still says that the host which is late answers nobody at the moment, so that the
	// reserve is there for this hedge.
	Still bool
	// Load says that many are late. What was saved up in better times is left alone
	// then, and this hedge has to do with the share as it comes.
	Load bool
	// Stalled says that the host has answered nobody for so long that this is not for
	// load. Under load its hedges are made from what was saved up, and owed to the share.
	Stalled bool
	// Last says of a rescue that the time of its lookup is nearly over.
	Last bool
}

// The limits of an Allowance besides the ratio of keys.
const (
	// SubQueryRatio is the share of sub-queries that may be hedges.
	SubQueryRatio = 0.05
	// SubQueryBurst is how many sub-queries can be saved up for hedges at most.
	SubQueryBurst   = 200
	keyBurst        = 1000
	keyFloor        = 5
	subQueryFloor   = 1
	largestKeyRatio = 1
	// rescueShare is how much of the ratio of keys is for rescues besides, rescueBurst
	// how many keys can be saved up for them, and rescueReserve what is left for the
	// last ones.
	rescueShare   = 0.5
	rescueBurst   = 500
	rescueReserve = rescueBurst / 2
	// keyReserve and subQueryReserve are left for hosts that stand still.
	keyReserve      = 400
	subQueryReserve = 80
	// loadShare is the part of the ratio of sub-queries that is for hedges and probes
	// under load; the rest of it is for what happens before many are late. loadBurst is
	// how many can be saved up, and loadDebt how many can be owed by probes and by
	// hedges of hosts that have stalled.
	loadShare = 0.8
	loadBurst = 10
	loadDebt  = 20
)

// NewAllowance returns an allowance of ratio × keys, 0 to 1, over a floor of five
// keys a second; and of 5 % of the sub-queries (or ratio, when that is more) over
// a floor of one a second; and half as much of the keys besides for rescues, within
// the same sub-queries. Under load next to nothing is saved up. A ratio of 0 allows
// no hedge at all.
func NewAllowance(ratio float64) *Allowance {
	ratio = min(max(ratio, 0), largestKeyRatio)
	subQueries := 0.0
	if ratio > 0 {
		subQueries = max(SubQueryRatio, ratio)
	}
	return &Allowance{
		keys:       NewBudget(Limits{Ratio: ratio, Burst: keyBurst, Floor: keyFloor}),
		subQueries: NewBudget(Limits{Ratio: subQueries, Burst: SubQueryBurst, Floor: subQueryFloor}),
		rescues:    NewBudget(Limits{Ratio: rescueShare * ratio, Burst: rescueBurst, Floor: keyFloor * rescueShare}),
		load:       NewBudget(Limits{Ratio: loadShare * subQueries, Burst: loadBurst, Floor: subQueryFloor, Debt: loadDebt}),
	}
}

// Deposit saves for a plan of first attempts.
func (a *Allowance) Deposit(keys, subQueries int) {
	a.keys.Deposit(keys)
	a.subQueries.Deposit(subQueries)
	a.rescues.Deposit(keys)
	a.load.Deposit(subQueries)
}

// Withdraw takes for a hedge, of every pool or of none. A reserve, four fifths of what
// the pools begin with, is for hosts that stand still: the usual stragglers, if there
// are more of them than the ratio allows, would otherwise leave nothing for the pause
// that hedging is there for.
func (a *Allowance) Withdraw(w Wanted) bool {
	keysLeft, subQueriesLeft := keyReserve, subQueryReserve
	if w.Still {
		keysLeft, subQueriesLeft = 0, 0
	}
	if a.take(w, a.keys, keysLeft, subQueriesLeft) {
		return true
	}
	a.denied.Add(1)
	return false
}

// Rescue takes for a hedge that was refused, of a lookup that runs out of time: it fails
// without, and those that are merely slow have used up the rest. Half of the pool of keys
// is for the last ones, whose time is nearly over: many that were late a moment before have
// been answered by then. The sub-queries are of the same pool as those of other hedges, so
// that rescues are no way around its share; its reserve is theirs, too.
func (a *Allowance) Rescue(w Wanted) bool {
	reserve := rescueReserve
	if w.Last {
		reserve = 0
	}
	return a.take(w, a.rescues, reserve, 0)
}

// take takes from a pool of keys and from that of sub-queries, and under load from its
// pool as well.
func (a *Allowance) take(w Wanted, keys *Budget, keysLeft, subQueriesLeft int) bool {
	if w.Load && !w.Stalled && !a.load.Withdraw(w.SubQueries) {
		return false
	}
	if keys.withdraw(w.Keys, keysLeft) {
		if a.subQueries.withdraw(w.SubQueries, subQueriesLeft) {
			if w.Load && w.Stalled {
				a.load.owe(w.SubQueries)
			}
			return true
		}
		keys.refund(w.Keys)
	}
	if w.Load && !w.Stalled {
		a.load.refund(w.SubQueries)
	}
	return false
}

// Probe takes for a sub-query that is to be sent under load to see how a host is doing,
// so that hedges and probes together keep to the share. Probes go first: they may owe.
// With a ratio of 0 they are all there is.
func (a *Allowance) Probe() bool {
	return a.load.limits.Ratio <= 0 || a.load.spend(1, -loadDebt) || a.load.borrow(1)
}

// Denied is how many hedges were refused.
func (a *Allowance) Denied() uint64 { return a.denied.Load() }
