package merge

import (
	"context"
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
)

// machine is some nodes on some cores, which work off statements first in, first out.
type machine struct {
	begin time.Time
	mu    sync.Mutex
	free  []time.Duration
	rng   *rand.Rand
	busy  time.Duration
	sent  int
	// straggler is asked for each statement whether it hangs, and for how long.
	straggler func(rng *rand.Rand) time.Duration
}

func newMachine(cores int) *machine {
	return &machine{begin: time.Now(), free: make([]time.Duration, cores), rng: rand.New(rand.NewPCG(3, 4))}
}

// What a statement and a key take of a core: those measured of small nodes, 0.25 ms and 0.03 ms;
// and the network, each way.
const (
	statementTime = 250 * time.Microsecond
	keyTime       = 30 * time.Microsecond
	wireTime      = 100 * time.Microsecond
)

func expected(_ *executor.Query, keys int) (time.Duration, bool) {
	return statementTime + time.Duration(keys)*keyTime + 2*wireTime, true
}

func (m *machine) Read(ctx context.Context, q *executor.SubQuery) ([]partition.Result, error) {
	m.mu.Lock()
	now := time.Since(m.begin)
	work := time.Duration(float64(statementTime+time.Duration(len(q.Keys))*keyTime) * math.Exp(0.2*m.rng.NormFloat64()))
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

// load is callers that ask one lookup after the other: of groups at different hosts.
type load struct {
	machines       []*machine // of each host
	callers, hosts int
	groups, keys   int
	lookups        int
	// rate is how many lookups arrive a second in all, whatever becomes of others; 0 has
	// each caller wait for its own.
	rate     float64
	priority func(caller int) identity.Priority
	expected func(*executor.Query, int) (time.Duration, bool)
	// equal has all callers ask with the same priority.
	equal bool
	// policies change those of the reader.
	policies func(*policies)
	// alone bypasses the reader.
	alone bool
	// at is what happens after such a time.
	at map[time.Duration]func(l *load)
}

// outcome is the latencies of lookups by priority, ascending.
type outcome struct {
	took   map[identity.Priority][]time.Duration
	limits []int
	second float64
	each   time.Duration
	sent   int
	total  int
	// course is what was each millisecond.
	course []moment
}

// moment is the limit of the first host, and how many statements its machine was sent.
type moment struct{ limit, sent int }

// mean is the mean limit from a moment to another.
func (o *outcome) mean(from, to int) float64 {
	sum := 0
	to = min(to, len(o.course))
	for _, m := range o.course[from:to] {
		sum += m.limit
	}
	return float64(sum) / float64(to-from)
}

// median is the median limit from a moment to another.
func (o *outcome) median(from, to int) int {
	var limits []int
	for _, m := range o.course[from:to] {
		limits = append(limits, m.limit)
	}
	slices.Sort(limits)
	return limits[len(limits)/2]
}

// reached is how many statements it took from a moment on to have such a limit.
func (o *outcome) reached(from int, is func(int) bool) int {
	for _, m := range o.course[from:] {
		if is(m.limit) {
			return m.sent - o.course[from].sent
		}
	}
	return -1
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
	}), Expected: l.expected})
	require.NoError(t, err)
	if l.policies != nil {
		l.policies(&r.policies)
	}
	out := &outcome{took: map[identity.Priority][]time.Duration{}}
	var all sync.WaitGroup
	var mu sync.Mutex
	begin := time.Now()
	end := make(chan struct{})
	go l.watch(r, out, end)
	for after, do := range l.at {
		time.AfterFunc(after, func() { do(l) })
	}
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
	close(end)
	out.second = float64(out.total) / time.Since(begin).Seconds()
	for _, t := range out.took {
		slices.Sort(t)
	}
	for i := range l.hosts {
		q, _ := r.Queue(strconv.Itoa(i))
		out.limits = append(out.limits, q.Limit)
	}
	for _, m := range l.machines {
		out.each += m.busy / time.Duration(out.total)
		out.sent += m.sent
	}
	return out
}

// watch looks at the limit of the first host every millisecond.
func (l *load) watch(r *Reader, out *outcome, end chan struct{}) {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-end:
			return
		case <-ticker.C:
			q, _ := r.Queue("0")
			l.machines[0].mu.Lock()
			out.course = append(out.course, moment{q.Limit, l.machines[0].sent})
			l.machines[0].mu.Unlock()
		}
	}
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

// fixed is a limit that stays as it is.
type fixed int

func (f fixed) most() int                            { return int(f) }
func (fixed) sent(int)                               {}
func (fixed) waits(time.Duration)                    {}
func (fixed) took(int, time.Duration, time.Duration) {}

func limitOfOne(p *policies) { p.limit = func() limiting { return fixed(1) } }

func run(t *testing.T, l func() *load) (o *outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { o = l().run(t) })
	return o
}

// compare runs a load as the reader does it, with the limit fixed at 1, and without the reader.
func compare(t *testing.T, l func() *load) (found, one, alone *outcome) {
	t.Helper()
	with := func(change func(*load)) *outcome {
		return run(t, func() *load {
			x := l()
			x.expected = expected
			change(x)
			return x
		})
	}
	found, one, alone = with(func(*load) {}), with(func(l *load) { l.policies = limitOfOne }), with(func(l *load) { l.alone = true })
	half := len(found.course) / 2
	t.Logf("limit %.1f, then %.1f, 4 after %d statements; lookups/s %.0f, %.0f at 1, %.0f alone; p50 %v, %v, %v; p99 %v, %v, %v; CPU %v, %v, %v",
		found.mean(0, half), found.mean(half, 2*half), found.reached(0, most(4)), found.second, one.second, alone.second,
		found.at(1, 0.5), one.at(1, 0.5), alone.at(1, 0.5), found.at(1, 0.99), one.at(1, 0.99), alone.at(1, 0.99), found.each, one.each, alone.each)
	return found, one, alone
}

func least(n int) func(int) bool { return func(limit int) bool { return limit >= n } }
func most(n int) func(int) bool  { return func(limit int) bool { return limit <= n } }

func TestTheLimitOfALargeNode(t *testing.T) {
	found, one, alone := compare(t, func() *load {
		return &load{machines: []*machine{newMachine(16)}, callers: 320, hosts: 1, groups: 1, keys: 20, lookups: 100}
	})
	n := len(found.course)
	assert.Greater(t, found.mean(n/2, n), 8.0)
	assert.Less(t, found.mean(n/2, n), 48.0)
	assert.Less(t, found.at(1, 0.5), alone.at(1, 0.5))
	assert.Less(t, found.each, alone.each*19/20)
	assert.Greater(t, one.at(1, 0.5), 3*found.at(1, 0.5))
}

// Of 16 cores 1.7 are busy: one statement in-flight is too few.
func TestNothingWaitsForAHostThatKeepsUp(t *testing.T) {
	found, one, alone := compare(t, func() *load {
		return &load{machines: []*machine{newMachine(16)}, callers: 16, hosts: 1, groups: 1, keys: 20, lookups: 700, rate: 2000}
	})
	assert.InDelta(t, mostLimit, found.mean(0, len(found.course)), 0)
	assert.Equal(t, alone.at(1, 0.99), found.at(1, 0.99))
	assert.Greater(t, one.at(1, 0.5), 100*time.Millisecond)
}

func TestTheLimitIsSmallOnABusyMachine(t *testing.T) {
	for name, l := range map[string]func() *load{
		"one core": func() *load {
			return &load{machines: []*machine{newMachine(1)}, callers: 16, hosts: 1, groups: 1, keys: 20, lookups: 400}
		},
		"six nodes on two cores, 16 callers": func() *load {
			return &load{machines: small(), callers: 16, hosts: 6, groups: 2, keys: 25, lookups: 500}
		},
		"six nodes on two cores, 64 callers": func() *load {
			return &load{machines: small(), callers: 64, hosts: 6, groups: 2, keys: 25, lookups: 250}
		},
	} {
		t.Run(name, func(t *testing.T) {
			found, one, alone := compare(t, l)
			n := len(found.course)
			// Of 64 callers 21 would be in-flight at each node. After a surge there is no
			// limit for some windows, which is most of a mean.
			assert.Less(t, found.median(n/2, n), 21)
			assert.Greater(t, found.second, one.second*0.85)
			assert.Less(t, found.each, alone.each*93/100)
		})
	}
}

func TestTheLimitFollowsAChangeOfTheMachine(t *testing.T) {
	cores := func(n int) func(*load) {
		return func(l *load) {
			m := l.machines[0]
			m.mu.Lock()
			defer m.mu.Unlock()
			m.free = slices.Repeat([]time.Duration{time.Since(m.begin)}, n)
		}
	}
	const small, large = 3000, 9000 // milliseconds
	o := run(t, func() *load {
		return &load{machines: []*machine{newMachine(16)}, callers: 48, hosts: 1, groups: 1, keys: 20, lookups: 3500, expected: expected,
			at: map[time.Duration]func(*load){small * time.Millisecond: cores(2), large * time.Millisecond: cores(16)}}
	})
	t.Logf("16 cores: limit %.1f; 2 cores: 3 after %d statements, then %.1f; 16 cores: 12 after %d", o.mean(small-1000, small),
		o.reached(small, most(3)), o.mean(small+3000, large), o.reached(large, least(12)))
	assert.Greater(t, o.course[small-1].limit, 3)
	assert.Positive(t, o.reached(small, most(3)))
	assert.Less(t, o.mean(small+3000, large), 6.0)
	assert.Positive(t, o.reached(large, least(12)))
	// At most two pauses of 32 windows.
	assert.Less(t, o.reached(large, least(12)), 5000)
}

func TestTheTailAtSaturation(t *testing.T) {
	for name, e := range map[string]func(*executor.Query, int) (time.Duration, bool){"expected": expected, "unknown": nil} {
		t.Run(name, func(t *testing.T) {
			// Two cores do 1,010 lookups of two groups of 25 keys a second.
			for _, rate := range []float64{700, 1000, 1100} {
				at := func(alone bool) *outcome {
					return run(t, func() *load {
						return &load{machines: small(), callers: 16, hosts: 6, groups: 2, keys: 25, lookups: 600, rate: rate, expected: e, alone: alone}
					})
				}
				merged, alone := at(false), at(true)
				t.Logf("%.0f lookups/s: p50 %v, p99 %v, CPU %v; without merging p50 %v, p99 %v, CPU %v; limits %v",
					rate, merged.at(1, 0.5), merged.at(1, 0.99), merged.each, alone.at(1, 0.5), alone.at(1, 0.99), alone.each, merged.limits)
				switch {
				case rate > 1010: // the queue grows until a limit is found
					assert.Less(t, merged.at(1, 0.99), alone.at(1, 0.99)*4/5)
				case rate >= 1000:
					assert.Less(t, merged.at(1, 0.99), alone.at(1, 0.99)*2/3)
				}
				assert.LessOrEqual(t, merged.each, alone.each+alone.each/100)
			}
		})
	}
}

func TestAStragglerHoldsUpNobody(t *testing.T) {
	at := func(change func(*policies)) *outcome {
		return run(t, func() *load {
			m := newMachine(4)
			m.straggler = func(rng *rand.Rand) time.Duration {
				if rng.IntN(100) == 0 {
					return 2 * time.Second
				}
				return 0
			}
			return &load{machines: []*machine{m}, callers: 8, hosts: 1, groups: 1, keys: 10, lookups: 150, rate: 400, expected: expected, policies: change}
		})
	}
	// One statement in-flight, so that one holds up all.
	with, control := at(limitOfOne), at(func(p *policies) {
		limitOfOne(p)
		p.overdue = func(*spread, time.Duration) time.Duration { return time.Hour }
	})
	t.Logf("p95 %v, of reads that wait for stragglers %v", with.at(1, 0.95), control.at(1, 0.95))
	assert.Less(t, with.at(1, 0.95), 10*time.Millisecond)
	assert.Greater(t, control.at(1, 0.95), 200*time.Millisecond)
}

func TestBatchWorkDelaysNobody(t *testing.T) {
	at := func(batch, equal bool) *outcome {
		return run(t, func() *load {
			l := &load{machines: []*machine{newMachine(1)}, callers: 40, hosts: 1, groups: 1, keys: 40, lookups: 60, expected: expected, policies: limitOfOne, equal: equal}
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
	largest, _ := expected(nil, maxKeys)
	alone, with, control := at(false, false), at(true, false), at(true, true)
	p99 := func(o *outcome, p identity.Priority) time.Duration { return o.at(p, 0.99) }
	t.Logf("interactive p99: alone %v, beside batch work %v, without priorities %v; one statement of %d keys takes %v", p99(alone, identity.Interactive),
		p99(with, identity.Interactive), p99(control, identity.Interactive), maxKeys, largest)
	// It waits for one statement, whose time varies, and goes with as many keys of others.
	assert.Less(t, p99(with, identity.Interactive), 2*p99(alone, identity.Interactive)+largest*3/2)
	assert.Greater(t, control.at(identity.Interactive, 0.5), 2*with.at(identity.Interactive, 0.5))
}

func TestWhatIsTriedNext(t *testing.T) {
	// Longer or shorter than sub-queries take where a host falls behind.
	const long, short = float64(2 * behind), float64(behind) * 3 / 4
	for name, c := range map[string]struct {
		limiter limiter
		want    int
	}{
		"larger, in its turn":                {limiter{limit: 3, time: long, up: true, waited: true}, 5},
		"smaller, in its turn":               {limiter{limit: 3, time: long, waited: true}, 2},
		"larger, as the host keeps up":       {limiter{limit: 3, time: short, waited: true}, 5},
		"smaller, as nothing waited":         {limiter{limit: 3, time: long, up: true}, 2},
		"neither":                            {limiter{limit: 3, time: short, up: true}, 3},
		"larger, as no limit is smaller":     {limiter{limit: 1, time: long, waited: true}, 2},
		"half of those in-flight, at first":  {limiter{limit: mostLimit, time: long}, 20},
		"none is larger than that of a node": {limiter{limit: mostLimit, time: short, up: true, waited: true}, mostLimit},
	} {
		t.Run(name, func(t *testing.T) {
			l := c.limiter
			l.using, l.peak, l.found = l.limit, min(l.limit, 40), l.limit < mostLimit
			l.try()
			assert.Equal(t, c.want, l.using)
		})
	}
}
