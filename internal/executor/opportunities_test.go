package executor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"

	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// opportunitiesOf are how many first attempts were counted at each delay.
func opportunitiesOf(e *Executor) (n [len(hedgeDelays)]int) {
	for i, c := range e.metrics.opportunities {
		n[i] = int(testutil.ToFloat64(c))
	}
	return n
}

// TestFirstAttemptsAreCountedAtEachDelayThatTheyOutlast looks when the lookup has ended,
// and again when every host has settled what was outstanding.
func TestFirstAttemptsAreCountedAtEachDelayThatTheyOutlast(t *testing.T) {
	type counts = [len(hedgeDelays)]int
	fails := func(d time.Duration) node {
		return func(time.Duration, int) (time.Duration, error) {
			return d, &ReadError{Reason: ReasonOverloaded, Err: errors.New("scripted")}
		}
	}
	for name, c := range map[string]struct {
		policy       hedge.Policy
		first, other node
		ended, later counts
	}{
		"answered just before the first":    {hedge.Fixed(time.Second), after(5*time.Millisecond - 1), nil, counts{}, counts{}},
		"answered at it":                    {hedge.Fixed(time.Second), after(5 * time.Millisecond), nil, counts{1}, counts{1}},
		"answered late, unhedged":           {hedge.Policy{}, after(40 * time.Millisecond), nil, counts{1, 1, 1, 1}, counts{1, 1, 1, 1}},
		"overtaken, its host answers soon":  {hedge.Fixed(15 * time.Millisecond), after(20 * time.Millisecond), nil, counts{1, 1, 1}, counts{1, 1, 1}},
		"overtaken, its host answers late":  {hedge.Fixed(15 * time.Millisecond), after(40 * time.Millisecond), nil, counts{1, 1, 1}, counts{1, 1, 1, 1}},
		"overtaken, its host never answers": {hedge.Fixed(15 * time.Millisecond), silent(), nil, counts{1, 1, 1}, counts{1, 1, 1}},
		"overtaken early":                   {hedge.Fixed(6 * time.Millisecond), after(30 * time.Millisecond), nil, counts{1}, counts{1, 1, 1, 1}},
		"failed":                            {hedge.Fixed(time.Second), fails(12 * time.Millisecond), after(40 * time.Millisecond), counts{1, 1}, counts{1, 1}},
		"the hedge is slow, and is none":    {hedge.Fixed(time.Millisecond), after(3 * time.Millisecond), after(40 * time.Millisecond), counts{}, counts{}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				usual := c.other
				if usual == nil {
					usual = after(time.Millisecond)
				}
				cluster := newCluster(usual)
				b := newBench(t, newRing(t, 3, 3, 3), cluster, nil)
				b.policy = c.policy
				req := b.request(1)
				plan := b.Plan(req)
				cluster.set(b.ring.Host(plan.Groups[0].Host).ID, c.first)
				b.Execute(t.Context(), plan, func(int, partition.Result) {})
				synctest.Wait()
				assert.Equal(t, c.ended, opportunitiesOf(b.Executor), "when the lookup has ended")
				time.Sleep(100 * time.Millisecond)
				assert.Equal(t, c.later, opportunitiesOf(b.Executor), "when all has settled")
			})
		})
	}
}

// TestDecodingIsNoWaiting has a reader that returns long after its host has answered.
func TestDecodingIsNoWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, newRing(t, 3, 3, 3), newCluster(nil), func(cfg *setup) {
			cfg.Reader = ReaderFunc(func(_ context.Context, q *SubQuery) ([]partition.Result, error) {
				time.Sleep(5*time.Millisecond - 1)
				q.Settled()
				time.Sleep(20 * time.Millisecond)
				return []partition.Result{{Status: partition.Found}}, nil
			})
		})
		b.policy = hedge.Policy{}
		req := b.request(1)
		b.Execute(t.Context(), b.Plan(req), func(int, partition.Result) {})
		assert.Zero(t, opportunitiesOf(b.Executor))
	})
}

func TestHealthTellsWhatWasAskedOfAHostAndWhatWasHedgedAwayFromIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(after(time.Millisecond))
		b := newBench(t, newRing(t, 3, 3, 3), c, nil)
		req := b.request(1)
		plan := b.Plan(req)
		slow := b.ring.Host(plan.Groups[0].Host).Addr
		c.set(b.ring.Host(plan.Groups[0].Host).ID, after(30*time.Millisecond))
		b.Execute(t.Context(), plan, func(int, partition.Result) {})
		var subQueries, hedges int64
		for _, h := range b.Health() {
			subQueries, hedges = subQueries+h.SubQueries, hedges+h.Hedges
			if h.Host.Addr == slow {
				assert.Equal(t, []int64{1, 0, 1}, []int64{h.SubQueries, h.Hedges, h.HedgedAway}, "the slow host")
			} else {
				assert.Zero(t, h.HedgedAway)
			}
		}
		assert.Equal(t, []int64{2, 1}, []int64{subQueries, hedges})
		time.Sleep(100 * time.Millisecond)
	})
}
