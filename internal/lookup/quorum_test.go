package lookup_test

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/quorum"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// byReplicas is a service whose quorum reads ask the replicas, with a record of what was asked.
type byReplicas struct {
	*fixture
	hosts []bool
	why   quorum.Outcome
	// stale is the host that missed the last write to the key "old".
	stale string

	mu     sync.Mutex
	levels map[partition.Level]int
	bytes  int
}

func newByReplicas(t *testing.T, strategy ring.Replication, change func(*lookup.Settings)) *byReplicas {
	t.Helper()
	f := newFixture(t)
	var err error
	f.snapshot, err = ring.New(ring.Topology{Hosts: f.snapshot.Hosts(), Keyspaces: map[string]ring.Replication{"shop": strategy}, LocalDC: "dc1"})
	require.NoError(t, err)
	b := &byReplicas{fixture: f, hosts: []bool{true, true, true}, levels: map[partition.Level]int{}}
	f.reads = b.read
	settings := lookup.Settings{
		Keyspace: "shop", Table: "products", Consistency: "LOCAL_QUORUM", QuorumReads: true, Timeout: time.Second,
		SpeculativeRetry: hedge.Fixed(500 * time.Millisecond), HedgeBudget: 0.02, MaxKeys: 100, MaxRowsPerKey: 10, MaxResponseBytes: 1000,
	}
	if change != nil {
		change(&settings)
	}
	b.Service = lookup.New(lookup.Config{
		Tables: []lookup.Settings{settings},
		Ring:   func() *ring.Ring { return f.snapshot }, Schema: func() *schema.Schema { return f.schema }, Executor: f.executor,
		OwnData: func(r *ring.Ring, table *schema.Table) ([]bool, quorum.Outcome) {
			assert.Same(t, f.snapshot, r)
			assert.Equal(t, "products", table.Name)
			return b.hosts, b.why
		},
	})
	return b
}

// read answers with one row of key, name and secret. The key "gone" has no row.
func (b *byReplicas) read(_ context.Context, q *executor.SubQuery) ([]partition.Result, error) {
	defer q.Settled()
	b.mu.Lock()
	b.levels[q.Consistency]++
	b.bytes = q.MaxBytes
	b.mu.Unlock()
	results := make([]partition.Result, len(q.Keys))
	for i, k := range q.Keys {
		key := string(k.Routing())
		written := uint64(2)
		if key == "old" && q.Host.ID == b.stale {
			written = 1
		}
		row := partition.Row{k.Routing(), []byte("v"), []byte("s")}
		size := len(key) + 2
		if q.Consistency == partition.OwnData {
			for range 2 {
				row = append(row, binary.BigEndian.AppendUint64(nil, written), nil)
				size += 8
			}
		}
		results[i] = partition.Result{Status: partition.Found, Rows: []partition.Row{row}, Bytes: size}
		if key == "gone" {
			results[i] = partition.Result{Status: partition.NotFound}
		}
	}
	return results, nil
}

func (b *byReplicas) get(t *testing.T, level partition.Level, columns []string, names ...string) *lookup.Response {
	t.Helper()
	table, err := b.Table("shop", "products")
	require.NoError(t, err)
	req := &lookup.Request{Table: table, Keys: keys(t, names...), Consistency: level, Trace: true}
	if columns != nil {
		req.Columns, err = table.Select(columns)
		require.NoError(t, err)
	}
	resp, err := b.Get(t.Context(), req)
	require.NoError(t, err)
	return resp
}

func (b *byReplicas) outcomes() map[string]uint64 {
	out := map[string]uint64{}
	for name, n := range b.executor.Table("shop.products", 0.02).QuorumReads() {
		if n > 0 {
			out[name] = n
		}
	}
	return out
}

var (
	simple = ring.Replication{Strategy: "SimpleStrategy", Factor: 3}
	local  = ring.Replication{Strategy: "NetworkTopologyStrategy", Factors: map[string]int{"dc1": 3}}
)

func TestAQuorumOfReplicasIsCompared(t *testing.T) {
	b := newByReplicas(t, local, nil)
	b.stale = "b"
	resp := b.get(t, "", nil, "new", "old", "gone", "new")
	for i, want := range []partition.Status{partition.Found, partition.Found, partition.NotFound, partition.Found} {
		assert.Equal(t, want, resp.Results[i].Status)
	}
	assert.Equal(t, partition.Row{[]byte("new"), []byte("v"), []byte("s")}, resp.Results[0].Rows[0], "without write times")
	assert.Equal(t, 5, resp.Results[0].Bytes)
	compared := resp.Plan.Keys
	assert.Equal(t, quorum.Matched, compared[0].Compared)
	assert.Equal(t, quorum.Absent, compared[2].Compared)
	assert.Contains(t, []quorum.Outcome{quorum.Matched, quorum.Mismatched}, compared[1].Compared, "by which two were asked")
	assert.Equal(t, compared[0], compared[3])
	assert.True(t, resp.Plan.Quorum)
	for _, k := range compared {
		require.Len(t, k.Groups, 2)
		assert.NotEqual(t, resp.Plan.Groups[k.Groups[0]].Host.ID, resp.Plan.Groups[k.Groups[1]].Host.ID)
	}
	rereads := slices.DeleteFunc(slices.Clone(resp.Attempts), func(a lookup.Attempt) bool { return a.OwnData })
	require.NotEmpty(t, rereads)
	for _, a := range rereads {
		assert.Equal(t, executor.KindReread, a.Kind)
		assert.NotContains(t, a.Keys, 0)
	}
	assert.Zero(t, resp.Stats.Failovers, "nothing has failed")
}

func TestAnswersOfReplicasMayBeLargerByTheirWriteTimes(t *testing.T) {
	b := newByReplicas(t, local, nil)
	b.get(t, "", nil, "a", "b", "c")
	assert.Equal(t, 1000+3*2*12, b.bytes)
}

// TestReplicasAreNotAskedWhenTheyCannotTell checks that each lookup that is read by
// coordinators gets its reason.
func TestReplicasAreNotAskedWhenTheyCannotTell(t *testing.T) {
	for name, c := range map[string]struct {
		replication ring.Replication
		change      func(*byReplicas)
		level       partition.Level
		columns     []string
		want        quorum.Outcome
		asked       bool
	}{
		"LOCAL_QUORUM":                     {replication: local, asked: true},
		"LOCAL_QUORUM, SimpleStrategy":     {replication: simple, asked: true},
		"QUORUM in a single datacenter":    {replication: local, level: "quorum", asked: true},
		"a level that is no quorum":        {replication: local, level: "LOCAL_ONE"},
		"a level of more":                  {replication: local, level: "ALL"},
		"a key alone":                      {replication: local, columns: []string{"id"}, want: quorum.Columns},
		"one replica":                      {replication: ring.Replication{Strategy: "SimpleStrategy", Factor: 1}, want: quorum.Replicas},
		"ownership is changing":            {replication: local, change: func(b *byReplicas) { b.hosts, b.why = nil, quorum.Ring }, want: quorum.Ring},
		"hosts refuse":                     {replication: local, change: func(b *byReplicas) { b.hosts, b.why = nil, quorum.Refused }, want: quorum.Refused},
		"all but one host of three refuse": {replication: local, change: func(b *byReplicas) { b.hosts = []bool{true, false, false} }, asked: true},
		"most keys had to be read again":   {replication: local, change: (*byReplicas).spoil, want: quorum.Share},
	} {
		t.Run(name, func(t *testing.T) {
			b := newByReplicas(t, c.replication, nil)
			if c.change != nil {
				c.change(b)
			}
			before := b.outcomes()
			resp := b.get(t, c.level, c.columns, "a", "b")
			assert.Equal(t, c.want, resp.Plan.Fallback)
			assert.Equal(t, c.asked, resp.Plan.Quorum)
			for _, r := range resp.Results {
				assert.Equal(t, partition.Found, r.Status)
			}
			if c.want != quorum.None {
				assert.Equal(t, before[c.want.String()]+2, b.outcomes()[c.want.String()])
				assert.Zero(t, b.levels[partition.OwnData])
			}
			plan, err := b.Explain(t.Context(), &lookup.Request{Table: mustTable(t, b), Keys: keys(t, "a"), Consistency: c.level})
			require.NoError(t, err)
			if c.columns == nil {
				assert.Equal(t, c.want, plan.Fallback)
			}
		})
	}
}

// spoil makes most keys that were asked of replicas be read again.
func (b *byReplicas) spoil() {
	for range 2000 {
		b.executor.Table("shop.products", 0.02).CountQuorum(quorum.Mismatched, 1)
	}
}

func mustTable(t *testing.T, b *byReplicas) *lookup.Table {
	t.Helper()
	table, err := b.Table("shop", "products")
	require.NoError(t, err)
	return table
}

func TestQuorumOfSeveralDatacenters(t *testing.T) {
	f := newFixture(t)
	hosts := slices.Clone(f.snapshot.Hosts())
	for i := range 3 {
		h := hosts[i]
		h.ID, h.DC, h.Addr, h.Tokens = h.ID+"2", "dc2", "1"+h.Addr, []int64{h.Tokens[0] + 1}
		hosts = append(hosts, h)
	}
	for name, c := range map[string]struct {
		replication ring.Replication
		level       partition.Level
		want        quorum.Outcome
	}{
		"LOCAL_QUORUM counts local replicas":   {ring.Replication{Strategy: "NetworkTopologyStrategy", Factors: map[string]int{"dc1": 3, "dc2": 3}}, "LOCAL_QUORUM", quorum.None},
		"QUORUM counts all":                    {ring.Replication{Strategy: "NetworkTopologyStrategy", Factors: map[string]int{"dc1": 3, "dc2": 3}}, "QUORUM", quorum.Replicas},
		"all replicas of a keyspace are local": {local, "QUORUM", quorum.None},
		"SimpleStrategy knows no datacenter":   {ring.Replication{Strategy: "SimpleStrategy", Factor: 5}, "LOCAL_QUORUM", quorum.Replicas},
	} {
		t.Run(name, func(t *testing.T) {
			b := newByReplicas(t, local, nil)
			var err error
			b.snapshot, err = ring.New(ring.Topology{Hosts: hosts, Keyspaces: map[string]ring.Replication{"shop": c.replication}, LocalDC: "dc1"})
			require.NoError(t, err)
			b.hosts = []bool{true, true, true, true, true, true}
			resp := b.get(t, c.level, nil, "a", "b")
			assert.Equal(t, c.want, resp.Plan.Fallback)
		})
	}
}

func TestAnswersOfAKey(t *testing.T) {
	b := newByReplicas(t, local, nil)
	table := mustTable(t, b)
	assert.Equal(t, 2, (&lookup.Request{Table: table}).Answers())
	assert.Equal(t, 1, (&lookup.Request{Table: table, Consistency: "local_one"}).Answers())
	hosts := slices.Clone(b.snapshot.Hosts())
	for i := range 2 {
		h := hosts[i]
		h.ID, h.Addr, h.Tokens = h.ID+"2", "1"+h.Addr, []int64{h.Tokens[0] + 1}
		hosts = append(hosts, h)
	}
	five := ring.Replication{Strategy: "NetworkTopologyStrategy", Factors: map[string]int{"dc1": 5}}
	var err error
	b.snapshot, err = ring.New(ring.Topology{Hosts: hosts, Keyspaces: map[string]ring.Replication{"shop": five}, LocalDC: "dc1"})
	require.NoError(t, err)
	assert.Equal(t, 3, (&lookup.Request{Table: mustTable(t, b)}).Answers(), "of five replicas")
	b = newByReplicas(t, local, func(s *lookup.Settings) { s.QuorumReads = false })
	assert.Equal(t, 1, (&lookup.Request{Table: mustTable(t, b)}).Answers())
	resp := b.get(t, "", nil, "a")
	assert.False(t, resp.Plan.Quorum)
	assert.Empty(t, b.outcomes())
}
