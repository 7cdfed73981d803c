package admission

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/identity"
)

const second = time.Second

var (
	person  = &identity.Client{Name: "person", Priority: identity.Interactive}
	service = &identity.Client{Name: "service", Priority: identity.Standard}
	job     = &identity.Client{Name: "job", Priority: identity.Batch}
)

// long leaves a test of very many lookups out of the race detector's run.
func long(t *testing.T) {
	t.Helper()
	if underRace {
		t.Skip("takes too long under the race detector")
	}
}

// bubble runs a test in virtual time for each set of safeguards: with all of them
// it must hold, without those of a control it must not.
func bubble(t *testing.T, controls map[string]safeguards, holds func(t *testing.T, without safeguards) bool) {
	t.Helper()
	t.Run("with all safeguards", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { assert.True(t, holds(t, safeguards{})) })
	})
	for name, without := range controls {
		t.Run("control: "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { assert.False(t, holds(t, without)) })
		})
	}
}

func TestTenfoldOverloadKeepsItsGoodput(t *testing.T) {
	long(t)
	controls := map[string]safeguards{"no limit": {limit: true, need: true}}
	for keys, callers := range map[int][]*identity.Client{50: {person, service, job}, 10: {person}} {
		for _, who := range callers {
			t.Run(fmt.Sprintf("%s, %d keys", who.Name, keys), func(t *testing.T) {
				bubble(t, controls, func(t *testing.T, without safeguards) bool {
					best, full := peak(t, keys), capacity(keys)
					s := newSim(t, without)
					all := s.run(15*second, caller{who: who, keys: keys, rate: func(at time.Duration) float64 {
						if at < 5*second {
							return 0.5 * full
						}
						return 10 * full
					}})
					during := between(all, 5*second, 15*second)
					good, shed := count(during)
					t.Logf("peak %.0f/s, goodput %.0f/s, p99 %s, shed %d of %d", best, float64(good)/10, p99(during), shed, len(during))
					return float64(good)/10 >= 0.9*best && p99(during) < simDeadline
				})
			})
		}
	}
}

// TestOverloadOfAnIdleProxyKeepsItsGoodput has no load before, so that the limit is at rest.
func TestOverloadOfAnIdleProxyKeepsItsGoodput(t *testing.T) {
	bubble(t, map[string]safeguards{"no limit": {limit: true, need: true}}, func(t *testing.T, without safeguards) bool {
		best := peak(t, 50)
		s := newSim(t, without)
		all := s.run(10*second, caller{who: service, keys: 50, rate: steady(10 * capacity(50))})
		good, _ := count(all)
		t.Logf("peak %.0f/s, goodput %.0f/s, p99 %s", best, float64(good)/10, p99(all))
		return float64(good)/10 >= 0.9*best && p99(between(all, second, 10*second)) < simDeadline
	})
}

// TestFewLookupsFindTheirSetpoint is of hosts so slow that they keep up with some five
// lookups at a time: at the setpoint for many they are idle now and then.
func TestFewLookupsFindTheirSetpoint(t *testing.T) {
	long(t)
	bubble(t, map[string]safeguards{"one setpoint for all": {seek: true}}, func(t *testing.T, without safeguards) bool {
		s := newSim(t, without)
		s.slow = 6
		full := capacity(50) / s.slow
		all := s.run(30*second, caller{who: service, keys: 50, rate: steady(3 * full)})
		during := between(all, 5*second, 30*second)
		good, _ := count(during)
		t.Logf("capacity %.0f/s, goodput %.0f/s, p99 %s", full, float64(good)/25, p99(during))
		return float64(good)/25 >= 0.91*full && p99(during) < simDeadline
	})
}

func TestRecoversFromOverload(t *testing.T) {
	bubble(t, map[string]safeguards{"no limit": {limit: true, need: true}}, func(t *testing.T, without safeguards) bool {
		full := capacity(50)
		s := newSim(t, without)
		all := s.run(50*second, caller{who: service, keys: 50, rate: func(at time.Duration) float64 {
			if at < 30*second {
				return 3 * full
			}
			return 0.7 * full
		}})
		early, after := between(all, 30*second, 31*second), between(all, 31*second, 50*second)
		t.Logf("in the SLA: %.4f in the first second after, then %.4f", inSLA(early), inSLA(after))
		during := inSLA(between(all, 0, 30*second))
		return inSLA(after) >= 0.995 && during > 0.25
	})
}

// TestOverloadInWavesKeepsItsGoodput lets the limit rise between overloads.
func TestOverloadInWavesKeepsItsGoodput(t *testing.T) {
	bubble(t, map[string]safeguards{"no limit": {limit: true, need: true}}, func(t *testing.T, without safeguards) bool {
		best, full := peak(t, 50), capacity(50)
		s := newSim(t, without)
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
			between := inSLA(between(all, at-5*second, at))
			t.Logf("goodput %.0f of %.0f/s, p99 %s, in the SLA before %.4f", float64(good)/3, best, p99(wave), between)
			held = held && float64(good)/3 >= 0.9*best && between > 0.99
		}
		return held
	})
}

// hosts are how many times slower than usual the hosts are. Of the slow ones some seven
// lookups are all that may be under way.
var hosts = map[string]float64{"hosts as usual": 1, "slow hosts": 4}

// settled is when the limit has been found that such hosts keep up with: before, it is
// at rest, far above.
const settled = 2 * second

func TestPrioritiesAreKeptInOrder(t *testing.T) {
	long(t)
	for name, low := range map[string]*identity.Client{"standard": service, "batch": job} {
		for speed, slow := range hosts {
			t.Run(name+", "+speed, func(t *testing.T) {
				controls := map[string]safeguards{"no limit": {limit: true, need: true}, "no priorities": {priorities: true}}
				if slow > 1 {
					controls["no overdraft"] = safeguards{overdraft: true}
				}
				bubble(t, controls, func(t *testing.T, without safeguards) bool {
					full := capacity(50) / slow
					s := newSim(t, without)
					s.slow = slow
					all := s.run(62*second,
						caller{who: person, keys: 50, rate: steady(0.5 * full)},
						caller{who: low, keys: 60, rate: steady(5 * full)})
					early := of(between(all, 0, settled), person.Name)
					all = between(all, settled, 62*second)
					high, rest := of(all, person.Name), of(all, low.Name)
					good, _ := count(all)
					t.Logf("interactive at first %.4f", inSLA(early))
					t.Logf("in the SLA: interactive %.4f, %s %.4f, p99 %s, goodput %.0f of %.0f/s", inSLA(high), name, inSLA(rest), p99(all), float64(good)/60, full)
					return inSLA(high) >= 0.994 && inSLA(rest) > 0.04
				})
			})
		}
	}
}

// TestAPauseIsForThoseBelow is of hosts that all stand still for 70 ms about once a second, beside a
// crowd of a lower priority: the limit falls each time, and interactive lookups would be refused until
// it has risen again.
func TestAPauseIsForThoseBelow(t *testing.T) {
	long(t)
	bubble(t, map[string]safeguards{"no lasting limit": {lasting: true}}, func(t *testing.T, without safeguards) bool {
		full := capacity(50)
		s := newSim(t, without)
		pauses := rand.New(rand.NewPCG(3, 4))
		for at := 3 * second; at < 62*second; at += time.Duration(pauses.ExpFloat64() * float64(second)) {
			s.after(at, func() { s.standStill(70 * time.Millisecond) })
		}
		all := s.run(62*second,
			caller{who: person, keys: 50, rate: steady(0.5 * full)},
			caller{who: job, keys: 60, rate: steady(5 * full)})
		all = between(all, settled, 62*second)
		high := of(all, person.Name)
		_, shed := count(high)
		good, _ := count(all)
		t.Logf("interactive in the SLA: %.4f, shed %d of %d; goodput %.0f of %.0f/s", inSLA(high), shed, len(high), float64(good)/60, full)
		return inSLA(high) >= 0.982
	})
}

func TestAGreedyClientDoesNotCrowdOutPoliteOnes(t *testing.T) {
	long(t)
	// No client has a rate of its own.
	for _, priority := range []identity.Priority{identity.Interactive, identity.Standard, identity.Batch} {
		for speed, slow := range hosts {
			t.Run(priority.String()+", "+speed, func(t *testing.T) {
				controls := map[string]safeguards{"no limit": {limit: true, need: true}, "no fairness": {fairness: true}}
				if slow > 1 {
					controls["no overdraft"] = safeguards{overdraft: true}
				}
				bubble(t, controls, func(t *testing.T, without safeguards) bool {
					full := capacity(50) / slow
					callers := []caller{{who: &identity.Client{Name: "greedy", Priority: priority}, keys: 60, rate: steady(10 * full)}}
					for i := range 9 {
						callers = append(callers, caller{keys: 50, rate: steady(0.05 * full),
							who: &identity.Client{Name: fmt.Sprintf("polite-%d", i), Priority: priority}})
					}
					s := newSim(t, without)
					s.slow = slow
					all := between(s.run(62*second, callers...), settled, 62*second)
					greedy := of(all, "greedy")
					good, _ := count(all)
					g, _ := count(greedy)
					polite := float64(good-g) / float64(len(all)-len(greedy))
					t.Logf("in the SLA: polite %.4f, greedy %.4f; p99 %s, goodput %.0f of %.0f/s", polite, inSLA(greedy), p99(all), float64(good)/60, full)
					return polite >= 0.99 && float64(good)/60 >= 0.75*full
				})
			})
		}
	}
}

// TestRoomIsKeptFreeOnlyForThoseWhoAsk is of the share of the limit that a client has, by who has
// asked besides of late.
func TestRoomIsKeptFreeOnlyForThoseWhoAsk(t *testing.T) {
	other := &identity.Client{Name: "other", Priority: identity.Standard}
	for name, tt := range map[string]struct {
		others []*identity.Client
		want   float64
	}{
		"nobody, and it is not known yet": {nil, 1},
		"nobody":                          {[]*identity.Client{}, 1},
		"a lower priority":                {[]*identity.Client{job}, 1},
		"a higher priority":               {[]*identity.Client{person}, 0.8},
		"a lighter client":                {[]*identity.Client{other}, 0.85},
		"a higher one and a lighter one":  {[]*identity.Client{person, other}, 0.65},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := New(Config{Limits: DefaultLimits()})
			require.NoError(t, err)
			now := time.Now()
			c.client(service, now).enter(1000, now)
			for _, o := range tt.others {
				c.client(o, now).enter(100, now)
			}
			if tt.others != nil {
				c.weigh(now)
			}
			c.load.contended = now.Add(time.Second)
			p := &Permit{client: c.client(service, now), class: classOf(service.Priority)}
			p.rank = c.rank(p, now)
			assert.InDelta(t, tt.want*c.load.limit, c.room(p, now), 1e-6)
		})
	}
}
