package admission

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/qosproxy/qosproxy/internal/underrace"
)

// TestNothingIsRefusedBelowSaturation is what makes admission fit to be on by default.
func TestNothingIsRefusedBelowSaturation(t *testing.T) {
	for name, c := range map[string]struct {
		load  float64
		keys  int
		floor time.Duration
	}{
		"idle":                            {0.05, 50, 0},
		"busy":                            {0.7, 50, 0},
		"busy with single keys":           {0.7, 1, 0},
		"busy with large lookups":         {0.6, 200, 0},
		"30 ms farther away":              {0.7, 50, 30 * time.Millisecond},
		"farther away, and large lookups": {0.5, 100, 30 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, change configured) bool {
				s := newSim(t, change)
				s.floor = c.floor
				all := s.run(20*second, caller{who: job, keys: c.keys, rate: steady(c.load * capacity(c.keys))})
				_, shed := count(all)
				return shed == 0 && len(all) > 50
			})
		})
	}
}

// TestABurstIsNotRefused has a burst that the cluster can take.
func TestABurstIsNotRefused(t *testing.T) {
	bubble(t, lowLimit, func(t *testing.T, change configured) bool {
		s := newSim(t, change)
		all := s.run(20*second, caller{who: service, keys: 10, rate: func(at time.Duration) float64 {
			if at > 10*second {
				return 0.8 * capacity(10)
			}
			return 0.02 * capacity(10)
		}})
		_, shed := count(all)
		return shed == 0
	})
}

// ordinary are times that lookups take besides their work.
var ordinary = map[string]time.Duration{"far": 25 * time.Millisecond, "slow": 45 * time.Millisecond}

// TestAPauseIsNoOverload has a modest load on healthy hosts, and pauses of all of them, as of a
// machine that is busy with other things, that make lookups late.
func TestAPauseIsNoOverload(t *testing.T) {
	for name, usual := range ordinary {
		t.Run(name, func(t *testing.T) {
			bubble(t, lowLimit, func(t *testing.T, change configured) bool {
				s := newSim(t, change)
				s.floor = usual
				for at := 5 * second; at < 60*second; at += 10 * second {
					s.slowFor(at, 300*time.Millisecond, 150*time.Millisecond)
				}
				all := s.run(60*second, caller{who: service, keys: 50, rate: steady(50)})
				good, shed := count(all)
				t.Logf("shed %d, late %d, of %d", shed, len(all)-good-shed, len(all))
				return shed == 0
			})
		})
	}
}

// TestABadTimeEnds has the same load after two seconds of lookups that are all late.
func TestABadTimeEnds(t *testing.T) {
	for name, usual := range ordinary {
		t.Run(name, func(t *testing.T) {
			bubble(t, lowLimit, func(t *testing.T, change configured) bool {
				s := newSim(t, change)
				s.floor = usual
				s.slowFor(5*second, 2*second, 150*time.Millisecond)
				all := s.run(60*second, caller{who: service, keys: 50, rate: steady(50)})
				_, during := count(between(all, 5*second, 10*second))
				_, after := count(between(all, 10*second, 60*second))
				t.Logf("shed %d during, %d after, of %d", during, after, len(all))
				return after*1000 < len(all)
			})
		})
	}
}

// TestLookupsThatAreSlowByThemselvesAreNotRefused has callers who wait for a second, and a
// table whose target is 125 ms while its lookups take 200 ms.
func TestLookupsThatAreSlowByThemselvesAreNotRefused(t *testing.T) {
	bubble(t, lowLimit, func(t *testing.T, change configured) bool {
		s := newSim(t, change)
		s.floor = 200 * time.Millisecond
		all := s.run(300*second, caller{who: service, keys: 50, rate: steady(0.5 * capacity(50)), deadline: second})
		_, shed := count(all)
		t.Logf("shed %d of %d", shed, len(all))
		return float64(shed) < 0.03*float64(len(all))
	})
}

// loops is what callers in a closed loop got, in several runs together.
type loops struct{ lookups, good, shed, late, seconds int }

func (l loops) String() string {
	n := float64(l.seconds)
	return fmt.Sprintf("%.1f/s in time, %.1f late, %.1f refused", float64(l.good)/n, float64(l.late)/n, float64(l.shed)/n)
}

// inTime is how many lookups were in time a second.
func (l loops) inTime() float64 { return float64(l.good) / float64(max(l.seconds, 1)) }

// regime is a closed loop and its hosts.
type regime struct {
	callers, keys int
	// slow is how many times longer than usual the hosts take, and cold how many times more in
	// the first 10 s.
	slow, cold float64
	deadline   time.Duration
	// besides is the mean of a random time that lookups take for other reasons than load.
	besides time.Duration
}

// closed runs a closed loop until it has made enough lookups to compare, in stretches of 40 s.
func closed(t *testing.T, change configured, r regime) (l loops) {
	t.Helper()
	const length, lookups, most = 40, 10_000, 16
	for seed := uint64(0); l.lookups < lookups && seed < most; seed++ {
		synctest.Test(t, func(t *testing.T) {
			s := newSim(t, change)
			s.rng = rand.New(rand.NewPCG(seed, 3))
			s.slow, s.tail = r.slow*r.cold, r.besides
			s.after(10*second, func() { s.slow = r.slow })
			for _, d := range s.run(length*second, caller{who: service, loops: r.callers, keys: r.keys, deadline: r.deadline}) {
				switch {
				case d.shed:
					l.shed++
					continue
				case d.ok:
					l.good++
				default:
					l.late++
				}
				l.lookups++
			}
			l.seconds += length
		})
	}
	return l
}

// TestNoHarm compares what callers in a closed loop get with and without admission, on hosts
// that take 0.18 or 1 ms a key, warm or four times slower for the first 10 s, for callers that
// wait as long as the target or for a second.
func TestNoHarm(t *testing.T) {
	underrace.Skip(t, underrace.Simulations)
	if testing.Short() {
		t.Skip("takes minutes")
	}
	var harmed atomic.Int64
	t.Run("loads", func(t *testing.T) {
		for _, slow := range []float64{1, 5.5} {
			for _, cold := range []float64{1, 4} {
				for _, keys := range []int{5, 50, 200, 500} {
					for _, callers := range []int{1, 2, 4, 8, 16} {
						for _, deadline := range []time.Duration{simDeadline, second} {
							t.Run(fmt.Sprintf("%d callers of %d keys, hosts × %g, at first × %g, deadline %s", callers, keys, slow, slow*cold, deadline), func(t *testing.T) {
								t.Parallel()
								run := func(change configured) loops {
									return closed(t, change, regime{callers: callers, keys: keys, slow: slow, cold: cold, deadline: deadline})
								}
								without, with := run(disabled), run(nil)
								t.Logf("without %v; with %v", without, with)
								assert.GreaterOrEqual(t, with.inTime(), 0.97*without.inTime())
								if without.late*100 <= without.lookups {
									assert.Zero(t, with.shed)
								}
								if cold == 1 && deadline == simDeadline && run(tooLow).inTime() < 0.97*without.inTime() {
									harmed.Add(1)
								}
							})
						}
					}
				}
			}
		}
	})
	assert.Greater(t, harmed.Load(), int64(10), "control: a limit far too low does harm")
}

// TestNoHarmWhereSomeAreLate has closed loops in which 5 to 40 % of the lookups are late
// without admission, and stay so. Refusing some of them makes the others faster, and fewer of
// all are answered.
func TestNoHarmWhereSomeAreLate(t *testing.T) {
	underrace.Skip(t, underrace.Simulations)
	if testing.Short() {
		t.Skip("takes minutes")
	}
	var harmed atomic.Int64
	t.Run("loads", func(t *testing.T) {
		for name, load := range map[string]regime{
			"busy hosts":                       {callers: 16, keys: 200, slow: 1.1},
			"busy hosts, few large lookups":    {callers: 4, keys: 500, slow: 1.5},
			"now and then slow":                {callers: 16, keys: 200, slow: 1, besides: 50 * time.Millisecond},
			"now and then slow, small lookups": {callers: 16, keys: 10, slow: 1, besides: 60 * time.Millisecond},
			"now and then slow, less":          {callers: 16, keys: 200, slow: 1, besides: 25 * time.Millisecond},
		} {
			for _, cold := range []float64{1, 4} {
				for _, deadline := range []time.Duration{simDeadline, second} {
					r := load
					r.cold, r.deadline = cold, deadline
					t.Run(fmt.Sprintf("%s, at first × %g, deadline %s", name, cold, deadline), func(t *testing.T) {
						t.Parallel()
						noHarm(t, r, &harmed)
					})
				}
			}
		}
	})
	assert.Greater(t, harmed.Load(), int64(5), "control: a limit far too low does harm")
}

func noHarm(t *testing.T, load regime, harmed *atomic.Int64) {
	t.Helper()
	without, with := closed(t, disabled, load), closed(t, nil, load)
	late := float64(without.late) / float64(without.lookups)
	t.Logf("without %v; with %v; late %.3f, kept %.3f", without, with, late, with.inTime()/without.inTime())
	assert.GreaterOrEqual(t, with.inTime(), 0.97*without.inTime())
	if load.cold == 1 {
		assert.InDelta(t, 0.225, late, 0.175, "the load is another one")
		if closed(t, tooLow, load).inTime() < 0.97*without.inTime() {
			harmed.Add(1)
		}
	}
}
