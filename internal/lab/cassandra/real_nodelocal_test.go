//go:build lab

package cassandra_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// localTest is a cluster of which the first two nodes allow NODE_LOCAL.
type localTest struct {
	*cassandra.Cluster
	hosts []ring.Host
	query executor.Query
}

// read reads keys, at NODE_LOCAL where that is allowed, from a host that it presents as their
// replica. It also returns the increase of the counts.
func (l *localTest) read(t *testing.T, host ring.Host, keys ...partition.Key) ([]partition.Result, cassandra.NodeLocalCounts) {
	t.Helper()
	sub, s := query(l.query, host, keys...)
	sub.Ring = l.Ring()
	before := l.NodeLocalCounts()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	res, err := l.Read(ctx, sub)
	require.NoError(t, err)
	<-s.done
	require.EqualValues(t, 1, s.count.Load(), "Settled")
	now := l.NodeLocalCounts()
	return res, cassandra.NodeLocalCounts{
		Passed: now.Passed - before.Passed, Withheld: now.Withheld - before.Withheld, Reasked: now.Reasked - before.Reasked,
		Confirmed: now.Confirmed - before.Confirmed, Contradicted: now.Contradicted - before.Contradicted,
	}
}

func TestRealNodeLocal(t *testing.T) {
	cluster, admin := shared.get(t)
	plain := shared.table(t, `CREATE TABLE %s (id text PRIMARY KEY, v text)`)
	pair := shared.table(t, `CREATE TABLE %s (a text, b text, v text, PRIMARY KEY ((a, b)))`)
	tombs := shared.table(t, `CREATE TABLE %s (id text, seq int, v text, PRIMARY KEY (id, seq)) WITH speculative_retry = 'NONE'`)
	for i := range 40 {
		require.NoError(t, admin.Exec(t.Context(), "INSERT INTO test."+plain+" (id, v) VALUES (?, ?)", strconv.Itoa(i), fmt.Sprint("v", i)))
		require.NoError(t, admin.Exec(t.Context(), "INSERT INTO test."+pair+" (a, b, v) VALUES (?, 'b', 'x')", strconv.Itoa(i)))
		require.NoError(t, admin.Exec(t.Context(), "INSERT INTO test."+tombs+" (id, seq, v) VALUES (?, 1, 'x')", strconv.Itoa(i)))
	}
	require.NoError(t, admin.Load(t.Context(), "DELETE FROM test."+tombs+" WHERE id = '7' AND seq = ?", func(yield func([]any) bool) {
		for i := range 2 * tombstoneLimit {
			if !yield([]any{i}) {
				return
			}
		}
	}, 64))
	require.NoError(t, admin.Exec(t.Context(),
		"CREATE KEYSPACE IF NOT EXISTS single WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 1}"))
	require.NoError(t, admin.Exec(t.Context(), "CREATE TABLE IF NOT EXISTS single.rows (id text, seq int, v text, PRIMARY KEY (id, seq))"))
	for i := range 40 {
		require.NoError(t, admin.Exec(t.Context(), "INSERT INTO single.rows (id, seq, v) VALUES (?, 1, 'x')", strconv.Itoa(i)))
	}

	cfg := config(cluster)
	cfg.NodeLocal = true
	l := &localTest{Cluster: open(t, cfg)}
	for _, n := range cluster.Nodes() {
		l.hosts = append(l.hosts, hostOf(t, l.Cluster, n))
	}
	use := func(table *schema.Table) {
		l.query = executor.Query{Table: table, Columns: columns(t, table, "v"), Consistency: "NODE_LOCAL", Limit: 10}
	}
	use(definition(t, l.Cluster, plain))
	keys := func(from, to int) []partition.Key {
		var out []partition.Key
		for i := from; i < to; i++ {
			out = append(out, textKey(t, strconv.Itoa(i)))
		}
		return out
	}
	res, counts := l.read(t, l.hosts[0], keys(0, 50)...)
	assert.Equal(t, partition.Found, res[0].Status)
	assert.Equal(t, cassandra.NodeLocalCounts{Withheld: 1}, counts, "not before the nodes have been looked at for a while")
	allows := func() (out [3]bool) {
		for i, h := range l.hosts {
			out[i] = l.NodeLocalAllows(&executor.SubQuery{Host: h, Ring: l.Ring()})
		}
		return out
	}
	require.Eventually(t, func() bool { return allows() == [3]bool{true, true, false} }, patience, 20*time.Millisecond)

	t.Run("keys without rows are confirmed", func(t *testing.T) {
		for _, host := range l.hosts[:2] {
			res, counts := l.read(t, host, keys(30, 50)...)
			assert.Equal(t, cassandra.NodeLocalCounts{Passed: 1, Confirmed: 10}, counts)
			for i, r := range res {
				if i >= 10 {
					assert.Equal(t, partition.Result{Status: partition.NotFound}, r)
					continue
				}
				require.Equal(t, partition.Found, r.Status)
				assert.Equal(t, fmt.Sprint("v", 30+i), string(r.Rows[0][0]))
			}
		}
		res, counts := l.read(t, l.hosts[0], keys(41, 42)...)
		assert.Equal(t, partition.NotFound, res[0].Status)
		assert.Equal(t, cassandra.NodeLocalCounts{Passed: 1, Confirmed: 1}, counts, "a group of one")
	})
	t.Run("keys read one by one", func(t *testing.T) {
		use(definition(t, l.Cluster, pair))
		defer use(definition(t, l.Cluster, plain))
		res, counts := l.read(t, l.hosts[0], textKey(t, "1", "b"), textKey(t, "1", "none"), textKey(t, "2", "b"))
		assert.Equal(t, []partition.Status{partition.Found, partition.NotFound, partition.Found}, statuses(res))
		assert.Equal(t, cassandra.NodeLocalCounts{Passed: 1, Confirmed: 1}, counts)
	})
	t.Run("a host that does not allow it", func(t *testing.T) {
		res, counts := l.read(t, l.hosts[2], keys(0, 20)...)
		assert.NotContains(t, statuses(res), partition.NotFound)
		assert.Equal(t, cassandra.NodeLocalCounts{Withheld: 1}, counts)
	})
	t.Run("tombstones fail one key alone", func(t *testing.T) {
		use(definition(t, l.Cluster, tombs))
		defer use(definition(t, l.Cluster, plain))
		res, counts := l.read(t, l.hosts[0], keys(0, 12)...)
		assert.Equal(t, cassandra.NodeLocalCounts{Passed: 1, Reasked: 1}, counts)
		for i, r := range res {
			if i == 7 {
				require.EqualError(t, r.Err, "a replica met too many tombstones in the partition")
				continue
			}
			assert.Equal(t, partition.Found, r.Status, "key %d", i)
		}
	})

	table, ok := l.Schema().Table("single", "rows")
	require.True(t, ok)
	use(table)
	placement, ok := l.Ring().Placement("single")
	require.True(t, ok)
	var foreign []partition.Key // that the first host does not own
	for _, k := range keys(0, 40) {
		i, _ := l.Ring().Index(l.hosts[0].ID)
		if !slices.Contains(placement.Replicas(ring.Token(k.Routing())), i) {
			foreign = append(foreign, k)
		}
	}
	require.Greater(t, len(foreign), 10)
	// Before a row was seen, this many keys might need pages, which are read at LOCAL_ONE.
	res, _ = l.read(t, l.hosts[0], foreign[0])
	require.Equal(t, partition.Found, res[0].Status)
	t.Run("control: unconfirmed, a host that does not own a key denies it", func(t *testing.T) {
		defer l.NodeLocalUnsafe(true)()
		res, _ := l.read(t, l.hosts[0], foreign...)
		for i, r := range res {
			assert.Equal(t, partition.NotFound, r.Status, "if %s is found here, the tests prove nothing", foreign[i].Routing())
		}
		l.query.Limit = 6000
		res, _ = l.read(t, l.hosts[0], foreign[0])
		assert.Equal(t, partition.Found, res[0].Status, "what comes in pages goes at LOCAL_ONE")
		l.query.Limit = 10
	})
	t.Run("confirmed, a host that does not own a key finds it", func(t *testing.T) {
		defer l.NodeLocalUnsafe(false)()
		res, counts := l.read(t, l.hosts[0], foreign...)
		assert.NotContains(t, statuses(res), partition.NotFound)
		assert.Equal(t, cassandra.NodeLocalCounts{Passed: 1, Contradicted: uint64(len(foreign))}, counts)
	})
	t.Run("control: without the gate, a host that owned a key answers with what it was", func(t *testing.T) {
		id := string(foreign[1].Routing())
		require.NoError(t, admin.ExecNodeLocal(t.Context(), l.hosts[0].ID, "INSERT INTO single.rows (id, seq, v) VALUES (?, 1, 'old') USING TIMESTAMP 1", id))
		value := func() string {
			res, _ := l.read(t, l.hosts[0], foreign[:2]...)
			return string(res[1].Rows[0][0])
		}
		safe := l.NodeLocalUnsafe(false)
		assert.Equal(t, "old", value(), "no confirmation helps here")
		safe()
		sub, _ := query(l.query, l.hosts[0], foreign[1])
		require.False(t, l.NodeLocalAllows(sub), "not a replica by the ring")
		res, err := l.Read(t.Context(), sub)
		require.NoError(t, err)
		assert.Equal(t, "x", string(res[0].Rows[0][0]))
	})
	t.Run("a host that refuses while reading", func(t *testing.T) {
		safe := l.NodeLocalUnsafe(true)
		res, counts := l.read(t, l.hosts[2], foreign...)
		safe()
		assert.NotContains(t, statuses(res), partition.NotFound)
		assert.Equal(t, cassandra.NodeLocalCounts{Passed: 1, Reasked: 1}, counts)
	})
	t.Run("a change of the schema is an event", func(t *testing.T) {
		require.NoError(t, admin.Exec(t.Context(), "ALTER TABLE single.rows WITH comment = 'changed'"))
		require.Eventually(t, func() bool { return allows() == [3]bool{} }, patience, time.Millisecond)
	})
}

func statuses(res []partition.Result) []partition.Status {
	out := make([]partition.Status, len(res))
	for i, r := range res {
		out[i] = r.Status
	}
	return out
}
