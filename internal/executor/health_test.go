package executor

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/underrace"
)

func (b *bench) stateOf(id string) State {
	for _, h := range b.Health() {
		if h.Host.ID == id {
			return h.State
		}
	}
	return -1
}

func TestEjectionGrowsAndEndsInSlowStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(5, 6))
		c := newCluster(usually(rng))
		c.set("h1", failing(ReasonUnreachable))
		b := newBench(t, newRing(t, 3, 3, 3), c, nil)
		b.load(20*time.Millisecond, 70*second, 50, second)
		var asked []time.Duration
		for _, r := range c.seen() {
			if r.host == "h1" {
				asked = append(asked, r.at)
			}
		}
		// Five failures, then one probe at a time: after 1, 2, 4, 8, 16, 30 s.
		require.GreaterOrEqual(t, len(asked), 10)
		for i, gap := range []time.Duration{1, 2, 4, 8, 16, 30} {
			assert.InDelta(t, float64(gap*second), float64(asked[5+i]-asked[4+i]), float64(40*time.Millisecond))
		}
		assert.Len(t, asked, 11)

		c.set("h1", c.usual)
		assert.Equal(t, Ejected, b.stateOf("h1"))
		all := b.load(20*time.Millisecond, 31*second, 50, second)
		assert.Zero(t, lost(all))
		assert.Contains(t, []State{SlowStart, Healthy}, b.stateOf("h1"))
		b.load(20*time.Millisecond, 11*second, 50, second)
		assert.Equal(t, Healthy, b.stateOf("h1"))
	})
}

// TestAnEjectedHostIsBackSoonAfterAnOutageOfAll has hosts that nobody can reach for a
// second. One is ejected, and asked for every key nevertheless, since the others fail, too.
func TestAnEjectedHostIsBackSoonAfterAnOutageOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(after(ms))
		b := newBench(t, newRing(t, 3, 3, 3), c, nil)
		b.load(20*ms, second, 50, second)
		for _, h := range []string{"h0", "h1", "h2"} {
			c.set(h, func(at time.Duration, _ int) (time.Duration, error) {
				if at < 2*second {
					return ms, lostFor(ReasonUnreachable)
				}
				return ms, nil
			})
		}
		b.load(20*ms, 5*second, 50, second)
		for _, h := range b.Health() {
			assert.NotContains(t, []State{Ejected, Probing}, h.State)
		}
	})
}

func TestEjectionsKeepToAThird(t *testing.T) {
	for n, most := range map[int]int{1: 1, 3: 1, 5: 1, 6: 2, 12: 4} {
		t.Run(fmt.Sprintf("%d hosts", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, newRing(t, n, 3, 1), newCluster(failing(ReasonOverloaded)), nil)
				b.load(20*time.Millisecond, 5*second, 50, second)
				out := 0
				for _, h := range b.Health() {
					if h.State == Ejected {
						out++
					}
				}
				assert.Equal(t, most, out)
			})
		})
	}
}

func TestOneSlowKeyDoesNotMakeAHostSuspect(t *testing.T) {
	for name, tt := range map[string]struct {
		slow  int
		every time.Duration
		want  State
	}{
		"one slow answer of a host that goes on answering":   {1, time.Millisecond, Healthy},
		"control: two slow answers":                          {2, time.Millisecond, Suspect},
		"control: one, and nothing else from it in the time": {1, 60 * time.Millisecond, Suspect},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(after(time.Millisecond))
				b := newBench(t, newRing(t, 3, 3, 3), c, func(cfg *setup) { cfg.without.overtaking = true })
				left := tt.slow
				c.set("h1", func(at time.Duration, _ int) (time.Duration, error) {
					if at < second || left == 0 {
						return time.Millisecond, nil
					}
					left--
					return 100 * time.Millisecond, nil
				})
				b.load(time.Millisecond, second, 1, second)
				for left == tt.slow {
					b.load(time.Millisecond, time.Millisecond, 50, second)
				}
				b.load(tt.every, 60*time.Millisecond, 50, 10*time.Millisecond)
				assert.Equal(t, tt.want, b.stateOf("h1"))
			})
		})
	}
}

func TestHostThatLostWhatItOwedIsFoundByAProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(5, 6))
		c := newCluster(usually(rng))
		b := newBench(t, newRing(t, 3, 3, 3), c, nil)
		b.load(20*time.Millisecond, 5*second, 50, second)
		c.set("h1", silent())
		all := b.load(20*time.Millisecond, 10*second, 50, 125*time.Millisecond)
		assert.Zero(t, lost(all))
		assert.Equal(t, Suspect, b.stateOf("h1"))
		assert.LessOrEqual(t, extraRatio(all), 0.01)
		// It never settles what it was asked meanwhile, but answers new requests.
		c.set("h1", c.usual)
		from := time.Since(c.begin)
		all = b.load(20*time.Millisecond, 2*second, 50, 125*time.Millisecond)
		assert.Equal(t, Healthy, b.stateOf("h1"))
		assert.Less(t, answersFrom(b, all, "h1", from)-from, second)
	})
}

func TestFullHostIsNotAsked(t *testing.T) {
	for name, tt := range map[string]struct {
		rf   int
		want partition.Status
	}{
		"keys with another replica are asked there": {3, partition.Found},
		"keys with no other replica are shed":       {1, partition.Shed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(after(time.Millisecond))
				b := newBench(t, newRing(t, 3, tt.rf, 1), c, func(cfg *setup) {
					cfg.Limits.InflightKeys = 64
					cfg.without.suspects = true
				})
				b.policy = hedge.Policy{}
				c.set("h1", silent())
				b.load(20*time.Millisecond, 20*second, 20, 100*time.Millisecond)
				most := 0
				for _, h := range b.Health() {
					most = max(most, h.InflightKeys)
				}
				assert.LessOrEqual(t, most, 64)
				o := b.lookup(300, 100*time.Millisecond)
				assert.NotZero(t, o.count(tt.want))
				assert.Equal(t, 300, o.count(partition.Found)+o.count(partition.Shed)+o.count(partition.TimedOut))
				if tt.rf == 3 {
					assert.Zero(t, o.count(partition.Shed))
				}
			})
		})
	}
}

func TestStateOfAHostFollowsItThroughSnapshots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, again := newRing(t, 3, 3, 3), newRing(t, 3, 3, 3)
		larger := newRing(t, 4, 3, 3)
		b := newBench(t, first, newCluster(after(time.Millisecond)), nil)
		h := b.view(first).hosts[1]
		assert.Same(t, h, b.view(again).hosts[1], "the same host in a new snapshot")
		v := b.view(first)
		assert.Same(t, v, b.view(first), "one view for a snapshot")
		var moved ring.Topology
		moved.Hosts = append(moved.Hosts, first.Hosts()...)
		moved.Hosts[1].Addr = "10.0.0.99:9042"
		elsewhere, err := ring.New(moved)
		require.NoError(t, err)
		i, ok := elsewhere.Index("h1")
		require.True(t, ok)
		assert.NotSame(t, h, b.view(elsewhere).hosts[i], "a host at another address begins anew")
		for range 10 {
			b.view(larger)
			b.view(newRing(t, 3, 3, 3))
		}
		assert.Len(t, *b.views.Load(), keptViews)
	})
}

func TestHottestHostIsNearTheMean(t *testing.T) {
	underrace.Skip(t, underrace.Simulations)
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(5, 6))
		c := newCluster(usually(rng))
		c.record = false
		b := newBench(t, newRing(t, 12, 3, 3), c, nil)
		keys := make(map[string]int)
		total := 0
		for range 10_000 {
			o := b.lookup(50, second)
			for _, a := range o.Attempts {
				keys[a.Host] += len(a.Keys)
				total += len(a.Keys)
			}
			time.Sleep(time.Millisecond)
		}
		hottest := 0
		for _, n := range keys {
			hottest = max(hottest, n)
		}
		ratio := float64(hottest) * 12 / float64(total)
		t.Logf("hottest %.3f of the mean", ratio)
		assert.LessOrEqual(t, ratio, 1.2)
	})
}

// TestTheLocalRackIsPreferredThroughoutALoad checks that the share of a host does not undo
// the preference: near hosts are compared with near ones.
func TestTheLocalRackIsPreferredThroughoutALoad(t *testing.T) {
	share := func(t *testing.T, prefer bool) (local float64) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(7, 8))
			c := newCluster(usually(rng))
			c.record = false
			b := newBench(t, newRing(t, 12, 3, 3), c, nil)
			near := make([]bool, b.ring.Len())
			for i, h := range b.ring.Hosts() {
				near[i] = h.Rack == b.ring.Hosts()[0].Rack
			}
			inside, total := 0, 0
			for range 2000 {
				req := b.request(50)
				if prefer {
					req.Near = near
				}
				for _, g := range b.Plan(req).Groups {
					total += len(g.Keys)
					if near[g.Host] {
						inside += len(g.Keys)
					}
				}
				b.run(t.Context(), req)
				time.Sleep(time.Millisecond)
			}
			local = float64(inside) / float64(total)
		})
		return local
	}
	preferred, not := share(t, true), share(t, false)
	t.Logf("keys asked in the local rack: %.0f %%, without preference %.0f %%", 100*preferred, 100*not)
	assert.Greater(t, preferred, 0.55)
	assert.Less(t, not, 0.45, "control: one rack of three")
}

func TestMetricsTellWhatHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewPedanticRegistry()
		rng := rand.New(rand.NewPCG(5, 6))
		c := newCluster(usually(rng))
		c.set("h1", frozen(c.usual, 5*second, 6*second))
		c.set("h2", func(at time.Duration, keys int) (time.Duration, error) {
			if at > 8*second {
				return 0, &ReadError{Reason: ReasonUnreachable, Err: assert.AnError}
			}
			return c.usual(at, keys)
		})
		b := newBench(t, newRing(t, 3, 3, 3), c, func(cfg *setup) { cfg.Registerer = registry })
		all := b.load(20*time.Millisecond, 10*second, 50, second)
		hedges, failovers := 0, 0
		for _, o := range all {
			hedges += o.Hedges
			failovers += o.Failovers
		}
		require.NotZero(t, hedges)
		require.NotZero(t, failovers)
		m := b.metrics
		assert.InDelta(t, hedges, testutil.ToFloat64(m.hedges.WithLabelValues("won"))+testutil.ToFloat64(m.hedges.WithLabelValues("lost")), 0)
		assert.InDelta(t, failovers, testutil.ToFloat64(m.failovers.WithLabelValues("unreachable")), 0)
		assert.NotZero(t, testutil.ToFloat64(m.changes.WithLabelValues("10.0.0.2:9042", "suspect")))
		problems, err := testutil.GatherAndLint(registry)
		require.NoError(t, err)
		assert.Empty(t, problems)
		require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP qosproxy_host_state State of the host: 0 healthy, 1 slow_start, 2 probing, 3 suspect, 4 ejected.
# TYPE qosproxy_host_state gauge
qosproxy_host_state{host="10.0.0.1:9042"} 0
qosproxy_host_state{host="10.0.0.2:9042"} 0
qosproxy_host_state{host="10.0.0.3:9042"} 4
`), "qosproxy_host_state"))
	})
}

func TestSeriesOfHostsThatLeftAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, newRing(t, 5, 3, 3), newCluster(after(0)), nil)
		b.view(b.ring)
		assert.Equal(t, 25, testutil.CollectAndCount(b.metrics.durations))
		for range keptViews {
			b.view(newRing(t, 3, 3, 3))
		}
		assert.Equal(t, 15, testutil.CollectAndCount(b.metrics.durations))
	})
}

func TestProbesEndWithTheExecutor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(silent())
		b := newBench(t, newRing(t, 3, 3, 3), c, nil)
		h := b.view(b.ring).hosts[0]
		h.mu.Lock()
		h.enter(Suspect, b.now(), "was marked")
		h.probeAt.Store(0)
		h.mu.Unlock()
		b.probe(b.view(b.ring), b.request(50))
		synctest.Wait()
		require.Len(t, c.seen(), 1)
		b.Close()
		h.probeAt.Store(0)
		b.probe(b.view(b.ring), b.request(50))
		require.Len(t, c.seen(), 1)
		assert.False(t, h.probing.Load())
	})
}

// TestAnyReaderLeavesEveryKeyOneResult lets every host do anything; run checks the results.
func TestAnyReaderLeavesEveryKeyOneResult(t *testing.T) {
	policies := []string{"NONE", "ALWAYS", "1ms", "15ms", "MIN(95p,15ms)", "50p"}
	reasons := []Reason{ReasonUnreachable, ReasonDisconnected, ReasonUnavailable, ReasonTimeout, ReasonOverloaded, ReasonReadFailure, ReasonInvalid, ReasonOther}
	statuses := []partition.Status{partition.Found, partition.NotFound, partition.TooLarge, partition.Failed, partition.Pending}
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		hosts := rapid.IntRange(1, 8).Draw(rt, "hosts")
		rf := rapid.IntRange(1, 4).Draw(rt, "rf")
		policy := rapid.SampledFrom(policies).Draw(rt, "policy")
		bad := rapid.Float64Range(0, 1).Draw(rt, "bad")
		keys := rapid.IntRange(1, 130).Draw(rt, "keys")
		inflight := rapid.SampledFrom([]int{1, 20, 1000}).Draw(rt, "inflight")
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			rng := rand.New(rand.NewPCG(seed, 9))
			dice := func() (float64, int) { mu.Lock(); defer mu.Unlock(); return rng.Float64(), rng.IntN(1 << 20) }
			c := newCluster(func(time.Duration, int) (time.Duration, error) {
				x, n := dice()
				took := time.Duration(n%40_000) * time.Microsecond
				if x > bad {
					return took, nil
				}
				switch n % 3 {
				case 0:
					return took, &ReadError{Reason: reasons[n%len(reasons)], Err: assert.AnError}
				case 1:
					return 20 * took, nil
				}
				return -1, nil
			})
			c.result = func(string, partition.Key) partition.Result {
				if x, n := dice(); x < bad {
					return partition.Result{Status: statuses[n%len(statuses)]}
				}
				return partition.Result{Status: partition.Found}
			}
			b := newBench(t, newRing(t, hosts, rf, 2), c, func(cfg *setup) { cfg.Limits.InflightKeys = inflight })
			b.policy, _ = hedge.ParsePolicy(policy)
			for _, o := range b.load(7*time.Millisecond, 200*time.Millisecond, keys, 60*time.Millisecond) {
				assert.LessOrEqual(t, o.took, 60*time.Millisecond)
			}
			time.Sleep(time.Minute)
		})
	})
}

func TestCancelledLookupEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, newRing(t, 3, 3, 3), newCluster(silent()), nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		time.AfterFunc(10*time.Millisecond, cancel)
		o := b.run(ctx, b.request(5))
		assert.Equal(t, 10*time.Millisecond, o.took)
		assert.Equal(t, 5, o.count(partition.TimedOut))
		assert.ErrorContains(t, o.results[0].Err, "cancelled after 10ms")

		o = b.run(ctx, b.request(5))
		assert.Zero(t, o.SubQueries, "a lookup that is over asks nobody")
		assert.Equal(t, 5, o.count(partition.TimedOut))
	})
}

func BenchmarkExecute(bb *testing.B) {
	r := newRing(bb, 12, 3, 3)
	found := make([]partition.Result, 64)
	for i := range found {
		found[i].Status = partition.Found
	}
	var reader ReaderFunc = func(_ context.Context, q *SubQuery) ([]partition.Result, error) {
		q.Settled()
		return found[:len(q.Keys)], nil
	}
	b := newBench(bb, r, newCluster(after(0)), func(cfg *setup) { cfg.Reader = reader })
	req := b.request(50)
	req.Trace = false
	plan := b.Plan(req)
	bb.ReportMetric(float64(len(plan.Groups)), "groups")
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	sink := func(int, partition.Result) {}
	bb.Run("execute", func(bb *testing.B) {
		bb.ReportAllocs()
		for range bb.N {
			b.Execute(ctx, plan, sink)
		}
		bb.ReportMetric(float64(len(plan.Groups)), "groups")
	})
	bb.Run("plan", func(bb *testing.B) {
		bb.ReportAllocs()
		for range bb.N {
			b.Plan(req)
		}
	})
}

// A host that answers slowly is kept at work. One that is as fast as usual is not, nor one
// that refuses its probes, which takes no time: every lookup would then send a probe.
func TestOnlyAHostThatAnswersSlowlyIsProbedOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, newRing(t, 3, 3, 3), newCluster(after(time.Millisecond)), nil)
		for range 100 { // enough to know what is usual
			b.lookup(50, second)
		}
		h := b.view(b.ring).hosts[0]
		h.current.Store(int32(Probing))
		h.history.strikes = mostGood
		for _, c := range []struct {
			took    time.Duration
			answers bool
			want    int64
		}{
			{10 * time.Millisecond, true, 3 * int64(10*time.Millisecond)},
			{time.Millisecond, true, h.gap()},
			{10 * time.Millisecond, false, h.gap()},
		} {
			now := b.now()
			h.spaceProbes(&outstanding{host: h, view: b.view(b.ring), latencies: &b.state().latencies, keys: b.policies.probeKeys, sentAt: now - int64(c.took)}, c.answers, now)
			assert.Equal(t, c.want, h.probeAt.Load()-now, "an answer after %v: %t", c.took, c.answers)
		}
	})
}
