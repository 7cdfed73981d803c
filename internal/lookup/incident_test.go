package lookup_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/incident"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// explosive panics on reads of the key bad, in the goroutine of the attempt.
func explosive(_ context.Context, _ int, q *executor.SubQuery) ([]partition.Result, error) {
	for _, k := range q.Keys {
		if string(k.Routing()) == "bad" {
			panic("SECRET")
		}
	}
	return nil, nil
}

func (c *concurrent) table() *lookup.Table {
	table, err := c.service.Table("shop", "products")
	require.NoError(c.t, err)
	return table
}

func TestAPanicOfAReaderEndsItsLookupAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newConcurrent(t)
		c.fault = explosive
		// This lookup waits for a good key, which a lookup with a bad one is reading.
		c.all.Go(func() {
			_, err := c.service.Get(t.Context(), &lookup.Request{Table: c.table(), Keys: keys(t, "bad", "a")})
			var failed *incident.Error
			assert.ErrorAs(t, err, &failed)
			assert.NotContains(t, err.Error(), "SECRET")
		})
		other := c.at(1*ms, lookup.Request{}, "a", "b")
		c.wait()
		assert.Equal(t, []partition.Status{found, found}, other.statuses(), "others read for themselves what they waited for")
		assert.LessOrEqual(t, c.count("bad"), 1, "no other replica is asked for what panics")

		again, err := c.service.Get(t.Context(), &lookup.Request{Table: c.table(), Keys: keys(t, "a")})
		require.NoError(t, err)
		assert.Equal(t, found, again.Results[0].Status)
	})
}

func TestAPanicOfAReaderEndsAStream(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newConcurrent(t)
		c.fault = explosive
		_, err := c.service.Stream(t.Context(), &lookup.Request{Table: c.table(), Keys: keys(t, "bad", "a")}, func(int, partition.Result) error { return nil })
		var failed *incident.Error
		require.ErrorAs(t, err, &failed)
	})
}

// A lookup that waits for the read of another reads its own keys in a goroutine.
func TestAPanicBesideAWaitEndsTheLookup(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newConcurrent(t)
		c.fault = explosive
		first := c.at(0, lookup.Request{}, "a")
		c.all.Go(func() {
			time.Sleep(1 * ms)
			_, err := c.service.Get(t.Context(), &lookup.Request{Table: c.table(), Keys: keys(t, "a", "bad")})
			var failed *incident.Error
			assert.ErrorAs(t, err, &failed)
		})
		c.wait()
		assert.Equal(t, []partition.Status{found}, first.statuses())
	})
}

// The goroutine of a stream also recovers from panics outside a reader.
func TestAPanicInTheGoroutineOfAStreamEndsTheStream(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newConcurrent(t)
		var out bytes.Buffer
		incidents, err := incident.New(slog.New(slog.NewTextHandler(&out, nil)), nil)
		require.NoError(t, err)
		table := c.table()
		service := lookup.New(lookup.Config{
			Executor: c.executor, Schema: func() *schema.Schema { return c.schema },
			Ring: func() *ring.Ring { panic("the ring") }, Incidents: incidents,
		})
		_, err = service.Stream(t.Context(), &lookup.Request{Table: table, Keys: keys(t, "a")}, func(int, partition.Result) error { return nil })
		var failed *incident.Error
		require.ErrorAs(t, err, &failed)
		assert.Contains(t, out.String(), failed.ID)
	})
}
