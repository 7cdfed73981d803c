package admission

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/reasons"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newController(t testing.TB, change func(*Config)) *Controller {
	cfg := Config{Limits: DefaultLimits(), Tables: map[string]SLO{shop: slo}}
	if change != nil {
		change(&cfg)
	}
	c, err := New(cfg)
	require.NoError(t, err)
	return c
}

// refusal returns why a lookup was refused.
func refusal(t testing.TB, err error) *Refusal {
	t.Helper()
	var r *Refusal
	require.ErrorAs(t, err, &r)
	assert.Positive(t, r.RetryAfter)
	assert.NotEmpty(t, r.Error())
	return r
}

// empty reports whether nothing is in-flight.
func empty(c *Controller) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cl := range c.clients {
		if cl.inflight != 0 {
			return false
		}
	}
	return c.load.inflight == 0 && len(c.load.open) == 0
}

// TestPermitsAreReleasedExactlyOnce does lookups that end well, fail, panic and
// are released twice, in any order, against a count of what must be in-flight.
func TestPermitsAreReleasedExactlyOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, err := New(Config{Limits: DefaultLimits(), Tables: map[string]SLO{shop: slo}})
		require.NoError(t, err)
		var open []*Permit
		keys := 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"admit", "release", "again", "panic", "replace"}).Draw(t, "step") {
			case "admit":
				n := rapid.IntRange(1, 500).Draw(t, "keys")
				p, err := c.Admit(Ask{Table: shop, Keys: n, Client: &identity.Client{
					Name: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "client"), Priority: identity.Priority(rapid.IntRange(0, 2).Draw(t, "priority")),
					MaxConcurrent: 3}})
				if err == nil {
					open = append(open, p)
					keys += n
				}
			case "release", "again":
				if len(open) > 0 {
					i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
					p := open[i]
					open = append(open[:i], open[i+1:]...)
					keys -= p.ask.Keys
					p.Release(Outcome{Answered: p.ask.Keys})
					p.Release(Outcome{})
				}
			case "panic":
				func() {
					defer func() { _ = recover() }()
					if p, err := c.Admit(Ask{Table: shop, Keys: 7}); err == nil {
						defer p.Release(Outcome{})
						panic("lookup")
					}
				}()
			case "replace":
				c.Replace(DefaultLimits(), map[string]SLO{shop: {Target: second, Percentile: 99}})
			}
			if c.load.inflight != keys {
				t.Fatalf("%d keys in-flight, want %d", c.load.inflight, keys)
			}
		}
		for _, p := range open {
			p.Release(Outcome{})
		}
		if !empty(c) {
			t.Fatalf("not empty at the end: %+v", c.Status())
		}
	})
}

func TestConcurrentLookupsLeaveNothingBehind(t *testing.T) {
	c := newController(t, nil)
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := range 500 {
				p, err := c.Admit(Ask{Table: shop, Keys: 1 + (i*g)%90, Client: []*identity.Client{person, service, job}[i%3]})
				if err != nil {
					continue
				}
				wg.Go(func() { p.Release(Outcome{Answered: 1}) })
				p.Release(Outcome{})
			}
		})
	}
	wg.Wait()
	assert.True(t, empty(c))
}

func TestATinyRateIsARate(t *testing.T) {
	c := newController(t, nil)
	who := &identity.Client{Name: "metered", KeysPerSecond: 1e-15, BurstKeys: 1}
	require.NoError(t, c.Charge(who, 1))
	assert.Equal(t, ReasonRate, refusal(t, c.Charge(who, 1)).Reason)
}

func TestAClientIsHeldToItsKeysPerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newController(t, nil)
		who := &identity.Client{Name: "metered", Priority: identity.Standard, KeysPerSecond: 1000, BurstKeys: 100}
		ask := func(keys int) error {
			p, err := c.Admit(Ask{Client: who, Table: shop, Keys: keys})
			p.Release(Outcome{})
			return err
		}
		require.NoError(t, ask(100))
		r := refusal(t, ask(50))
		assert.Equal(t, ReasonRate, r.Reason)
		assert.Equal(t, 50*time.Millisecond, r.RetryAfter, "fifty keys at a thousand a second")
		time.Sleep(r.RetryAfter - time.Millisecond)
		assert.Error(t, ask(50), "a refusal takes nothing and gives nothing")
		time.Sleep(time.Millisecond)
		require.NoError(t, ask(50))

		// The rate is that of keys, whatever their lookups.
		asked := 0
		for range 1000 {
			if ask(10) == nil {
				asked += 10
			}
			time.Sleep(10 * time.Millisecond)
		}
		assert.InDelta(t, 10_000, asked, 110)

		// More than the bucket holds passes once it is full, and the rest is missing.
		time.Sleep(second)
		require.NoError(t, ask(350))
		assert.Equal(t, 350*time.Millisecond, refusal(t, ask(100)).RetryAfter.Round(time.Millisecond))
		time.Sleep(350 * time.Millisecond)
		require.NoError(t, ask(100))

		// A new share is in force at once and keeps the debt.
		who = &identity.Client{Name: "metered", KeysPerSecond: 10, BurstKeys: 10}
		assert.Equal(t, second, refusal(t, ask(10)).RetryAfter.Round(10*time.Millisecond))
		who = &identity.Client{Name: "metered"}
		assert.NoError(t, ask(100_000))
	})
}

func TestAClientIsHeldToItsConcurrency(t *testing.T) {
	c := newController(t, nil)
	who := &identity.Client{Name: "two", MaxConcurrent: 2}
	a, err := c.Admit(Ask{Client: who, Table: shop, Keys: 1})
	require.NoError(t, err)
	b, err := c.Admit(Ask{Client: who, Table: shop, Keys: 1})
	require.NoError(t, err)
	_, err = c.Admit(Ask{Client: who, Table: shop, Keys: 1})
	assert.Equal(t, ReasonConcurrency, refusal(t, err).Reason)
	other, err := c.Admit(Ask{Client: service, Table: shop, Keys: 1})
	require.NoError(t, err, "another client has its own")
	a.Release(Outcome{})
	a, err = c.Admit(Ask{Client: who, Table: shop, Keys: 1})
	require.NoError(t, err)
	for _, p := range []*Permit{a, b, other} {
		p.Release(Outcome{})
	}
	assert.True(t, empty(c))
}

func TestClientsThatHaveGoneAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newController(t, nil)
		p, err := c.Admit(Ask{Client: &identity.Client{Name: "gone", KeysPerSecond: 1, BurstKeys: 300}, Table: shop, Keys: 250})
		require.NoError(t, err)
		p.Release(Outcome{})
		seen := func() bool {
			p, err := c.Admit(Ask{Table: shop, Keys: 1})
			require.NoError(t, err)
			p.Release(Outcome{})
			return c.clients["gone"] != nil
		}
		time.Sleep(2 * time.Minute)
		assert.True(t, seen(), "its bucket is not full again")
		time.Sleep(5 * time.Minute)
		assert.False(t, seen())
	})
}

func TestWorkWhoseDeadlineCannotBeMetIsNotStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newController(t, nil)
		ask := func(keys int, left time.Duration) error {
			p, err := c.Admit(Ask{Table: shop, Keys: keys, Deadline: time.Now().Add(left)})
			if err == nil {
				time.Sleep(20 * time.Millisecond)
				p.Release(Outcome{Answered: keys})
			}
			return err
		}
		require.NoError(t, ask(50, time.Millisecond), "nothing is known yet")
		require.NoError(t, ask(50, -time.Millisecond), "and it times out")
		for range enough {
			require.NoError(t, ask(50, second))
		}
		assert.Equal(t, ReasonDeadline, refusal(t, ask(50, 19*time.Millisecond)).Reason)
		require.NoError(t, ask(50, 20*time.Millisecond), "what is just enough is started")
		require.NoError(t, ask(1, 19*time.Millisecond), "other sizes say nothing")
		time.Sleep(2 * fastestWindow)
		assert.NoError(t, ask(50, 19*time.Millisecond), "what was learned long ago is forgotten")
	})
}

func TestDisabledRefusesNothing(t *testing.T) {
	c := newController(t, func(cfg *Config) { cfg.Limits.Enabled = false })
	who := &identity.Client{Name: "x", KeysPerSecond: 1, BurstKeys: 1, MaxConcurrent: 1}
	var open []*Permit
	for range 1000 {
		p, err := c.Admit(Ask{Client: who, Table: shop, Keys: 500, Deadline: time.Now()})
		require.NoError(t, err)
		open = append(open, p)
	}
	// Limits are replaceable, and what is in-flight counts under the new ones.
	c.Replace(DefaultLimits(), map[string]SLO{shop: slo})
	_, err := c.Admit(Ask{Client: service, Table: shop, Keys: 1})
	assert.Equal(t, ReasonOverload, refusal(t, err).Reason)
	for _, p := range open {
		p.Release(Outcome{})
	}
	assert.True(t, empty(c))
}

func TestARefusalIsFast(t *testing.T) {
	c := newController(t, nil)
	for range 1000 {
		_, _ = c.Admit(Ask{Client: service, Table: shop, Keys: 500})
	}
	refused := 0
	begin := time.Now()
	for range 10_000 {
		if _, err := c.Admit(Ask{Client: service, Table: shop, Keys: 500}); err != nil {
			refused++
		}
	}
	assert.Equal(t, 10_000, refused)
	// 10,000 of them within what one may take, times a factor for slow machines.
	assert.Less(t, time.Since(begin)/10_000, 5*time.Millisecond)
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	c := newController(t, func(cfg *Config) { cfg.Registerer = reg })
	p, err := c.Admit(Ask{Client: &identity.Client{Name: "one", Priority: identity.Batch, MaxConcurrent: 1}, Table: shop, Keys: 50})
	require.NoError(t, err)
	defer p.Release(Outcome{})
	_, err = c.Admit(Ask{Client: &identity.Client{Name: "one", Priority: identity.Batch, MaxConcurrent: 1}, Table: shop, Keys: 50})
	require.Error(t, err)
	problems, err := testutil.GatherAndLint(reg)
	require.NoError(t, err)
	assert.Empty(t, problems)
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP qosproxy_admission_client_shed_total Lookups that were refused before anyone was asked, by client of the configuration and by reason.
# TYPE qosproxy_admission_client_shed_total counter
qosproxy_admission_client_shed_total{client="one",reason="client_concurrency"} 1
# HELP qosproxy_admission_inflight_keys Keys of the lookups in flight.
# TYPE qosproxy_admission_inflight_keys gauge
qosproxy_admission_inflight_keys 50
# HELP qosproxy_admission_limit_keys Keys that may be in-flight; max_concurrency unless lookups are late.
# TYPE qosproxy_admission_limit_keys gauge
qosproxy_admission_limit_keys 100000
# HELP qosproxy_ladder_rung What the table gives up to meet its SLO: 0 nothing, 1 hedges, 2 optional keys, 3 batch lookups, 4 standard lookups.
# TYPE qosproxy_ladder_rung gauge
qosproxy_ladder_rung{table="shop.products"} 0
`), "qosproxy_admission_client_shed_total", "qosproxy_admission_inflight_keys", "qosproxy_admission_limit_keys", "qosproxy_ladder_rung"))
	_, err = New(Config{Limits: DefaultLimits(), Registerer: reg})
	require.Error(t, err, "a name is taken only once")

	c.Replace(DefaultLimits(), nil)
	n, err := testutil.GatherAndCount(reg, "qosproxy_ladder_rung", "qosproxy_ladder_actions_total")
	require.NoError(t, err)
	assert.Zero(t, n, "a table that is not served leaves no series")
}

func TestEveryRefusalHasAReasonForClients(t *testing.T) {
	assert.Len(t, every, 6, "one for each Reason of this package")
	for r, want := range every {
		assert.NotEqual(t, reasons.None, want, "%s", r)
		assert.Equal(t, partition.Shed, partition.StatusOf(want), "%s is of keys that are shed", r)
		assert.Equal(t, want, (&Refusal{Reason: r}).ClientReason())
	}
}
