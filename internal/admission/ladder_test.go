package admission

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"

	"github.com/qosproxy/qosproxy/internal/identity"
)

// burning is a controller under lookups of which a share is slow.
type burning struct {
	*Controller
	t     *testing.T
	asked int
	// rungs counts how often the rung has changed, shed what was refused.
	rungs, shed int
	last        Rung
}

// ask does one lookup a millisecond for so long, in turns by the clients, of
// which the given share (by time) is slow. What is refused is not slow.
func (b *burning) ask(d time.Duration, slow func(who *identity.Client, at time.Duration) float64, clients ...*identity.Client) {
	begin := time.Now()
	for time.Since(begin) < d {
		who := clients[b.asked%len(clients)]
		p, err := b.Admit(Ask{Client: who, Table: shop, Keys: 1})
		if err != nil {
			b.shed++
		} else {
			o := Outcome{Answered: 1}
			if float64((b.asked*7919)%1000) < 1000*slow(who, time.Since(begin)) {
				o = Outcome{Late: 1}
			}
			p.Release(o)
		}
		b.asked++
		time.Sleep(10 * time.Millisecond)
		if now := b.tables[shop].ladder.rung; now != b.last {
			b.last = now
			b.rungs++
		}
	}
}

func share(s float64) func(*identity.Client, time.Duration) float64 {
	return func(*identity.Client, time.Duration) float64 { return s }
}

func newBurning(t *testing.T, without safeguards) *burning {
	return &burning{t: t, Controller: newController(t, func(cfg *Config) {
		cfg.without = without
		cfg.without.limit = true
	})}
}

func TestTheLadderIsClimbedRungByRungAndBackDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBurning(t, safeguards{})
		everyone := []*identity.Client{person, service, job}
		b.ask(time.Minute, share(0), everyone...)
		assert.Equal(t, RungNone, b.last)

		// 5 % may be slow: 12 % burn at 2.4, 17 % at 3.4, 25 % at 5, 50 % at 10.
		for _, step := range []struct {
			slow float64
			want Rung
		}{{0.12, RungHedges}, {0.17, RungOptional}} {
			b.ask(90*second, share(step.slow), everyone...)
			assert.Equal(t, step.want, b.last)
		}
		assert.Zero(t, b.shed, "no lookup is refused yet")
		p, err := b.Admit(Ask{Client: job, Table: shop, Keys: 1})
		assert.NoError(t, err)
		assert.True(t, p.FewHedges() && p.ShedOptional())
		p.Release(Outcome{})

		// Batch lookups are the slow ones: without them all is well again.
		heavy := func(who *identity.Client, _ time.Duration) float64 {
			if who == job {
				return 0.9
			}
			return 0.05
		}
		b.ask(45*second, heavy, everyone...)
		assert.Equal(t, RungBatch, b.last)
		_, err = b.Admit(Ask{Client: job, Table: shop, Keys: 1})
		assert.Equal(t, ReasonLadder, refusal(t, err).Reason)
		p, err = b.Admit(Ask{Client: service, Table: shop, Keys: 1})
		assert.NoError(t, err)
		p.Release(Outcome{})
		b.ask(3*time.Minute, share(0), everyone...)
		assert.Equal(t, RungNone, b.last)
		for r := RungHedges; r <= RungBatch; r++ {
			assert.Positive(t, testutil.ToFloat64(b.tables[shop].metrics.actions[r]), r)
		}
	})
}

func TestAnOscillatingLoadDoesNotFlap(t *testing.T) {
	bubble(t, map[string]safeguards{"no hysteresis": {hysteresis: true}}, func(t *testing.T, without safeguards) bool {
		b := newBurning(t, without)
		b.ask(10*time.Minute, func(_ *identity.Client, at time.Duration) float64 {
			if at/(12*second)%2 == 0 {
				return 0.13 // burns at 2.6, the first rung is at 2
			}
			return 0.08
		}, service)
		t.Logf("%d changes of rung", b.rungs)
		return b.rungs <= 4
	})
}

func TestLookupsAreOnlyRefusedInFavourOfOthers(t *testing.T) {
	for name, c := range map[string]struct {
		clients []*identity.Client
		want    Rung
	}{
		"nobody but standard":  {[]*identity.Client{service}, RungBatch},
		"nobody but batch":     {[]*identity.Client{job}, RungOptional},
		"standard and batch":   {[]*identity.Client{service, job}, RungBatch},
		"interactive and more": {[]*identity.Client{person, service, job}, RungStandard},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, without safeguards) bool {
				b := newBurning(t, without)
				highest := RungNone
				for range 50 {
					b.ask(second, share(0.9), c.clients...)
					highest = max(highest, b.last)
				}
				return highest == c.want
			})
		})
	}
	t.Run("a proxy whose clients are all alike refuses none", func(t *testing.T) {
		bubble(t, map[string]safeguards{"no purpose": {purpose: true}}, func(t *testing.T, without safeguards) bool {
			b := newBurning(t, without)
			b.ask(2*time.Minute, share(0.9), service)
			return b.shed == 0
		})
	})
}

func TestARungThatDoesNotHelpIsTakenBack(t *testing.T) {
	bubble(t, nil, func(t *testing.T, without safeguards) bool {
		b := newBurning(t, without)
		b.ask(5*time.Minute, share(0.3), person, job) // burns at 6 whoever asks
		t.Logf("refused %d of %d", b.shed, b.asked)
		return b.shed > 0 && float64(b.shed) < 0.12*float64(b.asked)
	})
}

// TestSheddingDoesNotFeedItself is of a table that was too slow for a while.
func TestSheddingDoesNotFeedItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBurning(t, safeguards{})
		b.ask(time.Minute, share(0.9), person, service, job)
		assert.GreaterOrEqual(t, b.last, RungBatch)
		b.ask(3*time.Minute, share(0), service, job, person)
		assert.Equal(t, RungNone, b.last)
	})
}

func TestAFewSlowLookupsMoveNothing(t *testing.T) {
	bubble(t, map[string]safeguards{"no least traffic": {traffic: true}}, func(t *testing.T, without safeguards) bool {
		b := newBurning(t, without)
		for range 60 { // one lookup a second, all slow
			p, err := b.Admit(Ask{Client: person, Table: shop, Keys: 1})
			if err != nil {
				return false
			}
			p.Release(Outcome{Late: 1})
			time.Sleep(second)
		}
		return b.tables[shop].ladder.rung == RungNone
	})
}

func TestWhatLessLoadWouldNotHelpDoesNotBurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBurning(t, safeguards{})
		for range 10_000 { // a node is down, and a third of the keys has no other
			p, err := b.Admit(Ask{Client: person, Table: shop, Keys: 3})
			assert.NoError(t, err)
			time.Sleep(5 * time.Millisecond)
			p.Release(Outcome{Answered: 2})
		}
		assert.Equal(t, RungNone, b.tables[shop].ladder.rung)
	})
}

func TestARungOfZeroIsLeftOut(t *testing.T) {
	l := Ladder{Hedges: 2, Batch: 4}
	assert.Equal(t, RungBatch, l.next(RungHedges, RungStandard))
	assert.Equal(t, RungBatch, l.next(RungBatch, RungStandard))
	assert.Equal(t, RungHedges, l.below(RungBatch))
	assert.Equal(t, RungNone, l.below(RungHedges))
	assert.Equal(t, RungBatch, l.reached(20, 1))
	assert.Equal(t, RungHedges, l.reached(3.9, 1))
}

func TestAnOverloadOfSecondsClimbsNothing(t *testing.T) {
	bubble(t, map[string]safeguards{"no hysteresis": {hysteresis: true}}, func(t *testing.T, without safeguards) bool {
		b := newBurning(t, without)
		b.ask(time.Minute, share(0), service)
		b.ask(2*second, share(0.9), service) // 18 % of ten seconds, 3 % of a minute
		b.ask(time.Minute, share(0), service)
		return b.rungs == 0
	})
}
