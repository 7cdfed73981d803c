package cassandra

import (
	"context"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// ReplaceSession opens the session of the driver anew. The local datacenter of c
// must be configured.
func (c *Cluster) ReplaceSession(ctx context.Context) error { return c.replace(ctx) }

// NodeLocalCounts are those of nodeLocalReads.
type NodeLocalCounts struct{ Passed, Withheld, Reasked, Confirmed, Contradicted uint64 }

// NodeLocalCounts returns what became of reads that wanted NODE_LOCAL.
func (c *Cluster) NodeLocalCounts() NodeLocalCounts {
	r := &c.nodeLocal.reads
	return NodeLocalCounts{
		Passed: r.passed.Load(), Withheld: r.withheld.Load(), Reasked: r.reasked.Load(),
		Confirmed: r.confirmed.Load(), Contradicted: r.contradicted.Load(),
	}
}

// NodeLocalAllows reports whether a sub-query would go at NODE_LOCAL now.
func (c *Cluster) NodeLocalAllows(q *executor.SubQuery) bool { return c.nodeLocal.allows(q) }

// NodeLocalWithout turns safeguards of NODE_LOCAL off. No read may be under way.
func (c *Cluster) NodeLocalWithout(gate, confirm bool) {
	c.nodeLocal.without = nodeLocalSafeguards{gate: gate, confirm: confirm}
}

// ExecNodeLocal runs a statement on one host alone, whether or not it owns the key.
func (c *Cluster) ExecNodeLocal(ctx context.Context, host ring.Host, cql string, args ...any) error {
	return c.session.Load().driver.Query(cql, args...).Consistency(levelNodeLocal).SetHostID(host.ID).ExecContext(ctx)
}
