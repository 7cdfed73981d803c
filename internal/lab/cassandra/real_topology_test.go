//go:build lab

package cassandra_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/lab/devcluster"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
)

func TestRealRingFollowsNodesThatJoinAndLeave(t *testing.T) {
	cluster, admin := shared.get(t)
	name := shared.table(t, `CREATE TABLE %s (id text PRIMARY KEY, v text)`)
	require.NoError(t, admin.Exec(t.Context(), "INSERT INTO test."+name+" (id, v) VALUES ('a', 'x')"))
	c := open(t, config(cluster))
	table := definition(t, c, name)

	// Every snapshot has either all nodes from before the change or all from after it.
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var sizes []int
	wg.Go(func() {
		for ctx.Err() == nil {
			if n := c.Ring().Len(); len(sizes) == 0 || sizes[len(sizes)-1] != n {
				sizes = append(sizes, n)
			}
			time.Sleep(time.Millisecond)
		}
	})
	node, err := cluster.AddNode(t.Context(), devcluster.NodeConfig{DC: "dc1", Rack: "r1", JVMArgs: []string{"-Dcassandra.batchlog.replay_timeout_in_ms=1000"}})
	require.NoError(t, err)
	joined := time.Now()
	require.Eventually(t, func() bool { return c.Ring().Len() == 4 }, patience, 10*time.Millisecond)
	t.Logf("the ring had the new node %v after it had joined", time.Since(joined))
	host := hostOf(t, c, node)
	var last error
	require.Eventually(t, func() bool {
		var res []partition.Result
		res, last = read(t, c, executor.Query{Table: table, Columns: columns(t, table, "v")}, host, textKey(t, "a"))
		return last == nil && res[0].Status == partition.Found
	}, patience, 50*time.Millisecond, "%v", last)
	t.Logf("it was read from %v after it had joined", time.Since(joined))

	require.NoError(t, cluster.Decommission(t.Context(), node))
	gone := time.Now()
	require.Eventually(t, func() bool { return c.Ring().Len() == 3 }, patience, 10*time.Millisecond)
	t.Logf("the ring was without it %v after it had left", time.Since(gone))
	cancel()
	wg.Wait()
	assert.Equal(t, []int{3, 4, 3}, sizes)
	assert.False(t, slices.ContainsFunc(c.Ring().Hosts(), func(h ring.Host) bool { return h.ID == host.ID }))
}

func TestRealContactPointsDecideTheDatacenter(t *testing.T) {
	cluster, _ := shared.get(t)
	c := open(t, config(cluster))
	assert.Equal(t, "dc1", c.Status().LocalDC)
	assert.Equal(t, devcluster.Version, c.Status().Release)
	assert.NotEmpty(t, c.Status().ClusterName)

	cfg := config(cluster)
	cfg.LocalDC = "elsewhere"
	cfg.Logger = logger(t)
	wrong, err := cassandra.Open(t.Context(), cfg)
	require.NoError(t, err)
	defer wrong.Close()
	require.Eventually(t, func() bool {
		return containsAll(wrong.Status().Reason, `no contact point that answered is in datacenter "elsewhere"`, "check cassandra.local_dc")
	}, patience, 20*time.Millisecond, "%s", wrong.Status().Reason)
}
