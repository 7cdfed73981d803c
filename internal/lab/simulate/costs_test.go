package simulate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestGroupSizes(t *testing.T) {
	clusters := []Cluster{
		// One node that limps for a second decides the p99.9 of its draw.
		{Nodes: 6, Load: 0.5, Lookups: 20_000, Draws: 3, Keys: inMemory},
		{Nodes: 12, Load: 0.5, Lookups: 5_000, Draws: 1, Keys: expensive},
	}
	if long() {
		clusters = nil
		for _, nodes := range []int{6, 12} {
			for _, k := range []KeyCost{inMemory, usual, expensive} {
				for _, load := range []float64{0.3, 0.5, 0.7} {
					c := Cluster{Nodes: nodes, Load: load, Lookups: 10_000, Draws: 4, Keys: k}
					if k == inMemory {
						c.Lookups = 40_000 // as they take less time
					}
					clusters = append(clusters, c)
				}
			}
		}
	}
	r, err := GroupSizes(options(t, "make bench-tail"), clusters, virtual(t))
	require.NoError(t, err)
	write(t, r)
	if long() {
		return
	}
	require.Len(t, r.Findings, 4)
	for i, f := range r.Findings {
		if i != 2 { // the p99.9 of expensive keys is five lookups, and differs twofold with the same sizes
			assert.True(t, f.Holds, "%s: %s", f.Claim, f.Seen)
		}
	}
	require.Len(t, r.Runs, 4)
	assert.Less(t, r.Runs[3].Rounds[0].Latency.P99, 1.2*r.Runs[2].Rounds[0].Latency.P99, "expensive keys")
}

func TestSizesDoNotFollowTheLoad(t *testing.T) {
	o := options(t, "make bench-tail")
	for name, c := range map[string]struct {
		keys KeyCost
		// least is of all phases.
		least int
	}{"cheap": {inMemory, 15}, "usual": {usual, 0}, "expensive": {expensive, 0}} {
		t.Run(name, func(t *testing.T) {
			phases, changes, err := changingLoad(o.Seed, c.keys, []float64{0.3, 0.7, 0.3, 1.3, 0.3, 0.7}, 8*time.Second, virtual(t))
			require.NoError(t, err)
			for _, p := range phases {
				t.Logf("load %.0f %%: groups of %d to %d", 100*p.load, p.least, p.most)
				assert.GreaterOrEqual(t, p.least, c.least)
				if c.least == 0 {
					assert.Zero(t, p.most, "left to the planner")
				}
			}
			assert.LessOrEqual(t, changes, 4)
		})
	}
}
