package planner

import (
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/qosproxy/qosproxy/internal/ring"
)

// testRing is a ring of evenly racked hosts with random tokens, placed as
// NetworkTopologyStrategy does in one datacenter.
type testRing struct {
	hosts    int
	tokens   []uint64
	replicas [][]ring.HostIndex
	rack     []int
}

func newTestRing(hosts, vnodes, rf, racks int, rng *rand.Rand) *testRing {
	r := &testRing{hosts: hosts, rack: make([]int, hosts)}
	owner := map[uint64]int{}
	for h := range hosts {
		r.rack[h] = h % racks
		for range vnodes {
			t := rng.Uint64()
			owner[t] = h
			r.tokens = append(r.tokens, t)
		}
	}
	slices.Sort(r.tokens)
	for i := range r.tokens {
		r.replicas = append(r.replicas, r.place(i, min(rf, hosts), racks, owner))
	}
	return r
}

// place walks the ring from a token: each rack once, then hosts that were passed
// over, in ring order.
func (r *testRing) place(i, rf, racks int, owner map[uint64]int) []ring.HostIndex {
	var out, passed []ring.HostIndex
	seen := map[int]bool{}
	for j := 0; j < len(r.tokens) && len(out) < rf; j++ {
		h := owner[r.tokens[(i+j)%len(r.tokens)]]
		x := ring.HostIndex(h)
		switch {
		case slices.Contains(out, x) || slices.Contains(passed, x):
		case !seen[r.rack[h]]:
			seen[r.rack[h]] = true
			out = append(out, x)
			if len(seen) == racks {
				out = append(out, passed[:min(len(passed), rf-len(out))]...)
				passed = nil
			}
		case len(seen) == racks:
			out = append(out, x)
		default:
			passed = append(passed, x)
		}
	}
	return out
}

// lookup draws the replicas and ranges of random keys into the input.
func (r *testRing) lookup(in *Input, keys int, rng *rand.Rand) {
	in.Hosts = r.hosts
	in.Replicas, in.Ranges = in.Replicas[:0], in.Ranges[:0]
	for range keys {
		t := rng.Uint64()
		i := sort.Search(len(r.tokens), func(i int) bool { return r.tokens[i] >= t }) % len(r.tokens)
		in.Replicas = append(in.Replicas, r.replicas[i])
		in.Ranges = append(in.Ranges, int32(i))
	}
}

func largest(p Plan) int {
	n := 0
	for _, g := range p.Groups {
		n = max(n, len(g.Keys))
	}
	return n
}
