package merge

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
)

func instant(tb testing.TB) *Reader {
	tb.Helper()
	results := make([]partition.Result, 16*10)
	r, err := New(Config{Costs: costs, Reader: executor.ReaderFunc(
		func(_ context.Context, q *executor.SubQuery) ([]partition.Result, error) {
			q.Settled()
			return results[:len(q.Keys)], nil
		})})
	require.NoError(tb, err)
	r.SetTables([][2]string{{"ks", "t"}})
	return r
}

func benchQuery(keys int) *executor.SubQuery {
	q := &executor.SubQuery{Query: newQuery(), Host: ring.Host{ID: "h"}, Settled: func() {}}
	for k := range keys {
		q.Keys = append(q.Keys, newKey(k))
	}
	return q
}

// BenchmarkIdle measures what the reader adds to a sub-query that need not wait.
func BenchmarkIdle(b *testing.B) {
	r, q, ctx := instant(b), benchQuery(25), b.Context()
	b.ReportAllocs()
	for b.Loop() {
		_, _ = r.Read(ctx, q)
	}
}

// BenchmarkSixteenCallers measures sixteen callers of one host.
func BenchmarkSixteenCallers(b *testing.B) {
	r := instant(b)
	b.ReportAllocs()
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			q := benchQuery(10)
			for range b.N/16 + 1 {
				_, _ = r.Read(b.Context(), q)
			}
		})
	}
	all.Wait()
}
