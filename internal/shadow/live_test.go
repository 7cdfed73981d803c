package shadow_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/shadow"
)

// service answers lookups with a Path; the rest of it is nil.
type service struct {
	shadow.Lookups
	path shadow.Path
}

func (s service) Get(ctx context.Context, req *lookup.Request) (*lookup.Response, error) {
	a, err := s.path.Read(ctx, req)
	if err != nil {
		return nil, err
	}
	return &lookup.Response{Results: a.Results}, nil
}

func (s service) Stream(ctx context.Context, req *lookup.Request, emit func(int, partition.Result) error) (lookup.Stats, error) {
	a, err := s.path.Read(ctx, req)
	if err != nil {
		return lookup.Stats{}, err
	}
	for i, r := range a.Results {
		if err := emit(i, r); err != nil {
			return lookup.Stats{}, err
		}
	}
	return lookup.Stats{}, nil
}

// live samples every lookup of proxy until the test ends.
func live(t *testing.T, cfg shadow.LiveConfig, proxy shadow.Path) (*shadow.Live, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	cfg.Registerer = registry
	l, err := shadow.NewLive(service{path: proxy}, cfg)
	require.NoError(t, err)
	l.SetTables([][2]string{{"shop", "events"}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return l, registry
}

func counted(t *testing.T, registry *prometheus.Registry, lines string) {
	t.Helper()
	assert.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP qosproxy_shadow_lookups_total Sampled lookups that the plain driver repeats, by what the comparison has found.
# TYPE qosproxy_shadow_lookups_total counter
`+lines), "qosproxy_shadow_lookups_total"))
}

func TestLiveLookupsAreCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		wrong := store(func(k string, r *partition.Result) {
			if k == "k2" {
				r.Rows[0][2] = []byte("secret")
			}
		})
		l, registry := live(t, shadow.LiveConfig{Sample: 1, Driver: store(nil), Log: slog.New(slog.NewTextHandler(&log, nil))}, wrong)
		for range 3 {
			_, err := l.Get(t.Context(), request(t, 3))
			require.NoError(t, err)
			_, err = l.Stream(t.Context(), request(t, 2), func(int, partition.Result) error { return nil })
			require.NoError(t, err)
			time.Sleep(time.Second)
		}
		paged := request(t, 1)
		paged.Paging = true
		_, err := l.Get(t.Context(), paged)
		require.NoError(t, err)
		synctest.Wait()
		counted(t, registry, `qosproxy_shadow_lookups_total{outcome="different",table="shop.events"} 3
qosproxy_shadow_lookups_total{outcome="same",table="shop.events"} 3
qosproxy_shadow_lookups_total{outcome="skipped",table="shop.events"} 1
`)
		assert.Equal(t, shadow.Status{Sample: 1, Compared: 6, Different: 3}, l.Status())
		assert.Equal(t, 1, strings.Count(log.String(), "\n"), "one record in ten seconds: %s", log.String())
		assert.Contains(t, log.String(), "kind=cell column=v token=")
		assert.NotContains(t, log.String(), "k2", "no key")
		assert.NotContains(t, log.String(), "secret", "no value")
	})
}

func TestALiveLookupWaitsForNoComparison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, registry := live(t, shadow.LiveConfig{Sample: 1, Driver: slow(store(nil), time.Hour)}, store(nil))
		start := time.Now()
		for range 100 {
			_, err := l.Get(t.Context(), request(t, 3))
			require.NoError(t, err)
			synctest.Wait()
		}
		assert.Zero(t, time.Since(start))
		// One is being read and eight wait.
		counted(t, registry, "qosproxy_shadow_lookups_total{outcome=\"dropped\",table=\"shop.events\"} 91\n")
	})
}

func TestAllThatALookupHoldsCounts(t *testing.T) {
	long, err := partition.NewKey(bytes.Repeat([]byte("k"), 60<<10))
	require.NoError(t, err)
	nulls := store(func(_ string, r *partition.Result) {
		r.Rows = slices.Repeat([]partition.Row{make(partition.Row, 4)}, 100_000)
	})
	for name, c := range map[string]struct {
		keys  []partition.Key
		proxy shadow.Path
	}{
		"12 MB of rows of nulls": {request(t, 1).Keys, nulls},
		"12 MB of keys":          {slices.Repeat([]partition.Key{long}, 200), store(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, registry := live(t, shadow.LiveConfig{Sample: 1, Driver: slow(store(nil), time.Hour)}, c.proxy)
				for range 3 {
					_, err := l.Get(t.Context(), &lookup.Request{Table: events(), Keys: c.keys})
					require.NoError(t, err)
					synctest.Wait()
				}
				// One is being read, and one waits.
				counted(t, registry, "qosproxy_shadow_lookups_total{outcome=\"dropped\",table=\"shop.events\"} 1\n")
			})
		})
	}
}

func TestADriverThatFailsIsNoDifference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failing := shadow.PathFunc(func(context.Context, *lookup.Request) (*shadow.Answer, error) { return nil, context.DeadlineExceeded })
		l, registry := live(t, shadow.LiveConfig{Sample: 1, Driver: failing}, store(nil))
		_, err := l.Get(t.Context(), request(t, 3))
		require.NoError(t, err)
		synctest.Wait()
		counted(t, registry, "qosproxy_shadow_lookups_total{outcome=\"failed\",table=\"shop.events\"} 1\n")
		assert.Equal(t, shadow.Status{Sample: 1, Failed: 1}, l.Status())
	})
}

func TestARemovedTableHasNoSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wrong := store(func(_ string, r *partition.Result) { r.Rows = r.Rows[1:] })
		l, registry := live(t, shadow.LiveConfig{Sample: 1, Driver: slow(store(nil), time.Minute)}, wrong)
		series := func(tables ...[2]string) int {
			_, err := l.Get(t.Context(), request(t, 1))
			require.NoError(t, err)
			l.SetTables(tables)
			time.Sleep(time.Hour)
			n, err := testutil.GatherAndCount(registry, "qosproxy_shadow_lookups_total", "qosproxy_shadow_differences_total")
			require.NoError(t, err)
			return n
		}
		events, other := [2]string{"shop", "events"}, [2]string{"shop", "other"}
		assert.Equal(t, 2, series(events, other))
		assert.Zero(t, series(other), "a comparison that ends later does not bring them back")
	})
}

func TestASampleIsAShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := live(t, shadow.LiveConfig{Sample: 0.1, Driver: store(nil)}, store(nil))
		for range 2000 {
			_, err := l.Get(t.Context(), request(t, 1))
			require.NoError(t, err)
			synctest.Wait()
		}
		assert.InDelta(t, 200, l.Status().Compared, 80)
	})
}

func TestAPanicOfAComparisonEndsItAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		panicking := shadow.PathFunc(func(ctx context.Context, req *lookup.Request) (*shadow.Answer, error) {
			if calls++; calls == 1 {
				panic("driver")
			}
			return store(nil)(ctx, req)
		})
		l, _ := live(t, shadow.LiveConfig{Sample: 1, Driver: panicking}, store(nil))
		for range 2 {
			_, err := l.Get(t.Context(), request(t, 1))
			require.NoError(t, err)
			synctest.Wait()
		}
		assert.Equal(t, int64(1), l.Status().Compared)
	})
}
