package executor

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/incident"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// A panic while the answer of a host is read ends the lookup: its keys fail, no other
// replica is asked, nothing stays in flight, and the host is not to blame.
func TestAPanicOfTheReaderEndsTheLookup(t *testing.T) {
	for name, read := range map[string]func(*SubQuery) error{
		"in the goroutine of the attempt": func(*SubQuery) error { panic("SECRET") },
		"in a goroutine of the reader": func(q *SubQuery) error {
			q.Settled()
			return &incident.Error{ID: "0123456789ab"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				incidents, err := incident.New(slog.New(slog.NewTextHandler(&out, nil)), nil)
				require.NoError(t, err)
				reads := 0
				b := newBench(t, newRing(t, 3, 3, 1), newCluster(after(time.Millisecond)), func(cfg *setup) {
					cfg.Incidents = incidents
					cfg.Reader = ReaderFunc(func(_ context.Context, q *SubQuery) ([]partition.Result, error) {
						reads++
						return nil, read(q)
					})
				})
				defer b.Close()
				req := b.request(1)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				begin := time.Now()
				var got partition.Result
				stats := b.Execute(ctx, b.Plan(req), func(_ int, res partition.Result) { got = res })
				synctest.Wait()
				var failed *incident.Error
				require.ErrorAs(t, stats.Err, &failed)
				assert.Equal(t, partition.Failed, got.Status)
				assert.Equal(t, error(failed), got.Err)
				assert.Zero(t, time.Since(begin), "it does not wait for the deadline")
				assert.Equal(t, 1, reads, "no other replica is asked")
				for _, h := range b.Health() {
					assert.Zero(t, h.InflightKeys, "settled")
					assert.Equal(t, Healthy, h.State, "the host is not to blame")
				}
				assert.NotContains(t, out.String(), "SECRET")
			})
		})
	}
}

// TestAPanicIsSeenAfterTheDeadline has the caller be busy with an answer from before a panic until
// the deadline has passed.
func TestAPanicIsSeenAfterTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		incidents, err := incident.New(slog.New(slog.DiscardHandler), nil)
		require.NoError(t, err)
		c := newCluster(after(time.Millisecond))
		b := newBench(t, newRing(t, 2, 1, 1), c, func(cfg *setup) {
			cfg.Incidents = incidents
			cfg.Reader = c.but("h1", func(context.Context, *SubQuery) ([]partition.Result, error) {
				time.Sleep(5 * time.Millisecond)
				panic("on purpose")
			})
		})
		defer b.Close()
		req := b.request(20)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		statuses := map[partition.Status]int{}
		stats := b.Execute(ctx, b.Plan(req), func(_ int, res partition.Result) {
			if statuses[res.Status]++; res.Status == partition.Found {
				time.Sleep(60*time.Millisecond - time.Since(c.begin))
			}
		})
		require.Error(t, stats.Err)
		assert.Positive(t, statuses[partition.Found])
		assert.Equal(t, 20-statuses[partition.Found], statuses[partition.Failed], "not TIMED_OUT")
		synctest.Wait()
	})
}

func TestAPanicOfAProbeEndsTheProbe(t *testing.T) {
	b := newBench(t, newRing(t, 1, 1, 1), newCluster(after(0)), nil)
	require.True(t, b.spawn(func() { panic("a probe") }))
	b.Close()
}
