package executor

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
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
	"github.com/qosproxy/qosproxy/internal/underrace"
)

const second = time.Second

// answersFrom is when, from a moment on, a host first won a key of a lookup.
func answersFrom(b *bench, all []outcome, host string, from time.Duration) time.Duration {
	for _, o := range all {
		for _, a := range o.Attempts {
			if h, _ := b.ring.Index(host); a.Host == b.ring.Host(h).Addr && o.at+a.Start >= from && a.Outcome == OutcomeWon {
				return o.at + a.End
			}
		}
	}
	return unset
}

func TestFrozenHostCostsOneHedgeAndAnswersOnceThawed(t *testing.T) {
	for name, tt := range map[string]struct {
		hosts, cap int
		without    safeguards
		holds      bool
	}{
		"three hosts":  {hosts: 3, holds: true},
		"twelve hosts": {hosts: 12, holds: true},
		// Without the cap, the price alone would be enough.
		"groups of 17": {hosts: 3, cap: 17, holds: true},
		// Then nothing shows that the host is frozen, and not all are slow.
		"control: groups of 17, suspects not avoided": {hosts: 3, cap: 17, without: safeguards{suspects: true, sparing: true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(5, 6))
				c := newCluster(usually(rng))
				c.record = false
				c.set("h1", frozen(c.usual, 10*second, 40*second))
				b := newBench(t, newRing(t, tt.hosts, 3, 3), c, func(cfg *setup) { cfg.without = tt.without })
				b.cap = tt.cap
				all := b.load(20*time.Millisecond, 45*second, 50, 125*time.Millisecond)

				require.Zero(t, lost(between(all, 0, 10*second)))
				usual := slowest(between(all, 0, 9*second))
				first := slowest(between(all, 9*second, 10*second+100*time.Millisecond))
				rest := slowest(between(all, 10*second+100*time.Millisecond, 40*second))
				extra := extraRatio(between(all, 10*second, 40*second))
				again := answersFrom(b, all, "h1", 40*second) - 40*second
				t.Logf("slowest: usual %v, first 100 ms %v, while frozen %v; extra sub-queries %.2f %%; answers %v after the thaw; lost %d",
					usual, first, rest, 100*extra, again, lost(all))
				assert.Zero(t, lost(all))
				assert.LessOrEqual(t, first, usual+20*time.Millisecond)
				assert.Equal(t, tt.holds, rest <= usual+5*time.Millisecond)
				assert.Equal(t, tt.holds, extra <= 0.005)
				if tt.holds {
					assert.LessOrEqual(t, again, second)
				}
			})
		})
	}
}

func TestLimpingHostIsAvoided(t *testing.T) {
	for name, without := range map[string]bool{"avoided": false, "control: suspects not avoided": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(5, 6))
				c := newCluster(usually(rng))
				c.record = false
				limp := c.usual
				c.set("h1", func(at time.Duration, keys int) (time.Duration, error) {
					took, err := limp(at, keys)
					if at > 10*second && at < 70*second {
						took *= 20
					}
					return took, err
				})
				b := newBench(t, newRing(t, 3, 3, 3), c, func(cfg *setup) { cfg.without.suspects = without })
				b.cap = 17 // otherwise the price alone would be enough
				all := b.load(20*time.Millisecond, 75*second, 50, 125*time.Millisecond)
				limped := between(all, 10*second, 70*second)
				late := 0
				for _, o := range limped {
					if o.took > 15*time.Millisecond {
						late++
					}
				}
				t.Logf("late %d of %d, slowest %v, extra sub-queries %.2f %%, lost %d, answers %v after", late, len(limped),
					slowest(limped), 100*extraRatio(limped), lost(all), answersFrom(b, all, "h1", 70*second)-70*second)
				assert.Equal(t, !without, late < len(limped)/100)
				assert.Equal(t, !without, extraRatio(limped) <= 0.01)
				assert.Equal(t, !without, slowest(limped) <= 25*time.Millisecond)
			})
		})
	}
}

func TestPauseOfTheWholeClusterIsNotHedged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(5, 6))
		c := newCluster(usually(rng))
		for _, h := range []string{"h0", "h1", "h2"} {
			c.set(h, frozen(c.usual, 10*second, 10*second+500*time.Millisecond))
		}
		b := newBench(t, newRing(t, 3, 3, 3), c, nil)
		all := b.load(20*time.Millisecond, 15*second, 50, 2*second)
		assert.Zero(t, lost(all))
		hedges := 0
		for _, o := range between(all, 9*second, 15*second) {
			hedges += o.Hedges
		}
		after := slowest(between(all, 11*second, 15*second))
		t.Logf("%d hedges, slowest %v, then %v", hedges, slowest(all), after)
		assert.LessOrEqual(t, hedges, 5)
		assert.Less(t, after, 5*time.Millisecond)
		for _, h := range b.Health() {
			assert.Equal(t, Healthy, h.State, h.Host.ID)
		}
	})
}

func TestHostThatFailsForEverLosesNoLookup(t *testing.T) {
	underrace.Skip(t, underrace.Simulations)
	for _, reason := range []Reason{ReasonUnreachable, ReasonDisconnected, ReasonUnavailable, ReasonTimeout,
		ReasonOverloaded, ReasonReadFailure, ReasonInvalid, ReasonOther} {
		for name, without := range map[string]bool{"": false, " control: fail-over switched off": true} {
			t.Run(string(reason)+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					rng := rand.New(rand.NewPCG(5, 6))
					c := newCluster(usually(rng))
					c.set("h1", failing(reason))
					b := newBench(t, newRing(t, 3, 3, 3), c, func(cfg *setup) { cfg.without.failover = without })
					all := b.load(20*time.Millisecond, 60*second, 50, 125*time.Millisecond)
					assert.Equal(t, without, lost(all) > 0)
					if !without {
						assert.Less(t, slowest(all), 10*time.Millisecond, "fail-over is at once")
					}
					if reason == ReasonInvalid {
						assert.Equal(t, Healthy, b.Health()[1].State, "a bad query ejects nobody")
					} else {
						assert.Equal(t, Ejected, b.Health()[1].State)
					}
				})
			})
		}
	}
}

func TestEveryLookupEndsByItsDeadline(t *testing.T) {
	for name, ignores := range map[string]bool{"a reader that never answers": false, "a reader that ignores its context": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var reader ReaderFunc = func(ctx context.Context, q *SubQuery) ([]partition.Result, error) {
					if ignores {
						time.Sleep(time.Hour)
						q.Settled()
						return make([]partition.Result, len(q.Keys)), nil
					}
					<-ctx.Done()
					q.Settled()
					return nil, ctx.Err()
				}
				b := newBench(t, newRing(t, 3, 3, 3), newCluster(silent()), func(cfg *setup) { cfg.Reader = reader })
				for range 20 {
					o := b.lookup(50, 50*time.Millisecond)
					assert.Equal(t, 50*time.Millisecond, o.took)
					assert.Equal(t, 50, o.count(partition.TimedOut))
					assert.EqualError(t, o.results[0].Err, "no replica answered within 50ms")
				}
				time.Sleep(2 * time.Hour)
				for _, h := range b.Health() {
					assert.Zero(t, h.InflightKeys)
				}
			})
		})
	}
}

func TestDeadlineKeepsWhatHasBeenAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(after(10 * time.Millisecond))
		c.set("h1", silent())
		b := newBench(t, newRing(t, 3, 1, 1), c, nil)
		o := b.lookup(50, 50*time.Millisecond)
		assert.Equal(t, 50*time.Millisecond, o.took)
		assert.NotZero(t, o.count(partition.TimedOut))
		assert.NotZero(t, o.count(partition.Found))
		assert.Equal(t, 50, o.count(partition.TimedOut)+o.count(partition.Found))
		assert.Zero(t, o.Hedges, "there is no other replica")
	})
}

func TestKeyWithoutReplicasLeftSaysWhy(t *testing.T) {
	for reason, want := range map[Reason]partition.Status{
		ReasonUnreachable:  partition.Unavailable,
		ReasonDisconnected: partition.Unavailable,
		ReasonUnavailable:  partition.Unavailable,
		ReasonTimeout:      partition.TimedOut,
		ReasonOverloaded:   partition.Shed,
		ReasonReadFailure:  partition.Failed,
		ReasonInvalid:      partition.Failed,
		ReasonOther:        partition.Failed,
		"made up":          partition.Failed,
	} {
		t.Run(string(reason), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, newRing(t, 3, 3, 3), newCluster(failing(reason)), nil)
				o := b.lookup(10, second)
				assert.Equal(t, 10, o.count(want))
				assert.Zero(t, o.took)
				require.Error(t, o.results[0].Err)
				assert.NotContains(t, o.results[0].Err.Error(), "10.0.0")
				assert.NotContains(t, o.results[0].Err.Error(), "scripted")
				tried := make(map[string]int)
				for _, a := range o.Attempts {
					tried[a.Host] += len(a.Keys)
				}
				assert.Equal(t, map[string]int{"10.0.0.1:9042": 10, "10.0.0.2:9042": 10, "10.0.0.3:9042": 10}, tried)
			})
		})
	}
}

func TestBadKeyFailsAlone(t *testing.T) {
	for name, tt := range map[string]struct {
		bad   partition.Status
		on    func(host string) bool
		want  partition.Status
		asked int
	}{
		"a key that every replica fails is asked of two": {partition.Failed, func(string) bool { return true }, partition.Failed, 2},
		"a key that is too large is asked of one":        {partition.TooLarge, func(string) bool { return true }, partition.TooLarge, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(after(time.Millisecond))
				b := newBench(t, newRing(t, 3, 3, 3), c, nil)
				for range 30 {
					req := b.request(20)
					bad := req.Keys[7]
					c.result = func(host string, k partition.Key) partition.Result {
						if string(k.Routing()) == string(bad.Routing()) && tt.on(host) {
							return partition.Result{Status: tt.bad, Err: assert.AnError}
						}
						return partition.Result{Status: partition.Found}
					}
					ctx, cancel := context.WithTimeout(t.Context(), second)
					o := b.run(ctx, req)
					cancel()
					assert.Equal(t, tt.want, o.results[7].Status)
					assert.Equal(t, assert.AnError, o.results[7].Err)
					assert.Equal(t, 19, o.count(partition.Found))
					assert.Zero(t, o.Hedges)
					assert.Equal(t, tt.asked-1, o.Failovers)
				}
				for _, h := range b.Health() {
					assert.Equal(t, Healthy, h.State)
				}
			})
		})
	}
}

// A coordinator may itself wait for a frozen replica: one read in a hundred of the healthy
// hosts then hangs for seconds, while all others are answered in time.
func TestHangingReadsDoNotMakeAHostSuspect(t *testing.T) {
	underrace.Skip(t, underrace.Simulations)
	const seeds, samples = 12, 20 * time.Millisecond
	for name, without := range map[string]bool{"overtaken": false, "control: whatever is outstanding counts": true} {
		t.Run(name, func(t *testing.T) {
			total, suspected := 0, 0
			for seed := range uint64(seeds) {
				synctest.Test(t, func(t *testing.T) {
					rng := rand.New(rand.NewPCG(seed, 6))
					c := newCluster(usually(rng))
					c.record = false
					hanging := func(at time.Duration, keys int) (time.Duration, error) {
						took, err := c.usual(at, keys)
						if at > 10*second && rng.IntN(100) == 0 {
							took = 5 * second
						}
						return took, err
					}
					c.set("h0", hanging)
					c.set("h2", hanging)
					c.set("h1", frozen(c.usual, 10*second, 40*second))
					b := newBench(t, newRing(t, 3, 3, 3), c, func(cfg *setup) {
						cfg.without.overtaking = without
					})
					var watch sync.WaitGroup
					watch.Go(func() {
						for range 40 * second / samples {
							time.Sleep(samples)
							for _, h := range []string{"h0", "h2"} {
								if b.stateOf(h) == Suspect {
									suspected++
								}
							}
						}
					})
					total += lost(b.load(20*time.Millisecond, 40*second, 50, second))
					watch.Wait()
				})
			}
			share := float64(suspected) / float64(seeds*2*(30*second/samples))
			t.Logf("lost %d of 18000, the healthy hosts suspect for %.3f of the time", total, share)
			// The fault lasts for 30 s. Seen: 0.07 and, without, 0.18.
			assert.Equal(t, !without, share < 0.13)
			if !without {
				// Both hosts hang for the same keys once in 10,000 groups, and nothing can
				// help then: 4 are to be expected.
				assert.LessOrEqual(t, total, 24)
			}
		})
	}
}

// Every answer of one host comes 30 ms late. So do a few in a hundred of any host, for
// other reasons, so that the others are suspect now and then, too.
func TestDistantHostIsLeftAlone(t *testing.T) {
	underrace.Skip(t, underrace.Simulations)
	for name, tt := range map[string]struct {
		stragglers float64
		without    bool
	}{
		"3 % stragglers":                          {0.03, false},
		"8 % stragglers":                          {0.08, false},
		"control: one of many in trouble":         {0.03, true},
		"control: has had too little, stragglers": {0.08, true},
	} {
		t.Run(name, func(t *testing.T) {
			felt := 0
			for seed := range uint64(3) {
				synctest.Test(t, func(t *testing.T) {
					rng := rand.New(rand.NewPCG(seed, 6))
					usual := func(_ time.Duration, keys int) (time.Duration, error) {
						took := 2*time.Millisecond + time.Duration(keys)*time.Duration(50_000+rng.IntN(200_000))
						if rng.Float64() < tt.stragglers {
							took += time.Duration(10+rng.IntN(40)) * time.Millisecond
						}
						return took, nil
					}
					c := newCluster(usual)
					c.record = false
					b := newBench(t, newRing(t, 3, 3, 3), c, func(cfg *setup) { cfg.without.slow = tt.without })
					b.load(20*time.Millisecond, 10*second, 50, second)
					c.set("h1", func(at time.Duration, keys int) (time.Duration, error) {
						took, err := usual(at, keys)
						return took + 30*time.Millisecond, err
					})
					b.load(20*time.Millisecond, 10*second, 50, second)
					all := b.load(20*time.Millisecond, 20*second, 50, second)
					for _, o := range all {
						if o.took > 30*time.Millisecond {
							felt++
						}
					}
				})
			}
			t.Logf("%d of 3000 lookups took longer than 30 ms", felt)
			// Seen: 35 and 500, without 2,950 and 2,500.
			assert.Equal(t, !tt.without, felt < 1200)
		})
	}
}

// Unhealthy hosts are avoided while they are at most a third. Beyond that only the slow
// ones are, if these are at most a third.
func TestWhoIsAvoidedInACrowd(t *testing.T) {
	for name, tt := range map[string]struct {
		relative [3]float64 // of hosts that are probed, 0 for one that is healthy
		without  bool
		want     [3]bool
	}{
		"one in trouble":                     {[3]float64{0, 1, 0}, false, [3]bool{false, true, false}},
		"two in trouble, as fast as usual":   {[3]float64{1, 1, 0}, false, [3]bool{}},
		"two in trouble, one of them slow":   {[3]float64{1, 6, 0}, false, [3]bool{false, true, false}},
		"control: slow or not":               {[3]float64{1, 6, 0}, true, [3]bool{}},
		"three in trouble, one of them slow": {[3]float64{1, 6, 1}, false, [3]bool{false, true, false}},
		"two in trouble, both slow":          {[3]float64{6, 6, 0}, false, [3]bool{}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, newRing(t, 3, 3, 3), newCluster(after(time.Millisecond)), func(cfg *setup) { cfg.without.slow = tt.without })
				v := b.view(b.ring)
				for i, relative := range tt.relative {
					if relative > 0 {
						h := v.hosts[i]
						h.current.Store(int32(Probing))
						h.relative.Store(math.Float64bits(relative))
						h.relativeAt.Store(uint64(b.now()))
					}
				}
				var s survey
				b.survey(v, nil, &s)
				assert.Equal(t, tt.want[:], s.avoid)
			})
		})
	}
}

func TestStalledMajorityIsAvoided(t *testing.T) {
	for name, without := range map[string]bool{"avoided": false, "control: taken for load": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(usually(rand.New(rand.NewPCG(5, 6))))
				c.record = false
				for _, h := range []string{"h0", "h1"} {
					c.set(h, frozen(c.usual, 2*second, 6*second))
				}
				b := newBench(t, newRing(t, 3, 3, 3), c, func(cfg *setup) { cfg.without.stalls = without })
				all := b.load(20*time.Millisecond, 8*second, 50, second)
				frozen := between(all, 2*second+100*time.Millisecond, 6*second)
				t.Logf("lost %d of %d, of those from 0.1 s on %d, slowest %v", lost(all), len(all), lost(frozen), slowest(frozen))
				assert.Equal(t, !without, lost(frozen) == 0)
				assert.Equal(t, !without, slowest(frozen) < 20*time.Millisecond)
				assert.Zero(t, lost(between(all, 7*second, 8*second)), "after the thaw")
			})
		})
	}
}

// TestAQuorumThatCannotBeHadIsUnavailable has two of three nodes dead, and the third wait
// for them for longer than any lookup.
func TestAQuorumThatCannotBeHadIsUnavailable(t *testing.T) {
	for name, tt := range map[string]struct {
		consistency partition.Level
		without     safeguards
		all         bool
	}{
		"LOCAL_QUORUM": {consistency: "LOCAL_QUORUM", all: true},
		"ALL":          {consistency: "ALL", all: true},
		"LOCAL_ONE, which one replica is enough for": {consistency: "LOCAL_ONE"},
		"control: nobody looks":                      {consistency: "LOCAL_QUORUM", without: safeguards{gone: true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(after(time.Millisecond))
				b := newBench(t, newRing(t, 3, 3, 3), c, func(cfg *setup) { cfg.without = tt.without })
				lookup := func() outcome {
					ctx, cancel := context.WithTimeout(context.Background(), 125*time.Millisecond)
					defer cancel()
					req := b.request(50)
					req.Query.Consistency = tt.consistency
					return b.run(ctx, req)
				}
				first := lookup()
				require.Equal(t, 50, first.count(partition.Found))
				c.set("h0", after(5*second))
				c.set("h1", failing(ReasonUnreachable))
				c.set("h2", failing(ReasonUnreachable))
				words := map[partition.Status]int{}
				for i := range 60 {
					o := lookup()
					assert.LessOrEqual(t, o.took, 125*time.Millisecond)
					if tt.all && i > 0 {
						assert.LessOrEqual(t, o.took, 63*time.Millisecond, "half of the time is given up")
					}
					for _, r := range o.results {
						words[r.Status]++
					}
				}
				t.Log(words)
				assert.Equal(t, tt.all, words[partition.Unavailable] == 60*50)
				assert.Equal(t, tt.all, words[partition.TimedOut]+words[partition.Shed] == 0)

				c.set("h0", after(time.Millisecond))
				c.set("h1", after(time.Millisecond))
				time.Sleep(10 * second) // ejections have ended, and outstanding answers have come
				assert.Eventually(t, func() bool { o := lookup(); return o.count(partition.Found) == 50 }, 5*second, 20*time.Millisecond)
				c.set("h1", silent())
				c.set("h0", silent())
				if tt.consistency == "ALL" {
					return
				}
				o := lookup()
				assert.Equal(t, 50, o.count(partition.TimedOut), "two that can be reached are a quorum: %v", o.results)
			})
		})
	}
}

// TestAColdHostIsWarmedUp restarts a host: at first it is thirty times slower, and gets
// faster with what it reads (its code is compiled, its caches fill). If it were avoided and
// asked only for single keys, it would stay cold.
func TestAColdHostIsWarmedUp(t *testing.T) {
	for name, without := range map[string]bool{"warmed up": false, "control: single keys at long intervals": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(5, 6))
				c := newCluster(usually(rng))
				warm, read := c.usual, 0
				c.set("h1", func(at time.Duration, keys int) (time.Duration, error) {
					took, err := warm(at, keys)
					switch {
					case at < 10*second:
						return took, err
					case at < 15*second:
						return 0, &ReadError{Reason: ReasonUnreachable, Err: errors.New("it restarts")}
					}
					took = time.Duration(float64(took) * (1 + 29*math.Exp2(-float64(read)/1000)))
					read += keys
					return took, err
				})
				b := newBench(t, newRing(t, 3, 3, 3), c, func(cfg *setup) { cfg.without.warming = without })
				all := b.load(20*time.Millisecond, 75*second, 50, 125*time.Millisecond)
				first := 0
				for _, o := range between(all, 65*second, 75*second) {
					for _, a := range o.Attempts {
						if a.Host == "10.0.0.2:9042" && a.Kind == KindFirst {
							first++
						}
					}
				}
				since := between(all, 15*second, 75*second)
				c.mu.Lock() // a probe that has just been answered may hold it
				total := read
				c.mu.Unlock()
				t.Logf("asked %d times in the last 10 s; since its restart: extra sub-queries %.2f %%, slowest %v, lost %d, %d keys read", first,
					100*extraRatio(since), slowest(since), lost(all), total)
				assert.Equal(t, !without, first >= 250)
				if !without {
					assert.Zero(t, lost(all))
					assert.LessOrEqual(t, extraRatio(since), 0.02)
				}
			})
		})
	}
}

// TestASlowClusterIsAskedForLittleBesides has all hosts slow for want of CPU, so that
// hedges use up their share. Neither what was saved before, nor the probes of hosts and
// their warm-up, may come on top.
func TestASlowClusterIsAskedForLittleBesides(t *testing.T) {
	underrace.Skip(t, underrace.Simulations)
	for name, without := range map[string]bool{"within the share": false, "control: saved up, and warmed up all the same": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(5, 6))
				c := newCluster(usually(rng))
				c.record = false
				well := c.usual
				c.usual = func(at time.Duration, keys int) (time.Duration, error) {
					if at < 20*second {
						return well(at, keys)
					}
					took := time.Duration(rng.ExpFloat64() * float64(14*time.Millisecond))
					return time.Millisecond + took, nil
				}
				b := newBench(t, newRing(t, 3, 3, 3), c, func(cfg *setup) { cfg.without.sparing = without })
				b.load(20*time.Millisecond, 20*second, 50, 125*time.Millisecond)
				sent := map[Kind]float64{}
				count := func(sign float64) {
					for _, kind := range []Kind{KindFirst, KindHedge, KindProbe} {
						sent[kind] += sign * testutil.ToFloat64(b.metrics.sent[kind])
					}
				}
				count(-1)
				b.load(20*time.Millisecond, 60*second, 50, 125*time.Millisecond)
				count(1)
				extra := (sent[KindHedge] + sent[KindProbe]) / sent[KindFirst]
				t.Logf("%.1f %% besides first attempts: %v", 100*extra, sent)
				// 5 %, and one a second, are 5.9 %.
				assert.Equal(t, without, extra > 0.059)
			})
		})
	}
}

// TestAFrozenHostOfASlowClusterLosesNoLookup has all hosts take longer than the hedge
// delay, so that no late attempt is hedged, and one of them freeze: that is no load, and
// its keys must move.
func TestAFrozenHostOfASlowClusterLosesNoLookup(t *testing.T) {
	for name, without := range map[string]bool{"moved": false, "control: slow and frozen are the same": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(5, 6))
				c := newCluster(nil)
				c.record = false
				c.usual = func(time.Duration, int) (time.Duration, error) {
					return 25*time.Millisecond + time.Duration(rng.Int64N(int64(25*time.Millisecond))), nil
				}
				c.set("h1", frozen(c.usual, 10*second, 20*second))
				b := newBench(t, newRing(t, 3, 3, 3), c, func(cfg *setup) { cfg.without.standing = without })
				all := b.load(20*time.Millisecond, 25*second, 50, 5*second)
				extra := extraRatio(between(all, 0, 9*second))
				t.Logf("lost %d, slowest %v; before: extra sub-queries %.2f %%, while frozen %.2f %%", lost(all), slowest(all), 100*extra,
					100*extraRatio(between(all, 10*second, 20*second)))
				assert.Equal(t, !without, lost(all) == 0 && slowest(all) < 600*time.Millisecond)
				assert.LessOrEqual(t, extra, 0.05)
			})
		})
	}
}

// planAt returns a plan that asks one host for all keys of a request.
func (b *bench) planAt(id string, req *Request) Plan {
	host, _ := b.ring.Index(id)
	plan, g := b.Plan(req), planner.Group{Host: host}
	for k := range req.Keys {
		g.Keys = append(g.Keys, int32(k))
	}
	plan.Groups = []planner.Group{g}
	return plan
}

// TestASlowTableHidesNoStall has a host freeze while a sub-query that may take long is
// outstanding there. Those that were sent later but are overdue sooner count.
func TestASlowTableHidesNoStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(after(ms))
		c.set("h1", silent())
		b := newBench(t, newRing(t, 3, 3, 3), c, nil)
		var all sync.WaitGroup
		askH1 := func(policy hedge.Policy) {
			req := b.request(1)
			req.Policy = policy
			all.Go(func() { b.runPlan(t.Context(), req, b.planAt("h1", req)) })
			time.Sleep(10 * ms)
		}
		askH1(hedge.Fixed(2 * second))
		for range 12 {
			askH1(hedge.Fixed(15 * ms))
		}
		b.host("h1").mu.Lock()
		b.host("h1").unlist(b.host("h1").oldest.next) // so that the others are foreseen anew
		b.host("h1").mu.Unlock()
		assert.True(t, b.stalled(b.view(b.ring), b.host("h1"), b.now()))
		all.Wait()
	})
}

// but returns a Reader that reads from one host in another way.
func (c *cluster) but(host string, read ReaderFunc) ReaderFunc {
	return func(ctx context.Context, q *SubQuery) ([]partition.Result, error) {
		if q.Host.ID == host {
			return read(ctx, q)
		}
		return c.Read(ctx, q)
	}
}

// TestALostConnectionIsNoAnswer abandons sub-queries whose connection breaks long after.
func TestALostConnectionIsNoAnswer(t *testing.T) {
	for name, lost := range map[string]bool{"lost": true, "control: answered late": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(after(ms))
				b := newBench(t, newRing(t, 3, 3, 3), c, func(cfg *setup) {
					cfg.Reader = c.but("h1", func(ctx context.Context, q *SubQuery) ([]partition.Result, error) {
						<-ctx.Done()
						time.AfterFunc(38*second, func() {
							if lost {
								q.Lost()
							}
							q.Settled()
						})
						return nil, context.Cause(ctx)
					})
				})
				for range 100 {
					req := b.request(1)
					b.runPlan(t.Context(), req, b.planAt("h1", req))
				}
				time.Sleep(time.Minute)
				slowest := b.state().latencies.Quantile(0.99, 1)
				assert.Equal(t, lost, slowest < second, "%s", slowest)
			})
		})
	}
}

// TestAReadThatAskedNothingIsNoSignOfLife has the reader of one host fail its sub-queries itself.
func TestAReadThatAskedNothingIsNoSignOfLife(t *testing.T) {
	for name, asked := range map[string]bool{"asked nothing": false, "control: answered with an error": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(after(ms))
				b := newBench(t, newRing(t, 3, 3, 3), c, func(cfg *setup) {
					cfg.Reader = c.but("h1", func(_ context.Context, q *SubQuery) ([]partition.Result, error) {
						if !asked {
							q.Lost()
						}
						q.Settled()
						return nil, &ReadError{Reason: ReasonSize, Err: errors.New("the rows may need several pages")}
					})
				})
				before := b.host("h1").settledAt.Load()
				time.Sleep(second)
				req := b.request(1)
				b.runPlan(t.Context(), req, b.planAt("h1", req))
				assert.Equal(t, asked, b.host("h1").settledAt.Load() > before)
			})
		})
	}
}

// TestAHostOfSlowReadsIsHealthyAgain has reads take longer than a probe waits at first.
func TestAHostOfSlowReadsIsHealthyAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(after(500 * ms))
		c.set("h1", func(at time.Duration, _ int) (time.Duration, error) {
			if at > 20*second && at < 40*second {
				return 0, &ReadError{Reason: ReasonUnreachable, Err: errMute}
			}
			return 500 * ms, nil
		})
		b := newBench(t, newRing(t, 3, 3, 3), c, nil)
		b.policy = hedge.Policy{}
		var all sync.WaitGroup
		for i := range 1200 {
			req := b.request(6)
			plan := b.Plan(req)
			if i < 250 { // until it is ejected
				plan = b.planAt("h1", req)
			}
			all.Go(func() { b.runPlan(t.Context(), req, plan) })
			time.Sleep(100 * ms)
			if i == 249 {
				require.True(t, b.host("h1").is(Ejected))
			}
		}
		assert.True(t, b.host("h1").is(Healthy), "%s", State(b.host("h1").current.Load()))
		all.Wait()
	})
}
