//go:build lab

package cassandra

import (
	"context"
	"strings"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// ReplaceSession opens the session of the driver anew. The local datacenter of c
// must be configured.
func (c *Cluster) ReplaceSession(ctx context.Context) error { return c.replace(ctx) }

// NodeLocalCounts are the counters of nodeLocalReads.
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
func (c *Cluster) NodeLocalAllows(q *executor.SubQuery) bool { return c.nodeLocal.policy.allows(q) }

// NodeLocalUnsafe makes reads at NODE_LOCAL go to all hosts at any time, until safe is called. If
// trusting, keys without rows are not read again. No read may be in-flight at either call.
func (c *Cluster) NodeLocalUnsafe(trusting bool) (safe func()) {
	n := c.nodeLocal
	n.policy.allows = func(*executor.SubQuery) bool { return true }
	if trusting {
		n.policy.confirms = func(partition.Status) bool { return false }
	}
	return func() { n.policy = n.safePolicy() }
}

// Prepared returns how many reads of a table of keyspace test one host has prepared.
func (c *Cluster) Prepared(ctx context.Context, host ring.Host, table string) (int, error) {
	rows, err := c.session.Load().driver.Query("SELECT query_string FROM system.prepared_statements").
		Consistency(gocql.One).SetHostID(host.ID).IterContext(ctx).SliceMap()
	n := 0
	for _, r := range rows {
		if strings.Contains(text(r["query_string"]), "FROM "+quote("test")+"."+quote(table)+" ") {
			n++
		}
	}
	return n, err
}

// WholeReads returns how many sub-queries have read all columns.
func (c *Cluster) WholeReads() uint64 { return c.columnSets.whole.Load() }
