package devcluster

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestRingTokens checks for every cluster that each node has its number of tokens, no token occurs
// twice, and none is the smallest int64, which Cassandra does not allow.
func TestRingTokens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var nodes []NodeConfig
		for range rapid.IntRange(1, 8).Draw(t, "nodes") {
			nodes = append(nodes, NodeConfig{
				DC:        rapid.SampledFrom([]string{"dc1", "dc2"}).Draw(t, "dc"),
				NumTokens: rapid.IntRange(1, 64).Draw(t, "tokens"),
				NoJoin:    rapid.Bool().Draw(t, "nojoin"),
			})
		}
		random := rapid.Bool().Draw(t, "random")
		tokens := ringTokens(nodes, random)
		require.Len(t, tokens, len(nodes))
		seen := make(map[int64]bool)
		for i, own := range tokens {
			require.Len(t, own, joiningTokens(nodes[i]))
			for _, token := range own {
				require.False(t, seen[token], "token %d twice", token)
				require.NotEqual(t, int64(math.MinInt64), token)
				seen[token] = true
			}
		}
		require.Equal(t, tokens, ringTokens(nodes, random), "the same ring in every run")
	})
}

func TestRingTokensAreEvenUnlessRandom(t *testing.T) {
	nodes := Racks("dc1", "r1", "r1", "r2", "r2", "r3", "r3")
	for i := range nodes {
		nodes[i].NumTokens = 16
	}
	assert.Less(t, spread(ringTokens(nodes, false)), 1.25)
	assert.Greater(t, spread(ringTokens(nodes, true)), 1.25, "a spread that random tokens meet as well proves nothing")
}

func TestRingTokensMixTheNeighbours(t *testing.T) {
	nodes := Racks("dc1", "r1", "r2", "r3")
	for i := range nodes {
		nodes[i].NumTokens = 64
	}
	owner := make(map[int64]int)
	var ring []int64
	for node, own := range ringTokens(nodes, false) {
		for _, token := range own {
			owner[token] = node
			ring = append(ring, token)
		}
	}
	slices.Sort(ring)
	pairs := make(map[[2]int]int)
	for i := range ring {
		pairs[[2]int{owner[ring[i]], owner[ring[(i+1)%len(ring)]]}]++
	}
	assert.GreaterOrEqual(t, len(pairs), 6, "each node follows each other one somewhere")
}

// TestSplitTokens checks for every ring that new tokens are unique and no range gets wider.
func TestSplitTokens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ring := rapid.SliceOfNDistinct(rapid.Int64Min(math.MinInt64+1), 1, 50, rapid.ID).Draw(t, "ring")
		count := rapid.IntRange(0, 40).Draw(t, "count")
		added := splitTokens(ring, count)
		require.Len(t, added, count)
		all := slices.Concat(ring, added)
		slices.Sort(all)
		require.Len(t, slices.Compact(slices.Clone(all)), len(all), "no token twice")
		require.Greater(t, all[0], int64(math.MinInt64))
		if count > 0 {
			require.LessOrEqual(t, widest(all), widest(ring))
		}
	})
}

func TestSplitTokensHalvesTheWidestRange(t *testing.T) {
	quarter := int64(1) << 62
	assert.Equal(t, []int64{0}, splitTokens([]int64{-quarter, quarter, quarter + 1000}, 1))
	assert.Equal(t, []int64{math.MinInt64 + 1}, splitTokens([]int64{-quarter, 0, quarter}, 1), "around the end of the ring")
}

func widest(ring []int64) uint64 {
	ring = slices.Sorted(slices.Values(ring))
	var most uint64
	for i := range ring {
		gap := uint64(ring[(i+1)%len(ring)]) - uint64(ring[i])
		if gap == 0 {
			gap = math.MaxUint64
		}
		most = max(most, gap)
	}
	return most
}

// spread returns the ratio of the largest share of the ring to the smallest.
func spread(tokens [][]int64) float64 {
	var ring []int64
	owner := make(map[int64]int)
	for node, own := range tokens {
		for _, token := range own {
			ring = append(ring, token)
			owner[token] = node
		}
	}
	slices.Sort(ring)
	share := make([]float64, len(tokens))
	for i, token := range ring {
		before := ring[(i+len(ring)-1)%len(ring)]
		share[owner[token]] += float64(uint64(token) - uint64(before))
	}
	return slices.Max(share) / slices.Min(share)
}
