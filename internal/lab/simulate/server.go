package simulate

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// servers are the nodes of a simulated cluster, as the executor's reader. What a
// node was sent it works off, even if nobody waits for the answer any more: CQL
// has no cancel.
type servers struct {
	begin time.Time
	// serve says when the answer of a node to a sub-query arrives, after begin.
	serve map[string]serving

	mu sync.Mutex
	// keys and subQueries count all work that nodes were sent.
	keys, subQueries int64
}

// serving is how one node answers: it returns when the answer to keys that were
// sent at a moment arrives. It is called by one goroutine at a time.
type serving func(sent time.Duration, keys []uint64) time.Duration

// newServers returns the servers, which answer from now on.
func newServers(serve map[string]serving) *servers {
	return &servers{begin: time.Now(), serve: serve}
}

// Read answers each key with Found and no rows when the node is done.
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

// accept hands a sub-query to its node and returns in how long it is answered.
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
