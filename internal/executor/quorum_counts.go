package executor

import (
	"math"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qosproxy/qosproxy/internal/quorum"
)

const (
	// rereadMemory is over how many keys the share of keys read again is averaged.
	rereadMemory = 1024
	// rereadMost is the share above which asking the replicas does not pay; then one lookup
	// in rereadTry tries it. A key that differs counts as differs keys: its coordinator
	// asks for digests first, and then reads it from both replicas in full (six nodes: 1.4
	// ms, where an absent key takes a fifth of that).
	rereadMost, rereadTry = 0.5, 16
	differs               = 3
)

// quorumCounts counts the keys of a table whose quorum reads go to the replicas, by
// outcome. Safe for concurrent use.
type quorumCounts struct {
	of [quorum.Share + 1]atomic.Uint64
	// again is the recent share of the keys asked of their replicas that were read again,
	// as the bits of a float64. wasted is the same, with keys that differ counted as
	// differs.
	again, wasted atomic.Uint64
	// spared counts lookups while wasted is too high.
	spared atomic.Uint64
}

func (c *quorumCounts) add(outcome quorum.Outcome, keys int) {
	c.of[outcome].Add(uint64(keys))
	if !outcome.Asked() {
		return
	}
	again, wasted := 1.0, 1.0
	switch outcome {
	case quorum.Matched, quorum.Reconciled:
		again, wasted = 0, 0
	case quorum.Mismatched:
		wasted = differs
	default:
	}
	move(&c.again, again)
	move(&c.wasted, wasted)
}

// move moves an average. A concurrent update may be lost, which does no harm.
func move(average *atomic.Uint64, x float64) {
	was := math.Float64frombits(average.Load())
	average.Store(math.Float64bits(was + (x-was)/rereadMemory))
}

// QuorumPays reports whether it pays to ask the replicas for the keys of a lookup: few were
// read again lately, or it is time to try.
func (t *TableState) QuorumPays() bool {
	return math.Float64frombits(t.quorum.wasted.Load()) <= rereadMost || t.quorum.spared.Add(1)%rereadTry == 0
}

// QuorumAgain returns the recent share of the keys asked of their replicas that were read
// again through a coordinator, 0 to 1.
func (t *TableState) QuorumAgain() float64 { return math.Float64frombits(t.quorum.again.Load()) }

// CountQuorum counts keys that are read through a coordinator for the reason why.
func (t *TableState) CountQuorum(why quorum.Outcome, keys int) { t.quorum.add(why, keys) }

// QuorumReads returns how many keys have ended with each outcome, by its name; nil before the
// first.
func (t *TableState) QuorumReads() map[string]uint64 {
	out, total := make(map[string]uint64, len(quorum.Outcomes)), uint64(0)
	for _, o := range quorum.Outcomes {
		n := t.quorum.of[o].Load()
		out[o.String()] = n
		total += n
	}
	if total == 0 {
		return nil
	}
	return out
}

// QuorumReads returns TableState.QuorumReads and QuorumAgain of a table, keyspace.table;
// nil and 0 if it is unknown.
func (e *Executor) QuorumReads(table string) (keys map[string]uint64, again float64) {
	found, ok := e.tables.Load(table)
	if !ok {
		return nil, 0
	}
	t := found.(*TableState) //nolint:forcetypeassert // nothing else is stored
	return t.QuorumReads(), t.QuorumAgain()
}

// quorumCollector counts the quorum reads of the tables.
type quorumCollector struct{ executor *Executor }

var quorumReadsDesc = prometheus.NewDesc("qosproxy_quorum_reads_total",
	"Keys of tables with quorum_reads: replicas by outcome: matched and reconciled were answered by the replicas, all others were read through a coordinator.",
	[]string{"table", "outcome"}, nil)

// Describe sends the description of the metric.
func (c quorumCollector) Describe(to chan<- *prometheus.Desc) { to <- quorumReadsDesc }

// Collect sends the counts of each table that has any.
func (c quorumCollector) Collect(to chan<- prometheus.Metric) {
	c.executor.tables.Range(func(name, state any) bool {
		for outcome, n := range state.(*TableState).QuorumReads() { //nolint:forcetypeassert // nothing else is stored
			to <- prometheus.MustNewConstMetric(quorumReadsDesc, prometheus.CounterValue, float64(n), name.(string), outcome) //nolint:forcetypeassert // as above
		}
		return true
	})
}
