package merge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/planner"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// Lookups whose sub-queries share reads at one host, which then fails, panics or never answers:
// each is asked of the other replicas, as it would be by itself.
func TestLookupsSurviveASharedRead(t *testing.T) {
	const lookups = 20
	for name, tt := range map[string]struct {
		end    func(ctx context.Context) error
		within time.Duration
		broken bool
	}{
		"that fails": {end: func(context.Context) error {
			return &executor.ReadError{Reason: executor.ReasonTimeout, Err: errors.New("gave up")}
		}, within: 20 * time.Millisecond},
		"that hangs": {end: func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}, within: 40 * time.Millisecond},
		"that panics": {end: func(context.Context) error { panic("a bug") }, within: 20 * time.Millisecond, broken: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hosts := make([]ring.Host, 3)
				for i := range hosts {
					hosts[i] = ring.Host{ID: fmt.Sprint("h", i), Addr: fmt.Sprint("a", i), DC: "d", Rack: fmt.Sprint("r", i), Tokens: []int64{int64(i)}}
				}
				r, err := ring.New(ring.Topology{LocalDC: "d", Hosts: hosts})
				require.NoError(t, err)
				var largest atomic.Int64
				node := executor.ReaderFunc(func(ctx context.Context, q *executor.SubQuery) ([]partition.Result, error) {
					time.Sleep(2 * time.Millisecond)
					if q.Host.ID == "h0" && len(q.Keys) > 1 {
						largest.Store(max(largest.Load(), int64(len(q.Keys))))
						err := tt.end(ctx)
						q.Settled()
						return nil, err
					}
					q.Settled()
					return answer(q), nil
				})
				reader, err := New(Config{Reader: node, Costs: costs})
				require.NoError(t, err)
				known := &executor.SubQuery{Query: newQuery(), Host: hosts[0], Keys: []partition.Key{newKey(0)}, Settled: func() {}}
				_, err = reader.Read(t.Context(), known)
				require.NoError(t, err)
				e := executor.New(executor.Config{Reader: reader, Ring: func() *ring.Ring { return r }})
				defer e.Close()
				var all sync.WaitGroup
				for i := range lookups {
					req := &executor.Request{Input: planner.Input{Grouping: planner.Owner}, Query: newQuery(), Ring: r,
						Policy: hedge.Fixed(15 * time.Millisecond), Table: e.Table("ks.t", 1)}
					// The first asks one key, which is answered, and the others wait for that.
					for k := range min(i+1, 5) {
						req.Keys = append(req.Keys, newKey(100*i+k))
						req.Replicas = append(req.Replicas, []ring.HostIndex{0, 1, 2})
						req.Ranges = append(req.Ranges, 0)
					}
					all.Go(func() {
						ctx, cancel := context.WithTimeout(as(t.Context(), identity.Batch), 100*time.Millisecond)
						defer cancel()
						start := time.Now()
						results := make([]partition.Result, len(req.Keys))
						stats := e.Execute(ctx, e.Plan(req), func(k int, res partition.Result) { results[k] = res })
						assert.Less(t, time.Since(start), tt.within)
						if tt.broken && i > 0 {
							require.Error(t, stats.Err)
							return
						}
						for k, res := range results {
							assert.Equal(t, found(req.Keys[k]), res)
						}
					})
					synctest.Wait()
				}
				all.Wait()
				assert.Greater(t, largest.Load(), int64(20), "they shared a read")
				time.Sleep(time.Second)
				for _, h := range e.Health() {
					assert.Zero(t, h.InflightKeys)
				}
			})
		})
	}
}
