package admission

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/identity"
)

// TestRoomIsForThoseAbove is of the keys that may be in-flight for a client, in limits, by who
// asks besides.
func TestRoomIsForThoseAbove(t *testing.T) {
	other := &identity.Client{Name: "other", Priority: identity.Standard}
	for name, tt := range map[string]struct {
		others []*identity.Client
		want   float64
	}{
		"nobody":                        {nil, 1},
		"a lower priority":              {[]*identity.Client{job}, 4},
		"a higher priority":             {[]*identity.Client{person}, 1},
		"a lighter client":              {[]*identity.Client{other}, 1},
		"a higher one and a lower one":  {[]*identity.Client{person, job}, 4},
		"a lighter one and a lower one": {[]*identity.Client{other, job}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newController(t, nil)
				now := time.Now()
				c.client(service, now).enter(1000, now)
				for _, o := range tt.others {
					c.client(o, now).enter(100, now)
				}
				c.weigh(now)
				rank := c.rank(c.client(service, now), classOf(service.Priority), now)
				assert.InDelta(t, DefaultLimits().MaxConcurrency, c.load.room(rank), 0, "nothing has been late")
				c.load.limit, c.load.lowered = 1000, true
				assert.InDelta(t, tt.want*1000, c.load.room(rank), 0)

				c.weigh(now.Add(usageMemory))
				rank = c.rank(c.client(service, now), classOf(service.Priority), now)
				assert.InDelta(t, 1000, c.load.room(rank), 0, "the others have not asked for a while")
			})
		})
	}
}

func TestDeepInOverloadHeadersAreEnoughToRefuse(t *testing.T) {
	c := newController(t, nil)
	batch := &identity.Client{Name: "batch", Priority: identity.Batch}
	assert.Nil(t, c.AtHeaders(nil), "nothing is refused")
	full, err := c.Admit(Ask{Table: shop, Keys: 1 << 20})
	require.NoError(t, err)
	refuse := func(n int) {
		for range n {
			_, err := c.Admit(Ask{Table: shop, Keys: 50})
			require.Error(t, err)
		}
	}
	refuse(10)
	assert.Nil(t, c.AtHeaders(nil), "a few refusals are worth an answer each")
	refuse(2 * enough)
	refused := c.AtHeaders(nil)
	require.NotNil(t, refused)
	assert.Equal(t, ReasonOverload, refused.Reason)
	assert.Equal(t, retries[identity.Standard], refused.RetryAfter)
	assert.Nil(t, c.AtHeaders(batch), "another priority has not been refused")

	full.Release(Outcome{Answered: 1 << 20})
	assert.Nil(t, c.AtHeaders(nil), "there is room again: one that fits is read")
	c.Replace(Limits{}, nil)
	_, _ = c.Admit(Ask{Keys: 1 << 20})
	assert.Nil(t, c.AtHeaders(nil), "admission is off")
	assert.Nil(t, (*Controller)(nil).AtHeaders(nil))
}

func TestEvidenceIsMoreThanChance(t *testing.T) {
	assert.False(t, exceeds(9, 5))
	assert.True(t, exceeds(10, 5))
	var s sample
	for i := range 100 {
		s.add(0, float64(i)/100, 0.05, true)
	}
	assert.InDelta(t, 0.95, s.slowest(), 0.051)
	for range 10 {
		s.add(0, 3, 0.05, false)
	}
	assert.InDelta(t, 1.05, s.slowest(), 0.01)
}

// TestALimitIsJudgedByLatenessAndAnswers is of a limit under which fewer lookups are answered
// than before.
func TestALimitIsJudgedByLatenessAndAnswers(t *testing.T) {
	// The highest rank is late as often as the lower one.
	before := tally{lookups: 400, ranked: [ranks]judged{1: {100, 60}, 5: {300, 180}}, answered: 20_000, inTime: 8_000, seconds: 1}
	for name, tt := range map[string]struct {
		high, low int
		inTime    float64
		tried     time.Duration
		harms     bool
	}{
		"as late, and fewer answers":          {60, 60, 4_000, trialTime, true},
		"no judgement yet":                    {60, 60, 4_000, trialTime - time.Millisecond, false},
		"late no more, if with fewer answers": {5, 5, 4_000, trialTime, false},
		"as late, but more in time":           {60, 60, 10_000, trialTime, false},
		"late are those who give way":         {5, 90, 4_000, trialTime, false},
		"late are those who have room":        {60, 0, 4_000, trialTime, true},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			tr := trial{began: now.Add(-tt.tried), before: before}
			ranked := [ranks]judged{1: {100, tt.high}, 5: {100, tt.low}}
			after := tally{lookups: 200, ranked: ranked, answered: 10_000, inTime: tt.inTime, seconds: 1}
			assert.Equal(t, tt.harms, tr.harms(after, now))
		})
	}
}
