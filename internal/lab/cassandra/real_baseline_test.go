//go:build lab

package cassandra_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// An application that uses the driver alone gets the same answers as the proxy.
func TestRealBaselineReadsTheSame(t *testing.T) {
	_, admin := shared.get(t)
	name := shared.table(t, `CREATE TABLE %s (id text, seq int, v text, PRIMARY KEY (id, seq))`)
	require.NoError(t, admin.Exec(t.Context(), "INSERT INTO test."+name+" (id, seq, v) VALUES ('a', 1, 'x')"))
	require.NoError(t, admin.Exec(t.Context(), "INSERT INTO test."+name+" (id, seq) VALUES ('a', 2)"))
	keys := []partition.Key{textKey(t, "a"), textKey(t, "none")}
	c := open(t, config(shared.cluster))
	table := definition(t, c, name)
	q := executor.Query{Table: table, Columns: columns(t, table, "seq", "v"), Consistency: "ALL", Limit: 10}
	want, err := read(t, c, q, c.Ring().Host(0), keys...)
	require.NoError(t, err)
	for what, change := range map[string]func(*cassandra.BaselineConfig){
		"token aware":                     func(p *cassandra.BaselineConfig) { p.LocalDC = "dc1" },
		"by contact points, in pages":     func(p *cassandra.BaselineConfig) { p.OnlyContactPoints, p.PageSize = true, 1 },
		"with the speculation of its own": func(p *cassandra.BaselineConfig) { p.SpeculativeDelay = time.Second },
	} {
		t.Run(what, func(t *testing.T) {
			cfg := cassandra.BaselineConfig{Config: config(shared.cluster)}
			cfg.Logger = logger(t)
			change(&cfg)
			p, err := cassandra.OpenBaseline(t.Context(), cfg)
			require.NoError(t, err)
			defer p.Close()
			in, err := p.In(t.Context(), &q, keys)
			require.NoError(t, err)
			assert.Equal(t, want, in)
			single, err := p.Single(t.Context(), &q, keys)
			require.NoError(t, err)
			assert.Equal(t, want, single)

			bad := q
			bad.Consistency = "SOME"
			_, err = p.In(t.Context(), &bad, keys)
			require.Error(t, err)
			_, err = p.Single(t.Context(), &bad, keys)
			require.Error(t, err)
		})
	}
	raw, err := admin.QueryRaw(t.Context(), "SELECT id, v FROM test."+name+" WHERE id = 'a'")
	require.NoError(t, err)
	assert.Equal(t, [][][]byte{{[]byte("a"), []byte("x")}, {[]byte("a"), nil}}, raw)
	_, err = admin.QueryRaw(t.Context(), "SELECT nothing FROM test."+name)
	require.ErrorContains(t, err, "SELECT nothing")
	_, err = admin.Query(t.Context(), "SELECT nothing FROM test."+name)
	require.ErrorContains(t, err, "SELECT nothing")
}

// A client that knows the ring asks an owner for keys that differ in their last column.
func TestRealBaselineAsksOneHost(t *testing.T) {
	_, admin := shared.get(t)
	name := shared.table(t, `CREATE TABLE %s (a text, b text, seq int, v text, PRIMARY KEY ((a, b), seq))`)
	for i, b := range []string{"1", "2", "2"} {
		require.NoError(t, admin.Exec(t.Context(), "INSERT INTO test."+name+" (a, b, seq, v) VALUES ('x', ?, ?, 'y')", b, i))
	}
	keys := []partition.Key{textKey(t, "x", "2"), textKey(t, "x", "none"), textKey(t, "x", "1")}
	c := open(t, config(shared.cluster))
	table := definition(t, c, name)
	q := executor.Query{Table: table, Columns: columns(t, table, "seq", "v"), Consistency: "ALL", Limit: 10}
	want, err := read(t, c, q, c.Ring().Host(0), keys...)
	require.NoError(t, err)
	require.Len(t, want[0].Rows, 2)
	p, err := cassandra.OpenBaseline(t.Context(), cassandra.BaselineConfig{Config: config(shared.cluster)})
	require.NoError(t, err)
	defer p.Close()
	for _, level := range []partition.Level{"ALL", "NODE_LOCAL"} {
		q.Consistency = level
		for _, n := range shared.cluster.Nodes()[:2] {
			many, err := p.At(t.Context(), n.HostID(), &q, keys)
			require.NoError(t, err)
			assert.Equal(t, want, many, level)
			one, err := p.At(t.Context(), n.HostID(), &q, keys[:1])
			require.NoError(t, err)
			assert.Equal(t, want[:1], one, level)
		}
	}
	_, err = p.At(t.Context(), shared.cluster.Nodes()[2].HostID(), &q, keys)
	require.ErrorContains(t, err, "NODE_LOCAL", "this node does not allow it")
	_, err = p.In(t.Context(), &q, keys)
	require.ErrorContains(t, err, "at an owner", "the driver would choose the host")
	q.Limit = 1
	limited, err := p.At(t.Context(), shared.cluster.Nodes()[0].HostID(), &q, keys)
	require.NoError(t, err)
	assert.Len(t, limited[0].Rows, 1)
	own, err := admin.QueryAt(t.Context(), shared.cluster.Nodes()[1].HostID(), "SELECT received_count FROM system_views.internode_inbound")
	require.NoError(t, err)
	require.NotEmpty(t, own)
	assert.IsType(t, int64(0), own[0]["received_count"])
}
