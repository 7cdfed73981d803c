package planner

import "slices"

// cover chooses hosts until every key has one: each time the host that adds most
// keys for its price (Chvátal's greedy rule for weighted set cover), where keys
// above the limit add nothing.
func (s *scratch) cover(limit int32) {
	n := len(s.hosts)
	s.chosen = refill(s.chosen, n, false)
	s.gain = refill(s.gain, n, 0)
	s.asked = s.asked[:0]
	for i := range n {
		s.need[i] = s.held[i+1] - s.held[i]
		s.gain[i] = s.worth(int32(i), limit)
	}
	for {
		i := s.best()
		if i == none {
			return
		}
		s.ask(i)
		for _, k := range s.keys(i) {
			if s.of[k] != none {
				continue
			}
			s.of[k] = i
			for _, j := range s.slots(k) {
				s.need[j]--
				s.gain[j] = s.worth(j, limit)
			}
		}
	}
}

// worth is how many keys the slot adds for its price.
func (s *scratch) worth(i, limit int32) float64 { return float64(min(s.need[i], limit)) / s.tied[i] }

// best is the slot that adds most keys for its price, none when nothing is left
// to add.
func (s *scratch) best() int32 {
	best, value := int32(none), 0.0
	for i, v := range s.gain {
		if v > value {
			best, value = int32(i), v
		}
	}
	return best
}

// ask gives the slot a group.
func (s *scratch) ask(i int32) {
	s.chosen[i] = true
	s.asked = append(s.asked, i)
}

// prune takes back hosts that the later ones have made needless.
func (s *scratch) prune() {
	for _, i := range s.asked {
		s.chosen[i] = false
		if !s.covered(s.keys(i)) {
			s.chosen[i] = true
		}
	}
	s.asked = slices.DeleteFunc(s.asked, func(i int32) bool { return !s.chosen[i] })
}

// covered reports whether each of the keys has a chosen host.
func (s *scratch) covered(keys []int32) bool {
	for _, k := range keys {
		if !slices.ContainsFunc(s.slots(k), func(i int32) bool { return s.chosen[i] }) {
			return false
		}
	}
	return true
}

// spread chooses more hosts while those chosen could not hold all keys within the
// limit, each time the one that helps most for its price. A key helped that has
// but one choice counts 1, one of two choices a quarter, and so on: it is keys
// without a choice that make groups large.
func (s *scratch) spread(limit int32) {
	left := s.count() - int(limit)*len(s.asked)
	for ; left > 0; left -= int(limit) {
		best, value := int32(none), 0.0
		for i := range int32(len(s.hosts)) {
			if s.chosen[i] {
				continue
			}
			help := 0.0
			for _, k := range s.keys(i) {
				help += 1 / float64(s.choices[k]*s.choices[k])
			}
			if v := help / s.tied[i]; v > value {
				best, value = i, v
			}
		}
		if best == none {
			return
		}
		s.ask(best)
		for _, k := range s.keys(best) {
			s.choices[k]++
		}
	}
}

// count counts the choices of each key, and returns how many keys have any.
func (s *scratch) count() int {
	s.choices = refill(s.choices, len(s.of), 0)
	placed := 0
	for k := range s.of {
		for _, i := range s.slots(int32(k)) {
			if s.chosen[i] {
				s.choices[k]++
			}
		}
		placed += int(min(s.choices[k], 1))
	}
	return placed
}

// assign gives each key to a chosen host: keys with one choice first, then the
// others where the group costs least so far. It leaves little to level.
func (s *scratch) assign() {
	for _, free := range [...]bool{false, true} {
		for k, n := range s.choices {
			if n > 0 && free == (n > 1) {
				i := s.cheapest(int32(k), true)
				s.of[k] = i
				s.size[i]++
			}
		}
	}
}
