package planner

import (
	"cmp"
	"slices"
)

// owner groups the keys by their first candidate.
func (s *scratch) owner() {
	for k := range int32(len(s.start) - 1) {
		if slots := s.slots(k); len(slots) > 0 {
			s.group(slots[0]).put(k)
			s.hosts[slots[0]].size++
		}
	}
	s.collect()
}

// single makes each key a group of its own, at the candidate that costs least together with
// what the plan asks of it already.
func (s *scratch) single() {
	for k := range int32(len(s.start) - 1) {
		if i := s.cheapest(k); i != none {
			s.add(i)
			s.keys = append(s.keys, k)
			s.part(i)
		}
	}
}

// ranges makes the keys of one token range a group, at the candidate of the first key that
// costs least together with what the plan asks of it already. Keys that this host does not
// hold form further groups.
func (s *scratch) ranges(of []int32) {
	known := int32(len(of))
	s.queue = s.queue[:0]
	for k := range int32(len(s.start) - 1) {
		s.queue = append(s.queue, k)
	}
	slices.SortStableFunc(s.queue, func(a, b int32) int {
		if a < known && b < known {
			return cmp.Compare(of[a], of[b])
		}
		return cmp.Compare(a, b)
	})
	placed := s.once
	for n, k := range s.queue {
		i := s.cheapest(k)
		if i == none || placed.has(k) {
			continue
		}
		for _, other := range s.queue[n:] {
			if other != k && (k >= known || other >= known || of[other] != of[k]) {
				break
			}
			if !placed.has(other) && s.held(i).has(other) {
				placed.put(other)
				s.add(i)
				s.keys = append(s.keys, other)
			}
		}
		s.part(i)
	}
}
