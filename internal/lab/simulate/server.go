package simulate

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// servers are the nodes of a simulated cluster, as a reader for the executor. A node finishes all
// work that it was sent, even if nobody waits for the answer any more: CQL has no cancellation.
type servers struct {
	begin time.Time
	// serve has, by host id, the function that returns when the answer to a sub-query arrives, since
	// begin.
	serve map[string]serving

	mu sync.Mutex
	// keys and subQueries count all work sent to nodes.
	keys, subQueries int64
}

// serving models how one node answers: it returns when the answer to keys sent at a moment arrives.
// It is called by one goroutine at a time.
type serving func(sent time.Duration, keys []uint64) time.Duration

// newServers returns servers whose time begins now.
func newServers(serve map[string]serving) *servers {
	return &servers{begin: time.Now(), serve: serve}
}

// Read answers each key with Found and no rows when the node has finished, or fails when ctx ends
// before.
func (s *servers) Read(ctx context.Context, q *executor.SubQuery) ([]partition.Result, error) {
	took := s.accept(q)
	timer := time.NewTimer(took)
	start := time.Now()
	select {
	case <-timer.C:
		q.Settled()
	case <-ctx.Done():
		timer.Stop()
		time.AfterFunc(took-time.Since(start), q.Settled)
		return nil, context.Cause(ctx)
	}
	results := make([]partition.Result, len(q.Keys))
	for i := range results {
		results[i].Status = partition.Found
	}
	return results, nil
}

// accept passes a sub-query to its node and returns how long the answer takes.
func (s *servers) accept(q *executor.SubQuery) time.Duration {
	keys := make([]uint64, len(q.Keys))
	for i, k := range q.Keys {
		keys[i] = binary.BigEndian.Uint64(k.Routing())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys += int64(len(keys))
	s.subQueries++
	now := time.Since(s.begin)
	return s.serve[q.Host.ID](now, keys) - now
}
