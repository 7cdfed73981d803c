package planner

import (
	"math"
	"math/bits"
	"slices"
)

// cover chooses hosts until each key is held by one: each time the host that adds the most
// keys for its price (Chvátal's greedy rule for weighted set cover), where keys above the
// limit add nothing.
func (s *scratch) cover(limit int32) {
	s.worth = slices.Grow(s.worth[:0], len(s.hosts))[:len(s.hosts)]
	for i := range s.hosts {
		s.value(int32(i), limit)
	}
	for {
		best, worth := none, uint64(0)
		for i, v := range s.worth {
			if v > worth {
				best, worth = i, v
			}
		}
		if best == none {
			return
		}
		for w, x := range s.held(int32(best)) {
			for x &^= s.once[w]; x != 0; x &= x - 1 {
				for _, j := range s.slots(int32(w<<6 | bits.TrailingZeros64(x))) {
					s.need[j]--
					s.value(j, limit)
				}
			}
		}
		s.ask(int32(best))
	}
}

// value sets how much the slot would add to the cover for its price.
func (s *scratch) value(i, limit int32) {
	s.worth[i] = rank(float64(min(s.need[i], limit)) * s.hosts[i].unit)
}

// ask chooses the slot to get a group.
func (s *scratch) ask(i int32) {
	s.hosts[i].asked = true
	s.asked = append(s.asked, i)
	s.count(i)
}

// count adds the slot to the choices of each key that it holds.
func (s *scratch) count(i int32) {
	for w, x := range s.held(i) {
		s.thrice[w] |= s.twice[w] & x
		s.twice[w] |= s.once[w] & x
		s.once[w] |= x
	}
}

// prune drops hosts that later ones have made redundant.
func (s *scratch) prune() {
	for n := 0; n < len(s.asked); {
		i := s.asked[n]
		if !s.held(i).within(s.twice) {
			n++
			continue
		}
		s.hosts[i].asked = false
		s.asked = slices.Delete(s.asked, n, n+1)
		clear(s.once)
		clear(s.twice)
		clear(s.thrice)
		for _, i := range s.asked {
			s.count(i)
		}
	}
}

// spread chooses more hosts while the chosen ones cannot hold all keys within the limit,
// each time the one that helps most for its price. A key that it holds counts 1 if it has
// one choice so far, a quarter if it has two, and a ninth if it has more: keys without a
// choice make groups large.
func (s *scratch) spread(limit int32) {
	left := len(s.start) - 1 - len(s.unplaced) - int(limit)*len(s.asked)
	for ; left > 0; left -= int(limit) {
		best, value := int32(none), 0.0
		for i := range s.hosts {
			h := &s.hosts[i]
			if h.asked {
				continue
			}
			held := s.held(int32(i))
			help := 36*held.shared(s.once) - 27*held.shared(s.twice) - 5*held.shared(s.thrice)
			if v := float64(help) * h.unit; v > value {
				best, value = int32(i), v
			}
		}
		if best == none {
			return
		}
		s.ask(best)
	}
}

// settle assigns the keys with only one chosen host to it; twice are the keys left.
func (s *scratch) settle() {
	for i := range s.next {
		s.next[i] = math.MaxUint64
	}
	for _, i := range s.asked {
		group := s.group(i)
		for w, x := range s.held(i) {
			group[w] = x &^ s.twice[w]
			s.hosts[i].size += int32(bits.OnesCount64(group[w]))
		}
		h := &s.hosts[i]
		s.next[i] = rank(float64(h.size+1) * h.tied)
	}
}

// together assigns keys to hosts that have keys of the same class already, and the other
// keys of a class to as few hosts as possible: each time to the one that can take most of
// them for its price within the limit.
func (s *scratch) together(class []int32, limit int32) {
	s.classes = grow(s.classes, len(s.start)*s.words)
	for k, c := range class[:min(len(class), len(s.start)-1)] {
		if c >= 0 && int(c) < len(s.start)-1 {
			s.class(c).put(int32(k))
		}
	}
	for c := range int32(len(s.start) - 1) {
		keys := s.class(c)
		if !keys.meets(s.twice) {
			continue
		}
		for _, i := range s.asked {
			if s.group(i).meets(keys) {
				s.take(i, keys, limit)
			}
		}
		for {
			best, most := int32(none), 0.0
			for _, i := range s.asked {
				h := &s.hosts[i]
				if v := float64(min(s.held(i).sharedWith(keys, s.twice), limit-h.size)) * h.unit; v > most {
					best, most = i, v
				}
			}
			if best == none {
				break
			}
			s.take(best, keys, limit)
		}
	}
}

// class returns the keys of a class.
func (s *scratch) class(c int32) set { return s.row(s.classes, c) }

// take assigns to the slot, up to the limit, those of keys that it holds and that are left.
func (s *scratch) take(i int32, keys set, limit int32) {
	group := s.group(i)
	for w, x := range s.held(i) {
		for x &= keys[w] & s.twice[w]; x != 0 && s.hosts[i].size < limit; x &= x - 1 {
			bit := x & -x
			group[w] |= bit
			s.twice[w] &^= bit
			s.add(i)
		}
	}
}

// assign gives each key that is left to the host whose group costs least so far, so that
// little remains to level.
func (s *scratch) assign() {
	for w, x := range s.twice {
		for ; x != 0; x &= x - 1 {
			k := int32(w<<6 | bits.TrailingZeros64(x))
			i := s.cheapest(k)
			s.group(i).put(k)
			s.add(i)
		}
	}
}
