package hedge

// Budget is what a table may spend on hedges: a share of its keys and, so
// that a few keys do not become many requests, a share of its sub-queries. Safe
// for concurrent use.
type Budget struct {
	keys, subQueries, rescues, load *Pool
}

// Wanted is a hedge that a Budget is asked for.
type Wanted struct {
	// Keys are asked of another replica, in so many SubQueries.
	Keys, SubQueries int
	// Quiet says that the host which is late has answered nobody for a part of the hedge
	// delay, so that the reserve is there for this hedge.
	Quiet bool
	// Load says that many attempts are late. What was saved up in better times is left
	// alone then, and this hedge has to do with the share as it comes.
	Load bool
	// Stalled says that the host has answered nobody for so long that this is not for
	// load. Under load its hedges are made from what was saved up, and overdraw the share.
	Stalled bool
	// Urgent says of a rescue that the time of its lookup is nearly over.
	Urgent bool
}

// The limits of a Budget besides the ratio of keys.
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
	// urgent ones.
	rescueShare   = 0.5
	rescueBurst   = 500
	rescueReserve = rescueBurst / 2
	// keyReserve and subQueryReserve are left for hosts that answer nobody.
	keyReserve      = 400
	subQueryReserve = 80
	// loadShare is the part of the ratio of sub-queries that is for hedges and probes
	// under load; the rest of it is for what happens before many are late. loadBurst is
	// how many can be saved up, and loadOverdraft by how many probes and hedges away from
	// stalled hosts can overdraw it.
	loadShare     = 0.8
	loadBurst     = 10
	loadOverdraft = 20
)

// NewBudget returns a budget of ratio × keys, 0 to 1, over a floor of five
// keys a second; and of 5 % of the sub-queries (or ratio, when that is more) over
// a floor of one a second; and half as much of the keys besides for rescues, within
// the same sub-queries. Under load next to nothing is saved up. A ratio of 0 allows
// no hedge at all.
func NewBudget(ratio float64) *Budget {
	ratio = min(max(ratio, 0), largestKeyRatio)
	subQueries := 0.0
	if ratio > 0 {
		subQueries = max(SubQueryRatio, ratio)
	}
	return &Budget{
		keys:       NewPool(Limits{Ratio: ratio, Burst: keyBurst, Floor: keyFloor}),
		subQueries: NewPool(Limits{Ratio: subQueries, Burst: SubQueryBurst, Floor: subQueryFloor}),
		rescues:    NewPool(Limits{Ratio: rescueShare * ratio, Burst: rescueBurst, Floor: keyFloor * rescueShare}),
		load:       NewPool(Limits{Ratio: loadShare * subQueries, Burst: loadBurst, Floor: subQueryFloor, Overdraft: loadOverdraft}),
	}
}

// Deposit saves for a plan of first attempts.
func (b *Budget) Deposit(keys, subQueries int) {
	b.keys.Deposit(keys)
	b.subQueries.Deposit(subQueries)
	b.rescues.Deposit(keys)
	b.load.Deposit(subQueries)
}

// Withdraw takes for a hedge, of every pool or of none. A reserve, four fifths of what
// the pools begin with, is for hosts that answer nobody: the usual stragglers, if there
// are more of them than the ratio allows, would otherwise leave nothing for the pause
// that hedging is there for.
func (b *Budget) Withdraw(w Wanted) bool {
	keysLeft, subQueriesLeft := keyReserve, subQueryReserve
	if w.Quiet {
		keysLeft, subQueriesLeft = 0, 0
	}
	return b.take(w, b.keys, keysLeft, subQueriesLeft)
}

// Rescue takes for a hedge that was refused, of a lookup that runs out of time: it fails
// without, and those that are merely slow have used up the rest. Half of the pool of keys
// is for the urgent ones, whose time is nearly over: many that were late a moment before have
// been answered by then. The sub-queries are of the same pool as those of other hedges, so
// that rescues are no way around its share; its reserve is theirs, too.
func (b *Budget) Rescue(w Wanted) bool {
	reserve := rescueReserve
	if w.Urgent {
		reserve = 0
	}
	return b.take(w, b.rescues, reserve, 0)
}

// take takes from a pool of keys and from that of sub-queries, and under load from its
// pool as well.
func (b *Budget) take(w Wanted, keys *Pool, keysLeft, subQueriesLeft int) bool {
	if w.Load && !w.Stalled && !b.load.Withdraw(w.SubQueries) {
		return false
	}
	if keys.withdraw(w.Keys, keysLeft) {
		if b.subQueries.withdraw(w.SubQueries, subQueriesLeft) {
			if w.Load && w.Stalled {
				b.load.overdraw(w.SubQueries)
			}
			return true
		}
		keys.refund(w.Keys)
	}
	if w.Load && !w.Stalled {
		b.load.refund(w.SubQueries)
	}
	return false
}

// Probe takes for a sub-query that is to be sent to see how a host is doing, so that hedges
// and probes together keep to the share, and reports whether it may be sent. Probes go
// first: under load they may overdraw, and else they are sent in any case, and leave the
// reserve to hedges. With a ratio of 0 they are all there is.
func (b *Budget) Probe(load bool) bool {
	if b.load.limits.Ratio <= 0 {
		return true
	}
	if !load {
		b.subQueries.spend(1, subQueryReserve)
		return true
	}
	if !b.load.spend(1, -loadOverdraft) && !b.load.fromFloor(1) {
		return false
	}
	b.subQueries.overdraw(1)
	return true
}
