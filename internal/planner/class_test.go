package planner

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
)

// statements counts the statements of a plan if keys of one host and class share one.
func statements(p Plan, class []int32) int {
	n := 0
	for _, g := range p.Groups {
		seen := map[int32]bool{}
		for _, k := range g.Keys {
			seen[class[k]] = true
		}
		n += len(seen)
	}
	return n
}

// TestKeysOfAClassStayTogether counts statements for 50 keys of several tenants.
func TestKeysOfAClassStayTogether(t *testing.T) {
	for _, c := range []struct {
		hosts, cap, tenants int
		saved               float64
	}{
		{6, 0, 1, 0}, {6, 0, 5, 0.25}, {6, 0, 25, 0.18},
		{6, 25, 1, 0}, {6, 25, 5, 0.1}, {6, 25, 25, 0.05},
		{6, -1, 1, 0}, {6, -1, 5, 0}, {6, -1, 25, 0},
		{12, 0, 1, 0}, {12, 0, 5, 0.07}, {12, 0, 25, 0.03},
	} {
		var without, with, groups, groupsWith, largestWith float64
		const rings, lookups = 6, 300
		for n := range rings {
			rng := rand.New(rand.NewPCG(uint64(n), 7))
			r := newTestRing(c.hosts, 16, 3, 3, rng)
			var in Input
			class := make([]int32, 50)
			for range lookups {
				in.Cap = c.cap
				r.lookup(&in, 50, rng)
				in.Seed = rng.Uint64()
				for k := range class {
					class[k] = rng.Int32N(int32(c.tenants))
				}
				in.Class = nil
				p := Make(&in)
				without += float64(statements(p, class)) / rings / lookups
				groups += float64(len(p.Groups)) / rings / lookups
				in.Class = class
				p = Make(&in)
				with += float64(statements(p, class)) / rings / lookups
				groupsWith += float64(len(p.Groups)) / rings / lookups
				largestWith += float64(largest(p)) / rings / lookups
			}
		}
		t.Logf("%2d hosts, cap %2d, %2d tenants: statements %.1f, with classes %.1f; groups %.1f, %.1f; largest %.1f",
			c.hosts, c.cap, c.tenants, without, with, groups, groupsWith, largestWith)
		assert.LessOrEqual(t, with, (1-c.saved)*without+0.01)
	}
}
