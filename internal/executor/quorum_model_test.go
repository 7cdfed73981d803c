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
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/planner"
	"github.com/qosproxy/qosproxy/internal/quorum"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// quorumTable has two columns besides its key.
var quorumTable = schema.NewTable("ks", "t", "id", []schema.Column{
	{Name: "id", Type: &cqltype.Type{Kind: cqltype.BigInt}, Kind: schema.PartitionKey},
	{Name: "a", Type: &cqltype.Type{Kind: cqltype.BigInt}, Kind: schema.Regular},
	{Name: "b", Type: &cqltype.Type{Kind: cqltype.BigInt}, Kind: schema.Regular},
})

const cells = 2

// unrepaired makes the table of a request one with read_repair NONE.
func unrepaired(_ *bench, req *Request) {
	table := *req.Query.Table
	table.NoReadRepair = true
	query, own := *req.Query, *req.Quorum.Query
	query.Table, own.Table = &table, &table
	req.Query, req.Quorum = &query, &Quorum{Query: &own, Hosts: req.Quorum.Hosts}
}

// quorumRequest returns a request whose keys are read by a quorum of their replicas.
func (b *bench) quorumRequest(keys int) *Request {
	req := b.request(keys)
	req.Query = &Query{Table: quorumTable, Columns: quorumTable.Columns, Consistency: "LOCAL_QUORUM", Limit: 1, MaxBytes: 1 << 20}
	own := *req.Query
	own.Consistency = partition.OwnData
	req.Quorum = &Quorum{Query: &own, Hosts: make([]bool, b.ring.Len())}
	for i := range req.Quorum.Hosts {
		req.Quorum.Hosts[i] = true
	}
	return req
}

// cell is a version of a cell: a value, which expires at life unless that is 0, or a
// deletion if there is no value.
type cell struct {
	ts    int64
	value int64
	life  time.Time
}

func (c cell) live(now time.Time) bool {
	return c.value != 0 && (c.life.IsZero() || now.Before(c.life))
}

// stored is what a replica holds of one partition; rowDeleted is when its row was deleted.
type stored struct {
	cells      [cells]cell
	rowDeleted int64
}

// apply reconciles as Cassandra does. Versions with the same timestamp differ in their life alone.
func (s *stored) apply(o stored) {
	s.rowDeleted = max(s.rowDeleted, o.rowDeleted)
	for i, c := range o.cells {
		if c.ts > s.cells[i].ts || c.ts == s.cells[i].ts && c.life.After(s.cells[i].life) {
			s.cells[i] = c
		}
	}
	for i := range s.cells {
		if s.cells[i].ts <= s.rowDeleted {
			s.cells[i] = cell{ts: s.rowDeleted}
		}
	}
}

// replicas is a Reader of a cluster whose replicas differ.
type replicas struct {
	t    *testing.T
	ring *ring.Ring
	need int

	mu   sync.Mutex
	rng  *rand.Rand
	data map[string]map[string]stored // by host id and routing bytes
	// slow is a host that may be slow or fail; it changes now and then.
	slow string
}

func (m *replicas) host(id string) map[string]stored {
	if m.data[id] == nil {
		m.data[id] = map[string]stored{}
	}
	return m.data[id]
}

func (m *replicas) of(k partition.Key) []string {
	p, _ := m.ring.Placement("ks")
	var out []string
	for _, h := range p.Local(ring.Token(k.Routing())) {
		out = append(out, m.ring.Host(h).ID)
	}
	return out
}

// Read implements Reader.
func (m *replicas) Read(ctx context.Context, q *SubQuery) ([]partition.Result, error) {
	if !m.pause(ctx, q.Host.ID, q.Settled) {
		return nil, context.Cause(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if q.Host.ID == m.slow && m.rng.IntN(4) == 0 {
		return nil, &ReadError{Reason: []Reason{ReasonUnreachable, ReasonTimeout, ReasonRefused, ReasonRing}[m.rng.IntN(4)], Err: errors.New("scripted")}
	}
	out := make([]partition.Result, len(q.Keys))
	for i, k := range q.Keys {
		if q.Consistency == partition.OwnData {
			out[i] = m.host(q.Host.ID)[string(k.Routing())].result(k, true)
			continue
		}
		out[i] = m.coordinate(q.Host.ID, k, !q.Table.NoReadRepair).result(k, false)
	}
	return out, nil
}

func (m *replicas) pause(ctx context.Context, host string, settled func()) bool {
	m.mu.Lock()
	took := time.Duration(100+m.rng.IntN(2000)) * time.Microsecond
	if host == m.slow {
		took += time.Duration(m.rng.IntN(60)) * time.Millisecond
	}
	m.mu.Unlock()
	return work(ctx, took, settled)
}

// coordinate reads as a coordinator does at LOCAL_QUORUM: it merges what a quorum has, and
// may repair these replicas before it answers.
func (m *replicas) coordinate(host string, k partition.Key, repair bool) stored {
	all := m.of(k)
	m.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if i := slices.Index(all, host); i > 0 && m.rng.IntN(2) == 0 {
		all[0], all[i] = all[i], all[0]
	}
	var merged stored
	for _, h := range all[:m.need] {
		merged.apply(m.host(h)[string(k.Routing())])
	}
	if repair {
		for _, h := range all[:m.need] {
			m.host(h)[string(k.Routing())] = merged
		}
	}
	return merged
}

func (s stored) result(k partition.Key, versions bool) partition.Result {
	now := time.Now()
	row, tail := partition.Row{k.Routing()}, partition.Row(nil)
	some := false
	for _, c := range s.cells {
		if !c.live(now) {
			row, tail = append(row, nil), append(tail, nil, nil)
			continue
		}
		some = true
		var ttl []byte
		if !c.life.IsZero() {
			ttl = binary.BigEndian.AppendUint32(nil, uint32(c.life.Sub(now)/time.Second))
		}
		row = append(row, binary.BigEndian.AppendUint64(nil, uint64(c.value)))
		tail = append(tail, binary.BigEndian.AppendUint64(nil, uint64(c.ts)), ttl)
	}
	if !some {
		return partition.Result{Status: partition.NotFound}
	}
	if versions {
		row = append(row, tail...)
	}
	return partition.Result{Status: partition.Found, Rows: []partition.Row{row}}
}

// write is one write of a cell: a value or, if that is 0, a deletion.
type write struct {
	ts, value  int64
	life       time.Time
	first      time.Time // life of an earlier attempt with the same timestamp and value; or zero
	begin, end time.Time // end is zero unless it was acknowledged
}

// void reports whether a read may find nothing because of the write. What the first attempt left
// behind counts until the last one is acknowledged.
func (w *write) void(r *seen) bool {
	return w.value == 0 || !w.life.IsZero() && !r.end.Before(w.life) ||
		!w.first.IsZero() && !r.end.Before(w.first) && (w.end.IsZero() || r.begin.Before(w.end))
}

// seen is what a read found in one cell, 0 for nothing.
type seen struct {
	value      int64
	begin, end time.Time
}

// register holds what was written to and read from one cell.
type register struct {
	writes []write
	reads  []seen
}

// violations counts the reads that a register cannot return: of a version older than a
// write that was acknowledged before, or than an earlier read found.
func (h *register) violations() (stale, backwards int) {
	slices.SortFunc(h.reads, func(a, b seen) int { return a.end.Compare(b.end) })
	// least is the newest version up to each read, taking for each read the oldest version
	// that explains it.
	least := make([]int64, len(h.reads)+1)
	for i, r := range h.reads {
		acked := int64(0)
		for _, w := range h.writes {
			if !w.end.IsZero() && w.end.Before(r.begin) {
				acked = max(acked, w.ts)
			}
		}
		before, _ := slices.BinarySearchFunc(h.reads[:i], r.begin, func(s seen, at time.Time) int { return s.end.Compare(at) })
		floor := least[before]
		explain := func(from int64) (int64, bool) {
			best, ok := int64(0), r.value == 0 && from == 0
			for _, w := range h.writes {
				fits := r.value != 0 && w.value == r.value || r.value == 0 && w.void(&r)
				if fits && w.ts >= from && !w.begin.After(r.end) && (!ok || w.ts < best) {
					best, ok = w.ts, true
				}
			}
			return best, ok
		}
		least[i+1] = least[i]
		if _, ok := explain(acked); !ok {
			stale++
			continue
		}
		version, ok := explain(max(acked, floor))
		if !ok {
			backwards++
		}
		least[i+1] = max(least[i], version)
	}
	return stale, backwards
}

// model runs writers and readers over replicas that miss writes. It returns how many reads
// no register could have returned, and the share that the replicas alone have answered.
func model(t *testing.T, hosts, rf int, seed uint64, with func(*bench, *Request)) (stale, backwards int, matched float64) {
	t.Helper()
	const keys, spell = 4, 5 * time.Second
	m := &replicas{t: t, ring: newRing(t, hosts, rf, min(hosts, 3)), need: quorum.Of(rf), rng: rand.New(rand.NewPCG(seed, 1)), data: map[string]map[string]stored{}}
	b := newBench(t, m.ring, newCluster(nil), func(cfg *setup) { cfg.Reader = m })
	asked := b.quorumRequest(keys)
	with(b, asked)
	var mu sync.Mutex
	histories := make([][cells]register, keys)
	ctx, cancel := context.WithTimeout(t.Context(), spell)
	defer cancel()
	var all sync.WaitGroup
	for k := range keys {
		all.Go(func() { m.writer(ctx, asked.Keys[k], rand.New(rand.NewPCG(seed, uint64(k)+10)), &mu, &histories[k]) })
	}
	all.Go(func() {
		for rng := rand.New(rand.NewPCG(seed, 99)); ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
			m.mu.Lock()
			m.slow = fmt.Sprintf("h%d", rng.IntN(2*hosts))
			m.mu.Unlock()
		}
	})
	for reader := range 3 {
		all.Go(func() {
			for rng := rand.New(rand.NewPCG(seed, uint64(reader)+50)); ctx.Err() == nil; time.Sleep(time.Duration(rng.IntN(4)) * time.Millisecond) {
				reading, done := context.WithTimeout(context.Background(), 200*time.Millisecond)
				begin := time.Now()
				req := *asked
				req.Table = b.state()
				b.Execute(reading, b.Plan(&req), func(k int, res partition.Result) {
					if !res.Status.Answered() {
						return
					}
					mu.Lock()
					defer mu.Unlock()
					for c := range cells {
						r := seen{begin: begin, end: time.Now()}
						if res.Status == partition.Found && res.Rows[0][1+c] != nil {
							r.value = int64(binary.BigEndian.Uint64(res.Rows[0][1+c]))
						}
						histories[k][c].reads = append(histories[k][c].reads, r)
					}
				})
				done()
			}
		})
	}
	all.Wait()
	time.Sleep(time.Second) // for what is delivered late
	reads := 0
	for k := range histories {
		for c := range cells {
			s, back := histories[k][c].violations()
			stale, backwards, reads = stale+s, backwards+back, reads+len(histories[k][c].reads)
		}
	}
	require.Greater(t, reads, 1000)
	of := b.state().QuorumReads()
	return stale, backwards, float64(of["matched"]+of["reconciled"]) / (float64(reads) / cells)
}

// write applies a change to what a host has of a key.
func (m *replicas) write(host string, k partition.Key, change stored) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.host(host)[string(k.Routing())]
	s.apply(change)
	m.host(host)[string(k.Routing())] = s
}

// writer writes to one key, one write after the other. A write may reach each replica at
// once, later or never, and is acknowledged once a quorum has it.
func (m *replicas) writer(ctx context.Context, k partition.Key, rng *rand.Rand, mu *sync.Mutex, h *[cells]register) {
	var late sync.WaitGroup
	defer late.Wait()
	for ts := int64(1); ctx.Err() == nil; ts++ {
		w := write{ts: ts, begin: time.Now()}
		var change stored
		touched := []int{rng.IntN(cells)}
		switch rng.IntN(10) {
		case 0, 1:
			touched = []int{0, 1}
			change.rowDeleted = ts
		case 2, 3, 4:
		case 5, 6:
			w.value, w.life = ts, time.Now().Add(time.Duration(1+rng.IntN(2))*time.Second)
			if rng.IntN(2) == 0 { // a client that tries again with its own timestamp
				w.first, w.life = w.life, w.life.Add(time.Duration(rng.IntN(1500))*time.Millisecond)
			}
		default:
			w.value = ts
			touched = []int{0, 1}[:1+rng.IntN(2)]
		}
		at := make([]int, len(touched))
		mu.Lock()
		for i, c := range touched {
			change.cells[c] = cell{ts: ts, value: w.value, life: w.life}
			at[i] = len(h[c].writes)
			h[c].writes = append(h[c].writes, w)
		}
		mu.Unlock()
		if !w.first.IsZero() {
			first := change
			first.cells[touched[0]].life = w.first
			for _, host := range m.of(k) {
				time.Sleep(time.Duration(rng.IntN(800)) * time.Microsecond)
				if rng.IntN(2) == 0 {
					m.write(host, k, first)
				}
			}
		}
		reached := 0
		for _, host := range m.of(k) {
			time.Sleep(time.Duration(rng.IntN(800)) * time.Microsecond)
			deliver := func() { m.write(host, k, change) }
			switch rng.IntN(10) {
			case 0, 1, 2, 3:
			case 4:
				wait := time.Duration(1+rng.IntN(40)) * time.Millisecond
				late.Go(func() { time.Sleep(wait); deliver() })
			default:
				deliver()
				reached++
			}
		}
		if reached >= m.need {
			mu.Lock()
			for i, c := range touched {
				h[c].writes[at[i]].end = time.Now()
			}
			mu.Unlock()
		}
		if !w.life.IsZero() && rng.IntN(8) == 0 { // so that it is not overwritten before it expires
			time.Sleep(time.Until(w.life) + 100*time.Millisecond)
		}
		time.Sleep(time.Duration(rng.IntN(60)) * time.Millisecond)
	}
}

// TestReadsByReplicasAreThoseOfAQuorum reads rows while replicas miss writes, deletions and
// expiries, and hosts are slow and fail.
func TestReadsByReplicasAreThoseOfAQuorum(t *testing.T) {
	safe := func(*bench, *Request) {}
	for name, c := range map[string]struct {
		hosts, rf int
		with      func(*bench, *Request)
		// stale is set if there must be reads that miss acknowledged writes. Otherwise
		// there must be none, and none that goes back unless nothing is repaired.
		stale bool
	}{
		"three replicas on three hosts":       {3, 3, safe, false},
		"three replicas on six hosts":         {6, 3, safe, false},
		"five replicas":                       {6, 5, safe, false},
		"two replicas":                        {4, 2, safe, false},
		"three replicas, nothing is repaired": {3, 3, unrepaired, false},
		"five replicas, nothing is repaired":  {6, 5, unrepaired, false},
		"control: any version counts as newest": {3, 3, func(b *bench, req *Request) {
			unrepaired(b, req)
			b.policies.reconcile = func(a []partition.Result, columns []schema.Column) (partition.Result, quorum.Outcome) {
				_, outcome := quorum.Reconcile(a, columns)
				return values(a[0], columns), outcome
			}
		}, true},
		"control: not compared": {3, 3, func(b *bench, _ *Request) {
			b.policies.compare = func(a []partition.Result, columns []schema.Column) (partition.Result, quorum.Outcome) {
				return values(a[0], columns), quorum.Matched
			}
		}, true},
		"control: a replica counts twice": {3, 3, func(_ *bench, req *Request) {
			for k, hosts := range req.Replicas {
				req.Replicas[k] = []ring.HostIndex{hosts[0], hosts[0], hosts[1]}
			}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var stale, backwards, seeds int
			repaired := true
			least := 1.0
			most := 2
			switch {
			case c.stale: // until there is one
				most = 20
			case testing.Short():
				most = 1
			}
			for seed := range uint64(most) {
				if c.stale && stale > 0 {
					break
				}
				synctest.Test(t, func(t *testing.T) {
					s, back, matched := model(t, c.hosts, c.rf, seed, func(b *bench, req *Request) {
						c.with(b, req)
						repaired = !req.Query.Table.NoReadRepair
					})
					stale, backwards, seeds = stale+s, backwards+back, seeds+1
					least = min(least, matched)
				})
			}
			t.Logf("%d stale and %d backwards of %d histories, at least %.0f %% answered by the replicas", stale, backwards, seeds, 100*least)
			if c.stale {
				assert.Positive(t, stale)
			} else {
				assert.Zero(t, stale, "reads miss acknowledged writes")
				assert.True(t, backwards == 0 || !repaired, "%d reads go back", backwards)
			}
			assert.Greater(t, least, 0.02)
		})
	}
}

// values leaves out the write times.
func values(res partition.Result, columns []schema.Column) partition.Result {
	out := partition.Result{Status: res.Status}
	for _, row := range res.Rows {
		out.Rows = append(out.Rows, row[:len(columns)])
	}
	return out
}

// trusting treats what is absent at all replicas asked as absent.
func trusting(a []partition.Result, columns []schema.Column) (partition.Result, quorum.Outcome) {
	if res, outcome := quorum.Compare(a, columns); outcome != quorum.Absent {
		return res, outcome
	}
	return values(a[0], columns), quorum.Matched
}

// TestADeletionThatOneReplicaHasSeen reads a row of which one replica knows only that it
// was deleted, one nothing, and one its value. A quorum may have acknowledged that write,
// which the second replica missed; nobody has acknowledged the deletion.
func TestADeletionThatOneReplicaHasSeen(t *testing.T) {
	goesBack := func(t *testing.T, seed uint64, compare func([]partition.Result, []schema.Column) (partition.Result, quorum.Outcome)) (back bool) {
		synctest.Test(t, func(t *testing.T) {
			m := &replicas{t: t, ring: newRing(t, 3, 3, 3), need: 2, rng: rand.New(rand.NewPCG(seed, 3)), data: map[string]map[string]stored{}}
			b := newBench(t, m.ring, newCluster(nil), func(cfg *setup) { cfg.Reader = m })
			b.policies.compare = compare
			req := b.quorumRequest(1)
			of := req.Replicas[0]
			id := string(req.Keys[0].Routing())
			value := stored{cells: [cells]cell{{ts: 1, value: 1}, {ts: 1, value: 1}}}
			m.host(m.ring.Host(of[0]).ID)[id] = stored{rowDeleted: 2, cells: [cells]cell{{ts: 2}, {ts: 2}}}
			m.host(m.ring.Host(of[2]).ID)[id] = value
			read := func(without ring.HostIndex) partition.Status {
				req := *req
				hosts := slices.Clone(req.Quorum.Hosts)
				hosts[without] = false
				req.Quorum = &Quorum{Query: req.Quorum.Query, Hosts: hosts}
				return b.run(t.Context(), &req).results[0].Status
			}
			first := read(of[2])
			back = first == partition.NotFound && read(of[0]) == partition.Found
		})
		return back
	}
	for seed := range uint64(30) {
		require.False(t, goesBack(t, seed, quorum.Compare), "seed %d", seed)
	}
	for seed := range uint64(30) {
		if goesBack(t, seed, trusting) {
			return
		}
	}
	t.Error("control: what is absent was taken for absent, and never came back")
}

// outcomes returns how many keys of the table have ended with each outcome.
func (b *bench) outcomes() map[string]uint64 {
	out := map[string]uint64{}
	for name, n := range b.state().QuorumReads() {
		if n > 0 {
			out[name] = n
		}
	}
	return out
}

// equal makes every replica hold the same row of each key.
func (m *replicas) equal(keys []partition.Key) {
	for _, k := range keys {
		for _, h := range m.of(k) {
			m.host(h)[string(k.Routing())] = stored{cells: [cells]cell{{ts: 1, value: 1}, {ts: 1, value: 2}}}
		}
	}
}

func TestEachKeyIsAskedOfAQuorumInFewStatements(t *testing.T) {
	for _, c := range []struct{ hosts, rf, size, most int }{
		{3, 3, 0, 6}, {6, 3, 0, 11}, {12, 3, 0, 13}, {6, 5, 0, 16}, {12, 5, 0, 18},
		{3, 3, 50, 2}, {6, 3, 50, 5}, {12, 3, 50, 10}, {6, 5, 50, 6},
	} {
		t.Run(fmt.Sprintf("%d hosts, RF %d, groups of %d", c.hosts, c.rf, c.size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &replicas{t: t, ring: newRing(t, c.hosts, c.rf, 3), need: quorum.Of(c.rf), rng: rand.New(rand.NewPCG(1, 3)), data: map[string]map[string]stored{}}
				b := newBench(t, m.ring, newCluster(nil), func(cfg *setup) {
					cfg.Reader = m
					cfg.GroupSize = func(*Query) GroupSize { return GroupSize{Keys: c.size} }
				})
				req := b.quorumRequest(50)
				m.equal(req.Keys)
				groups := 0
				for range 50 {
					plan := b.Plan(req)
					groups += len(plan.Groups)
					asked := map[int32][]ring.HostIndex{}
					for _, g := range plan.Groups {
						for _, k := range g.Keys {
							require.NotContains(t, asked[k], g.Host)
							require.Contains(t, req.Replicas[k], g.Host)
							asked[k] = append(asked[k], g.Host)
						}
					}
					for k := range req.Keys {
						require.Len(t, asked[int32(k)], m.need)
					}
				}
				t.Logf("%.1f groups", float64(groups)/50)
				assert.LessOrEqual(t, groups, 50*c.most)
				o := b.run(t.Context(), req)
				assert.Equal(t, 50, o.count(partition.Found))
				assert.Zero(t, o.Hedges+o.Failovers)
				assert.Equal(t, map[string]uint64{"matched": 50}, b.outcomes())
				assert.Len(t, o.results[0].Rows[0], 3, "without write times")
				for _, a := range o.Attempts {
					assert.True(t, a.OwnData)
				}
			})
		})
	}
}

// script is a Reader by which each host answers for its own data as scripted, and
// coordinators at once.
type script struct {
	hosts map[string]node
	*replicas
}

func (s *script) Read(ctx context.Context, q *SubQuery) ([]partition.Result, error) {
	n := s.hosts[q.Host.ID]
	if n == nil || q.Consistency != partition.OwnData {
		return s.replicas.Read(ctx, q)
	}
	took, err := n(0, len(q.Keys))
	if took < 0 {
		<-ctx.Done()
		time.AfterFunc(time.Hour, q.Settled)
		return nil, context.Cause(ctx)
	}
	if !work(ctx, took, q.Settled) {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	return s.replicas.Read(ctx, &SubQuery{Query: q.Query, Host: q.Host, Ring: q.Ring, Keys: q.Keys, Settled: func() {}})
}

func TestReplicasThatDoNotTell(t *testing.T) {
	const keys = 20
	for name, c := range map[string]struct {
		hosts, rf int
		nodes     map[string]node
		refuse    []string
		differ    bool
		want      []string
		within    time.Duration
	}{
		"one of three is frozen":               {3, 3, map[string]node{"h1": silent()}, nil, false, []string{"matched"}, 25 * ms},
		"of five one is frozen and one dead":   {5, 5, map[string]node{"h1": silent(), "h3": failing(ReasonUnreachable)}, nil, false, []string{"matched"}, 25 * ms},
		"one of three is dead":                 {3, 3, map[string]node{"h1": failing(ReasonUnreachable)}, nil, false, []string{"matched"}, 12 * ms},
		"two of three are dead to the proxy":   {3, 3, map[string]node{"h1": failing(ReasonUnreachable), "h2": failing(ReasonUnreachable)}, nil, false, []string{"fallback_replicas"}, 15 * ms},
		"ownership begins to change":           {3, 3, map[string]node{"h1": failing(ReasonRing)}, nil, false, []string{"matched", "fallback_ring"}, 12 * ms},
		"one refuses":                          {3, 3, map[string]node{"h1": failing(ReasonRefused)}, nil, false, []string{"matched", "fallback_refused"}, 12 * ms},
		"one is known to refuse":               {3, 3, map[string]node{"h1": failing(ReasonRefused)}, []string{"h1"}, false, []string{"matched"}, 12 * ms},
		"two are known to refuse":              {3, 3, nil, []string{"h1", "h2"}, false, []string{"fallback_refused"}, 12 * ms},
		"one may need pages":                   {3, 3, map[string]node{"h1": failing(ReasonSize)}, nil, false, []string{"matched", "fallback_size"}, 12 * ms},
		"one has an older value of each key":   {3, 3, nil, nil, true, []string{"matched", "mismatched"}, 12 * ms},
		"two of five are dead":                 {5, 5, map[string]node{"h1": failing(ReasonUnreachable), "h3": failing(ReasonUnreachable)}, nil, false, []string{"matched"}, 12 * ms},
		"of five one is dead, one refuses":     {5, 5, map[string]node{"h1": failing(ReasonUnreachable), "h3": failing(ReasonRefused)}, []string{"h3"}, false, []string{"matched"}, 12 * ms},
		"one is slow and hedged by the others": {6, 3, map[string]node{"h1": after(80 * ms)}, nil, false, []string{"matched"}, 25 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &replicas{t: t, ring: newRing(t, c.hosts, c.rf, 3), need: quorum.Of(c.rf), rng: rand.New(rand.NewPCG(1, 3)), data: map[string]map[string]stored{}}
				b := newBench(t, m.ring, newCluster(nil), func(cfg *setup) { cfg.Reader = &script{c.nodes, m} })
				b.budget = 1
				req := b.quorumRequest(keys)
				m.equal(req.Keys)
				for _, id := range c.refuse {
					h, _ := b.ring.Index(id)
					req.Quorum.Hosts[h] = false
				}
				if c.differ {
					for _, k := range req.Keys {
						m.host("h1")[string(k.Routing())] = stored{}
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				begin := time.Now()
				b.Execute(ctx, b.Plan(req), func(_ int, res partition.Result) {
					if assert.Equal(t, partition.Found, res.Status, "%v", res.Err) {
						assert.Len(t, res.Rows[0], 3)
					}
				})
				assert.LessOrEqual(t, time.Since(begin), c.within)
				var got []string
				total := uint64(0)
				for outcome, n := range b.outcomes() {
					got, total = append(got, outcome), total+n
				}
				assert.Subset(t, c.want, got)
				assert.Contains(t, got, c.want[len(c.want)-1])
				assert.EqualValues(t, keys, total, "each key has one outcome")
			})
		})
	}
}

func TestAKeyThatNoQuorumAnswersTimesOutAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &replicas{t: t, ring: newRing(t, 6, 3, 3), need: 2, rng: rand.New(rand.NewPCG(1, 3)), data: map[string]map[string]stored{}}
		b := newBench(t, m.ring, newCluster(nil), func(cfg *setup) {
			cfg.Reader = &script{map[string]node{"h1": silent(), "h2": silent()}, m}
		})
		b.budget = 1
		req := b.quorumRequest(50)
		m.equal(req.Keys)
		lost := 0
		for k := range req.Keys {
			if of := m.of(req.Keys[k]); slices.Contains(of, "h1") && slices.Contains(of, "h2") {
				lost++
			}
		}
		require.Positive(t, lost)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		o := b.run(ctx, req)
		assert.Equal(t, lost, o.count(partition.TimedOut))
		assert.Equal(t, 50-lost, o.count(partition.Found))
	})
}

// A coordinator takes longer than a host does for its own data, and must not count as late
// for that.
func TestRereadsAreNotLateByWhatReplicasTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &replicas{t: t, ring: newRing(t, 3, 3, 3), need: 2, rng: rand.New(rand.NewPCG(1, 3)), data: map[string]map[string]stored{}}
		b := newBench(t, m.ring, newCluster(nil), func(cfg *setup) { cfg.Reader = m })
		req := b.quorumRequest(50)
		m.equal(req.Keys[:40])
		for range 40 {
			b.run(t.Context(), req)
		}
		s := b.state()
		_, known := s.own.Usual(0.95, 17)
		assert.True(t, known)
		assert.Less(t, overdueAfter(&s.own, ms, 17), 10*ms)
		before := overdueAfter(&s.latencies, ms, 17)
		for range 40 {
			s.own.Observe(17, 80*ms)
		}
		assert.Equal(t, before, overdueAfter(&s.latencies, ms, 17))
		assert.Same(t, &s.own, s.at(new(host), req.Quorum.Query, false))
		assert.Same(t, &s.latencies, s.at(new(host), req.Query, false))
		assert.Same(t, &s.own, &b.Table("ks.t", 0.5).own, "kept when the budget changes")
	})
}

func TestReplicasAreNotAskedWhileThatDoesNotPay(t *testing.T) {
	s := new(TableState)
	s.tableMemory = new(tableMemory)
	assert.Nil(t, s.QuorumReads())
	assert.True(t, s.QuorumPays())
	s.CountQuorum(quorum.Ring, 5000)
	assert.True(t, s.QuorumPays(), "keys that were not asked say nothing")
	for range rereadMemory {
		s.quorum.add(quorum.Absent, 1)
	}
	assert.InDelta(t, 0.63, s.QuorumAgain(), 0.01)
	tries := 0
	for range 160 {
		if s.QuorumPays() {
			tries++
		}
	}
	assert.Equal(t, 10, tries)
	for range rereadMemory {
		s.quorum.add(quorum.Matched, 1)
	}
	assert.True(t, s.QuorumPays())
}

// A key that differs costs three times as much as one that is absent.
func TestAFewKeysThatDifferDoNotPay(t *testing.T) {
	for outcome, pays := range map[quorum.Outcome]bool{quorum.Mismatched: false, quorum.Absent: true, quorum.Reconciled: true} {
		s := new(TableState)
		s.tableMemory = new(tableMemory)
		for i := range 5 * rereadMemory {
			if i%5 == 0 {
				s.quorum.add(outcome, 1)
			} else {
				s.quorum.add(quorum.Matched, 1)
			}
		}
		again := 0.2
		if outcome == quorum.Reconciled {
			again = 0
		}
		assert.InDelta(t, again, s.QuorumAgain(), 0.01)
		assert.Equal(t, pays, s.QuorumPays(), outcome)
	}
}

func TestEachLateReplicaOfAQuorumIsHedged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &replicas{t: t, ring: newRing(t, 5, 5, 3), need: 3, rng: rand.New(rand.NewPCG(1, 3)), data: map[string]map[string]stored{}}
		slow := map[string]node{"h1": after(200 * ms), "h3": after(200 * ms)}
		b := newBench(t, m.ring, newCluster(nil), func(cfg *setup) {
			cfg.Reader = &script{slow, m}
			cfg.without.budgets = true
		})
		req := b.quorumRequest(1)
		m.equal(req.Keys)
		plan := b.Plan(req)
		plan.Groups = nil
		for _, id := range []string{"h0", "h1", "h3"} {
			h, _ := b.ring.Index(id)
			plan.Groups = append(plan.Groups, planner.Group{Host: h, Keys: []int32{0}})
		}
		o := b.runPlan(t.Context(), req, plan)
		assert.Equal(t, partition.Found, o.results[0].Status)
		assert.Equal(t, 2, o.Hedges)
		assert.Less(t, o.took, 20*ms)
		assert.Equal(t, quorum.Matched, o.Compared[0])
		time.Sleep(time.Second)
	})
}

// TestKeysLostTogetherAreAskedWhatTheyWere loses two keys at once for the same reason; a
// coordinator is asked for one of them.
func TestKeysLostTogetherAreAskedWhatTheyWere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &replicas{t: t, ring: newRing(t, 3, 3, 3), need: 2, rng: rand.New(rand.NewPCG(1, 3)), data: map[string]map[string]stored{}}
		b := newBench(t, m.ring, newCluster(nil), func(cfg *setup) { cfg.Reader = m })
		req := b.quorumRequest(2)
		r := b.newRun(t.Context(), b.Plan(req), func(int, partition.Result) {})
		defer r.end()
		r.keys[1].need = 0
		for k := range r.keys {
			r.keys[k].last, r.keys[k].missed = ReasonUnreachable, true
			r.lost = append(r.lost, int32(k))
		}
		r.failoverLost()
		require.NotEmpty(t, r.pending)
		assert.EqualValues(t, 2, r.keys[0].inFlight, "as many replicas as its quorum lacks")
		assert.EqualValues(t, 1, r.keys[1].inFlight)
		for _, a := range r.pending {
			for _, k := range a.asked {
				assert.Same(t, r.query(k), a.query.Query, "key %d", k)
			}
		}
	})
}

// TestKeysThatReplicasLoseAreReadAgainWithinTheBudgetOfFailOver loses keys at replicas. Each
// further attempt takes a token, be it at another replica or through a coordinator, and without
// one a key ends with the reason of its replica. Keys whose replicas differ are read again in
// any case.
func TestKeysThatReplicasLoseAreReadAgainWithinTheBudgetOfFailOver(t *testing.T) {
	const keys = 20
	timeout, gone := failing(ReasonTimeout), failing(ReasonUnreachable)
	for name, c := range map[string]struct {
		rf            int
		nodes         map[string]node
		spent, differ bool
		paid          float64
		outcome       string
		status        partition.Status
	}{
		"one of three times out":                      {rf: 3, nodes: map[string]node{"h1": timeout}, outcome: "matched", status: partition.Found, paid: 1},
		"one of three times out, the budget is spent": {rf: 3, nodes: map[string]node{"h1": timeout}, spent: true, status: partition.TimedOut},
		"two of three time out":                       {rf: 3, nodes: map[string]node{"h1": timeout, "h2": timeout}, outcome: "fallback_replicas", status: partition.Found, paid: 2},
		"two of three time out, the budget is spent":  {rf: 3, nodes: map[string]node{"h1": timeout, "h2": timeout}, spent: true, status: partition.TimedOut},
		"one of two times out":                        {rf: 2, nodes: map[string]node{"h1": timeout}, outcome: "fallback_replicas", status: partition.Found, paid: 1},
		"one of two times out, the budget is spent":   {rf: 2, nodes: map[string]node{"h1": timeout}, spent: true, status: partition.TimedOut},
		"one of two is gone, the budget is spent":     {rf: 2, nodes: map[string]node{"h1": gone}, spent: true, outcome: "fallback_replicas", status: partition.Found},
		"replicas differ, the budget is spent":        {rf: 2, differ: true, spent: true, outcome: "mismatched", status: partition.Found},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &replicas{t: t, ring: newRing(t, c.rf, c.rf, 3), need: 2, rng: rand.New(rand.NewPCG(1, 3)), data: map[string]map[string]stored{}}
				b := newBench(t, m.ring, newCluster(nil), func(cfg *setup) { cfg.Reader = &script{c.nodes, m} })
				req := b.quorumRequest(keys)
				m.equal(req.Keys)
				if c.differ {
					for _, k := range req.Keys {
						m.host("h1")[string(k.Routing())] = stored{}
					}
				}
				plan := b.Plan(req)
				plan.Groups = nil
				for _, id := range []string{"h0", "h1"} {
					h, _ := b.ring.Index(id)
					g := planner.Group{Host: h}
					for k := range int32(keys) {
						g.Keys = append(g.Keys, k)
					}
					plan.Groups = append(plan.Groups, g)
				}
				retries := req.Table.retries
				if c.spent {
					spend(retries)
				}
				before := retries.Saved() + 2*keys*retryRatio
				o := b.runPlan(t.Context(), req, plan)
				assert.Equal(t, keys, o.count(c.status))
				assert.InDelta(t, c.paid*keys, before-retries.Saved(), 1e-9)
				want := map[string]uint64{}
				if c.outcome != "" {
					want[c.outcome] = keys
				}
				assert.Equal(t, want, b.outcomes())
			})
		})
	}
}
