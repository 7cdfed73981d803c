package planner

import "math"

// The constants of the cap that the planner chooses; DESIGN.md derives them.
const (
	// smallestCap is the fixed cost of a sub-query, in keys: below it a group
	// costs more by being split than by being large.
	smallestCap = 6
	// capPerKey makes the cap 10 at 50 keys. The cap grows with the root of the keys, so
	// that the number of groups and their size grow alike.
	capPerKey = 2
	// spareHosts makes groups large enough to leave out a third of the hosts, as many as
	// may be avoided.
	spareHosts = 1.5
)

// shut is the value of host.seen for a host that level searches no more: no chain of moves
// through it would gain anything.
const shut = math.MaxInt32

// limit returns the cap in keys. The planner's own choice follows the number of keys, but
// is at least an even part of them for each host. A host that is more expensive than most
// counts as the part of a host that lets it end with the others: (smallestCap + part ×
// each) × price is (smallestCap + each) × usual. Otherwise every lookup would ask it for a
// few keys, and wait for them.
func (s *scratch) limit(asked, size int) int32 {
	keys := len(s.start) - 1
	switch {
	case asked < 0 || asked > keys:
		return int32(keys)
	case asked > 0:
		return int32(asked)
	case size >= keys:
		return int32(keys)
	}
	inverse := 0.0
	for i := range s.hosts {
		inverse += 1 / s.hosts[i].price
	}
	usual := float64(len(s.hosts)) / inverse // harmonic mean: an expensive outlier barely moves it
	each := float64(keys) / float64(len(s.hosts))
	hosts := 0.0
	for i := range s.hosts {
		part := usual / s.hosts[i].price
		hosts += min(1, max(0, part-(1-part)*smallestCap/each))
	}
	even := math.Ceil(float64(keys)/max(hosts, 1) - 1e-9)
	own := max(smallestCap, math.Ceil(math.Sqrt(capPerKey*float64(keys))), even)
	if size > 0 {
		// With smaller groups every lookup would need every host, busy and late ones
		// included.
		return int32(max(float64(size), min(own, math.Ceil(spareHosts*even))))
	}
	return int32(own)
}

// relieve moves keys out of groups above the limit, to chosen hosts with headroom
// and, when none can be reached, to one more host. It is a maximum flow by
// augmenting paths: it leaves a group above the limit only if no assignment of
// the keys, over all hosts, would respect it.
func (s *scratch) relieve(limit int32) {
	for _, from := range s.asked {
		for s.hosts[from].size > limit {
			if !s.pass(from, limit, math.Inf(1)) && !s.widen(limit) {
				break
			}
		}
	}
}

// widen chooses one more host: the one that could take the most keys for its price from the
// slots that the last search reached. It reports whether there is one.
func (s *scratch) widen(limit int32) bool {
	reached := grow(s.once, s.words)
	for _, i := range s.queue {
		for w, x := range s.group(i) {
			reached[w] |= x
		}
	}
	best, value := int32(none), 0.0
	for i := range s.hosts {
		h := &s.hosts[i]
		if h.asked {
			continue
		}
		if v := float64(min(s.held(int32(i)).shared(reached), limit)) * h.unit; v > value {
			best, value = int32(i), v
		}
	}
	if best == none {
		return false
	}
	s.hosts[best].asked = true
	s.asked = append(s.asked, best)
	return true
}

// level moves keys until the most expensive group, by size × price, cannot be made cheaper,
// nor the next one, and so on: an optimal semi-matching (Harvey, Ladner, Lovász, Tamir
// 2003), with prices. No group grows above the limit by it, unless to relieve one that is
// larger still.
func (s *scratch) level(limit int32) {
	for {
		// Find the most expensive group that is not shut, and the least that any would cost
		// with one more key.
		from, cost, least := int32(none), 0.0, math.Inf(1)
		for _, i := range s.asked {
			h := &s.hosts[i]
			if h.seen == shut {
				continue
			}
			least = min(least, h.cost(1))
			if c := h.cost(0); c > cost {
				from, cost = i, c
			}
		}
		if least >= cost {
			return
		}
		if s.pass(from, max(limit, s.hosts[from].size-1), cost) {
			continue
		}
		// No group that was reached can take a key and cost less than from. So a cheaper
		// group gains nothing by passing keys to one of them.
		for _, i := range s.queue {
			s.hosts[i].seen = shut
		}
	}
}

// cost returns size × price of the group if it had that many more keys.
func (h *host) cost(more int32) float64 { return float64(h.size+more) * h.price }

// pass searches, breadth first, a chain of moves that takes one key from the group of from
// and adds one to a group that then has at most most keys and costs less than below; each
// group in between swaps one key for another. It makes the moves, or reports that there is
// no chain; queue then holds the slots reached.
func (s *scratch) pass(from, most int32, below float64) bool {
	s.search++
	s.hosts[from].seen = s.search
	s.queue = append(s.queue[:0], from)
	for head := 0; head < len(s.queue); head++ {
		i := s.queue[head]
		group := s.group(i)
		for _, j := range s.asked {
			h := &s.hosts[j]
			if h.seen >= s.search || !group.meets(s.held(j)) {
				continue
			}
			h.seen, h.via = s.search, i
			if h.size < most && h.cost(1) < below {
				s.shift(from, j)
				return true
			}
			s.queue = append(s.queue, j)
		}
	}
	return false
}

// shift moves one key along each step of the chain that pass found.
func (s *scratch) shift(from, to int32) {
	s.hosts[from].size--
	s.hosts[to].size++
	for to != from {
		i := s.hosts[to].via
		s.group(i).move(s.held(to), s.group(to))
		to = i
	}
}
