package devcluster

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// tokenSeed makes the ring of a configuration the same in every run, so that a
// test that fails on some placement fails again.
const tokenSeed = 0x716f73

// ringTokens chooses the tokens of the nodes of a new cluster; a node that does not join gets none.
// Cassandra's own allocator needs the earlier nodes to have joined; choosing the tokens here lets
// all nodes start at once.
//
// Each datacenter is spread over the whole ring by itself. The ring is cut into as many equal slots
// as the datacenter has vnodes, and a node's i-th token falls at a random place in its i-th share
// of the slots. So loads are even while neighbours vary, as on a ring that has grown.
func ringTokens(nodes []NodeConfig, random bool) [][]int64 {
	rng := rand.New(rand.NewPCG(tokenSeed, uint64(len(nodes))))
	tokens := make([][]int64, len(nodes))
	taken := make(map[int64]bool)
	add := func(node int, token int64) {
		for taken[token] || token == math.MinInt64 {
			token++
		}
		taken[token] = true
		tokens[node] = append(tokens[node], token)
	}
	if random {
		for i, node := range nodes {
			for range joiningTokens(node) {
				add(i, int64(rng.Uint64()))
			}
		}
		return tokens
	}
	for _, slots := range slotsByDC(nodes, rng) {
		width := math.MaxUint64/uint64(len(slots)) + 1
		for rank, node := range slots {
			// A jitter of up to half a slot keeps ranges from all having one size.
			offset := uint64(rank)*width + rng.Uint64N(width/2+1)
			add(node, int64(offset^(1<<63)))
		}
	}
	return tokens
}

// slotsByDC returns the node that owns each slot of the ring, for each datacenter in order of first
// mention.
func slotsByDC(nodes []NodeConfig, rng *rand.Rand) [][]int {
	type place struct {
		at   float64
		node int
	}
	var dcs []string
	places := make(map[string][]place)
	for i, node := range nodes {
		count := joiningTokens(node)
		if count > 0 && !slices.Contains(dcs, node.DC) {
			dcs = append(dcs, node.DC)
		}
		for vnode := range count {
			at := (float64(vnode) + rng.Float64()) / float64(count)
			places[node.DC] = append(places[node.DC], place{at, i})
		}
	}
	slots := make([][]int, len(dcs))
	for d, dc := range dcs {
		slices.SortFunc(places[dc], func(a, b place) int { return cmp.Compare(a.at, b.at) })
		for _, p := range places[dc] {
			slots[d] = append(slots[d], p.node)
		}
	}
	return slots
}

func joiningTokens(node NodeConfig) int {
	if node.NoJoin {
		return 0
	}
	return node.NumTokens
}

// splitTokens chooses the tokens of a node that joins a ring with the given tokens. Each halves the
// range that is widest at that point.
func splitTokens(ring []int64, count int) []int64 {
	ring = slices.Clone(ring)
	slices.Sort(ring)
	chosen := make([]int64, 0, count)
	for range count {
		at, width := 0, uint64(0)
		for i := range ring {
			// Unsigned subtraction is right across the end of the ring as well. The only token of a ring
			// owns all of it, which wraps to width 0.
			gap := uint64(ring[(i+1)%len(ring)]) - uint64(ring[i])
			if gap == 0 {
				gap = math.MaxUint64
			}
			if gap > width {
				at, width = i, gap
			}
		}
		token := int64(uint64(ring[at]) + width/2)
		if token == math.MinInt64 {
			token++
		}
		chosen = append(chosen, token)
		ring = append(ring, token)
		slices.Sort(ring)
	}
	return chosen
}
