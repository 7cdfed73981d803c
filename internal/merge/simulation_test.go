package merge

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/underrace"
)

// machine simulates nodes that share some cores, which work off statements first in, first out.
type machine struct {
	begin time.Time
	mu    sync.Mutex
	free  []time.Duration
	rng   *rand.Rand
	busy  time.Duration
	sent  int
	// exact has statements of as many keys take the same time each.
	exact bool
	// straggler returns for how long a statement hangs; 0 for not at all.
	straggler func(rng *rand.Rand) time.Duration
}

func newMachine(cores int) *machine {
	return &machine{begin: time.Now(), free: make([]time.Duration, cores), rng: rand.New(rand.NewPCG(3, 4))}
}

// The time that a statement and each key take of a core, 0.25 ms and 0.03 ms as measured on small
// nodes, and the network takes each way.
const (
	statementTime = 250 * time.Microsecond
	keyTime       = 30 * time.Microsecond
	wireTime      = 100 * time.Microsecond
)

var costs = costing(statementTime, keyTime)

func (m *machine) Read(ctx context.Context, q *executor.SubQuery) ([]partition.Result, error) {
	m.mu.Lock()
	now := time.Since(m.begin)
	work := statementTime + time.Duration(len(q.Keys))*keyTime
	if !m.exact {
		work = time.Duration(float64(work) * math.Exp(0.2*m.rng.NormFloat64()))
	}
	first := 0
	for i := range m.free {
		if m.free[i] < m.free[first] {
			first = i
		}
	}
	m.free[first] = max(m.free[first], now+wireTime) + work
	m.busy += work
	m.sent++
	end := m.free[first] + wireTime
	if m.straggler != nil {
		end += m.straggler(m.rng)
	}
	m.mu.Unlock()
	timer := time.NewTimer(end - now)
	defer timer.Stop()
	select {
	case <-timer.C:
		q.Settled()
		return answer(q), nil
	case <-ctx.Done():
		time.AfterFunc(end-now-(time.Since(m.begin)-now), q.Settled)
		return nil, context.Cause(ctx)
	}
}

// load describes callers that make one lookup after the other, of groups at different hosts.
type load struct {
	machines       []*machine // of each host
	callers, hosts int
	groups, keys   int
	lookups        int
	// rate is how many lookups arrive a second in all, in an open loop; 0 is a closed loop, in
	// which each caller waits for its own.
	rate     float64
	priority func(caller int) identity.Priority
	// equal has all callers ask with the same priority.
	equal bool
	// alone keeps sub-queries from being merged.
	alone bool
}

// outcome is what a load showed: its latencies are by priority, ascending.
type outcome struct {
	took   map[identity.Priority][]time.Duration
	second float64
	each   time.Duration
	sent   int
	total  int
}

func (o *outcome) at(p identity.Priority, q float64) time.Duration {
	t := o.took[p]
	return t[min(int(q*float64(len(t))), len(t)-1)]
}

func (l *load) run(t *testing.T) *outcome {
	t.Helper()
	r, err := New(Config{Reader: executor.ReaderFunc(func(ctx context.Context, q *executor.SubQuery) ([]partition.Result, error) {
		i, _ := strconv.Atoi(q.Host.ID)
		return l.machines[i%len(l.machines)].Read(ctx, q)
	}), Costs: costs})
	require.NoError(t, err)
	out := &outcome{took: map[identity.Priority][]time.Duration{}}
	var all sync.WaitGroup
	var mu sync.Mutex
	begin := time.Now()
	for c := range l.callers {
		priority := identity.Standard
		if l.priority != nil {
			priority = l.priority(c)
		}
		client := &identity.Client{Priority: priority}
		if l.equal {
			client.Priority = identity.Standard
		}
		ctx := identity.NewContext(t.Context(), client)
		rng := rand.New(rand.NewPCG(uint64(c), 5))
		all.Go(func() {
			time.Sleep(time.Duration(c) * 37 * time.Microsecond)
			for i := range l.lookups {
				groups := l.draw(rng)
				ask := func() {
					start := time.Now()
					l.lookup(ctx, r, groups)
					mu.Lock()
					defer mu.Unlock()
					if i >= l.lookups/4 {
						out.took[priority] = append(out.took[priority], time.Since(start))
					}
					out.total++
				}
				if l.rate == 0 {
					ask()
					continue
				}
				time.Sleep(time.Duration(rng.ExpFloat64() / l.rate * float64(l.callers) * float64(time.Second)))
				all.Go(ask)
			}
		})
	}
	all.Wait()
	out.second = float64(out.total) / time.Since(begin).Seconds()
	for _, t := range out.took {
		slices.Sort(t)
	}
	for _, m := range l.machines {
		out.each += m.busy / time.Duration(out.total)
		out.sent += m.sent
	}
	return out
}

// draw draws the groups of a lookup.
func (l *load) draw(rng *rand.Rand) []*executor.SubQuery {
	var groups []*executor.SubQuery
	for _, h := range rng.Perm(l.hosts)[:l.groups] {
		query := newQuery()
		query.Alone = l.alone
		q := &executor.SubQuery{Query: query, Host: ring.Host{ID: strconv.Itoa(h)}, Settled: func() {}}
		for range max(1, l.keys/2+rng.IntN(max(l.keys, 1))) {
			q.Keys = append(q.Keys, newKey(rng.IntN(1<<30)))
		}
		groups = append(groups, q)
	}
	return groups
}

func (l *load) lookup(ctx context.Context, r *Reader, groups []*executor.SubQuery) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var all sync.WaitGroup
	for _, q := range groups {
		all.Go(func() { _, _ = r.Read(ctx, q) })
	}
	all.Wait()
}

// small is six nodes on two cores, as on the machine where merging was measured.
func small() []*machine { return []*machine{newMachine(2)} }

func run(t *testing.T, l func() *load) (o *outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { o = l().run(t) })
	return o
}

// compare runs a load with merging and without.
func compare(t *testing.T, l func() *load) (merged, alone *outcome) {
	t.Helper()
	with := func(bypass bool) *outcome {
		return run(t, func() *load {
			x := l()
			x.alone = bypass
			return x
		})
	}
	merged, alone = with(false), with(true)
	t.Logf("lookups/s %.0f, %.0f alone; p50 %v, %v; p99 %v, %v; CPU %v, %v: %.3f; statements a lookup %.2f, %.2f",
		merged.second, alone.second, merged.at(1, 0.5), alone.at(1, 0.5), merged.at(1, 0.99), alone.at(1, 0.99), merged.each, alone.each,
		float64(merged.each)/float64(alone.each), float64(merged.sent)/float64(merged.total), float64(alone.sent)/float64(alone.total))
	return merged, alone
}

func TestALargeNode(t *testing.T) {
	underrace.Skip(t, underrace.Simulations)
	large := func(callers int, rate float64, lookups int) func() *load {
		return func() *load {
			return &load{machines: []*machine{newMachine(16)}, callers: callers, hosts: 1, groups: 1, keys: 20, lookups: lookups, rate: rate}
		}
	}
	t.Run("saturated", func(t *testing.T) {
		merged, alone := compare(t, large(320, 0, 100))
		assert.Greater(t, merged.second, 1.2*alone.second)
		assert.Less(t, merged.at(1, 0.99), alone.at(1, 0.99))
	})
	// 1.7 and 8.5 of 16 cores are busy.
	for _, rate := range []float64{2000, 10000} {
		t.Run("that keeps up", func(t *testing.T) {
			merged, alone := compare(t, large(16, rate, 700))
			// The keys of a statement are read by one core here; nodes read them by several.
			assert.Less(t, merged.at(1, 0.99), 6*time.Millisecond)
			assert.LessOrEqual(t, merged.each, alone.each)
		})
	}
}

func TestABusyMachine(t *testing.T) {
	underrace.Skip(t, underrace.Simulations)
	// most is the share of the CPU time that merging leaves.
	for callers, most := range map[int]float64{4: 0.99, 16: 0.88, 64: 0.85} {
		t.Run(fmt.Sprint(callers, " callers"), func(t *testing.T) {
			merged, alone := compare(t, func() *load {
				return &load{machines: small(), callers: callers, hosts: 6, groups: 2, keys: 25, lookups: 8000 / callers}
			})
			assert.Less(t, float64(merged.each), most*float64(alone.each))
			assert.Greater(t, merged.second, 0.98*alone.second)
		})
	}
}

func TestTheTailAtSaturation(t *testing.T) {
	underrace.Skip(t, underrace.Simulations)
	// Two cores do 1,010 lookups of two groups of 25 keys a second.
	for rate, most := range map[float64]float64{300: 1.1, 700: 1.2, 1000: 0.5, 1100: 0.2} {
		t.Run(fmt.Sprint(rate, " lookups a second"), func(t *testing.T) {
			merged, alone := compare(t, func() *load {
				return &load{machines: small(), callers: 16, hosts: 6, groups: 2, keys: 25, lookups: 600, rate: rate}
			})
			assert.Less(t, float64(merged.at(1, 0.99)), most*float64(alone.at(1, 0.99)))
			assert.LessOrEqual(t, merged.each, alone.each+alone.each/100)
		})
	}
}

func TestAStragglerHoldsUpNobody(t *testing.T) {
	o := run(t, func() *load {
		m := newMachine(4)
		m.straggler = func(rng *rand.Rand) time.Duration {
			if rng.IntN(100) == 0 {
				return 2 * time.Second
			}
			return 0
		}
		// Batch work waits as long as one read is in-flight, so that a straggler would hold up
		// all.
		return &load{machines: []*machine{m}, callers: 8, hosts: 1, groups: 1, keys: 10, lookups: 150, rate: 400,
			priority: func(int) identity.Priority { return identity.Batch }}
	})
	t.Logf("p95 %v", o.at(identity.Batch, 0.95))
	assert.Less(t, o.at(identity.Batch, 0.95), 15*time.Millisecond)
}

func TestBatchWorkDelaysNobody(t *testing.T) {
	at := func(batch, equal bool) *outcome {
		return run(t, func() *load {
			m := newMachine(1)
			m.exact = true
			l := &load{machines: []*machine{m}, callers: 40, hosts: 1, groups: 1, keys: 40, lookups: 100, equal: equal}
			l.priority = func(c int) identity.Priority {
				if c%20 == 0 {
					return identity.Interactive
				}
				return identity.Batch
			}
			if !batch {
				l.callers, l.priority = 2, func(int) identity.Priority { return identity.Interactive }
			}
			return l
		})
	}
	largest := statementTime + (enoughKeys+40)*keyTime + 2*wireTime
	alone, with, control := at(false, false), at(true, false), at(true, true)
	p99 := func(o *outcome) time.Duration { return o.at(identity.Interactive, 0.99) }
	// The order of callers differs from run to run, and with it the slowest few lookups.
	beside := []time.Duration{p99(with)}
	for range 4 {
		beside = append(beside, p99(at(true, false)))
	}
	slices.Sort(beside)
	t.Logf("interactive p99: alone %v, beside batch work %v, without priorities %v; one statement takes %v", p99(alone), beside, p99(control), largest)
	// It waits for one statement of batch work, and now and then for a part of the next.
	assert.Less(t, beside[len(beside)/2], p99(alone)+largest*3/2)
	assert.Greater(t, control.at(identity.Interactive, 0.5), 2*with.at(identity.Interactive, 0.5))
}
