package cost

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
)

var query = &executor.Query{Table: schema.NewTable("shop", "products", "", nil), Consistency: "LOCAL_ONE"}

func subQuery(host string, keys int) *executor.SubQuery {
	return &executor.SubQuery{Query: query, Host: ring.Host{ID: host}, Keys: make([]partition.Key, keys), Settled: func() {}}
}

func found(keys int) []partition.Result {
	out := make([]partition.Result, keys)
	for i := range out {
		out[i].Status = partition.Found
	}
	return out
}

// queue is a host with one thread, which works off what it is sent.
type queue struct {
	table *table
	free  time.Time
}

func (h *queue) Read(ctx context.Context, q *executor.SubQuery) ([]partition.Result, error) {
	if now := time.Now(); h.free.Before(now) {
		h.free = now
	}
	h.free = h.free.Add(h.table.read(len(q.Keys)).took)
	wait := time.Until(h.free)
	time.AfterFunc(wait, q.Settled)
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(wait):
	}
	return found(len(q.Keys)), nil
}

// busy loads a host to a share of its time for a minute, and returns what was learned.
func busy(t *testing.T, host func() string, share float64) (got executor.GroupSize) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		tt := newTable(700*time.Microsecond, 100*time.Microsecond)
		tt.stragglers = 0
		m := NewMeter(&queue{table: tt})
		rng := rand.New(rand.NewPCG(3, 4))
		for begin := time.Now(); time.Since(begin) < time.Minute; {
			time.Sleep(time.Duration(rng.ExpFloat64() / share * float64(2700*time.Microsecond)))
			q := subQuery(host(), 5+rng.IntN(31))
			go func() { _, _ = m.Read(t.Context(), q) }()
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		got = m.GroupSize(query)
	})
	return got
}

func TestCostsAreFreeOfQueueing(t *testing.T) {
	got := busy(t, func() string { return "h" }, 0.8)
	assert.InDelta(t, 700, got.StatementCost.Microseconds(), 250)
	assert.InDelta(t, 100, got.KeyCost.Microseconds(), 25)
	n := 0
	control := busy(t, func() string { n++; return strconv.Itoa(n % 50) }, 0.8)
	assert.Greater(t, control.StatementCost, 3*ms, "control: no read is known to have met others")
}

func TestReadsAreInFlightUntilTheyAreSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMeter(&queue{table: &table{statement: 100 * ms, rng: rand.New(rand.NewPCG(1, 2))}})
		ctx, cancel := context.WithTimeout(t.Context(), ms)
		defer cancel()
		_, err := m.Read(ctx, subQuery("h", 1))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		m.mu.Lock()
		assert.Equal(t, map[string]int{"h": 1}, m.reads)
		m.mu.Unlock()
		time.Sleep(100 * ms)
		synctest.Wait()
		assert.Empty(t, m.reads)
	})
}

func TestAPanicLeavesNoReadInFlight(t *testing.T) {
	settles := false
	m := NewMeter(executor.ReaderFunc(func(_ context.Context, q *executor.SubQuery) ([]partition.Result, error) {
		if settles {
			q.Settled()
		}
		panic("a bug")
	}))
	for range 2 {
		m.enter("h") // another
		assert.Panics(t, func() { _, _ = m.Read(t.Context(), subQuery("h", 1)) })
		assert.Equal(t, map[string]int{"h": 1}, m.reads, "it has left once")
		m.leave("h")
		settles = true
	}
}

// Merging lets nothing wait while keys may be expensive.
func TestNothingIsSaidOfCostsWhileTheSizeIsProvisional(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMeter(&queue{table: &table{statement: 20 * ms, rng: rand.New(rand.NewPCG(1, 2))}})
		assert.Equal(t, executor.GroupSize{Keys: firstSize}, m.Costs(query))
		for range refit {
			time.Sleep(gap)
			_, _ = m.Read(t.Context(), subQuery("h", firstSize))
		}
		assert.Positive(t, m.GroupSize(query).KeyCost)
		assert.Equal(t, executor.GroupSize{}, m.Costs(query))
		time.Sleep(provisionalFor + time.Second)
		assert.Equal(t, executor.GroupSize{Keys: firstSize}, m.Costs(query), "groups are large again")
		for i := range 2 * window {
			time.Sleep(gap)
			_, _ = m.Read(t.Context(), subQuery("h", 1+i%50))
		}
		assert.Equal(t, m.GroupSize(query), m.Costs(query), "the costs are certain")
	})
}

func TestReadsThatFailDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := false
		m := NewMeter(executor.ReaderFunc(func(_ context.Context, q *executor.SubQuery) ([]partition.Result, error) {
			defer q.Settled()
			if fail {
				return nil, errors.New("refused")
			}
			results := found(len(q.Keys))
			results[0].Status = partition.Failed
			return results, nil
		}))
		for range window {
			time.Sleep(gap)
			_, _ = m.Read(t.Context(), subQuery("h", 2))
			fail = !fail
		}
		assert.Zero(t, m.model(kindOf(query)).learned())
		assert.Zero(t, m.GroupSize(query).KeyCost)
	})
}

func TestWhatIsKnownIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMeter(&queue{table: &table{statement: 2 * ms, key: 500 * time.Microsecond, rng: rand.New(rand.NewPCG(1, 2))}})
		assert.Empty(t, m.GroupSizes())
		m.SetBudgets(map[string]time.Duration{"shop.products": 14 * ms})
		for i := range window {
			time.Sleep(gap)
			_, _ = m.Read(t.Context(), subQuery("h", 1+i%20))
		}
		size := m.GroupSize(query)
		assert.InDelta(t, 24, size.Keys, 2)
		assert.Equal(t, map[string]executor.GroupSize{"shop.products": size}, m.GroupSizes())
		require.NoError(t, testutil.CollectAndCompare(m, strings.NewReader(`
# HELP qosproxy_group_size_keys How many keys a group may have by these costs; max_keys_per_group overrides it.
# TYPE qosproxy_group_size_keys gauge
qosproxy_group_size_keys{table="shop.products"} `+strconv.Itoa(size.Keys)+"\n"), "qosproxy_group_size_keys"))
		assert.Equal(t, 3, testutil.CollectAndCount(m))
		m.SetBudgets(map[string]time.Duration{"shop.products": 7 * ms, "shop.other": 7 * ms})
		assert.Equal(t, 3, testutil.CollectAndCount(m), "a table that stays keeps what was learned")
		m.SetBudgets(map[string]time.Duration{"shop.other": 7 * ms})
		assert.Zero(t, testutil.CollectAndCount(m))
	})
}

func TestBudget(t *testing.T) {
	for name, c := range map[string]struct {
		retry     string
		operateAt time.Duration
		want      time.Duration
	}{
		"an eighth of the hedge delay":               {"16ms", 60 * ms, 2 * ms},
		"or of the operating point":                  {"16ms", 8 * ms, ms},
		"the time of a policy with a percentile":     {"MIN(99p,20ms)", 60 * ms, 2500 * time.Microsecond},
		"the usual delay for a percentile alone":     {"99p", 60 * ms, hedge.Fallback / 8},
		"and for a policy that never hedges":         {"NONE", 0, hedge.Fallback / 8},
		"the operating point if nothing else is set": {"ALWAYS", 8 * ms, ms},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := hedge.ParsePolicy(c.retry)
			require.NoError(t, err)
			assert.Equal(t, c.want, Budget(p, c.operateAt))
		})
	}
}
