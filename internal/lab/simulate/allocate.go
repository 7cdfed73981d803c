package simulate

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// allocate chooses tokens as Cassandra 4 and 5 do with
// allocate_tokens_for_local_replication_factor: 3, node after node, each with knowledge of those
// before it (org.apache.cassandra.dht.tokenallocator.TokenAllocation). The first nodes, as many as
// there are replicas, split the widest ranges. With as many racks as replicas each rack is then a
// ring of its own, which holds every key once (NoReplicationTokenAllocator). With one rack the next
// tokens are those that make replicated ownership most even (ReplicationAwareTokenAllocator).
// Cassandra refuses other numbers of racks below the replication factor.
func allocate(l layout, rng *rand.Rand) [][]int64 {
	all := &circle{}
	for node := range l.nodes {
		switch {
		case node < replicas:
			all.split(node, l.vnodes, rng)
		case l.racks == 1:
			all.join(node, l.vnodes)
		default:
			rack := all.of(func(other int) bool { return other%l.racks == node%l.racks })
			for _, token := range rack.takeOver(l.vnodes) {
				all.insert(all.free(token), node)
			}
		}
	}
	tokens := make([][]int64, l.nodes)
	for _, v := range all.tokens {
		tokens[v.node] = append(tokens[v.node], v.token)
	}
	return tokens
}

// vnode is a token and the node that owns it.
type vnode struct {
	token int64
	node  int
}

// circle is a ring of vnodes in the order of their tokens.
type circle struct{ tokens []vnode }

// insert adds a vnode and returns its position in tokens.
func (c *circle) insert(token int64, node int) int {
	i, _ := c.find(token)
	c.tokens = slices.Insert(c.tokens, i, vnode{token, node})
	return i
}

func (c *circle) find(token int64) (int, bool) {
	return slices.BinarySearchFunc(c.tokens, token, func(v vnode, t int64) int { return cmp.Compare(v.token, t) })
}

// free returns the first token at or after this one that nobody owns.
func (c *circle) free(token int64) int64 {
	for {
		if _, taken := c.find(token); !taken {
			return token
		}
		token++
	}
}

// of returns a ring with only the nodes for which keep is true.
func (c *circle) of(keep func(node int) bool) *circle {
	part := &circle{}
	for _, v := range c.tokens {
		if keep(v.node) {
			part.tokens = append(part.tokens, v)
		}
	}
	return part
}

// before returns the token before position i, around the end of the ring.
func (c *circle) before(i int) int64 {
	return c.tokens[(i+len(c.tokens)-1)%len(c.tokens)].token
}

// between returns the share of the token space that lies after from, up to to: above 0, and 1 when
// both are the same.
func between(from, to int64) float64 {
	if from == to {
		return 1
	}
	return math.Ldexp(float64(uint64(to-from)), -64)
}

// at returns the token that lies a share of the way from one token to another.
func at(from, to int64, share float64) int64 {
	return from + int64(uint64(share*between(from, to)*math.Ldexp(1, 63))<<1)
}

// The first nodes split a range at a random place in this part of it. This makes the ring uneven
// enough for later nodes to find ranges of every size.
const (
	splitLeast = 1 - 0.4472135954999579 // 1 - 1/√5
	splitSpan  = 0.075
)

// split gives a node count tokens, each of which splits the range that is widest at that point.
func (c *circle) split(node, count int, rng *rand.Rand) {
	for range count {
		if len(c.tokens) == 0 {
			c.insert(int64(rng.Uint64()), node)
			continue
		}
		widest, width := 0, 0.0
		for i, v := range c.tokens {
			if w := between(c.before(i), v.token); w > width {
				widest, width = i, w
			}
		}
		share := splitLeast + splitSpan*rng.Float64()
		c.insert(c.free(at(c.before(widest), c.tokens[widest].token, share)), node)
	}
}

// A token takes over at least and at most these shares of the range it splits.
const (
	takeLeast = 0.1
	takeMost  = 0.9
)

// takeOver returns the tokens of a node that joins a ring in which every range belongs to one node.
// They take over parts of the widest ranges of the nodes that own most. As many nodes give as
// needed for the new node to own as much as each of them keeps.
func (c *circle) takeOver(count int) []int64 {
	owned := make(map[int]float64)
	ranges := make(map[int][]int)
	for i, v := range c.tokens {
		owned[v.node] += between(c.before(i), v.token)
		ranges[v.node] = append(ranges[v.node], i)
	}
	givers := make([]int, 0, len(owned))
	for n := range owned {
		givers = append(givers, n)
	}
	slices.SortFunc(givers, func(a, b int) int { return cmp.Or(cmp.Compare(owned[b], owned[a]), cmp.Compare(a, b)) })
	sum, target, giving := 0.0, 0.0, 0
	for _, n := range givers[:min(count, len(givers))] {
		sum += owned[n]
		mean := sum / float64(giving+2)
		if owned[n] <= mean {
			break
		}
		target = mean
		giving++
	}
	var tokens []int64
	for nr, n := range givers[:giving] {
		take := count / giving
		if nr < count%giving {
			take++
		}
		tokens = append(tokens, c.cut(ranges[n], take, owned[n]-target)...)
	}
	return tokens
}

// cut returns a token in each of the count widest ranges. Together they take over amount, as far as
// takeLeast and takeMost allow.
func (c *circle) cut(ranges []int, count int, amount float64) []int64 {
	width := func(i int) float64 { return between(c.before(i), c.tokens[i].token) }
	slices.SortFunc(ranges, func(a, b int) int { return cmp.Or(cmp.Compare(width(b), width(a)), cmp.Compare(a, b)) })
	ranges = ranges[:min(count, len(ranges))]
	total := 0.0
	for _, i := range ranges {
		total += width(i)
	}
	share := min(max(amount/total, takeLeast), takeMost)
	var tokens []int64
	for _, i := range ranges {
		tokens = append(tokens, at(c.before(i), c.tokens[i].token, share))
	}
	return tokens
}
