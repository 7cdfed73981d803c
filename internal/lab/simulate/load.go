package simulate

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/qosproxy/qosproxy/internal/cost"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/merge"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/planner"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// policy is a way to read the keys of a lookup.
type policy struct {
	name     string
	grouping planner.Grouping
	// hedge and budget are the table's speculative_retry and hedge_budget.
	hedge  hedge.Policy
	budget float64
	// plain is a client without an executor: it asks the owners and waits, and does not track the
	// health of hosts.
	plain bool
	// learned sizes groups by the learned costs of statements and keys; otherwise the planner goes by
	// the number of keys alone.
	learned bool
	// merge lets sub-queries of different lookups share statements.
	merge bool
}

// trial is one policy under one load.
type trial struct {
	ring      *ring.Ring
	placement *ring.Placement
	serve     map[string]serving
	policy    policy
	// keys is the number of keys of a lookup, rate the number of lookups that arrive each second
	// (Poisson), and lookups their total, of which the first warmup are not measured.
	keys            int
	rate            float64
	lookups, warmup int
	seed            uint64
	// surge returns the factor on the rate at a moment; watch is called before each lookup with the
	// size of groups. Both or neither may be nil.
	surge func(at time.Duration) float64
	watch func(at time.Duration, size executor.GroupSize)
	// done is called after every lookup, in the lookup's goroutine; may be nil.
	done func(at, took time.Duration, stats executor.Stats)
}

// tally is the result of a trial, or the sum of several.
type tally struct {
	// took has the latencies of the measured lookups, ascending; seconds is how long lookups arrived.
	took    []time.Duration
	seconds float64
	// p999 has the p99.9 of each draw that was added.
	p999  []time.Duration
	start time.Time
	// asked counts the keys of all lookups, and read those sent to nodes, with hedges, fail-overs and
	// probes. failed counts the keys that were not answered.
	asked, read, failed           int64
	lookups                       int64
	subQueries, hedges, failovers int64
	partial                       int64
	// size is the group size learned by the end; the zero GroupSize without learning.
	size executor.GroupSize
}

// extra returns the number of keys read beyond those asked for, relative to the latter.
func (t *tally) extra() float64 { return float64(t.read-t.asked) / float64(t.asked) }

// at returns the latency that the share q of the lookups did not exceed.
func (t *tally) at(q float64) time.Duration {
	return t.took[min(int(q*float64(len(t.took))), len(t.took)-1)]
}

// medianP999 returns the median over the draws of their p99.9; of an even number, the greater of
// the middle two.
func (t *tally) medianP999() time.Duration {
	return slices.Sorted(slices.Values(t.p999))[len(t.p999)/2]
}

// over returns the share of lookups that took longer than d.
func (t *tally) over(d time.Duration) float64 {
	i, _ := slices.BinarySearch(t.took, d+1)
	return float64(len(t.took)-i) / float64(len(t.took))
}

// add adds another tally to this one, as if its load had followed.
func (t *tally) add(more *tally) {
	if t.start.IsZero() {
		t.start = more.start
	}
	t.p999 = append(t.p999, more.at(0.999))
	t.took = append(t.took, more.took...)
	slices.Sort(t.took)
	t.seconds += more.seconds
	t.asked += more.asked
	t.read += more.read
	t.failed += more.failed
	t.lookups += more.lookups
	t.subQueries += more.subQueries
	t.hedges += more.hedges
	t.failovers += more.failovers
	t.partial += more.partial
	t.size = more.size
}

// run makes all lookups and returns when they have ended. It must be called in a bubble of
// synctest.
func (c *trial) run() *tally {
	s := newServers(c.serve)
	meter := cost.NewMeter(s)
	cfg := executor.Config{Reader: meter, Ring: func() *ring.Ring { return c.ring }}
	sizes := func() executor.GroupSize { return executor.GroupSize{} }
	if c.policy.learned {
		cfg.GroupSize = meter.GroupSize
		sizes = func() executor.GroupSize { return meter.GroupSizes()[keyspace+".t"] }
	}
	if c.policy.merge {
		// Without a registerer there is no error.
		cfg.Reader, _ = merge.New(merge.Config{Reader: meter, Costs: meter.Costs, Ring: cfg.Ring})
	}
	e := executor.New(cfg)
	defer e.Close()
	d := &driver{
		trial: c, servers: s, executor: e, table: e.Table("simulated.t", c.policy.budget),
		query: &executor.Query{Table: schema.NewTable(keyspace, "t", "", nil), Consistency: "LOCAL_ONE", Limit: 1, MaxBytes: 1 << 20},
		tally: tally{start: time.Now(), took: make([]time.Duration, 0, c.lookups)},
	}
	arrivals := rand.New(rand.NewPCG(c.seed, 1))
	keys := rand.New(rand.NewPCG(c.seed, 2))
	var all sync.WaitGroup
	for i := range c.lookups {
		rate := c.rate
		if c.surge != nil {
			rate *= c.surge(time.Since(s.begin))
			c.watch(time.Since(s.begin), sizes())
		}
		time.Sleep(time.Duration(arrivals.ExpFloat64() / rate * float64(time.Second)))
		req := d.request(keys)
		all.Go(func() { d.lookup(req, i >= c.warmup) })
	}
	d.tally.seconds = time.Since(d.tally.start).Seconds()
	all.Wait()
	slices.Sort(d.tally.took)
	d.tally.read, d.tally.subQueries, d.tally.size = s.keys, s.subQueries, sizes()
	return &d.tally
}

// driver is a running trial.
type driver struct {
	*trial
	servers  *servers
	executor *executor.Executor
	table    *executor.TableState
	query    *executor.Query

	mu    sync.Mutex
	tally tally
}

// request draws the keys of a lookup.
func (d *driver) request(rng *rand.Rand) *executor.Request {
	req := &executor.Request{
		Input: planner.Input{Grouping: d.policy.grouping, Replicas: make([][]ring.HostIndex, 0, d.keys)},
		Query: d.query, Ring: d.ring, Table: d.table, Policy: d.policy.hedge, Trace: d.done != nil,
		Keys: make([]partition.Key, 0, d.keys),
	}
	for range d.keys {
		// Eight bytes are always a key.
		k, _ := partition.NewKey(binary.BigEndian.AppendUint64(nil, rng.Uint64()))
		req.Keys = append(req.Keys, k)
		req.Replicas = append(req.Replicas, d.placement.Local(ring.Token(k.Routing())))
	}
	return req
}

func (d *driver) lookup(req *executor.Request, measured bool) {
	start := time.Now()
	failed := 0
	var stats executor.Stats
	if d.policy.plain {
		d.plain(req)
	} else {
		stats = d.executor.Execute(context.Background(), d.executor.Plan(req), func(_ int, res partition.Result) {
			if !res.Status.Answered() {
				failed++
			}
		})
	}
	took := time.Since(start)
	if d.done != nil {
		d.done(start.Sub(d.servers.begin), took, stats)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if measured {
		d.tally.took = append(d.tally.took, took)
	}
	d.tally.lookups++
	d.tally.asked += int64(len(req.Keys))
	d.tally.failed += int64(failed)
	if failed > 0 {
		d.tally.partial++
	}
	d.tally.hedges += int64(stats.Hedges)
	d.tally.failovers += int64(stats.Failovers)
}

// plain asks the owner of each key, in one sub-query for each host, and waits for all.
func (d *driver) plain(req *executor.Request) {
	plan := planner.Make(&planner.Input{Replicas: req.Replicas, Hosts: d.ring.Len(), Grouping: d.policy.grouping})
	var all sync.WaitGroup
	for _, g := range plan.Groups {
		keys := make([]partition.Key, len(g.Keys))
		for i, k := range g.Keys {
			keys[i] = req.Keys[k]
		}
		q := &executor.SubQuery{Query: req.Query, Host: d.ring.Host(g.Host), Keys: keys, Settled: func() {}}
		all.Go(func() { _, _ = d.servers.Read(context.Background(), q) })
	}
	all.Wait()
}
