package executor

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/qosproxy/qosproxy/internal/hedge"
)

// Hedging is off, so that avoidance alone decides how many lookups wait for a frozen host.
func TestAvoidanceSparesTheLookupsAfterTheFirst(t *testing.T) {
	for name, tt := range map[string]struct {
		avoidance   Avoidance
		least, most int
	}{
		"the default loses the lookups of the moment":            {avoidance: AvoidUnhealthy, most: 15},
		"nothing is avoided: the host is asked until it is full": {avoidance: AvoidNothing, least: 30, most: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(usually(rand.New(rand.NewPCG(5, 6))))
				c.record = false
				c.set("h1", frozen(c.usual, 5*second, 15*second))
				b := newBench(t, newRing(t, 3, 3, 3), c, func(cfg *setup) { cfg.Avoidance = tt.avoidance })
				b.policy = hedge.Policy{}
				all := b.load(20*time.Millisecond, 15*second, 50, 125*time.Millisecond)
				assert.Zero(t, lost(between(all, 0, 4*second)))
				n := lost(between(all, 5*second, 15*second))
				t.Logf("%d lookups lost", n)
				assert.GreaterOrEqual(t, n, tt.least)
				assert.LessOrEqual(t, n, tt.most)
			})
		})
	}
}
