package admission

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/identity"
)

// burning is a controller under lookups of which a share is slow.
type burning struct {
	*Controller
	t     *testing.T
	asked int
	// moves counts how often the level has changed, shed what was refused.
	moves, shed int
	last        Level
}

// ask does one lookup every ten milliseconds for so long, by the clients in turn. The given
// share of them, by time, is slow. A lookup that is refused is not slow.
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
		if now := b.tables[shop].ladder.level; now != b.last {
			b.last = now
			b.moves++
		}
	}
}

func share(s float64) func(*identity.Client, time.Duration) float64 {
	return func(*identity.Client, time.Duration) float64 { return s }
}

func newBurning(t *testing.T) *burning {
	return &burning{t: t, Controller: newController(t, unlimited)}
}

func TestTheLadderIsTakenStepByStepAndBackDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBurning(t)
		everyone := []*identity.Client{person, service, job}
		b.ask(time.Minute, share(0), everyone...)
		assert.Equal(t, LevelNone, b.last)

		// 5 % may be slow: 12 % burn at 2.4, 17 % at 3.4, 25 % at 5, 50 % at 10.
		for _, step := range []struct {
			slow float64
			want Level
		}{{0.12, LevelHedges}, {0.17, LevelOptional}} {
			b.ask(90*second, share(step.slow), everyone...)
			assert.Equal(t, step.want, b.last)
		}
		assert.Zero(t, b.shed, "no lookup is refused yet")
		p, err := b.Admit(Ask{Client: job, Table: shop, Keys: 1})
		assert.NoError(t, err)
		assert.True(t, p.FewHedges() && p.ShedOptional())
		p.Release(Outcome{})

		// Batch lookups are the slow ones: without them no other is late.
		heavy := func(who *identity.Client, _ time.Duration) float64 {
			if who == job {
				return 0.9
			}
			return 0.05
		}
		b.ask(45*second, heavy, everyone...)
		assert.Equal(t, LevelBatch, b.last)
		_, err = b.Admit(Ask{Client: job, Table: shop, Keys: 1})
		assert.Equal(t, ReasonLadder, refusal(t, err).Reason)
		p, err = b.Admit(Ask{Client: service, Table: shop, Keys: 1})
		assert.NoError(t, err)
		p.Release(Outcome{})
		b.ask(3*time.Minute, share(0), everyone...)
		assert.Equal(t, LevelNone, b.last)
		for r := LevelHedges; r <= LevelBatch; r++ {
			assert.Positive(t, testutil.ToFloat64(b.metrics.actions.WithLabelValues(shop, r.String())), r)
		}
	})
}

func TestAnOscillatingLoadDoesNotFlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBurning(t)
		above := 0
		b.ask(10*time.Minute, func(_ *identity.Client, at time.Duration) float64 {
			if at/(12*second)%2 == 0 {
				above++
				return 0.13 // burns at 2.6, the first step is at 2
			}
			return 0.08
		}, service)
		assert.Positive(t, above)
		assert.Equal(t, LevelHedges, b.last)
		assert.LessOrEqual(t, b.moves, 4)
	})
}

func TestLookupsAreOnlyRefusedInFavourOfOthers(t *testing.T) {
	for name, c := range map[string]struct {
		clients []*identity.Client
		want    Level
	}{
		"nobody but standard":  {[]*identity.Client{service}, LevelBatch},
		"nobody but batch":     {[]*identity.Client{job}, LevelOptional},
		"standard and batch":   {[]*identity.Client{service, job}, LevelBatch},
		"interactive and more": {[]*identity.Client{person, service, job}, LevelStandard},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBurning(t)
				highest := LevelNone
				for range 55 {
					b.ask(second, share(0.9), c.clients...)
					highest = max(highest, b.last)
				}
				assert.Equal(t, c.want, highest)
				assert.Equal(t, len(c.clients) > 1, b.shed > 0, "a proxy whose clients are all alike refuses none")
			})
		})
	}
}

func TestAStepThatDoesNotHelpIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBurning(t)
		b.ask(5*time.Minute, share(0.3), person, job) // burns at 6 whoever asks
		assert.Positive(t, b.shed)
		assert.Less(t, float64(b.shed), 0.12*float64(b.asked))
	})
}

// TestSheddingDoesNotFeedItself has a table that was too slow for a while.
func TestSheddingDoesNotFeedItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBurning(t)
		b.ask(time.Minute, share(0.9), person, service, job)
		assert.GreaterOrEqual(t, b.last, LevelBatch)
		b.ask(3*time.Minute, share(0), service, job, person)
		assert.Equal(t, LevelNone, b.last)
	})
}

func TestAFewSlowLookupsMoveNothing(t *testing.T) {
	for every, want := range map[time.Duration]Level{second: LevelNone, second / 4: LevelOptional} {
		synctest.Test(t, func(t *testing.T) {
			b := newBurning(t)
			for range 2 * time.Minute / every { // all slow
				p, err := b.Admit(Ask{Client: person, Table: shop, Keys: 1})
				require.NoError(t, err)
				p.Release(Outcome{Late: 1})
				time.Sleep(every)
			}
			assert.Equal(t, want, b.tables[shop].ladder.level, every)
		})
	}
}

func TestWhatLessLoadWouldNotHelpDoesNotBurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBurning(t)
		for range 10_000 { // a node is down, and a third of the keys has no other
			p, err := b.Admit(Ask{Client: person, Table: shop, Keys: 3})
			assert.NoError(t, err)
			time.Sleep(5 * time.Millisecond)
			p.Release(Outcome{Answered: 2})
		}
		assert.Equal(t, LevelNone, b.tables[shop].ladder.level)
	})
}

// TestAStepThatHasHelpedIsKeptWhenItGetsWorse has a table become slower at a level that has
// been judged.
func TestAStepThatHasHelpedIsKeptWhenItGetsWorse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBurning(t)
		b.ask(90*second, func(who *identity.Client, _ time.Duration) float64 {
			if who == job {
				return 0.8
			}
			return 0.12 // burns at 2.4 without the others: too much to go back
		}, person, service, job)
		assert.Equal(t, LevelBatch, b.last)
		b.ask(60*second, share(0.5), person, service, job)
		assert.Equal(t, LevelStandard, b.last)
		b.ask(2*time.Minute, share(0.5), person, service, job)
		assert.Equal(t, LevelBatch, b.last, "the level above it is taken back alone")
	})
}

func TestAStepOfZeroIsNotTaken(t *testing.T) {
	for name, tt := range map[string]struct {
		ladder                  Ladder
		hedges, optional, batch bool
	}{
		"all":         {Ladder{Hedges: 2, Optional: 3, Batch: 4, Standard: 8}, true, true, true},
		"no optional": {Ladder{Hedges: 2, Batch: 4, Standard: 8}, true, false, true},
		"no hedges":   {Ladder{Optional: 3, Batch: 4, Standard: 8}, false, true, true},
		"no batch":    {Ladder{Hedges: 2, Optional: 3, Standard: 8}, true, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBurning(t)
				limits := b.limits
				limits.Ladder = tt.ladder
				b.Replace(limits, map[string]SLO{shop: slo})
				for range 60 {
					if b.last < LevelStandard {
						b.ask(second, share(0.9), person, service, job)
					}
				}
				assert.Equal(t, LevelStandard, b.last)
				p, err := b.Admit(Ask{Client: person, Table: shop, Keys: 1})
				assert.NoError(t, err)
				assert.Equal(t, tt.hedges, p.FewHedges())
				assert.Equal(t, tt.optional, p.ShedOptional())
				_, err = b.Admit(Ask{Client: job, Table: shop, Keys: 1})
				assert.Equal(t, tt.batch, err != nil)
			})
		})
	}
}

func TestAStepOfZeroIsLeftOut(t *testing.T) {
	l := Ladder{Hedges: 2, Batch: 4}
	assert.Equal(t, LevelBatch, l.next(LevelHedges, 1))
	assert.Equal(t, LevelHedges, l.next(LevelBatch, -1))
	assert.Equal(t, LevelNone, l.next(LevelHedges, -1))
	assert.Equal(t, LevelBatch, l.reached(20, LevelStandard))
	assert.Equal(t, LevelHedges, l.reached(20, LevelOptional))
	assert.Equal(t, LevelHedges, l.reached(3.9, LevelStandard))
}

func TestAnOverloadOfSecondsMovesNothing(t *testing.T) {
	for length, moves := range map[time.Duration]bool{2 * second: false, 20 * second: true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBurning(t)
			b.ask(time.Minute, share(0), service)
			b.ask(length, share(0.9), service) // 2 s are 18 % of ten, and 3 % of a minute
			b.ask(time.Minute, share(0), service)
			assert.Equal(t, moves, b.moves > 0, length)
		})
	}
}
