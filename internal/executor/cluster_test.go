package executor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newRing returns a ring of n hosts named h0, h1, …, 16 vnodes each, in racks.
func newRing(t testing.TB, n, rf, racks int) *ring.Ring {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(n), 7))
	topology := ring.Topology{
		LocalDC:   "dc1",
		Keyspaces: map[string]ring.Replication{"ks": {Strategy: "NetworkTopologyStrategy", Factors: map[string]int{"dc1": rf}}},
	}
	for i := range n {
		h := ring.Host{
			ID: fmt.Sprintf("h%d", i), Addr: fmt.Sprintf("10.0.0.%d:9042", i+1),
			DC: "dc1", Rack: fmt.Sprintf("r%d", i%racks), Release: "5.0.9",
		}
		for range 16 {
			h.Tokens = append(h.Tokens, int64(rng.Uint64()))
		}
		topology.Hosts = append(topology.Hosts, h)
	}
	r, err := ring.New(topology)
	require.NoError(t, err)
	return r
}

func newKey(t testing.TB, i uint64) partition.Key {
	t.Helper()
	k, err := partition.NewKey(binary.BigEndian.AppendUint64(nil, i))
	require.NoError(t, err)
	return k
}

// read is one sub-query that a node received.
type read struct {
	host string
	keys []partition.Key
	at   time.Duration
	ctx  context.Context
}

// node says how a host answers a sub-query: after how long, or with which error. A negative
// time means never.
type node func(at time.Duration, keys int) (time.Duration, error)

// cluster is a Reader of fake nodes. Like a host, a node goes on with work that its caller
// has given up, and settles it when it is done.
type cluster struct {
	begin time.Time
	mu    sync.Mutex
	nodes map[string]node
	usual node
	reads []read
	// record keeps reads.
	record bool
	result func(host string, k partition.Key) partition.Result
}

func newCluster(usual node) *cluster {
	return &cluster{begin: time.Now(), nodes: make(map[string]node), usual: usual, record: true}
}

func (c *cluster) set(host string, n node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes[host] = n
}

func (c *cluster) seen() []read {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.reads)
}

func (c *cluster) Read(ctx context.Context, q *SubQuery) ([]partition.Result, error) {
	at := time.Since(c.begin)
	c.mu.Lock()
	n, ok := c.nodes[q.Host.ID]
	if !ok {
		n = c.usual
	}
	if c.record {
		c.reads = append(c.reads, read{host: q.Host.ID, keys: q.Keys, at: at, ctx: ctx})
	}
	// Under the lock, so that nodes may share a random generator.
	took, err := n(at, len(q.Keys))
	c.mu.Unlock()
	if took < 0 {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	if !work(ctx, took, q.Settled) {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	results := make([]partition.Result, len(q.Keys))
	for i, k := range q.Keys {
		results[i] = partition.Result{Status: partition.Found}
		if c.result != nil {
			results[i] = c.result(q.Host.ID, k)
		}
	}
	return results, nil
}

// work calls settled after a time, and reports whether the caller has waited for it.
//
// It makes no timer that is due at once: such a timer runs on the spot. To the race
// detector all of those in a synctest bubble are one thread, and it crashes when two
// goroutines run theirs at the same time (golang/go#78156).
func work(ctx context.Context, took time.Duration, settled func()) bool {
	if took == 0 {
		settled()
		return true
	}
	end := time.Now().Add(took)
	timer := time.NewTimer(took)
	select {
	case <-timer.C:
		settled()
		return true
	case <-ctx.Done():
		timer.Stop()
		time.AfterFunc(time.Until(end), settled)
		return false
	}
}

func after(d time.Duration) node {
	return func(time.Duration, int) (time.Duration, error) { return d, nil }
}

func silent() node { return after(-1) }

func failing(r Reason) node {
	return func(time.Duration, int) (time.Duration, error) {
		return 0, &ReadError{Reason: r, Err: errors.New("scripted")}
	}
}

// usually answers as a small node does: 1 to 2 ms for 17 keys.
func usually(rng *rand.Rand) node {
	return func(_ time.Duration, keys int) (time.Duration, error) {
		return 500*time.Microsecond + time.Duration(keys)*time.Duration(20_000+rng.Int64N(60_000)), nil
	}
}

// frozen answers nothing between two moments, and all of it after the second.
func frozen(n node, from, to time.Duration) node {
	return func(at time.Duration, keys int) (time.Duration, error) {
		took, err := n(at, keys)
		if at+took > from && at < to {
			took = to - at + took
		}
		return took, err
	}
}

// bench is an executor over a cluster.
type bench struct {
	*Executor
	t       testing.TB
	cluster *cluster
	ring    *ring.Ring
	policy  hedge.Policy
	budget  float64
	cap     int
	rng     *rand.Rand
}

func newBench(t testing.TB, r *ring.Ring, c *cluster, with func(*setup)) *bench {
	t.Helper()
	cfg := setup{Config: Config{Reader: c, Ring: func() *ring.Ring { return r }}}
	if with != nil {
		with(&cfg)
	}
	b := &bench{
		Executor: cfg.executor(), t: t, cluster: c, ring: r, budget: 0.02,
		policy: hedge.Fixed(15 * time.Millisecond), rng: rand.New(rand.NewPCG(1, 2)),
	}
	t.Cleanup(b.Close)
	return b
}

func (b *bench) state() *TableState { return b.Table("ks.t", b.budget) }

func (b *bench) request(keys int) *Request {
	req := &Request{
		Query:  &Query{Table: schema.NewTable("ks", "t", "id", nil), Consistency: "LOCAL_ONE", Limit: 1, MaxBytes: 1 << 20},
		Ring:   b.ring,
		Policy: b.policy,
		Table:  b.state(),
		Trace:  true,
	}
	req.Cap = b.cap
	p, ok := b.ring.Placement("ks")
	require.True(b.t, ok)
	for range keys {
		k := newKey(b.t, b.rng.Uint64())
		token := ring.Token(k.Routing())
		req.Keys = append(req.Keys, k)
		req.Ranges = append(req.Ranges, p.Range(token))
		req.Replicas = append(req.Replicas, p.Local(token))
	}
	return req
}

// outcome is how one lookup ended.
type outcome struct {
	Stats
	at, took time.Duration
	results  []partition.Result
}

func (o *outcome) count(s partition.Status) int {
	n := 0
	for _, r := range o.results {
		if r.Status == s {
			n++
		}
	}
	return n
}

// extraKeys is how many keys were asked again because an attempt was late.
func (o *outcome) extraKeys() int {
	n := 0
	for _, a := range o.Attempts {
		if a.Kind == KindHedge {
			n += len(a.Keys)
		}
	}
	return n
}

// run executes a request, and checks what holds for every request.
func (b *bench) run(ctx context.Context, req *Request) outcome {
	return b.runPlan(ctx, req, b.Plan(req))
}

func (b *bench) runPlan(ctx context.Context, req *Request, plan Plan) outcome {
	start := time.Now()
	o := outcome{at: start.Sub(b.cluster.begin), results: make([]partition.Result, len(req.Keys))}
	calls := make([]int, len(req.Keys))
	o.Stats = b.Execute(ctx, plan, func(k int, r partition.Result) {
		calls[k]++
		o.results[k] = r
	})
	o.took = time.Since(start)
	asked := make(map[string]bool)
	for _, a := range o.Attempts {
		for _, k := range a.Keys {
			id := fmt.Sprint(a.Host, k, a.OwnData) // a coordinator may be a replica that was asked
			if asked[id] {
				b.t.Errorf("key %d was asked of %s twice", k, a.Host)
			}
			asked[id] = true
		}
	}
	for k, n := range calls {
		if n != 1 {
			b.t.Errorf("key %d got %d results", k, n)
		}
		if o.results[k].Status == partition.Pending {
			b.t.Errorf("key %d is pending", k)
		}
	}
	return o
}

func (b *bench) lookup(keys int, timeout time.Duration) outcome {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return b.run(ctx, b.request(keys))
}

// load sends lookups at a steady rate for a time and returns them all.
func (b *bench) load(every, during time.Duration, keys int, timeout time.Duration) []outcome {
	return b.loadOf(b.request, every, during, keys, timeout)
}

// loadOf is load of other requests.
func (b *bench) loadOf(request func(keys int) *Request, every, during time.Duration, keys int, timeout time.Duration) []outcome {
	n := int(during / every)
	out := make([]outcome, n)
	var wg sync.WaitGroup
	for i := range n {
		req := request(keys)
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			defer cancel()
			out[i] = b.run(ctx, req)
		})
		time.Sleep(every)
	}
	wg.Wait()
	return out
}

// between returns the lookups that began in the time given.
func between(all []outcome, from, to time.Duration) []outcome {
	var out []outcome
	for _, o := range all {
		if o.at >= from && o.at < to {
			out = append(out, o)
		}
	}
	return out
}

func slowest(all []outcome) time.Duration {
	var d time.Duration
	for _, o := range all {
		d = max(d, o.took)
	}
	return d
}

func lost(all []outcome) int {
	n := 0
	for _, o := range all {
		if o.count(partition.Found) != len(o.results) {
			n++
		}
	}
	return n
}

// extraRatio is the share of sub-queries that were hedges.
func extraRatio(all []outcome) float64 {
	hedges, subQueries := 0, 0
	for _, o := range all {
		hedges += o.Hedges
		subQueries += o.SubQueries - o.Hedges
	}
	return float64(hedges) / float64(subQueries)
}
