package admission

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/identity"
)

// TestRoomIsForThoseAbove counts the keys that a client gets in-flight, in multiples of the
// limit, by who else has some.
func TestRoomIsForThoseAbove(t *testing.T) {
	other := &identity.Client{Name: "other", Priority: identity.Standard}
	for name, tt := range map[string]struct {
		others []*identity.Client
		want   int
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
				c.client(service, now).usage = 100_000
				ask := func(who *identity.Client, keys int) bool {
					_, err := c.Admit(Ask{Client: who, Table: shop, Keys: keys})
					return err == nil
				}
				for _, o := range tt.others {
					require.True(t, ask(o, 1))
				}
				require.True(t, ask(service, 1))
				c.load.limit, c.load.lowered, c.load.hold = 1000, now, time.Minute
				got := 0
				for range 100 {
					if ask(service, 100) {
						got++
					}
				}
				assert.Equal(t, 10*tt.want, got)
			})
		})
	}
}

func TestTheHeaviestClientIsOneOfTheSamePriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newController(t, nil)
		ask := func(name string, priority identity.Priority, keys int) *Permit {
			p, err := c.Admit(Ask{Client: &identity.Client{Name: name, Priority: priority}, Table: shop, Keys: keys})
			require.NoError(t, err)
			return p
		}
		ask("promoted", identity.Standard, 10_000)
		ask("promoted", identity.Interactive, 10_000)
		ask("heavy", identity.Standard, 1000)
		ask("light", identity.Standard, 1)
		assert.Equal(t, 2*int(identity.Standard)+1, ask("heavy", identity.Standard, 1).rank)
		assert.Equal(t, 2*int(identity.Standard), ask("light", identity.Standard, 1).rank)
	})
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
	assert.False(t, (&tally{late: 9, allowed: 5}).exceeds())
	assert.True(t, (&tally{late: 10, allowed: 5}).exceeds())
	var s sample
	p := &Permit{table: &table{slo: slo}, budget: slo.Target}
	for i := range 100 {
		s.add(p, time.Duration(i)*slo.Target/100, false)
	}
	assert.InDelta(t, 0.95, s.slowest(), 0.011)
	for range 10 {
		s.add(p, 2*slo.Target, true)
	}
	assert.InDelta(t, 1, s.slowest(), 0, "how late they would have been is not known")
}
