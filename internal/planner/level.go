package planner

import "math"

// What the cap that the planner chooses rests on; DESIGN.md derives both.
const (
	// smallestCap is the fixed cost of a sub-query, in keys: below it a group
	// costs more by being split than by being large.
	smallestCap = 6
	// capPerKey makes the cap 10 at 50 keys and lets it grow with the root of
	// the keys, so that groups and their size grow alike.
	capPerKey = 2
)

// limit is the cap in keys. The one that the planner chooses follows the number
// of keys, but leaves each host no more than its part of them, where a host that
// is dearer than most counts as the part of a host that its price says.
func (s *scratch) limit(asked int) int32 {
	keys := len(s.of)
	switch {
	case asked < 0 || asked > keys:
		return int32(keys)
	case asked > 0:
		return int32(asked)
	}
	inverse := 0.0
	for _, p := range s.price {
		inverse += 1 / p
	}
	usual := float64(len(s.price)) / inverse // harmonic mean: an outlier above barely moves it
	hosts := 0.0
	for _, p := range s.price {
		hosts += min(1, usual/p)
	}
	even := math.Ceil(float64(keys)/max(hosts, 1) - 1e-9)
	return int32(max(smallestCap, math.Ceil(math.Sqrt(capPerKey*float64(keys))), even))
}

// relieve moves keys out of groups above the limit, to chosen hosts with room
// and, when none can be reached, to one more host. It is a maximum flow by
// augmenting paths: it leaves a group above the limit only if no assignment of
// the keys, over all hosts, would respect it.
func (s *scratch) relieve(limit int32) {
	s.seen = refill(s.seen, len(s.hosts), shut)
	for _, i := range s.asked {
		s.seen[i] = 0
	}
	s.via = refill(s.via, len(s.hosts), none)
	s.search = 0
	room := func(i int32) bool { return s.size[i] < limit }
	for _, from := range s.asked {
		for s.size[from] > limit {
			if to := s.path(from, room); to != none {
				s.shift(from, to)
			} else if !s.widen(limit) {
				break
			}
		}
	}
}

// widen gives a group to one more host: the one that could win most keys for its
// price from the slots that the last search reached. It reports whether there is
// one.
func (s *scratch) widen(limit int32) bool {
	clear(s.need)
	best, value := int32(none), 0.0
	for _, i := range s.queue {
		for _, k := range s.keys(i) {
			if s.of[k] != i {
				continue
			}
			for _, j := range s.slots(k) {
				if s.chosen[j] {
					continue
				}
				s.need[j]++
				if v := s.worth(j, limit); v > value {
					best, value = j, v
				}
			}
		}
	}
	if best == none {
		return false
	}
	s.ask(best)
	s.seen[best] = 0
	return true
}

// level moves keys until the costliest group, size × price, could not be cheaper,
// nor the next one, and so on down: an optimal semi-matching (Harvey, Ladner,
// Lovász, Tamir 2003), with prices. No group grows above the limit by it.
func (s *scratch) level(limit int32) {
	for {
		from := s.costliest()
		if from == none {
			return
		}
		size, cost := s.size[from], s.cost(from, 0)
		to := s.path(from, func(i int32) bool {
			n := s.size[i] + 1
			return s.cost(i, 1) < cost && (n <= limit || n < size)
		})
		if to != none {
			s.shift(from, to)
			continue
		}
		// All that was reached is as full as from: whoever is cheaper than from
		// cannot gain by way of it either.
		for _, i := range s.queue {
			s.seen[i] = shut
		}
	}
}

// costliest is the slot with the costliest group that is not shut.
func (s *scratch) costliest() int32 {
	best, cost := int32(none), 0.0
	for _, i := range s.asked {
		if c := s.cost(i, 0); c > cost && s.seen[i] != shut {
			best, cost = i, c
		}
	}
	return best
}

// cost is that of the group with so many keys more.
func (s *scratch) cost(i, more int32) float64 { return float64(s.size[i]+more) * s.price[i] }

// path searches, breadth first, a chain of moves that takes one key from the
// group of from and adds one to a group that fits, those between exchanging one
// for another. It returns the end of the chain, or none; queue holds the slots
// reached.
func (s *scratch) path(from int32, fits func(int32) bool) int32 {
	s.search++
	s.seen[from] = s.search
	s.queue = append(s.queue[:0], from)
	for head := 0; head < len(s.queue); head++ {
		i := s.queue[head]
		for _, k := range s.keys(i) {
			if s.of[k] != i {
				continue
			}
			for _, j := range s.slots(k) {
				if s.seen[j] >= s.search {
					continue
				}
				s.seen[j] = s.search
				s.via[j] = k
				if fits(j) {
					return j
				}
				s.queue = append(s.queue, j)
			}
		}
	}
	return none
}

// shift moves one key along each step of the chain that path found.
func (s *scratch) shift(from, to int32) {
	s.size[from]--
	s.size[to]++
	for i := to; i != from; {
		k := s.via[i]
		i, s.of[k] = s.of[k], i
	}
}
