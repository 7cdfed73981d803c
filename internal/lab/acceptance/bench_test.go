package acceptance

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/lab/bench"
	"github.com/qosproxy/qosproxy/internal/lab/devcluster"
	"github.com/qosproxy/qosproxy/internal/lab/experiment"
)

// benchProfile has a column of every type that a profile may have.
const benchProfile = `
name: small
keyspace: bench
table: small
partitions: 200
rows_per_partition: 3
key: {name: id, type: uuid}
clustering: {name: seq, type: text}
columns:
  - {name: t, type: text, bytes: [10, 1000]}
  - {name: b, type: blob, bytes: [7]}
  - {name: i, type: int}
  - {name: l, type: bigint}
  - {name: d, type: double}
  - {name: f, type: boolean}
  - {name: u, type: uuid}
keys: {unknown: 0.1}
mix:
  - {keys: 20}
  - {keys: 5, columns: [d, seq], limit_per_key: 2}
`

// testBench loads every target of qoslab bench. Each row must be right by the profile's own data,
// and wrong by those of another seed.
func testBench(t *testing.T, p *proxy, cluster *devcluster.Cluster, client *cassandra.Client) {
	profile, err := bench.ParseProfile([]byte(benchProfile))
	require.NoError(t, err)
	driver := func(seed uint64, change ...func(*bench.Open)) *bench.Driver {
		data, err := bench.NewDataset(profile, seed)
		require.NoError(t, err)
		cfg := cassandra.Default()
		cfg.ContactPoints, cfg.Logger = cluster.ContactPoints(), slog.New(slog.DiscardHandler)
		open := bench.Open{
			Data: data, Cassandra: cfg, Consistency: "LOCAL_ONE", SpeculativeRetry: "15ms", HedgeBudget: 0.02, Timeout: 10 * time.Second,
			GRPC: p.Addr("grpc"), HTTP: p.Addr("http"),
		}
		for _, do := range change {
			do(&open)
		}
		d, err := bench.NewDriver(open, bench.Meter{Admin: p.Addr("admin"), Nodes: func() (map[string]bench.NodeCPU, error) { return experiment.NodeCPU(cluster) }})
		require.NoError(t, err)
		t.Cleanup(d.Close)
		return d
	}
	data, err := bench.NewDataset(profile, 1)
	require.NoError(t, err)
	require.NoError(t, data.Create(t.Context(), client, "{'class': 'NetworkTopologyStrategy', 'dc1': 3}"))
	require.ErrorContains(t, data.Loaded(t.Context(), client), "qoslab bench load")
	require.NoError(t, data.Load(t.Context(), client, nil))
	require.NoError(t, data.Loaded(t.Context(), client))

	load := bench.Comparison{Load: bench.Load{Concurrency: 1}, Rounds: 1, Length: 300 * time.Millisecond}
	runs, err := bench.Compare(t.Context(), driver(1).Contenders("", bench.Targets...), load)
	require.NoError(t, err)
	for _, run := range runs {
		c := run.Rounds[0].Counts
		assert.NotZero(t, c.OK, run.Target)
		assert.Equal(t, c.Lookups, c.OK, "%s: %v", run.Target, c)
		assert.Zero(t, c.WrongRows+c.MissingKeys, "%s: %v", run.Target, c)
		assert.NotNil(t, run.Rounds[0].PerLookup.CassandraCPUMillis)
		assert.NotNil(t, run.Rounds[0].PerLookup.CompilerCPUMillis)
		assert.Equal(t, bench.IsProxy(run.Target), run.Rounds[0].PerLookup.ProxyCPUMillis != nil, run.Target)
	}
	one := driver(1, func(o *bench.Open) {
		o.OnlyContactPoints, o.Cassandra.LocalDC, o.Cassandra.ContactPoints = true, "dc1", o.Cassandra.ContactPoints[:1]
	})
	through, err := bench.Compare(t.Context(), one.Contenders("", bench.In), load)
	require.NoError(t, err)
	assert.NotZero(t, through[0].Rounds[0].Counts.OK, "one coordinator for all")
	wrong, err := bench.Compare(t.Context(), driver(2).Contenders("", bench.Targets...), load)
	require.NoError(t, err)
	for _, run := range wrong {
		assert.NotZero(t, run.Rounds[0].Counts.WrongRows, run.Target)
	}
}
