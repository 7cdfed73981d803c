package executor

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/planner"
)

// slowFirst is a bench whose host "h0" does not answer, and whose hosts take 10 keys each.
func slowFirst(t *testing.T) *bench {
	c := newCluster(after(ms))
	c.set("h0", silent())
	return newBench(t, newRing(t, 3, 3, 3), c, func(cfg *setup) { cfg.Limits.InflightKeys = 10 })
}

// occupy has keys outstanding at a host until a moment of the test, or for ever if that is
// negative.
func (b *bench) occupy(id string, keys int, until time.Duration) {
	h := b.host(id)
	h.keys.Add(int64(keys))
	if until >= 0 {
		time.AfterFunc(until-time.Since(b.cluster.begin), func() { h.unreserve(keys) })
	}
}

// left is how many hedges of one key the budget now pays for.
func left(a *hedge.Budget) int {
	n := 0
	for a.Withdraw(hedge.Wanted{Keys: 1, SubQueries: 1, Quiet: true}) {
		n++
	}
	return n
}

func TestAHedgeWhoseTargetIsFullIsSentWhereThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := slowFirst(t)
		b.occupy("h1", 8, -1)          // has headroom for one key but not for four
		b.host("h2").share.add(100, 0) // so that it costs more, and is not asked first
		o := b.within(second, b.request(4))
		require.Equal(t, 1, o.Hedges)
		assert.Equal(t, 4, o.count(partition.Found))
		assert.Equal(t, 16*ms, o.took)
		assert.Equal(t, b.host("h2").Addr, o.Attempts[1].Host)
		assert.EqualValues(t, 8, b.host("h1").keys.Load())
	})
}

func TestAHedgeWithoutRoomIsSentLater(t *testing.T) {
	for name, tt := range map[string]struct {
		busy   int
		policy hedge.Policy
		at     time.Duration
	}{
		"room for some of the keys": {8, hedge.Fixed(15 * ms), 30 * ms},
		"no room":                   {10, hedge.Fixed(15 * ms), 30 * ms},
		"at once":                   {8, mustParse(t, "ALWAYS"), 15 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := slowFirst(t)
				b.policy = tt.policy
				b.occupy("h1", tt.busy, tt.at-ms)
				b.occupy("h2", tt.busy, -1)
				o := b.within(100*ms, b.request(4))
				assert.Equal(t, 4, o.count(partition.Found))
				assert.Equal(t, tt.at+ms, o.took)
				require.Equal(t, 1, o.Hedges)
				assert.Equal(t, b.host("h1").Addr, o.Attempts[1].Host)
				assert.InDelta(t, 1, testutil.ToFloat64(b.metrics.hedges.WithLabelValues(hedgeDenied)), 0)
			})
		})
	}
}

func TestKeysOfAHedgeWithoutRoomFollowTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := slowFirst(t)
		req := b.request(4)
		h0, _ := b.ring.Index("h0")
		h1, _ := b.ring.Index("h1")
		h2, _ := b.ring.Index("h2")
		for k := range req.Replicas { // each key has one other replica
			req.Replicas[k] = append(req.Replicas[k][:0:0], h0, h1)
			if odd(k) {
				req.Replicas[k][1] = h2
			}
		}
		b.occupy("h1", 9, 20*ms)
		o := b.within(100*ms, req)
		assert.Equal(t, 4, o.count(partition.Found))
		require.Equal(t, 2, o.Hedges)
		assert.Equal(t, 15*ms, o.Attempts[1].Start)
		assert.Equal(t, 30*ms, o.Attempts[2].Start)
	})
}

func TestAHedgeThatIsNotSentCostsNothing(t *testing.T) {
	var spent [2]int
	for i, full := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b := slowFirst(t)
			if full {
				b.occupy("h1", 8, -1)
				b.occupy("h2", 8, -1)
			} else {
				b.policy = hedge.Policy{}
			}
			o := b.within(20*ms, b.request(4))
			assert.Zero(t, o.Hedges)
			assert.Equal(t, 4, o.count(partition.TimedOut))
			spent[i] = left(b.state().hedges)
			if full {
				assert.Equal(t, NotHedgedReplicas, o.Attempts[0].NotHedged)
				assert.EqualValues(t, 8, b.host("h1").keys.Load())
				assert.EqualValues(t, 8, b.host("h2").keys.Load())
			}
		})
	}
	assert.Equal(t, spent[1], spent[0], "as much as is left where nothing was to be hedged")
}

func TestADeniedHedgeGivesItsRoomBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := slowFirst(t)
		left(b.state().hedges)
		o := b.within(20*ms, b.request(4))
		assert.Equal(t, NotHedgedBudget, o.Attempts[0].NotHedged)
		assert.Zero(t, b.host("h1").keys.Load())
		assert.Zero(t, b.host("h2").keys.Load())
	})
}

// TestABudgetOfNothingHedgesNothing stalls one host for so long that, with a budget, its
// keys would be asked again in every way.
func TestABudgetOfNothingHedgesNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		budget float64
		policy string
		hedged bool
	}{
		"0 %":              {0, "15ms", false},
		"0 %, percentile":  {0, "MIN(99p,15ms)", false},
		"0 % and ALWAYS":   {0, "ALWAYS", true},
		"control: 0.001 %": {0.00001, "15ms", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(after(2 * ms))
				c.set("h0", frozen(c.usual, second, 6*second))
				b := newBench(t, newRing(t, 3, 3, 3), c, nil)
				b.budget, b.policy = tt.budget, mustParse(t, tt.policy)
				left(b.state().hedges)
				drain(b.state().hedges, true)
				var mu sync.Mutex
				hedges := 0
				var all sync.WaitGroup
				for i := range 300 {
					req := b.request(8)
					all.Go(func() {
						o := b.within(2*second, req)
						mu.Lock()
						defer mu.Unlock()
						hedges += o.Hedges
						if !tt.hedged && i > 50 && i < 150 {
							assert.Contains(t, []NotHedged{NotHedgedBudget, NotHedgedDeadline}, o.Attempts[0].NotHedged)
						}
					})
					time.Sleep(20 * ms)
				}
				all.Wait()
				assert.Equal(t, tt.hedged, hedges > 0, "%d hedges", hedges)
			})
		})
	}
}

func TestABudgetOfNothingFailsOver(t *testing.T) {
	for _, reason := range everyReason {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(after(ms))
			c.set("h0", failing(reason))
			b := newBench(t, newRing(t, 3, 3, 3), c, nil)
			b.budget = 0
			o := b.within(second, b.request(8))
			assert.Equal(t, 8, o.count(partition.Found), "%s", reason)
		})
	}
}

func TestRoomIsReservedOnce(t *testing.T) {
	e := New(Config{Limits: Limits{InflightKeys: 100}})
	defer e.Close()
	h := &host{executor: e}
	require.True(t, h.reserve(500, false), "an idle host takes a larger group")
	require.False(t, h.reserve(1, false))
	h.unreserve(500)
	var all sync.WaitGroup
	got := make([]int, 8)
	for i := range got {
		all.Go(func() {
			for h.reserve(3, false) {
				got[i]++
			}
		})
	}
	all.Wait()
	sum := 0
	for _, n := range got {
		sum += n
	}
	assert.Equal(t, 33, sum)
	assert.EqualValues(t, 99, h.keys.Load())
	h.unreserve(99)
	assert.False(t, h.full(500))
}

func TestBatchWorkLeavesHalfOfAHostToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, newRing(t, 3, 3, 3), newCluster(after(ms)), func(cfg *setup) { cfg.Limits.InflightKeys = 10 })
		for _, h := range []string{"h0", "h1", "h2"} {
			b.occupy(h, 4, -1)
		}
		ask := func(keys int, batch bool) *outcome {
			req := b.request(keys)
			req.Batch = batch
			o := b.within(second, req)
			return &o
		}
		assert.Equal(t, 1, ask(1, true).count(partition.Found))
		assert.Equal(t, 2, ask(2, true).count(partition.Shed))
		assert.Equal(t, 6, ask(6, false).count(partition.Found))
	})
}

func TestAKeyOfADeadHostWaitsForHeadroomAtTheOthers(t *testing.T) {
	for name, tt := range map[string]struct {
		dead    Reason
		first   int           // keys outstanding at the host that is asked first
		until   time.Duration // h1 is full
		took    time.Duration
		want    partition.Status
		asked   int
		hedging string
	}{
		"until there is some":                  {ReasonDisconnected, 0, 20 * ms, 36 * ms, partition.Found, 2, "NONE"},
		"until the last try in time":           {ReasonUnreachable, 0, -1, 95 * ms, partition.Shed, 1, "NONE"},
		"while others are hedged":              {ReasonUnreachable, 0, 20 * ms, 36 * ms, partition.Found, 2, "ALWAYS"},
		"control: a host that refuses is load": {ReasonOverloaded, 0, 20 * ms, 0, partition.Shed, 1, "NONE"},
		"control: nobody was asked":            {ReasonUnreachable, 10, 20 * ms, 0, partition.Shed, 0, "NONE"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := slowFirst(t)
				b.policy = mustParse(t, tt.hedging)
				b.cluster.set("h0", failing(tt.dead))
				b.occupy("h0", tt.first, -1)
				b.occupy("h1", 10, tt.until)
				b.occupy("h2", 10, -1)
				o := b.within(100*ms, b.request(4))
				assert.Equal(t, 4, o.count(tt.want))
				assert.Equal(t, tt.took, o.took)
				assert.Equal(t, tt.asked, o.SubQueries)
				assert.EqualValues(t, 10, b.host("h2").keys.Load())
			})
		})
	}
}

func mustParse(t *testing.T, policy string) hedge.Policy {
	t.Helper()
	p, err := hedge.ParsePolicy(policy)
	require.NoError(t, err)
	return p
}

func TestAReaderThatAnswersTooFewKeysAnswersNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, newRing(t, 3, 3, 3), newCluster(nil), func(cfg *setup) {
			cfg.Reader = ReaderFunc(func(_ context.Context, q *SubQuery) ([]partition.Result, error) {
				q.Settled()
				return make([]partition.Result, len(q.Keys)-1), nil
			})
		})
		o := b.within(second, b.request(4))
		assert.Equal(t, 4, o.count(partition.Failed))
		assert.Equal(t, errOther, o.results[0].Err)
	})
}

// TestAKeyOfAQuorumIsAskedOfEachReplicaOnce has two replicas too full for their groups at
// the same time, so that each key is to be asked of others twice.
func TestAKeyOfAQuorumIsAskedOfEachReplicaOnce(t *testing.T) {
	for name, group := range map[string]int{"in groups": 0, "one by one": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, newRing(t, 3, 3, 3), newCluster(after(ms)), func(cfg *setup) { cfg.Limits.InflightKeys = 10 })
				b.cap = group
				req := b.quorumRequest(4)
				plan := b.Plan(req)
				b.occupy("h0", 10, -1)
				b.occupy("h1", 10, -1)
				o := b.runPlan(t.Context(), req, plan)
				for _, read := range b.cluster.seen() {
					asked := map[partition.ID]bool{}
					for _, k := range read.keys {
						assert.False(t, asked[k.ID()], "a key twice in one sub-query")
						asked[k.ID()] = true
					}
					assert.Equal(t, "h2", read.host)
				}
				assert.Zero(t, o.count(partition.Found), "one replica is no quorum")
			})
		})
	}
}

func TestAKeyOfAQuorumWaitsForHeadroomBesideItsOtherReplica(t *testing.T) {
	for name, both := range map[string]bool{"that was asked with it": true, "that was asked after it": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, newRing(t, 3, 3, 3), newCluster(after(10*ms)), func(cfg *setup) { cfg.Limits.InflightKeys = 10 })
				b.policy = mustParse(t, "NONE")
				b.cluster.set("h0", func(time.Duration, int) (time.Duration, error) { return ms, lostFor(ReasonDisconnected) })
				b.occupy("h2", 10, 20*ms)
				req := b.quorumRequest(4)
				plan := b.toOne(req)
				if both {
					plan = b.Plan(req)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 100*ms)
				defer cancel()
				o := b.runPlan(ctx, req, plan)
				assert.Equal(t, 4, o.count(partition.Found))
			})
		})
	}
}

// TestAFullHostIsAskedWhenTheOthersAreDown gives the only live replica no headroom at
// first.
func TestAFullHostIsAskedWhenTheOthersAreDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(after(ms))
		for _, id := range []string{"h1", "h2"} {
			c.set(id, failing(ReasonUnreachable))
		}
		b := newBench(t, newRing(t, 3, 3, 3), c, func(cfg *setup) { cfg.Limits.InflightKeys = 10 })
		b.occupy("h0", 8, 20*ms)
		req := b.request(4)
		ctx, cancel := context.WithTimeout(t.Context(), second)
		defer cancel()
		o := b.runPlan(ctx, req, b.planAt("h0", req))
		assert.Equal(t, 4, o.count(partition.Found))
		assert.LessOrEqual(t, o.took, 50*ms)
	})
}

// TestWhatIsAnsweredEarlyIsNotLate has a reader deliver all results before it returns.
func TestWhatIsAnsweredEarlyIsNotLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(after(40 * ms))
		b := newBench(t, newRing(t, 3, 3, 3), c, func(cfg *setup) {
			cfg.Reader = c.but("h0", func(_ context.Context, q *SubQuery) ([]partition.Result, error) {
				results := make([]partition.Result, len(q.Keys))
				for i := range results {
					results[i].Status = partition.NotFound
				}
				q.Early.Receive(0, results)
				time.Sleep(30 * ms)
				q.Settled()
				return results, nil
			})
		})
		req := b.request(2)
		h0, _ := b.ring.Index("h0")
		h1, _ := b.ring.Index("h1")
		plan := b.Plan(req)
		plan.Groups = []planner.Group{{Host: h0, Keys: []int32{0}}, {Host: h1, Keys: []int32{1}}}
		b.runPlan(t.Context(), req, plan)
		assert.InDelta(t, 1.0/lateMemory, b.state().lateShare(), 1.0/lateMemory/10, "that at h1")
	})
}
