package planner

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/qosproxy/qosproxy/internal/ring"
)

// none is the slot of a host that no key needs, and the group of a key that has
// none yet.
const none = -1

// shut is what seen says of a slot that no search may enter: it has no group, or
// in level nothing can leave it nor be won by looking.
const shut = math.MaxInt32

// scratch is the memory of one Make. Hosts are renumbered to slots, those that
// hold some key of the lookup, so that no step pays for the rest of the cluster.
type scratch struct {
	rng rand.PCG

	// By HostIndex.
	slot []int32

	// By slot. Each has the length of hosts.
	hosts  []ring.HostIndex
	price  []float64 // within [MinPrice, MaxPrice], local rack included
	tied   []float64 // price, ties rotated by the seed
	size   []int32   // keys of the group
	chosen []bool    // has a group
	need   []int32   // keys held that the cover lacks; in relieve, keys to win
	gain   []float64 // cover: keys it would add for its price
	seen   []int32   // last search that reached the slot, or shut
	via    []int32   // search: the key whose move reaches the slot
	held   []int32   // keys held by slot i: holds[held[i]:held[i+1]]; one longer

	// By key. start is one longer: the slots of k are cand[start[k]:start[k+1]].
	start   []int32
	of      []int32 // group of the key: a slot, or an index of groups
	choices []int32 // chosen slots among those of the key

	cand   []int32
	holds  []int32
	asked  []int32 // slots with a group, in the order chosen
	queue  []int32 // search: slots reached; ranges: keys by range
	groups []int32 // ranges, single: slot of each group
	search int32
}

var pool = sync.Pool{New: func() any { return new(scratch) }}

// index reads the input: slots, prices, and who may be asked for which key.
func (s *scratch) index(in *Input) {
	s.rng.Seed(in.Seed, 0x9e3779b97f4a7c15)
	s.slot = refill(s.slot, max(in.Hosts, 0), none)
	s.hosts, s.price, s.tied = s.hosts[:0], s.price[:0], s.tied[:0]
	s.start, s.cand, s.groups = append(s.start[:0], 0), s.cand[:0], s.groups[:0]
	for _, replicas := range in.Replicas {
		s.candidates(in, replicas, in.Avoid)
		if int(s.start[len(s.start)-1]) == len(s.cand) {
			s.candidates(in, replicas, nil)
		}
		s.start = append(s.start, int32(len(s.cand)))
	}
	n := len(s.hosts)
	s.of = refill(s.of, len(in.Replicas), none)
	s.size = refill(s.size, n, 0)
	s.invert(n)
}

// candidates appends the slots of the replicas that are not avoided.
func (s *scratch) candidates(in *Input, replicas []ring.HostIndex, avoid []bool) {
	for _, h := range replicas {
		if h < 0 || int(h) >= len(s.slot) || int(h) < len(avoid) && avoid[h] {
			continue
		}
		if s.slot[h] == none {
			s.addHost(in, h)
		}
		s.cand = append(s.cand, s.slot[h])
	}
}

// addHost gives the host the next slot, and a price.
func (s *scratch) addHost(in *Input, h ring.HostIndex) {
	s.slot[h] = int32(len(s.hosts))
	s.hosts = append(s.hosts, h)
	p := 1.0
	if int(h) < len(in.Price) && in.Price[h] == in.Price[h] {
		p = in.Price[h]
	}
	if int(h) < len(in.Near) && in.Near[h] {
		p *= nearFactor
	}
	p = min(max(p, MinPrice), MaxPrice)
	s.price = append(s.price, p)
	// A millionth decides only between prices that are equal by any measure.
	s.tied = append(s.tied, p*(1+1e-6*float64(s.rng.Uint64()>>11)/(1<<53)))
}

// invert builds the keys of each slot from the slots of each key.
func (s *scratch) invert(n int) {
	s.held = refill(s.held, n+1, 0)
	for _, i := range s.cand {
		s.held[i+1]++
	}
	for i := range n {
		s.held[i+1] += s.held[i]
	}
	s.holds = slices.Grow(s.holds[:0], len(s.cand))[:len(s.cand)]
	s.need = append(s.need[:0], s.held[:n]...)
	for k := range s.of {
		for _, i := range s.slots(int32(k)) {
			s.holds[s.need[i]] = int32(k)
			s.need[i]++
		}
	}
}

// slots are the hosts that may be asked for the key.
func (s *scratch) slots(k int32) []int32 { return s.cand[s.start[k]:s.start[k+1]] }

// keys are the keys that the host of the slot may be asked for.
func (s *scratch) keys(i int32) []int32 { return s.holds[s.held[i]:s.held[i+1]] }

// cheapest is the candidate of the key whose group would cost least with the key
// in it, among the chosen ones only if the caller says so; none if there is none.
func (s *scratch) cheapest(k int32, chosen bool) int32 {
	best, cost := int32(none), 0.0
	for _, i := range s.slots(k) {
		if chosen && !s.chosen[i] {
			continue
		}
		if c := float64(s.size[i]+1) * s.tied[i]; best == none || c < cost {
			best, cost = i, c
		}
	}
	return best
}

// plan turns the group of each key into groups of keys: one array for all keys.
func (s *scratch) plan() Plan {
	groups := s.groups
	if len(groups) == 0 {
		groups = s.identity()
	}
	var p Plan
	s.need = refill(s.need, len(groups)+1, 0) // where the keys of a group begin
	for k, g := range s.of {
		if g == none {
			p.Unplaced = append(p.Unplaced, int32(k))
			continue
		}
		s.need[g+1]++
	}
	n := 0
	for g := range groups {
		if s.need[g+1] > 0 {
			n++
		}
		s.need[g+1] += s.need[g]
	}
	if n == 0 {
		return p
	}
	all := make([]int32, len(s.of)-len(p.Unplaced))
	p.Groups = make([]Group, 0, n)
	for g, i := range groups {
		if lo, hi := s.need[g], s.need[g+1]; lo < hi {
			p.Groups = append(p.Groups, Group{Host: s.hosts[i], Keys: all[lo:hi:hi]})
		}
	}
	for k, g := range s.of {
		if g != none {
			all[s.need[g]] = int32(k)
			s.need[g]++
		}
	}
	return p
}

// identity numbers the groups as the slots, for plans of one group per host.
func (s *scratch) identity() []int32 {
	for i := range s.hosts {
		s.groups = append(s.groups, int32(i))
	}
	return s.groups
}

// refill returns a slice of n times v, in the memory of old if it suffices.
func refill[T any](old []T, n int, v T) []T {
	s := slices.Grow(old[:0], n)[:n]
	for i := range s {
		s[i] = v
	}
	return s
}
