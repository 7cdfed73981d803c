package bench

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/lab/report"
)

// scripted is a target whose answers a test scripts.
type scripted struct {
	mu sync.Mutex
	do func(ctx context.Context, l *Lookup) Outcome
	n  int
}

func (s *scripted) Do(ctx context.Context, l *Lookup) Outcome {
	s.mu.Lock()
	s.n++
	s.mu.Unlock()
	return s.do(ctx, l)
}

func (s *scripted) Close() {}

// driverOf returns a driver with scripted targets by name.
func driverOf(t testing.TB, targets map[string]Target) *Driver {
	t.Helper()
	d, err := NewDriver(Open{Data: dataset(t, small, 7), Timeout: 5 * time.Second}, Meter{})
	require.NoError(t, err)
	d.targets = targets
	return d
}

func after(d time.Duration) func(context.Context, *Lookup) Outcome {
	return func(context.Context, *Lookup) Outcome {
		time.Sleep(d)
		return Outcome{}
	}
}

// A target that stalls for a second delays all lookups that would have arrived meanwhile. If
// latency counted from when a lookup was sent, only one would have waited.
func TestOpenLoopDoesNotOmitWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		door := make(chan struct{}, 1) // serves one at a time
		target := &scripted{do: func(context.Context, *Lookup) Outcome {
			door <- struct{}{}
			defer func() { <-door }()
			if at := time.Since(begin); at > 2*time.Second && at < 3*time.Second {
				time.Sleep(3*time.Second - at)
			}
			return Outcome{}
		}}
		c := driverOf(t, map[string]Target{In: target}).Contenders("", In)[0]
		r, err := c.round(t.Context(), Load{Rate: 200}, 4*time.Second, 1, 100*time.Millisecond)
		require.NoError(t, err)
		assert.InDelta(t, 800, r.Counts.Lookups, 80)
		assert.Equal(t, r.Counts.Lookups, r.Counts.OK)
		assert.InDelta(t, 180, r.Counts.Late, 40, "those that arrived in the first 0.9 s of the stall")
		assert.InDelta(t, 1, r.Latency.Max, 0.02)
		assert.Less(t, r.Latency.P50, 0.001)
	})
}

func TestClosedLoopKeepsSoManyUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := driverOf(t, map[string]Target{In: &scripted{do: after(10 * time.Millisecond)}}).Contenders("", In)[0]
		r, err := c.round(t.Context(), Load{Concurrency: 3}, time.Second, 1, 0)
		require.NoError(t, err)
		assert.Equal(t, int64(300), r.Counts.Lookups)
		assert.Zero(t, r.Counts.Late)
		assert.InDelta(t, 0.010, r.Latency.P99, 0.0001)
	})
}

func TestOpenLoopGivesUpOnALostTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := func(ctx context.Context, l *Lookup) Outcome {
			<-ctx.Done()
			return Outcome{Failed: len(l.Keys), Err: ctx.Err()}
		}
		c := driverOf(t, map[string]Target{In: &scripted{do: stuck}}).Contenders("", In)[0]
		r, err := c.round(t.Context(), Load{Rate: 2000}, 3*time.Second, 1, time.Second)
		require.NoError(t, err)
		assert.InDelta(t, 6000, r.Counts.Lookups, 300, "every arrival is counted")
		assert.Equal(t, r.Counts.Lookups, r.Counts.Failed)
		assert.Equal(t, int64(maxInFlight), r.Counts.Errors[context.DeadlineExceeded.Error()])
		assert.Equal(t, r.Counts.Lookups-maxInFlight, r.Counts.Errors[errOverrun.Error()])
	})
}

func TestOutcomesAreCountedApart(t *testing.T) {
	count := newTally(time.Second)
	for _, o := range []Outcome{
		{SubQueries: 4, Hedges: 1}, {Failed: 2, Err: errors.New("late")}, {Failed: 5, Err: errors.New("down"), Failovers: 1}, {Missing: 2, Wrong: 3},
	} {
		count.add(&o, 5, time.Millisecond)
	}
	assert.Len(t, count.counts.BadAt, 3)
	count.counts.BadAt = nil
	assert.Equal(t, report.Counts{
		Lookups: 4, OK: 2, Partial: 1, Failed: 1, Right: 1, Good: 1, FailedKeys: 7, MissingKeys: 2, WrongRows: 3, Errors: map[string]int64{"late": 1, "down": 1},
	}, count.counts)
	assert.Equal(t, sums{subQueries: 4, hedges: 1, failovers: 1}, count.sent)
}

// limited answers in 1 ms up to a rate, and more and more slowly above it.
func limited(capacity float64) func(float64) (report.Round, error) {
	return func(rate float64) (report.Round, error) {
		r := report.Round{OfferedRate: rate, Counts: report.Counts{Lookups: 1000, OK: 1000}}
		if rate > capacity {
			r.Counts.Late = 300
		}
		return r, nil
	}
}

func TestRampFindsTheCapacity(t *testing.T) {
	sla := report.SLA{Percentile: 95, TargetSeconds: 0.1}
	for _, capacity := range []float64{1, 7, 50, 333, 20_000} {
		r, err := DefaultRamp().climb(sla, limited(capacity))
		require.NoError(t, err)
		assert.LessOrEqual(t, r.OfferedRate, capacity)
		assert.Greater(t, r.OfferedRate, capacity*0.87)
	}
	_, err := DefaultRamp().climb(sla, limited(0.1))
	require.ErrorContains(t, err, "not even at 0.15625 lookups/s does the SLA hold")

	once := true
	r, err := DefaultRamp().climb(sla, func(rate float64) (report.Round, error) {
		got, err := limited(333)(rate)
		if rate > 50 && once {
			once, got.Counts.Late = false, 300
		}
		return got, err
	})
	require.NoError(t, err)
	assert.Greater(t, r.OfferedRate, 280.0, "one stage that fails by accident does not end the climb")
}

func TestHoldsWantsAnswersInTime(t *testing.T) {
	sla := report.SLA{Percentile: 95}
	round := func(c report.Counts) *report.Round { return &report.Round{Counts: c} }
	assert.True(t, holds(round(report.Counts{Lookups: 1000, Late: 50}), sla))
	assert.False(t, holds(round(report.Counts{Lookups: 1000, Late: 51}), sla))
	assert.True(t, holds(round(report.Counts{Lookups: 1000, Partial: 1}), sla))
	assert.False(t, holds(round(report.Counts{Lookups: 1000, Failed: 2}), sla))
	assert.False(t, holds(round(report.Counts{}), sla))
}

func TestCompareTakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := driverOf(t, map[string]Target{In: &scripted{do: after(time.Millisecond)}, Single: &scripted{do: after(2 * time.Millisecond)}})
		var order []string
		runs, err := Compare(t.Context(), d.Contenders("c", In, Single), Comparison{
			Load: Load{Concurrency: 1}, Rounds: 2, Warmup: time.Minute, Length: time.Second,
			Progress: func(p Progress) {
				if p.Done == nil {
					order = append(order, p.Target)
				}
			},
		})
		require.NoError(t, err)
		assert.Equal(t, []string{In, Single, In, Single, In, Single, In, Single}, order)
		require.Len(t, runs, 2)
		assert.Equal(t, "c", runs[1].Condition)
		require.Len(t, runs[1].Rounds, 2)
		assert.Equal(t, int64(500), runs[1].Rounds[1].Counts.OK)
		_, err = Compare(t.Context(), nil, Comparison{Rounds: 1})
		require.ErrorContains(t, err, "at least one target")
	})
}

func TestCompilersAreNoCostOfALookup(t *testing.T) {
	before := usage{nodes: map[string]NodeCPU{"a": {5, 4}, "b": {1, 0.5}}}
	after := usage{nodes: map[string]NodeCPU{"a": {8, 6}, "b": {2, 0.5}}}
	c, nodes := Meter{Nodes: func() (map[string]NodeCPU, error) { return nil, nil }}.cost(before, after, In, 10, sums{})
	assert.InDelta(t, 200, *c.CassandraCPUMillis, 1e-9)
	assert.InDelta(t, 200, *c.CompilerCPUMillis, 1e-9)
	assert.InDelta(t, 100, nodes["a"], 1e-9)
	assert.InDelta(t, 100, nodes["b"], 1e-9)
}

// The compiler takes half of the first ten seconds of a node, and nothing later.
func TestWarmingUpWaitsForTheCompilers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		d := driverOf(t, map[string]Target{In: &scripted{do: after(time.Millisecond)}})
		d.meter.Nodes = func() (map[string]NodeCPU, error) {
			ran := time.Since(begin).Seconds()
			return map[string]NodeCPU{"a": {Seconds: ran, Compiling: min(ran, 10) / 2}}, nil
		}
		runs, err := Compare(t.Context(), d.Contenders("", In), Comparison{Load: Load{Concurrency: 1}, Rounds: 1, Warmup: time.Minute, Length: time.Second})
		require.NoError(t, err)
		// A turn of 3 s and as much rest; another turn, and rest until a second after the
		// compiler has ended; a turn that finds the node at rest; the round.
		assert.Equal(t, (3+3)*time.Second+(3+2)*time.Second+3*time.Second+time.Second, time.Since(begin))
		assert.Zero(t, *runs[0].Rounds[0].PerLookup.CompilerCPUMillis)
	})
}

func TestTargetsAreNamed(t *testing.T) {
	d := driverOf(t, map[string]Target{})
	_, err := d.Target(t.Context(), "both")
	require.ErrorContains(t, err, "use proxy-grpc, ")
}
