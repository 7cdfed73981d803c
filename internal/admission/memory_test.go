package admission

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/memory"
)

const mib = 1 << 20

// learned returns a controller that allows most bytes of memory and has seen a key of perKey
// bytes.
func learned(t testing.TB, most int64, perKey int) *Controller {
	t.Helper()
	c := newController(t, func(cfg *Config) { cfg.Limits.MaxMemory = most })
	p, err := c.Admit(Ask{Table: shop, Keys: 1})
	require.NoError(t, err)
	p.Release(Outcome{Answered: 1, Bytes: perKey})
	return c
}

func TestAnswersAreHeldToTheirMemory(t *testing.T) {
	for name, most := range map[string]int64{"held": 100 * mib, "control: no limit": 0} {
		t.Run(name, func(t *testing.T) {
			// Each answer is 4 MiB, three times: six are less than three quarters of 100 MiB.
			c := learned(t, most, mib)
			var large []*Permit
			var refused *Refusal
			for range 20 {
				p, err := c.Admit(Ask{Table: shop, Keys: 50, MostBytes: 4 * mib})
				if err != nil {
					refused = refusal(t, err)
					continue
				}
				require.NoError(t, p.Wait(t.Context()))
				large = append(large, p)
			}
			if most == 0 {
				assert.Len(t, large, 20)
				return
			}
			require.Len(t, large, 6)
			assert.Equal(t, ReasonMemory, refused.Reason)
			assert.Equal(t, int64(72*mib), c.Status().MemoryBytes)
			_, err := c.Admit(Ask{Table: shop, Keys: 1, MostBytes: mib / 2})
			require.NoError(t, err, "a small lookup has the last quarter")
			for _, p := range large {
				p.Release(Outcome{Answered: 50, Bytes: 4 * mib})
			}
			assert.Equal(t, int64(3*mib/2), c.Status().MemoryBytes, "that of the small one")
		})
	}
}

// TestLargeAnswersOfALowPriorityLeaveAHigherOneRoom counts the large lookups that are let in beside
// a small one of a higher priority, or of the same.
func TestLargeAnswersOfALowPriorityLeaveAHigherOneRoom(t *testing.T) {
	for name, test := range map[string]struct {
		beside *identity.Client
		pause  time.Duration
		want   int
	}{
		"beside interactive":          {person, 0, 1},
		"beside standard":             {service, 0, 1},
		"beside batch":                {job, 0, 6},
		"two seconds after the last":  {person, usageMemory, 6},
		"just before the two seconds": {person, usageMemory - time.Millisecond, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// Each answer is 4 MiB, three times.
				c := newController(t, func(cfg *Config) { cfg.Limits.MaxMemory = 100 * mib })
				p, err := c.Admit(Ask{Client: job, Table: shop, Keys: 1})
				require.NoError(t, err)
				p.Release(Outcome{Answered: 1, Bytes: mib})
				p, err = c.Admit(Ask{Client: test.beside, Table: shop, Keys: 1, MostBytes: 1})
				require.NoError(t, err)
				p.Release(Outcome{Answered: 1, Bytes: 1})
				time.Sleep(test.pause)
				large := 0
				for range 20 {
					if _, err := c.Admit(Ask{Client: job, Table: shop, Keys: 50, MostBytes: 4 * mib}); err == nil {
						large++
					} else {
						assert.Equal(t, ReasonMemory, refusal(t, err).Reason)
					}
				}
				assert.Equal(t, test.want, large)
			})
		})
	}
}

// TestAClientBeyondItsRateTakesNoMemoryFromOthers has a request that is being received fill the
// budget: a lookup that finds no room for its answer evicts it, unless its client may not ask.
func TestAClientBeyondItsRateTakesNoMemoryFromOthers(t *testing.T) {
	for name, pace := range map[string]float64{"beyond": 1, "control: within": 1000} {
		t.Run(name, func(t *testing.T) {
			budget := memory.New(100 * mib)
			c := newController(t, func(cfg *Config) { cfg.Limits.MaxMemory, cfg.Memory = 100*mib, budget })
			p, err := c.Admit(Ask{Table: shop, Keys: 1})
			require.NoError(t, err)
			p.Release(Outcome{Answered: 1, Bytes: mib})
			_, err = c.Admit(Ask{Table: shop, Keys: 1})
			require.NoError(t, err)

			peer := budget.Peer(func() {}, 0)
			_, err = peer.Begin(func() {})
			require.NoError(t, err)
			peer.Received(96 * mib)
			who := &identity.Client{Name: "metered", KeysPerSecond: pace, BurstKeys: 1}
			_, err = c.Admit(Ask{Client: who, Table: shop, Keys: 1, MostBytes: 1})
			require.NoError(t, err)
			time.Sleep(2 * time.Millisecond)
			_, err = c.Admit(Ask{Client: who, Table: shop, Keys: 1}) // 3 MiB, and 1 MiB is free
			evicted := budget.Usage().Evicted[memory.Full]
			if pace > 1 {
				require.NoError(t, err)
				assert.Equal(t, int64(1), evicted)
				return
			}
			assert.Equal(t, ReasonRate, refusal(t, err).Reason)
			assert.Zero(t, evicted)
		})
	}
}

func TestAnswersOfSeveralReplicasTakeMoreMemory(t *testing.T) {
	c := learned(t, 100*mib, mib)
	for answers, want := range map[int]int64{0: 12, 1: 12, 2: 20} {
		p, err := c.Admit(Ask{Table: shop, Keys: 50, MostBytes: 4 * mib, Answers: answers})
		require.NoError(t, err)
		assert.Equal(t, want*mib, c.Status().MemoryBytes)
		p.Release(Outcome{Answered: 50, Bytes: 4 * mib})
	}
}

func TestOneAnswerMayTakeMoreThanThereIs(t *testing.T) {
	c := learned(t, mib, mib)
	for range 2 {
		p, err := c.Admit(Ask{Table: shop, Keys: 50})
		require.NoError(t, err)
		_, err = c.Admit(Ask{Table: shop, Keys: 1})
		refusal(t, err)
		p.Release(Outcome{Answered: 50, Bytes: 50 * mib})
	}
}

func TestLargerAnswersAreBelievedSooner(t *testing.T) {
	w := newWeight()
	w.observe(1000, 1)
	assert.InDelta(t, 1000, w.perKey, 0)
	for range 8 {
		w.observe(100_000, 1)
	}
	assert.Greater(t, w.perKey, 90_000.0)
	for range 8 {
		w.observe(1000, 1)
	}
	assert.Greater(t, w.perKey, 50_000.0)
}

// TestAFewGoFirst has a burst on a table nobody has read: a few lookups find out how large its
// answers are, and the others wait for them.
func TestAFewGoFirst(t *testing.T) {
	for name, tt := range map[string]struct {
		bytes int
		ended int // of 100 lookups
	}{
		"small answers": {1000, 100},
		"large answers": {4 * mib, mostScouts + 6},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newController(t, func(cfg *Config) { cfg.Limits.MaxMemory = 100 * mib })
				var running, ended, refused atomic.Int64
				for range 100 {
					go func() {
						p, err := c.Admit(Ask{Table: shop, Keys: 1})
						if err == nil {
							err = p.Wait(context.Background())
						}
						if err != nil {
							assert.Equal(t, ReasonMemory, refusal(t, err).Reason)
							p.Release(Outcome{})
							refused.Add(1)
							return
						}
						running.Add(1)
						time.Sleep(10 * time.Millisecond)
						running.Add(-1)
						ended.Add(1)
						p.Release(Outcome{Answered: 1, Bytes: tt.bytes})
					}()
					synctest.Wait()
				}
				assert.EqualValues(t, mostScouts, running.Load())
				time.Sleep(second)
				assert.EqualValues(t, tt.ended, ended.Load())
				assert.EqualValues(t, 100-tt.ended, refused.Load())
				assert.True(t, empty(c))
				assert.Zero(t, c.memory.Usage().Used)
			})
		})
	}
}

func TestWaitingEndsWhateverBecomesOfTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newController(t, func(cfg *Config) { cfg.Limits.MaxMemory = mib })
		var scouts []*Permit
		for range mostScouts {
			p, err := c.Admit(Ask{Table: shop, Keys: 1})
			require.NoError(t, err)
			require.NoError(t, p.Wait(t.Context()))
			scouts = append(scouts, p)
		}
		bound, err := c.Admit(Ask{Table: shop, Keys: 1, Deadline: time.Now().Add(second)})
		require.NoError(t, err)
		assert.Equal(t, ReasonDeadline, refusal(t, bound.Wait(t.Context())).Reason)
		bound.Release(Outcome{})
		late, err := c.Admit(Ask{Table: shop, Keys: 1})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), second)
		defer cancel()
		begin := time.Now()
		require.NoError(t, late.Wait(ctx), "out of time: the lookup itself says so")
		assert.Equal(t, second, time.Since(begin))
		late.Release(Outcome{})

		next, err := c.Admit(Ask{Table: shop, Keys: 1})
		require.NoError(t, err)
		done := make(chan error)
		go func() { done <- next.Wait(context.Background()) }()
		synctest.Wait()
		scouts[0].Release(Outcome{Late: 1}) // has told nothing
		require.NoError(t, <-done, "another goes in its place")
		for _, p := range append(scouts[1:], next) {
			p.Release(Outcome{Late: 1})
		}
		assert.True(t, empty(c))
		assert.Empty(t, c.tables[shop].weight.scouts)
		require.NoError(t, (*Permit)(nil).Wait(t.Context()))
	})
}

// scoutsOf admits the lookups of a client that find out the size of a table's answers.
func scoutsOf(t *testing.T, c *Controller, who *identity.Client) (scouts []*Permit) {
	t.Helper()
	for range mostScouts {
		p, err := c.Admit(Ask{Client: who, Table: shop, Keys: 1})
		require.NoError(t, err)
		scouts = append(scouts, p)
	}
	return scouts
}

// TestOnlyALookupThatGoesOnTakesFromTheShare has lookups wait for the size of a table. Those that
// are refused then cost their client no keys, and do not count as admitted.
func TestOnlyALookupThatGoesOnTakesFromTheShare(t *testing.T) {
	for name, tt := range map[string]struct {
		bytes, goOn int
		reason      Reason
	}{
		"small answers: the share is used up":  {1000, 6, ReasonRate},
		"large answers: no memory for several": {40 * mib, 1, ReasonMemory},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newController(t, func(cfg *Config) { cfg.Limits.MaxMemory = 100 * mib })
				who := &identity.Client{Name: "metered", Priority: identity.Batch, KeysPerSecond: 0.001, BurstKeys: 10}
				scouts := scoutsOf(t, c, who)
				results := make(chan error, 10)
				for range cap(results) {
					p, err := c.Admit(Ask{Client: who, Table: shop, Keys: 1})
					require.NoError(t, err)
					go func() { results <- p.Wait(context.Background()) }()
				}
				synctest.Wait()
				admitted := c.metrics.admitted.WithLabelValues("batch")
				assert.InDelta(t, mostScouts, testutil.ToFloat64(admitted), 0)

				for _, p := range scouts {
					p.Release(Outcome{Answered: 1, Bytes: tt.bytes})
				}
				goOn := 0
				for range cap(results) {
					if err := <-results; err == nil {
						goOn++
					} else {
						assert.Equal(t, tt.reason, refusal(t, err).Reason)
					}
				}
				assert.Equal(t, tt.goOn, goOn)
				assert.InDelta(t, mostScouts+tt.goOn, testutil.ToFloat64(admitted), 0)
				assert.InDelta(t, 10-mostScouts-tt.goOn, c.clients[who.Name].bucket.Tokens(), 0.1)
			})
		})
	}
}

// TestWaitingGivesNoKeysBack has a lookup wait while others use up the share.
func TestWaitingGivesNoKeysBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newController(t, func(cfg *Config) { cfg.Limits.MaxMemory = 100 * mib })
		who := &identity.Client{Name: "metered", Priority: identity.Batch, KeysPerSecond: 1000, BurstKeys: 1000}
		scouts := scoutsOf(t, c, who)
		waiting, err := c.Admit(Ask{Client: who, Table: shop, Keys: 100})
		require.NoError(t, err)
		time.Sleep(500 * time.Millisecond)
		_, err = c.Admit(Ask{Client: who, Table: "other.table", Keys: 900})
		require.NoError(t, err)
		for _, p := range scouts {
			p.Release(Outcome{Answered: 1, Bytes: 1000})
		}
		require.NoError(t, waiting.Wait(t.Context()))
		assert.InDelta(t, 0, c.clients[who.Name].bucket.Tokens(), 1)
	})
}

func TestSizesOutliveTheirSLO(t *testing.T) {
	c := learned(t, 100*mib, mib)
	limits := DefaultLimits()
	limits.MaxMemory = 100 * mib
	c.Replace(limits, map[string]SLO{shop: {Target: second, Percentile: 99}})
	p, err := c.Admit(Ask{Table: shop, Keys: 2})
	require.NoError(t, err)
	assert.Equal(t, int64(6*mib), c.Status().MemoryBytes)
	p.Release(Outcome{})
}

func TestLargeKeysCountForMoreThanOne(t *testing.T) {
	for name, tt := range map[string]struct {
		perKey, keys int
		memory       int64
		want         int
	}{
		"small ones":                     {450, 50, 1 << 30, 50},
		"large ones":                     {8 * unitBytes, 5, 1 << 30, 40},
		"no more than the least limit":   {4 * mib, 5, 1 << 30, 100},
		"a large lookup of small ones":   {450, 500, 1 << 30, 500},
		"control: sizes are not watched": {8 * unitBytes, 5, 0, 5},
	} {
		t.Run(name, func(t *testing.T) {
			c := learned(t, tt.memory, tt.perKey)
			p, err := c.Admit(Ask{Table: shop, Keys: tt.keys})
			require.NoError(t, err)
			assert.Equal(t, tt.want, c.Status().InflightKeys)
			p.Release(Outcome{Answered: tt.keys, Bytes: tt.keys * tt.perKey})
			assert.True(t, empty(c))
		})
	}
}

// Those that wait for the first answers of a table wait for no host.
func TestWaitingForTheFirstAnswersIsNoOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newController(t, nil)
		ask := func() *Permit {
			p, err := c.Admit(Ask{Client: service, Table: shop, Keys: 20, Deadline: time.Now().Add(2 * second)})
			require.NoError(t, err)
			return p
		}
		first := ask()
		for range 4 * enough {
			ask()
			time.Sleep(time.Millisecond)
		}
		first.Release(Outcome{Answered: 20})
		ask()
		assert.Equal(t, DefaultLimits().MaxConcurrency, c.Status().LimitKeys)
	})
}
