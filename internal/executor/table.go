package executor

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// TableState is what the executor remembers about one table: how long its groups take, and
// what may still be spent on hedges and fail-over. Safe for concurrent use.
type TableState struct {
	*tableMemory
	hedges *hedge.Budget
	// budget is the share of keys with which hedges was made.
	budget float64
}

// tableMemory is what stays when the hedge budget of a table changes.
type tableMemory struct {
	latencies hedge.Latencies
	// own are the latencies of reads of hosts' own data. They are far shorter than those of
	// coordinators, which would otherwise be overdue at once. away are those of reads in
	// datacenters to fail over to.
	own, away hedge.Latencies
	// heldBack are those of batch work, which merging holds back for as long as others ask.
	heldBack hedge.Latencies
	retries  *hedge.Pool
	// lateness is that of all but batch work, which is in batch.
	lateness
	batch lateness
	// quorum counts what became of keys that were to be read by their replicas.
	quorum quorumCounts
}

// What fail-over may spend: half of the keys asked. One dead host of three (a third of the
// keys) is then made up for indefinitely, while a cluster that refuses everything is asked
// one and a half times and not RF times.
const (
	retryRatio = 0.5
	retryBurst = 2000
	retryFloor = 10
)

// Table returns the state of the table of that name, keyspace.table, made on first use.
// hedgeBudget is the share of its keys that may be hedged; 0 hedges none, except by ALWAYS.
// If hedgeBudget changes, the state gets a new budget and keeps the latencies; lookups in
// flight end with the state they began with.
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
		}
		if _, taken := e.tables.LoadOrStore(name, next); !taken {
			return next
		}
	}
}

// ForgetTable drops the state of a table, and with it the series of its metrics. Lookups that have
// the state keep it until they end.
func (e *Executor) ForgetTable(name string) { e.tables.Delete(name) }

// lateMemory is over how many first attempts their lateness is averaged.
const lateMemory = 64

// lateness is the recent share of first attempts that reached their hedge delay, as the bits of
// a float64.
type lateness struct{ late atomic.Uint64 }

// noteLate records whether a first attempt was late.
func (l *lateness) noteLate(late bool) {
	x := 0.0
	if late {
		x = 1
	}
	for {
		bits := l.late.Load()
		v := math.Float64frombits(bits)
		if v == x || l.late.CompareAndSwap(bits, math.Float64bits(v+(x-v)/lateMemory)) {
			return
		}
	}
}

// lateShare is the share of recent first attempts that reached their hedge delay, 0 to 1.
func (l *lateness) lateShare() float64 { return math.Float64frombits(l.late.Load()) }

// at returns the latencies of a query at a host, of batch work or other.
func (t *TableState) at(h *host, q *Query, batch bool) *hedge.Latencies {
	switch {
	case h.dc != nil:
		return &t.away
	case batch:
		return &t.heldBack
	case q.Consistency == partition.OwnData:
		return &t.own
	}
	return &t.latencies
}

// HedgeDelay returns after how long a group of size keys is hedged under a policy; 0 means
// at once, false never.
func (t *TableState) HedgeDelay(p hedge.Policy, size int) (time.Duration, bool) {
	return p.Delay(&t.latencies, size)
}

// overdueAfter returns how long a group of this size may be outstanding before it is
// overdue: the larger of its hedge delay and three times the p95 of such groups. A delay of
// 0 (of NONE or ALWAYS) says nothing of what is slow, and counts as Fallback.
func overdueAfter(l *hedge.Latencies, delay time.Duration, size int) time.Duration {
	if delay <= 0 {
		delay = hedge.Fallback
	}
	most := l.Quantile(0.95, size)
	if usual, ok := l.Usual(0.95, size); ok {
		most = usual
	}
	return max(delay, 3*most)
}

// withdrawRetries returns how many of some keys fail-over may ask again. It takes these
// from its budget, unless their loss cost the host nothing.
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
