package admission

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/qosproxy/qosproxy/internal/identity"
)

// TestNothingIsRefusedBelowSaturation is the promise that makes admission fit to
// be on by default.
func TestNothingIsRefusedBelowSaturation(t *testing.T) {
	for name, c := range map[string]struct {
		load  float64
		keys  int
		floor time.Duration
		who   *identity.Client
	}{
		"idle":                            {0.05, 50, 0, service},
		"busy":                            {0.7, 50, 0, service},
		"busy with single keys":           {0.7, 1, 0, service},
		"busy with large lookups":         {0.6, 200, 0, job},
		"busy with batch lookups":         {0.7, 50, 0, job},
		"30 ms farther away":              {0.7, 50, 30 * time.Millisecond, service},
		"farther away, and large lookups": {0.5, 100, 30 * time.Millisecond, job},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSim(t, safeguards{})
				s.floor = c.floor
				all := s.run(20*second, caller{who: c.who, keys: c.keys, rate: steady(c.load * capacity(c.keys))})
				_, shed := count(all)
				assert.Zero(t, shed, "of %d", len(all))
				assert.Greater(t, len(all), 50)
			})
		})
	}
}

// TestABurstIsNotRefused is of a cluster that can take it.
func TestABurstIsNotRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, safeguards{})
		all := s.run(20*second, caller{who: service, keys: 10, rate: func(at time.Duration) float64 {
			if at > 10*second {
				return 0.8 * capacity(10)
			}
			return 0.02 * capacity(10)
		}})
		_, shed := count(all)
		assert.Zero(t, shed, "of %d", len(all))
	})
}

// TestLookupsThatAreSlowByThemselvesAreNotRefused is of callers who wait for a
// second, and a table whose promise is 125 ms while its lookups take 200 ms.
func TestLookupsThatAreSlowByThemselvesAreNotRefused(t *testing.T) {
	bubble(t, map[string]safeguards{"no doubt": {doubt: true}}, func(t *testing.T, without safeguards) bool {
		s := newSim(t, without)
		s.floor = 200 * time.Millisecond
		all := s.run(60*second, caller{who: service, keys: 50, rate: steady(0.7 * capacity(50)), deadline: second})
		_, shed := count(all)
		t.Logf("shed %d of %d", shed, len(all))
		return float64(shed) < 0.05*float64(len(all))
	})
}

// TestCallersThatWaitLongAreHeldToThePromiseInOverload is of the same callers and a real overload: the
// doubt must not keep the limit from falling.
func TestCallersThatWaitLongAreHeldToThePromiseInOverload(t *testing.T) {
	bubble(t, map[string]safeguards{"no limit": {limit: true, need: true}}, func(t *testing.T, without safeguards) bool {
		s := newSim(t, without)
		all := s.run(20*second, caller{who: service, keys: 50, rate: steady(3 * capacity(50)), deadline: 10 * second})
		good, _ := count(between(all, 3*second, 20*second))
		t.Logf("goodput %.0f of %.0f/s, p99 %s", float64(good)/17, capacity(50), p99(between(all, 3*second, 20*second)))
		return float64(good)/17 > 0.9*capacity(50) && p99(between(all, 3*second, 20*second)) <= 125*time.Millisecond
	})
}

// TestLookupsThatDoNotEndLowerTheLimit is of hosts that all stand still, for
// callers that wait for ten seconds, and of the time after.
func TestLookupsThatDoNotEndLowerTheLimit(t *testing.T) {
	bubble(t, map[string]safeguards{"nobody looks": {overdue: true}}, func(t *testing.T, without safeguards) bool {
		c := newController(t, func(cfg *Config) { cfg.without = without })
		ask := func() *Permit {
			p, err := c.Admit(Ask{Client: service, Table: shop, Keys: 20, Deadline: time.Now().Add(10 * second)})
			if err != nil {
				return nil
			}
			return p
		}
		var stuck []*Permit
		for range 90 {
			stuck = append(stuck, ask())
		}
		time.Sleep(1100 * time.Millisecond)
		ask().Release(Outcome{})
		fell := c.load.limit
		for _, p := range stuck {
			p.Release(Outcome{Answered: 20})
		}
		for range 500 {
			p := ask()
			time.Sleep(10 * time.Millisecond)
			p.Release(Outcome{Answered: 20})
		}
		t.Logf("limit fell to %.0f and rose to %.0f", fell, c.load.limit)
		return fell < 0.6*resting && c.load.limit >= resting
	})
}

// TestAPauseIsNoOverload is of a modest load on hosts that are well, and of pauses
// of all of them (a machine that is busy with other things) that make lookups late.
func TestAPauseIsNoOverload(t *testing.T) {
	for name, usual := range ordinary {
		t.Run(name, func(t *testing.T) {
			bubble(t, map[string]safeguards{"pauses": {pauses: true}}, func(t *testing.T, without safeguards) bool {
				s := newSim(t, without)
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

// TestABadTimeEnds is of the same load after two seconds of lookups that are late,
// which lower the limit to what little is under way: lookups that come two at a time
// must not keep it there.
func TestABadTimeEnds(t *testing.T) {
	for name, usual := range ordinary {
		t.Run(name, func(t *testing.T) {
			controls := map[string]safeguards{}
			if name == "slow" { // the others are fewer at a time than the limit falls to
				controls["bursts"] = safeguards{bursts: true}
			}
			bubble(t, controls, func(t *testing.T, without safeguards) bool {
				s := newSim(t, without)
				s.floor = usual
				s.slowFor(5*second, 2*second, 150*time.Millisecond)
				all := s.run(60*second, caller{who: service, keys: 50, rate: steady(50)})
				_, during := count(between(all, 5*second, 10*second))
				_, after := count(between(all, 10*second, 60*second))
				t.Logf("shed %d during, %d after, of %d", during, after, len(all))
				return after == 0
			})
		})
	}
}

// ordinary are times that lookups take beside their work.
var ordinary = map[string]time.Duration{"far": 25 * time.Millisecond, "slow": 45 * time.Millisecond}

// slowFor makes lookups take longer for a while.
func (s *sim) slowFor(from, length, floor time.Duration) {
	usual := s.floor
	s.after(from, func() { s.floor = floor })
	s.after(from+length, func() { s.floor = usual })
}
