package planner

import (
	"math"
	"slices"
	"sync"

	"github.com/qosproxy/qosproxy/internal/ring"
)

// none stands for no slot.
const none = -1

// host is the state of a host that holds some key of the lookup.
type host struct {
	index ring.HostIndex
	price float64 // within [MinPrice, MaxPrice], nearFactor included
	tied  float64 // price, with ties decided by the seed
	unit  float64 // 1 / tied
	size  int32   // keys in its group
	seen  int32   // number of the last search that reached the host, or shut
	via   int32   // search: the slot from which it gets a key
	asked bool    // chosen to get a group
}

// group is a group of the plan: the scratch.keys from the end of the previous group to to.
type group struct{ slot, to int32 }

// scratch is the working memory of one call of Make. Hosts that hold some key of the lookup
// are numbered by slots, so that no step pays for the rest of the cluster.
type scratch struct {
	slot  []int32  // by HostIndex: the slot plus one, 0 for none
	hosts []host   // by slot
	need  []int32  // by slot, cover: keys that the host holds and no asked host does
	worth []uint64 // by slot, cover: rank of what a group would add for its price
	next  []uint64 // by slot: rank of what the group costs with one more key

	// The candidates of key k, as slots, are cand[start[k]:start[k+1]].
	start []int32
	cand  []int32

	// Sets of keys, each of length words.
	words  int
	holds  []uint64 // by slot: keys that the host may be asked for
	groups []uint64 // by slot: keys that it is asked for
	// classes is by class, if Input has any: its keys.
	classes []uint64
	once    set // keys that at least one asked host holds
	twice   set // keys that at least two hold; later: keys left to assign
	thrice  set // keys that at least three hold

	asked  []int32 // slots with a group, in the order chosen
	queue  []int32 // search: slots reached; ranges: keys by range
	search int32

	// The plan.
	keys     []int32
	parts    []group
	unplaced []int32
}

var pool = sync.Pool{New: func() any { return new(scratch) }}

// index reads the input: it sets slots, prices, and which hosts may be asked for which key.
func (s *scratch) index(in *Input) {
	s.slot = grow(s.slot, max(in.Hosts, 0))
	s.hosts, s.need, s.holds, s.asked, s.search = s.hosts[:0], s.need[:0], s.holds[:0], s.asked[:0], 0
	s.start, s.cand, s.keys, s.parts, s.unplaced = append(s.start[:0], 0), s.cand[:0], s.keys[:0], s.parts[:0], s.unplaced[:0]
	s.words = (len(in.Replicas) + 63) / 64
	s.candidates(in)
	s.prices(in)
	s.groups = grow(s.groups, len(s.holds))
	s.once, s.twice, s.thrice = grow(s.once, s.words), grow(s.twice, s.words), grow(s.thrice, s.words)
}

// candidates records the replicas of each key that are not avoided, or all if all are
// avoided.
func (s *scratch) candidates(in *Input) {
	slot, cand, holds := s.slot, s.cand, s.holds
	for k, replicas := range in.Replicas {
		from, word, bit := len(cand), k>>6, uint64(1)<<(k&63)
		for avoid := in.Avoid; ; avoid = nil {
			for _, h := range replicas {
				if uint(h) >= uint(len(slot)) || uint(h) < uint(len(avoid)) && avoid[h] {
					continue
				}
				i := slot[h] - 1
				if i < 0 {
					i = s.addHost(h)
					holds = s.holds
				}
				cand = append(cand, i)
				s.need[i]++
				holds[int(i)*s.words+word] |= bit
			}
			if len(cand) > from {
				break
			}
			if avoid == nil {
				s.unplaced = append(s.unplaced, int32(k))
				break
			}
		}
		s.start = append(s.start, int32(len(cand)))
	}
	s.cand = cand
}

// addHost gives the host the next slot.
func (s *scratch) addHost(h ring.HostIndex) int32 {
	s.hosts = append(s.hosts, host{index: h})
	s.need = append(s.need, 0)
	for range s.words {
		s.holds = append(s.holds, 0)
	}
	s.slot[h] = int32(len(s.hosts))
	return s.slot[h] - 1
}

// prices gives each host its price.
func (s *scratch) prices(in *Input) {
	s.next = slices.Grow(s.next[:0], len(s.hosts))[:len(s.hosts)]
	for i := range s.hosts {
		h := &s.hosts[i]
		p := 1.0
		if int(h.index) < len(in.Price) && in.Price[h.index] == in.Price[h.index] {
			p = in.Price[h.index]
		}
		if int(h.index) < len(in.Near) && in.Near[h.index] {
			p *= nearFactor
		}
		h.price = min(max(p, MinPrice), MaxPrice)
		// A millionth decides only between prices that are practically equal.
		h.tied = h.price * (1 + 1e-6*random(in.Seed, uint64(h.index)))
		h.unit = 1 / h.tied
		s.next[i] = rank(h.tied)
	}
}

// random returns a number from 0 to 1 that depends only on seed and host: the finalizer of
// SplitMix64.
func random(seed, h uint64) float64 {
	x := seed ^ (h+1)*0xd6e8feb86659fd93
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return float64((x^x>>31)>>11) / (1 << 53)
}

// slots returns the candidates of the key.
func (s *scratch) slots(k int32) []int32 { return s.cand[s.start[k]:s.start[k+1]] }

// held returns the keys that the host of the slot may be asked for.
func (s *scratch) held(i int32) set { return s.row(s.holds, i) }

// group returns the keys that it is asked for.
func (s *scratch) group(i int32) set { return s.row(s.groups, i) }

// row returns one of several sets that are stored one after the other.
func (s *scratch) row(of []uint64, i int32) set {
	from := int(i) * s.words
	return of[from : from+s.words]
}

// cheapest returns the candidate of the key whose group would cost least with the key
// added, or none.
func (s *scratch) cheapest(k int32) int32 {
	best, cost := int32(none), uint64(math.MaxUint64)
	for _, i := range s.slots(k) {
		if c := s.next[i]; c < cost {
			best, cost = i, c
		}
	}
	return best
}

// add counts one more key in the group.
func (s *scratch) add(i int32) {
	h := &s.hosts[i]
	h.size++
	s.next[i] = rank(float64(h.size+1) * h.tied)
}

// rank maps non-negative numbers to integers in the same order, which are compared without
// a branch: nothing could predict which host is the cheapest.
func rank(x float64) uint64 { return math.Float64bits(x) }

// part makes the keys appended since the last call a group of the plan.
func (s *scratch) part(i int32) {
	s.parts = append(s.parts, group{i, int32(len(s.keys))})
}

// collect makes each group that has keys a part.
func (s *scratch) collect() {
	for i := range s.hosts {
		if s.hosts[i].size > 0 {
			s.keys = s.group(int32(i)).appendTo(s.keys)
			s.part(int32(i))
		}
	}
}

// plan copies the result: one array for all keys, one for the groups.
func (s *scratch) plan() Plan {
	var p Plan
	if len(s.unplaced) > 0 {
		p.Unplaced = slices.Clone(s.unplaced)
	}
	if len(s.parts) == 0 {
		return p
	}
	all := make([]int32, len(s.keys))
	copy(all, s.keys)
	p.Groups = make([]Group, len(s.parts))
	from := int32(0)
	for n, g := range s.parts {
		p.Groups[n] = Group{Host: s.hosts[g.slot].index, Keys: all[from:g.to:g.to]}
		from = g.to
	}
	return p
}

// grow returns n zeros, in the memory of old if it suffices.
func grow[S ~[]T, T any](old S, n int) S {
	s := slices.Grow(old[:0], n)[:n]
	clear(s)
	return s
}
