package planner

import (
	"cmp"
	"slices"
)

// owner groups the keys by the first of their candidates.
func (s *scratch) owner() {
	for k := range s.of {
		if slots := s.slots(int32(k)); len(slots) > 0 {
			s.of[k] = slots[0]
		}
	}
}

// single makes each key a group of its own, at the host that costs least with
// all that the plan asks of it already.
func (s *scratch) single() {
	for k := range s.of {
		if i := s.cheapest(int32(k), false); i != none {
			s.of[k] = int32(len(s.groups))
			s.groups = append(s.groups, i)
			s.size[i]++
		}
	}
}

// ranges makes the keys of one token range a group, at the host that costs least
// with all that the plan asks of it already. Keys of one range that have no
// candidate in common are parted.
func (s *scratch) ranges(of []int32) {
	s.queue = s.queue[:0]
	for k := range s.of {
		s.queue = append(s.queue, int32(k))
	}
	known := int32(len(of))
	slices.SortStableFunc(s.queue, func(a, b int32) int {
		if a < known && b < known {
			return cmp.Compare(of[a], of[b])
		}
		return cmp.Compare(a, b)
	})
	for n, k := range s.queue {
		if s.of[k] != none {
			continue
		}
		i := s.cheapest(k, false)
		if i == none {
			continue
		}
		g := int32(len(s.groups))
		s.groups = append(s.groups, i)
		for _, other := range s.queue[n:] {
			if other != k && (k >= known || other >= known || of[other] != of[k]) {
				break
			}
			if s.of[other] == none && slices.Contains(s.slots(other), i) {
				s.of[other] = g
				s.size[i]++
			}
		}
	}
}
