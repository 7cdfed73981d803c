package executor

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/partition"
)

// queueing lets two reads of each host be in-flight, while others wait. A read that leaves
// the queue unsent is settled if lies is set.
type queueing struct {
	Reader
	lies   bool
	mu     sync.Mutex
	slots  map[string]chan struct{}
	unsent int
}

func (w *queueing) Read(ctx context.Context, q *SubQuery) ([]partition.Result, error) {
	w.mu.Lock()
	slots := w.slots[q.Host.ID]
	if slots == nil {
		slots = make(chan struct{}, 2)
		w.slots[q.Host.ID] = slots
	}
	w.mu.Unlock()
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		w.mu.Lock()
		w.unsent++
		w.mu.Unlock()
		if w.lies {
			q.Settled()
			return nil, context.Cause(ctx)
		}
		return nil, ErrUnsent
	}
	sent := *q
	sent.Settled = func() {
		<-slots
		q.Settled()
	}
	return w.Reader.Read(ctx, &sent)
}

// A frozen host is found to have stalled by what it has not answered, however many reads
// wait for it and leave.
func TestAQueueHidesNoStall(t *testing.T) {
	found := func(t *testing.T, queue, lies bool) (took time.Duration) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(usually(rand.New(rand.NewPCG(5, 6))))
			c.record = false
			c.set("h1", frozen(c.usual, second, 2*second))
			w := &queueing{Reader: c, slots: map[string]chan struct{}{}, lies: lies}
			b := newBench(t, newRing(t, 3, 3, 3), c, func(cfg *setup) {
				if queue {
					cfg.Reader = w
				}
			})
			var all sync.WaitGroup
			all.Go(func() {
				time.Sleep(second)
				v := b.view(b.ring)
				h1, _ := b.ring.Index("h1")
				for ; took < second; took += time.Millisecond {
					if b.stalled(v, v.hosts[h1], b.now()) {
						return
					}
					time.Sleep(time.Millisecond)
				}
			})
			lookups := b.load(time.Millisecond, second+500*time.Millisecond, 50, 125*time.Millisecond)
			all.Wait()
			assert.Zero(t, lost(lookups))
			time.Sleep(2 * second)
			if queue {
				w.mu.Lock()
				require.NotZero(t, w.unsent)
				w.mu.Unlock()
			}
			for _, h := range b.Health() {
				assert.Zero(t, h.InflightKeys, "what was not sent is not outstanding")
				assert.Zero(t, h.InflightSubQueries)
			}
		})
		return took
	}
	direct, queued, control := found(t, false, false), found(t, true, false), found(t, true, true)
	t.Logf("found to have stalled after %v, with a queue %v, with a queue that settles what it did not send %v", direct, queued, control)
	assert.LessOrEqual(t, queued, direct+2*time.Millisecond)
	assert.Greater(t, control, direct+5*time.Millisecond)
}
