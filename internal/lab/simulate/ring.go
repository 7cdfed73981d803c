package simulate

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/qosproxy/qosproxy/internal/ring"
)

// replicas is the replication factor of every simulated keyspace.
const replicas = 3

// keyspace is the name of the simulated keyspace.
const keyspace = "simulated"

// choice says how the tokens of a ring are chosen.
type choice uint8

const (
	// random tokens are those of a node without allocate_tokens_for_….
	random choice = iota
	// allocated tokens are those of Cassandra's allocator.
	allocated
	// even is one token for each node at equal distances, as an operator chooses them by hand.
	even
)

// layout describes a simulated ring.
type layout struct {
	nodes, racks int
	// vnodes is num_tokens of every node.
	vnodes int
	choice choice
}

// build returns a ring of the layout in one datacenter. Nodes are assigned to racks in turn, as
// when a cluster is grown properly.
func (l layout) build(rng *rand.Rand) (*ring.Ring, *ring.Placement, error) {
	tokens := l.tokens(rng)
	topology := ring.Topology{
		LocalDC: "dc1",
		Keyspaces: map[string]ring.Replication{
			keyspace: {Strategy: ring.NetworkTopologyStrategy, Factors: map[string]int{"dc1": replicas}},
		},
	}
	for i, own := range tokens {
		topology.Hosts = append(topology.Hosts, ring.Host{
			ID:   fmt.Sprintf("n%d", i+1),
			Addr: fmt.Sprintf("10.0.%d.%d:9042", i/250, i%250+1),
			DC:   "dc1", Rack: fmt.Sprintf("r%d", i%l.racks+1), Release: "5.0.9",
			Tokens: own,
		})
	}
	r, err := ring.New(topology)
	if err != nil {
		return nil, nil, fmt.Errorf("ring of %d nodes in %d racks: %w", l.nodes, l.racks, err)
	}
	p, ok := r.Placement(keyspace)
	if !ok {
		return nil, nil, fmt.Errorf("ring of %d nodes in %d racks: %w", l.nodes, l.racks, r.PlacementError(keyspace))
	}
	return r, p, nil
}

func (l layout) tokens(rng *rand.Rand) [][]int64 {
	if l.choice == allocated {
		return allocate(l, rng)
	}
	tokens := make([][]int64, l.nodes)
	for i := range tokens {
		if l.choice == even {
			tokens[i] = []int64{int64(math.MaxUint64 / uint64(l.nodes) * uint64(i))}
			continue
		}
		for range l.vnodes {
			tokens[i] = append(tokens[i], int64(rng.Uint64()))
		}
	}
	return tokens
}
