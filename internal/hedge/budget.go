package hedge

// Budget limits the hedges of a table to a share of its keys and a share of its
// sub-queries, so that hedges of few keys do not become many requests. It is safe for
// concurrent use.
type Budget struct {
	keys, subQueries, rescues, load *Pool
}

// Wanted describes a hedge that a Budget is asked for.
type Wanted struct {
	// Keys is how many keys are to be asked again, and SubQueries in how many sub-queries.
	Keys, SubQueries int
	// Quiet is set if the late host has answered nobody for a part of the hedge delay. The
	// hedge may then use the reserve.
	Quiet bool
	// Load is set if many attempts are late. The hedge must then fit the load pool too,
	// which saves up little, so that tokens saved in better times are left alone.
	Load bool
	// Stalled is set if the host has answered nobody for so long that load is not the
	// reason. Under load such a hedge may use the saved tokens, and overdraw the load pool.
	Stalled bool
	// Urgent is set for a rescue whose lookup is nearly out of time.
	Urgent bool
}

// The limits of a Budget besides the ratio of keys.
const (
	// SubQueryRatio is the share of sub-queries that may be hedges.
	SubQueryRatio = 0.05
	// SubQueryBurst is the most sub-queries that can be saved up for hedges.
	SubQueryBurst   = 200
	keyBurst        = 1000
	keyFloor        = 5
	subQueryFloor   = 1
	largestKeyRatio = 1
	// Rescues have a pool of keys of their own: its ratio is rescueShare times that of
	// keys, it saves up to rescueBurst keys, and rescueReserve of these are for urgent
	// ones.
	rescueShare   = 0.5
	rescueBurst   = 500
	rescueReserve = rescueBurst / 2
	// keyReserve and subQueryReserve are left for hosts that answer nobody.
	keyReserve      = 400
	subQueryReserve = 80
	// loadShare is the part of the ratio of sub-queries for hedges and probes under load;
	// the rest is for hedges made before many are late. The load pool saves up to loadBurst
	// sub-queries. Probes, and hedges away from stalled hosts, can overdraw it by up to
	// loadOverdraft.
	loadShare     = 0.8
	loadBurst     = 10
	loadOverdraft = 20
)

// NewBudget returns a budget that allows ratio × keys, clamped to 0 to 1, and 5 % of the
// sub-queries, or ratio if that is more. Five keys and one sub-query a second are allowed
// regardless. Rescues get half as many keys in addition, but from the same sub-queries.
// Under load next to nothing is saved up. A ratio of 0 allows no hedge at all.
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

// Deposit adds the shares of a plan of first attempts.
func (b *Budget) Deposit(keys, subQueries int) {
	b.keys.Deposit(keys)
	b.subQueries.Deposit(subQueries)
	b.rescues.Deposit(keys)
	b.load.Deposit(subQueries)
}

// Withdraw takes a hedge from every pool or from none, and reports whether it could. A
// reserve of four fifths of the initial tokens is for hosts that answer nobody. Otherwise
// ordinary stragglers, if there are more than the ratio allows, would leave nothing for the
// pause of a host.
func (b *Budget) Withdraw(w Wanted) bool {
	keysLeft, subQueriesLeft := keyReserve, subQueryReserve
	if w.Quiet {
		keysLeft, subQueriesLeft = 0, 0
	}
	return b.take(w, b.keys, keysLeft, subQueriesLeft)
}

// Rescue takes a hedge that Withdraw refused, of a lookup that is running out of time: it
// would fail without, as hedges of attempts that are merely slow have used up the rest.
// Half of the rescue keys are for urgent ones, whose time is nearly over: many attempts
// that were late before are answered by then. The sub-queries are from the pool of all
// hedges, so that rescues keep to its share, and may use its reserve.
func (b *Budget) Rescue(w Wanted) bool {
	reserve := rescueReserve
	if w.Urgent {
		reserve = 0
	}
	return b.take(w, b.rescues, reserve, 0)
}

// take takes a hedge from a pool of keys, from the pool of sub-queries and, under load,
// from the load pool. keysLeft and subQueriesLeft are the reserves to leave.
func (b *Budget) take(w Wanted, keys *Pool, keysLeft, subQueriesLeft int) bool {
	var load withdrawal
	if w.Load && !w.Stalled {
		var ok bool
		if load, ok = b.load.withdraw(w.SubQueries, 0); !ok {
			return false
		}
	}
	if taken, ok := keys.withdraw(w.Keys, keysLeft); ok {
		if _, ok := b.subQueries.withdraw(w.SubQueries, subQueriesLeft); ok {
			if w.Load && w.Stalled {
				b.load.overdraw(w.SubQueries)
			}
			return true
		}
		keys.refund(taken)
	}
	b.load.refund(load)
	return false
}

// Probe takes a probe from the share that it has in common with hedges, and reports whether
// it may be sent. Probes have precedence: without load they are always sent, but leave the
// reserve to hedges, and under load they may overdraw the load pool. With a ratio of 0,
// which allows no hedges, all are sent.
func (b *Budget) Probe(load bool) bool {
	if b.load.limits.Ratio <= 0 {
		return true
	}
	if !load {
		b.subQueries.spend(1, subQueryReserve)
		return true
	}
	if !b.load.spend(1, -loadOverdraft) {
		if _, ok := b.load.fromFloor(1); !ok {
			return false
		}
	}
	b.subQueries.overdraw(1)
	return true
}
