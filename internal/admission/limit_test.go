package admission

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/underrace"
)

var (
	person  = &identity.Client{Name: "person", Priority: identity.Interactive}
	service = &identity.Client{Name: "service", Priority: identity.Standard}
	job     = &identity.Client{Name: "job", Priority: identity.Batch}
)

// bubble runs a test in virtual time: it must hold with the default configuration, and must not
// with that of a control.
func bubble(t *testing.T, controls map[string]configured, holds func(t *testing.T, change configured) bool) {
	t.Helper()
	t.Run("as it is", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { assert.True(t, holds(t, nil)) })
	})
	for name, change := range controls {
		t.Run("control: "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { assert.False(t, holds(t, change)) })
		})
	}
}

var noLimit = map[string]configured{"no limit": unlimited}

// tooLow is a limit that never gives way.
func tooLow(cfg *Config) { cfg.Limits.MinConcurrency, cfg.Limits.MaxConcurrency = 100, 100 }

var lowLimit = map[string]configured{"a limit far too low": tooLow}

// TestCallersWhoHangUpSayNothingAboutTheHosts has callers who wait for a part of the target, on
// hosts that answer nobody: in the first half they are no reason to refuse others, nor to brown
// out; later they are.
func TestCallersWhoHangUpSayNothingAboutTheHosts(t *testing.T) {
	for name, c := range map[string]struct {
		patience time.Duration
		lowered  bool
	}{
		"at once":                     {0, false},
		"soon":                        {slo.Target / 5, false},
		"just before half the target": {slo.Target/2 - time.Millisecond, false},
		"after half the target":       {slo.Target/2 + time.Millisecond, true},
		"nearly at the target":        {slo.Target - time.Millisecond, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSim(t, nil)
				refused := 0
				for range 5000 {
					time.Sleep(time.Millisecond)
					p, err := s.controller.Admit(Ask{Client: service, Table: shop, Keys: 5})
					if err != nil {
						refused++
						continue
					}
					time.AfterFunc(c.patience, func() { p.Release(Outcome{Late: 5, Cancelled: true}) })
				}
				time.Sleep(second)
				synctest.Wait()
				assert.Equal(t, c.lowered, refused > 0, "%d refused", refused)
				burn := s.controller.tables[shop].ladder.seconds.sum(shortWindow, time.Now()).late
				assert.Equal(t, c.lowered, burn > 0, "%v late", burn)
			})
		})
	}
}

// TestALimitDoesNotOutliveThePauseAfterAnOverload has a light load after hosts that answered
// nobody in time.
func TestALimitDoesNotOutliveThePauseAfterAnOverload(t *testing.T) {
	for pause, kept := range map[time.Duration]bool{0: true, patience + checkEvery: false, 5 * time.Second: false} {
		t.Run(pause.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSim(t, nil)
				for range 1500 {
					time.Sleep(time.Millisecond)
					if p, err := s.controller.Admit(Ask{Client: service, Table: shop, Keys: 5}); err == nil {
						time.AfterFunc(2*slo.Target, func() { p.Release(Outcome{Late: 5}) })
					}
				}
				time.Sleep(2 * slo.Target)
				synctest.Wait()
				lowered := func() bool { return s.controller.Status().LimitKeys < DefaultLimits().MaxConcurrency }
				assert.True(t, lowered())
				time.Sleep(pause)
				p, err := s.controller.Admit(Ask{Client: service, Table: shop, Keys: 5})
				if err == nil {
					p.Release(Outcome{Answered: 5})
				}
				assert.Equal(t, kept, lowered())
			})
		})
	}
}

func TestTenfoldOverloadKeepsItsGoodput(t *testing.T) {
	for keys, callers := range map[int][]*identity.Client{50: {person, service, job}, 10: {person}} {
		for _, who := range callers {
			t.Run(fmt.Sprintf("%s, %d keys", who.Name, keys), func(t *testing.T) {
				underrace.Skip(t, underrace.Simulations)
				bubble(t, noLimit, func(t *testing.T, change configured) bool {
					best, full := peak(t, keys), capacity(keys)
					s := newSim(t, change)
					during := between(s.run(15*second, caller{who: who, keys: keys, rate: func(at time.Duration) float64 {
						if at < 5*second {
							return 0.5 * full
						}
						return 10 * full
					}}), 5*second, 15*second)
					good, shed := count(during)
					t.Logf("peak %.0f/s, goodput %.0f/s, %.4f of the admitted in time, shed %d of %d", best, float64(good)/10, admitted(during), shed, len(during))
					settled := between(during, 6*second, 15*second)
					t.Logf("after the first second %.4f", admitted(settled))
					return float64(good)/10 >= 0.9*best && admitted(during) >= 0.92
				})
			})
		}
	}
}

// TestOverloadOfAnIdleProxyKeepsItsGoodput has no load before.
func TestOverloadOfAnIdleProxyKeepsItsGoodput(t *testing.T) {
	underrace.Skip(t, underrace.Simulations)
	bubble(t, noLimit, func(t *testing.T, change configured) bool {
		best := peak(t, 50)
		s := newSim(t, change)
		all := s.run(10*second, caller{who: service, keys: 50, rate: steady(10 * capacity(50))})
		good, _ := count(all)
		t.Logf("peak %.0f/s, goodput %.0f/s, %.4f of the admitted in time", best, float64(good)/10, admitted(all))
		return float64(good)/10 >= 0.9*best && admitted(all) >= 0.92
	})
}

func TestRecoversFromOverload(t *testing.T) {
	bubble(t, noLimit, func(t *testing.T, change configured) bool {
		full := capacity(50)
		s := newSim(t, change)
		all := s.run(50*second, caller{who: service, keys: 50, rate: func(at time.Duration) float64 {
			if at < 30*second {
				return 3 * full
			}
			return 0.7 * full
		}})
		for at := 30 * second; at < 35*second; at += second {
			t.Logf("in time in second %s: %.4f", at, inSLA(between(all, at, at+second)))
		}
		after := between(all, 32*second, 50*second)
		t.Logf("in time then: %.4f", inSLA(after))
		return inSLA(after) >= 0.995 && inSLA(between(all, 0, 30*second)) > 0.25
	})
}

// TestOverloadOfHostsThatVaryKeepsItsGoodput has lookups that take 25 ms more at random, so
// that the slowest of the SLO take 75 of 125 ms without any load.
func TestOverloadOfHostsThatVaryKeepsItsGoodput(t *testing.T) {
	underrace.Skip(t, underrace.Simulations)
	bubble(t, noLimit, func(t *testing.T, change configured) bool {
		s := newSim(t, change)
		s.tail = 25 * time.Millisecond
		all := between(s.run(30*second, caller{who: service, keys: 50, rate: steady(5 * capacity(50))}), 2*second, 30*second)
		good, _ := count(all)
		t.Logf("goodput %.0f of %.0f/s, %.4f of the admitted in time", float64(good)/28, capacity(50), admitted(all))
		return float64(good)/28 >= 0.8*capacity(50) && admitted(all) >= 0.95
	})
}

// TestALimitIsRestoredAfterAPause has half of the hosts pause for 0.6 s every 6 s, as for garbage.
// Lookups take 20 ms more at random, so that at a halved limit they hardly take less, and steering
// alone needs seconds to raise it again.
func TestALimitIsRestoredAfterAPause(t *testing.T) {
	underrace.Skip(t, underrace.Simulations)
	const pause, every, length, runs = 600 * time.Millisecond, 6 * second, 60 * second, 4
	inTime := func(t *testing.T, change configured, c caller) (good int) {
		c.who, c.keys = service, 50
		for seed := range uint64(runs) {
			synctest.Test(t, func(t *testing.T) {
				s := newSim(t, change)
				s.tail, s.rng = 20*time.Millisecond, rand.New(rand.NewPCG(seed, 3))
				for at := every; at < length; at += every {
					s.after(at, func() {
						for _, h := range s.rng.Perm(simHosts)[:simHosts/2] {
							s.free[h] = s.free[h].Add(max(time.Since(s.free[h]), 0) + pause)
						}
					})
				}
				n, _ := count(between(s.run(length, c), settled, length))
				good += n
			})
		}
		return good
	}
	possible := float64(inTime(t, disabled, caller{loops: 24}))
	perSecond := 1 / (runs * (length - settled).Seconds())
	for _, times := range []float64{1.5, 2} {
		load := caller{rate: steady(times * possible * perSecond)}
		good, without := float64(inTime(t, nil, load)), float64(inTime(t, unlimited, load))
		t.Logf("%g times the possible load: in time %.0f/s of %.0f, without a limit %.0f", times, good*perSecond, possible*perSecond, without*perSecond)
		assert.Greater(t, good, 0.8*possible)
		assert.Less(t, without, 0.8*possible, "control: no limit")
	}
}

// TestALimitIsNotRestoredOnHostsThatBecameSlow has hosts that take four times as long from a moment
// on.
func TestALimitIsNotRestoredOnHostsThatBecameSlow(t *testing.T) {
	underrace.Skip(t, underrace.Simulations)
	bubble(t, noLimit, func(t *testing.T, change configured) bool {
		s := newSim(t, change)
		s.after(10*second, func() { s.slow = 4 })
		all := between(s.run(30*second, caller{who: service, keys: 50, rate: steady(2 * capacity(50))}), 11*second, 30*second)
		good, _ := count(all)
		t.Logf("in time %.0f/s of %.0f, %.4f of the admitted", float64(good)/19, capacity(50)/4, admitted(all))
		return float64(good)/19 >= 0.85*capacity(50)/4 && admitted(all) >= 0.93
	})
}

// TestALimitEndsWithALongOverload has a limit that has stood several probes, on hosts where a
// lookup takes 25 ms more at random: without load the slowest come near the target, so that the
// limit is at its least, which is too little for what the load falls to.
func TestALimitEndsWithALongOverload(t *testing.T) {
	underrace.Skip(t, underrace.Simulations)
	bubble(t, noLimit, func(t *testing.T, change configured) bool {
		full := capacity(50) / 4
		s := newSim(t, change)
		s.slow, s.tail = 4, 25*time.Millisecond
		all := s.run(70*second, caller{who: service, keys: 50, rate: func(at time.Duration) float64 {
			if at < 40*second {
				return 4 * full
			}
			return 0.5 * full
		}})
		after := between(all, 43*second, 70*second)
		_, shed := count(after)
		t.Logf("in time during %.4f, after %.4f, refused %d of %d", inSLA(between(all, 0, 40*second)), inSLA(after), shed, len(after))
		return shed*100 <= len(after) && inSLA(between(all, 0, 40*second)) > 0.05
	})
}

// TestOverloadInWavesKeepsItsGoodput has the load fall between overloads.
func TestOverloadInWavesKeepsItsGoodput(t *testing.T) {
	underrace.Skip(t, underrace.Simulations)
	bubble(t, noLimit, func(t *testing.T, change configured) bool {
		best, full := peak(t, 50), capacity(50)
		s := newSim(t, change)
		all := s.run(27*second, caller{who: person, keys: 50, rate: func(at time.Duration) float64 {
			if at/(3*second)%3 == 2 {
				return 10 * full
			}
			return 0.7 * full
		}})
		held := true
		for at := 6 * second; at < 27*second; at += 9 * second {
			wave := between(all, at, at+3*second)
			good, _ := count(wave)
			before := inSLA(between(all, at-5*second, at))
			t.Logf("goodput %.0f of %.0f/s, %.4f of the admitted in time, before %.4f", float64(good)/3, best, admitted(wave), before)
			held = held && float64(good)/3 >= 0.8*best && before > 0.99
		}
		return held
	})
}

// hosts holds how many times slower than usual hosts are, by name. On slow ones only some seven
// lookups may be in-flight.
var hosts = map[string]float64{"hosts as usual": 1, "slow hosts": 4, noisy: 4}

// noisy names hosts that are slow because of a quota of their CPU, some of which pause.
const noisy = "noisy hosts"

// settled is when the limit has been found that such hosts keep up with.
const settled = 5 * second

func TestPrioritiesAreKeptInOrder(t *testing.T) {
	for name, low := range map[string]*identity.Client{"standard": service, "batch": job} {
		for speed, slow := range hosts {
			t.Run(name+", "+speed, func(t *testing.T) {
				underrace.Skip(t, underrace.Simulations)
				var alike configured = func(*Config) {}
				bubble(t, map[string]configured{"no limit": unlimited, "one priority": alike}, func(t *testing.T, change configured) bool {
					full := capacity(50) / slow
					s := newSim(t, change)
					s.slow = slow
					if speed == noisy {
						s.noisy(65 * second)
					}
					crowd := *low
					if change != nil { // a control has all alike, whatever its limit
						crowd = identity.Client{Name: low.Name, Priority: person.Priority}
					}
					who := *person
					if change != nil {
						who.Name = crowd.Name
					}
					all := between(s.run(65*second,
						caller{who: &who, keys: 50, rate: steady(0.5 * full)},
						caller{who: &crowd, keys: 60, rate: steady(5 * full)}), settled, 65*second)
					high, rest := all, all
					if change == nil {
						high, rest = of(all, person.Name), of(all, low.Name)
					}
					good, _ := count(all)
					_, shed := count(high)
					t.Logf("in time: interactive %.4f (%d refused of %d), %s %.4f, goodput %.0f of %.0f/s", inSLA(high), shed, len(high), name, inSLA(rest), float64(good)/60, full)
					return inSLA(high) >= 0.994 && inSLA(rest) > 0.04
				})
			})
		}
	}
}

// TestTheLeastLimitLeavesSlowHostsRoom has hosts that keep up with three lookups in-flight.
func TestTheLeastLimitLeavesSlowHostsRoom(t *testing.T) {
	high := func(cfg *Config) { cfg.Limits.MinConcurrency *= 2 }
	bubble(t, map[string]configured{"twice the least limit": high}, func(t *testing.T, change configured) bool {
		s := newSim(t, change)
		s.slow = 6
		full := capacity(50) / s.slow
		all := between(s.run(65*second,
			caller{who: person, keys: 50, rate: steady(full / 5)},
			caller{who: job, keys: 60, rate: steady(5 * full)}), settled, 65*second)
		interactive := inSLA(of(all, person.Name))
		t.Logf("in time: interactive %.4f, batch %.4f", interactive, inSLA(of(all, job.Name)))
		return interactive >= 0.994
	})
}

func TestAGreedyClientDoesNotCrowdOutPoliteOnes(t *testing.T) {
	// No client has a rate of its own.
	for _, priority := range []identity.Priority{identity.Interactive, identity.Batch} {
		for speed, slow := range hosts {
			t.Run(priority.String()+", "+speed, func(t *testing.T) {
				underrace.Skip(t, underrace.Simulations)
				bubble(t, noLimit, func(t *testing.T, change configured) bool {
					full := capacity(50) / slow
					callers := []caller{{who: &identity.Client{Name: "greedy", Priority: priority}, keys: 60, rate: steady(5 * full)}}
					for i := range 9 {
						callers = append(callers, caller{keys: 50, rate: steady(0.05 * full),
							who: &identity.Client{Name: fmt.Sprintf("polite-%d", i), Priority: priority}})
					}
					s := newSim(t, change)
					s.slow = slow
					if speed == noisy {
						s.noisy(65 * second)
					}
					all := between(s.run(65*second, callers...), settled, 65*second)
					greedy := of(all, "greedy")
					good, _ := count(all)
					g, _ := count(greedy)
					polite := float64(good-g) / float64(len(all)-len(greedy))
					t.Logf("in time: polite %.4f, greedy %.4f; goodput %.0f of %.0f/s", polite, inSLA(greedy), float64(good)/60, full)
					return polite >= 0.99 && float64(good)/60 >= 0.75*full
				})
			})
		}
	}
}

// TestAnOverloadThatLastsIsNotLetInAgain has a limit that is probed while it still helps.
func TestAnOverloadThatLastsIsNotLetInAgain(t *testing.T) {
	underrace.Skip(t, underrace.Simulations)
	bubble(t, noLimit, func(t *testing.T, change configured) bool {
		s := newSim(t, change)
		all := between(s.run(40*second, caller{who: service, keys: 50, rate: steady(10 * capacity(50))}), 2*second, 40*second)
		t.Logf("%.4f of the admitted in time", admitted(all))
		return admitted(all) > 0.97
	})
}

// TestALimitThatHelpsOutlivesAStall has all hosts stall for 3 s in an overload.
func TestALimitThatHelpsOutlivesAStall(t *testing.T) {
	underrace.Skip(t, underrace.Simulations)
	bubble(t, noLimit, func(t *testing.T, change configured) bool {
		s, stalled := newSim(t, change), false
		all := s.run(15*second, caller{who: service, keys: 50, rate: func(at time.Duration) float64 {
			if at >= 5*second && !stalled {
				stalled = true
				for h := range s.free {
					s.free[h] = time.Now().Add(3 * second)
				}
			}
			return 10 * capacity(50)
		}})
		after := between(all, 9*second, 15*second)
		good, _ := count(after)
		t.Logf("goodput %.0f of %.0f/s, %.4f of the admitted in time", float64(good)/6, capacity(50), admitted(after))
		return float64(good)/6 > 0.9*capacity(50) && admitted(after) >= 0.92
	})
}

// TestCallersThatWaitLongAreHeldToTheSLOInOverload has callers that wait for 10 s.
func TestCallersThatWaitLongAreHeldToTheSLOInOverload(t *testing.T) {
	bubble(t, noLimit, func(t *testing.T, change configured) bool {
		s := newSim(t, change)
		all := between(s.run(20*second, caller{who: service, keys: 50, rate: steady(3 * capacity(50)), deadline: 10 * second}), 3*second, 20*second)
		good, _ := count(all)
		t.Logf("goodput %.0f of %.0f/s, %.4f of the admitted in time", float64(good)/17, capacity(50), admitted(all))
		return float64(good)/17 > 0.9*capacity(50) && admitted(all) >= 0.92
	})
}

// TestLookupsThatDoNotEndLowerTheLimit has hosts that are all stalled, for callers that wait
// for ten seconds, and then answer.
func TestLookupsThatDoNotEndLowerTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newController(t, nil)
		ask := func() *Permit {
			p, err := c.Admit(Ask{Client: service, Table: shop, Keys: 20, Deadline: time.Now().Add(10 * second)})
			if err != nil {
				return nil
			}
			return p
		}
		ask().Release(Outcome{Answered: 20}) // so that the others do not wait for a first one
		var stalled []*Permit
		for range 2 { // a second sample must be late as well
			for range 2 * enough {
				stalled = append(stalled, ask())
			}
			time.Sleep(200 * time.Millisecond)
		}
		assert.Nil(t, ask(), "nobody has been answered, and all are overdue")
		assert.Less(t, c.Status().LimitKeys, 2*2*enough*20)
		for _, p := range stalled {
			p.Release(Outcome{Answered: 20})
		}
		for range 1500 {
			p := ask()
			time.Sleep(10 * time.Millisecond)
			p.Release(Outcome{Answered: 20})
		}
		assert.Equal(t, DefaultLimits().MaxConcurrency, c.Status().LimitKeys)
	})
}

// late returns a sample of 100 lookups of a table with an SLO of that percentile, n of which
// were late, and notes them as those of the last seconds.
func late(l *load, percentile float64, n int, now time.Time) *sample {
	s := &sample{begin: now}
	for i := range enough {
		p := &Permit{table: &table{slo: SLO{Target: slo.Target, Percentile: percentile}}, budget: slo.Target}
		s.add(p, slo.Target/2, i < n)
		l.recent.add(p, i < n, now)
	}
	return s
}

// TestALimitIsLoweredForATightSLO has samples in which less than one lookup may be late.
func TestALimitIsLoweredForATightSLO(t *testing.T) {
	now := time.Now()
	for n, lower := range map[int]bool{0: false, 30: true} {
		l := &load{least: 1, most: 1 << 20, limit: 1000}
		l.steer(late(l, 99.9, n, now), now)
		assert.Equal(t, lower, l.limit < 1000, "%d late", n)
	}
}

// TestALimitThatWasOfNoUseLongAgoStandsAsLongAsAFirstOne has a limit that was not lowered
// since.
func TestALimitThatWasOfNoUseLongAgoStandsAsLongAsAFirstOne(t *testing.T) {
	now := time.Now()
	for ago, hold := range map[time.Duration]time.Duration{time.Minute: 80 * second, time.Hour: 10 * second} {
		l := &load{least: 1, most: 1 << 20, limit: 1 << 20, hold: 40 * second, until: now.Add(-ago)}
		l.decide(late(l, 95, enough, now), now)
		assert.Equal(t, hold, l.hold, ago)
	}
}
