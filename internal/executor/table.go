package executor

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// TableState is what the executor remembers of one table: how long its groups
// take, and what may still be spent on hedges and fail-over. Safe for concurrent use.
type TableState struct {
	*tableMemory
	hedges *hedge.Budget
	// budget is the share of keys that hedges was made for.
	budget float64
}

// tableMemory is what stays when the hedge budget of a table changes.
type tableMemory struct {
	latencies hedge.Latencies
	retries   *hedge.Pool
	// late is the recent share of first attempts that reached their hedge delay,
	// as the bits of a float64.
	late atomic.Uint64
	// own is of reads of hosts' own data, of which only the latencies are used: they are far
	// shorter than those of coordinators, which would else be overdue at once.
	own *TableState
	// away is the same of reads in datacenters to fail over to.
	away *TableState
	// batch is of batch work, of which only the lateness is used.
	batch *tableMemory
	// quorum counts what became of keys that were to be read by their replicas.
	quorum quorumCounts
}

// What fail-over may spend: half of the keys asked, so that one dead host of
// three (a third of the keys) is made up for without end, while a cluster that
// refuses everything is asked one and a half times and not RF times.
const (
	retryRatio = 0.5
	retryBurst = 2000
	retryFloor = 10
)

// Table returns the state of the table of that name, keyspace.table, made on
// first use with hedgeBudget as the share of its keys that may be hedged; 0 hedges
// none, but for ALWAYS.
// With another hedgeBudget than before it begins a new budget and keeps what
// it knows of latencies; lookups in flight end with the state they began with.
func (e *Executor) Table(name string, hedgeBudget float64) *TableState {
	for {
		found, ok := e.tables.Load(name)
		if ok && found.(*TableState).budget == hedgeBudget {
			return found.(*TableState)
		}
		next := &TableState{hedges: hedge.NewBudget(hedgeBudget), budget: hedgeBudget}
		if ok {
			next.tableMemory = found.(*TableState).tableMemory
			if e.tables.CompareAndSwap(name, found, next) {
				return next
			}
			continue
		}
		next.tableMemory = &tableMemory{
			retries: hedge.NewPool(hedge.Limits{Ratio: retryRatio, Burst: retryBurst, Floor: retryFloor}),
			own:     &TableState{tableMemory: new(tableMemory)},
			away:    &TableState{tableMemory: new(tableMemory)},
			batch:   new(tableMemory),
		}
		if _, taken := e.tables.LoadOrStore(name, next); !taken {
			return next
		}
	}
}

// lateMemory is over how many first attempts their lateness is averaged.
const lateMemory = 64

// noteLate records whether a first attempt was late.
func (t *tableMemory) noteLate(late bool) {
	x := 0.0
	if late {
		x = 1
	}
	for {
		bits := t.late.Load()
		v := math.Float64frombits(bits)
		if v == x || t.late.CompareAndSwap(bits, math.Float64bits(v+(x-v)/lateMemory)) {
			return
		}
	}
}

// lateShare is the share of recent first attempts that reached their hedge delay, 0 to 1.
func (t *tableMemory) lateShare() float64 { return math.Float64frombits(t.late.Load()) }

// at returns the state that has the latencies of a query at a host.
func (t *TableState) at(h *host, q *Query) *TableState {
	switch {
	case h.dc != nil:
		return t.away
	case q.Consistency == partition.OwnData:
		return t.own
	}
	return t
}

// HedgeDelay returns after how long a group of this size is hedged under a policy; 0 for at
// once, false for never.
func (t *TableState) HedgeDelay(p hedge.Policy, size int) (time.Duration, bool) {
	return p.Delay(t.latencies.Of(size))
}

// overdueAfter is how long a group of this size may be outstanding before it is overdue: the
// delay after which the group is hedged, and three times what 95 of 100 such groups take. A
// delay of 0 (of NONE or ALWAYS) says nothing of what is slow.
func (t *TableState) overdueAfter(delay time.Duration, size int) time.Duration {
	if delay <= 0 {
		delay = hedge.Fallback
	}
	most := t.latencies.Quantile(0.95, size)
	if usual, ok := t.latencies.Usual(0.95, size); ok {
		most = usual
	}
	return max(delay, 3*most)
}

// withdrawRetries returns how many of so many keys fail-over may ask again, which it takes
// from its budget unless their loss cost the host nothing.
func (t *TableState) withdrawRetries(keys int, reason Reason) int {
	if reason.Free() || t.retries.Withdraw(keys) {
		return keys
	}
	for paid := range keys {
		if !t.retries.Withdraw(1) {
			return paid
		}
	}
	return keys
}
