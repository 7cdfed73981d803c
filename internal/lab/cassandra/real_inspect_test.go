//go:build lab

package cassandra_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/doctor"
)

// TestRealInspection looks at three nodes, of which the last refuses NODE_LOCAL.
func TestRealInspection(t *testing.T) {
	cluster, admin := shared.get(t)
	name := shared.table(t, "CREATE TABLE %s (a frozen<tuple<int, text>>, b text, c int, v frozen<list<int>>, PRIMARY KEY ((a, b), c)) WITH speculative_retry = 'NONE'")
	empty := shared.table(t, "CREATE TABLE %s (id text PRIMARY KEY, v text)")
	require.NoError(t, admin.Exec(t.Context(), "INSERT INTO test."+name+" (a, b, c, v) VALUES ((1, 'x'), 'y', 2, [3])"))
	others := goleak.IgnoreCurrent()

	cfg := config(cluster)
	cfg.Logger = logger(t)
	cfg.LocalDC = "dc1"
	cfg.ContactPoints = append(cfg.ContactPoints, "127.0.0.99")
	found, err := cassandra.Inspect(t.Context(), cfg, []doctor.Question{
		{Keyspace: "test", Table: name, Columns: []string{"a", "v"}, Rows: 10},
		{Keyspace: "test", Table: empty, Rows: 10},
		{Keyspace: "test", Table: "absent", Rows: 10},
	})
	require.NoError(t, err)

	require.Len(t, found.Points, 4)
	for _, p := range found.Points[:3] {
		assert.Empty(t, p.Failure, p.Name)
		assert.Equal(t, "dc1", p.DC)
	}
	assert.Equal(t, "connection refused", found.Points[3].Failure)
	assert.Equal(t, "org.apache.cassandra.dht.Murmur3Partitioner", found.Partitioner)
	assert.Equal(t, "dc1", found.LocalDC)
	assert.Empty(t, found.RingFailure+found.GossipFailure+found.Moving+found.SchemaFailure)
	require.Len(t, found.Nodes, 3)
	for _, n := range found.Nodes {
		assert.True(t, n.Asked)
		assert.Empty(t, n.Failure)
		assert.Equal(t, found.Nodes[0].Schema, n.Schema)
		assert.NotEmpty(t, n.Schema)
		assert.Zero(t, n.Ahead, "all run on this machine")
		for _, setting := range doctor.Settings {
			assert.NotEmpty(t, n.Settings[setting], setting)
		}
		want := doctor.Allowed
		if n.Addr == cluster.Nodes()[2].Addr() {
			want = doctor.Refused
		}
		assert.Equal(t, want, n.NodeLocal, n.Addr)
		assert.False(t, n.Direct, "the snitch is dynamic")
	}
	assert.Equal(t, 3, found.Keyspaces["test"].Factors["dc1"])
	assert.Contains(t, found.Names, "test."+name)

	require.Len(t, found.Tables, 3)
	table := found.Tables[0]
	require.NotNil(t, table.Definition)
	assert.Equal(t, "NEVER", table.Speculation)
	assert.False(t, table.Denied)
	assert.Empty(t, table.Failure)
	require.Len(t, table.Lookups, 3, "each replica was asked for the key")
	for _, l := range table.Lookups {
		assert.Empty(t, l.Failure)
		assert.Positive(t, l.Took)
	}
	assert.Equal(t, "99p", found.Tables[1].Speculation)
	assert.Empty(t, found.Tables[1].Failure)
	assert.Empty(t, found.Tables[1].Lookups)
	assert.Nil(t, found.Tables[2].Definition)
	// The driver's goroutines linger for a moment.
	require.Eventually(t, func() bool { err = goleak.Find(others); return err == nil }, patience, 50*time.Millisecond, "%v", err)

	// A datacenter that does not exist leaves that of the contact points.
	cfg.LocalDC = "elsewhere"
	found, err = cassandra.Inspect(t.Context(), cfg, nil)
	require.NoError(t, err)
	assert.Equal(t, "dc1", found.LocalDC)
	assert.True(t, found.Nodes[0].Asked)
}
