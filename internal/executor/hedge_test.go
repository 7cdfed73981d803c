package executor

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/underrace"
)

func TestHedgeFiresAtItsDelayAndNotANanosecondBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(after(time.Millisecond))
		b := newBench(t, newRing(t, 3, 3, 3), c, nil)
		req := b.request(1)
		plan := b.Plan(req)
		c.set(b.ring.Host(plan.Groups[0].Host).ID, silent())

		var got partition.Result
		done := make(chan Stats)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go func() {
			done <- b.Execute(ctx, plan, func(_ int, r partition.Result) { got = r })
		}()
		time.Sleep(15*time.Millisecond - 1)
		synctest.Wait()
		require.Len(t, c.seen(), 1, "a hedge before its time")
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		reads := c.seen()
		require.Len(t, reads, 2)
		assert.Equal(t, 15*time.Millisecond, reads[1].at)
		assert.NotEqual(t, reads[0].host, reads[1].host)
		stats := <-done
		assert.Equal(t, 16*time.Millisecond, time.Since(c.begin))
		assert.Equal(t, partition.Found, got.Status)
		assert.Equal(t, 1, stats.Hedges)
		assert.Equal(t, []Outcome{OutcomeCancelled, OutcomeWon}, []Outcome{stats.Attempts[0].Outcome, stats.Attempts[1].Outcome})
	})
}

func TestLoserIsCancelledWithACauseWhileItsLookupGoesOn(t *testing.T) {
	for name, without := range map[string]bool{"cancelled": false, "control: cancelling switched off": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(after(time.Millisecond))
				b := newBench(t, newRing(t, 3, 3, 3), c, func(cfg *setup) { cfg.without.cancel = without })
				b.cap = 1
				req := b.request(2)
				plan := b.Plan(req)
				require.Len(t, plan.Groups, 2)
				// One group is late for 16 ms. The other occupies the lookup, and all
				// replicas of its keys, to the deadline.
				slow := b.ring.Host(plan.Groups[0].Host).ID
				c.set(slow, silent())
				stuck := plan.Groups[1].Keys[0]
				req.Replicas[stuck] = req.Replicas[stuck][:0:0]
				req.Replicas[stuck] = append(req.Replicas[stuck], plan.Groups[1].Host)
				c.set(b.ring.Host(plan.Groups[1].Host).ID, silent())
				free := plan.Groups[0].Keys[0]
				for _, h := range req.Replicas[free] {
					if h != plan.Groups[0].Host && h != plan.Groups[1].Host {
						req.Replicas[free] = append(req.Replicas[free][:0:0], plan.Groups[0].Host, h)
					}
				}
				var returned atomic.Bool
				go func() {
					ctx, cancel := context.WithTimeout(context.Background(), time.Second)
					defer cancel()
					b.Execute(ctx, plan, func(int, partition.Result) {})
					returned.Store(true)
				}()
				time.Sleep(17 * time.Millisecond)
				synctest.Wait()
				require.False(t, returned.Load())
				var cause error
				for _, r := range c.seen() {
					if r.host == slow {
						cause = context.Cause(r.ctx)
					}
				}
				if without {
					assert.NoError(t, cause)
				} else {
					assert.ErrorIs(t, cause, ErrAnswered)
				}
				time.Sleep(2 * time.Second)
				require.True(t, returned.Load())
			})
		})
	}
}

func TestFewHedgesAreThoseAwayFromHostsThatAnswerNobody(t *testing.T) {
	for name, tt := range map[string]struct {
		few, stands bool
		hedges      int
	}{
		"a straggler":                           {true, false, 0},
		"a host that answers nobody":            {true, true, 1},
		"control: a straggler without the hint": {false, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(after(time.Millisecond))
				b := newBench(t, newRing(t, 3, 3, 3), c, nil)
				req := b.request(1)
				plan := b.Plan(req)
				slow := b.view(b.ring).hosts[plan.Groups[0].Host]
				c.set(slow.ID, after(17*time.Millisecond))
				req.FewHedges = tt.few
				if !tt.stands {
					// It goes on answering others.
					go func() {
						for range 20 {
							time.Sleep(time.Millisecond)
							slow.settledAt.Store(b.now())
						}
					}()
				}
				stats := b.Execute(t.Context(), plan, func(int, partition.Result) {})
				assert.Equal(t, tt.hedges, stats.Hedges)
				time.Sleep(time.Second)
			})
		})
	}
}

func TestPolicyDecidesWhenASecondReplicaIsAsked(t *testing.T) {
	for name, tt := range map[string]struct {
		policy string
		want   []time.Duration
		took   time.Duration
	}{
		"NONE never asks again":             {"NONE", []time.Duration{0}, 40 * time.Millisecond},
		"ALWAYS asks at once":               {"ALWAYS", []time.Duration{0, 0}, time.Millisecond},
		"a delay asks after it":             {"20ms", []time.Duration{0, 20 * time.Millisecond}, 21 * time.Millisecond},
		"a percentile begins with 15 ms":    {"99p", []time.Duration{0, 15 * time.Millisecond}, 16 * time.Millisecond},
		"MIN takes the earlier":             {"MIN(99p,5ms)", []time.Duration{0, 5 * time.Millisecond}, 6 * time.Millisecond},
		"MAX takes the later":               {"MAX(99p,30ms)", []time.Duration{0, 30 * time.Millisecond}, 31 * time.Millisecond},
		"a delay beyond the deadline waits": {"2000ms", []time.Duration{0}, 40 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(after(time.Millisecond))
				b := newBench(t, newRing(t, 3, 3, 3), c, nil)
				var err error
				b.policy, err = hedge.ParsePolicy(tt.policy)
				require.NoError(t, err)
				req := b.request(1)
				plan := b.Plan(req)
				c.set(b.ring.Host(plan.Groups[0].Host).ID, after(40*time.Millisecond))
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				b.Execute(ctx, plan, func(_ int, r partition.Result) { assert.Equal(t, partition.Found, r.Status) })
				took := time.Since(c.begin)
				var at []time.Duration
				for _, r := range c.seen() {
					at = append(at, r.at)
				}
				assert.Equal(t, tt.want, at)
				assert.Equal(t, tt.took, took)
			})
		})
	}
}

func TestAlwaysIsNoMatterForTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, newRing(t, 3, 3, 3), newCluster(after(time.Millisecond)), nil)
		b.budget = 0
		b.policy, _ = hedge.ParsePolicy("ALWAYS")
		for range 500 {
			o := b.lookup(5, time.Second)
			assert.Equal(t, 5, o.extraKeys())
		}
	})
}

func TestHedgesStayWithinTheirBudgetForAnHour(t *testing.T) {
	underrace.Skip(t, underrace.Simulations)
	sometimes := func(share float64) node {
		rng := rand.New(rand.NewPCG(3, 4))
		slow := usually(rng)
		return func(at time.Duration, keys int) (time.Duration, error) {
			took, err := slow(at, keys)
			if rng.Float64() < share {
				took += 25 * time.Millisecond
			}
			return took, err
		}
	}
	for name, tt := range map[string]struct {
		share    float64
		without  bool
		atLeast  int
		exceeded bool
	}{
		"every replica is slow":                                   {share: 1},
		"every replica is slow a fifth of the time":               {share: 0.2, atLeast: 1000},
		"control: slow a fifth of the time, budgets switched off": {share: 0.2, without: true, exceeded: true},
		"control: always slow, budgets switched off":              {share: 1, without: true, exceeded: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(sometimes(tt.share))
				c.record = false
				b := newBench(t, newRing(t, 6, 3, 3), c, func(cfg *setup) {
					cfg.without.budgets = tt.without
					cfg.without.suspects = true
				})
				keys, extra, subQueries, hedges := 0, 0, 0, 0
				for range 2 * 3600 {
					o := b.lookup(100, 125*time.Millisecond)
					keys += len(o.results)
					extra += o.extraKeys()
					subQueries += o.SubQueries - o.Hedges
					hedges += o.Hedges
					time.Sleep(500*time.Millisecond - o.took)
				}
				hour := time.Since(c.begin).Hours()
				assert.InDelta(t, 1, hour, 0.01)
				// The floor of five keys a second is more than 2 % of 200.
				allowed := max(0.02*float64(keys), 5*3600) + 2*1000 + 50
				t.Logf("%d keys, %d extra (%.2f %%), allowed %.0f; %d sub-queries, %d hedges", keys, extra, 100*float64(extra)/float64(keys), allowed, subQueries, hedges)
				assert.Equal(t, tt.exceeded, float64(extra) > allowed)
				assert.Equal(t, tt.exceeded, float64(hedges) > max(0.05*float64(subQueries), 3600)+2*200+50)
				assert.GreaterOrEqual(t, extra, tt.atLeast)
			})
		})
	}
}

// TestADeniedHedgeIsDueWhenHalfOfTheTimeIsGone has a host that is slow, and answers others
// meanwhile.
func TestADeniedHedgeIsDueWhenHalfOfTheTimeIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(after(time.Millisecond))
		b := newBench(t, newRing(t, 3, 3, 3), c, nil)
		for b.state().hedges.Withdraw(hedge.Wanted{Keys: 25, SubQueries: 1, Quiet: true}) {
		}
		req := b.request(1)
		plan := b.Plan(req)
		slow := b.view(b.ring).hosts[plan.Groups[0].Host]
		c.set(slow.ID, after(90*time.Millisecond))
		go func() {
			for range 90 {
				time.Sleep(time.Millisecond)
				slow.settledAt.Store(b.now())
			}
		}()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		b.Execute(ctx, plan, func(int, partition.Result) {})
		reads := c.seen()
		require.Len(t, reads, 2)
		assert.Equal(t, 50*time.Millisecond, reads[1].at)
		time.Sleep(time.Second)
	})
}

// TestAnAnswerThatIsThereIsNotHedged leaves the process without CPU for longer than the
// hedge delay: answers wait then, not hosts.
func TestAnAnswerThatIsThereIsNotHedged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, newRing(t, 3, 3, 3), newCluster(after(ms)), nil)
		for range 50 {
			plan := b.Plan(b.request(4))
			r := b.newRun(t.Context(), plan, func(int, partition.Result) {})
			r.first(plan.Groups)
			time.Sleep(20 * ms)
			for r.left > 0 && r.wait() {
			}
			require.Zero(t, r.stats.Hedges)
			r.end()
		}
	})
}

// TestALostKeyIsLeftToNoAttemptThatIsNeverLate has ALWAYS ask two hosts, of which one fails and the
// other hangs.
func TestALostKeyIsLeftToNoAttemptThatIsNeverLate(t *testing.T) {
	for failed, hangs := range map[string]string{"h0": "h1", "h1": "h0"} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(after(ms))
			b := newBench(t, newRing(t, 3, 3, 3), c, nil)
			b.policy = mustParse(t, "ALWAYS")
			c.set(failed, failing(ReasonOverloaded))
			c.set(hangs, silent())
			b.host("h2").share.add(100, 0) // so that it is not among the first two
			o := b.within(100*ms, b.request(1))
			assert.Equal(t, 1, o.count(partition.Found))
			assert.Equal(t, 3, o.SubQueries)
		})
	}
}

// TestAFailOverThatHangsIsHedged has the first host and the third hang, and the second fail.
func TestAFailOverThatHangsIsHedged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		c := newCluster(func(time.Duration, int) (time.Duration, error) {
			switch asked++; asked {
			case 1, 3:
				return -1, nil
			case 2:
				return ms, &ReadError{Reason: ReasonOverloaded, Err: errMute}
			}
			return ms, nil
		})
		b := newBench(t, newRing(t, 5, 5, 5), c, nil)
		b.budget = 0.5
		o := b.within(100*ms, b.request(1))
		assert.Equal(t, 1, o.count(partition.Found))
		assert.Equal(t, 4, o.SubQueries)
	})
}
