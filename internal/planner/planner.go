// Package planner decides which host to ask for which keys: it groups the keys
// of a lookup by one of their replicas, so that each group is one local read.
// It is pure: no I/O, no clock, no locks.
package planner

import (
	"github.com/qosproxy/qosproxy/internal/ring"
)

// Input is what Make plans from. Make neither changes nor keeps its slices.
type Input struct {
	// Replicas holds the hosts that may be asked for each key, in ring order and without
	// duplicates. A key with none is left unplaced; an index outside [0, Hosts) is ignored.
	Replicas [][]ring.HostIndex
	// Ranges holds the token range of each key, for the grouping Range; nil is allowed. A
	// key beyond its end is a range of its own.
	Ranges []int32
	// Class says, for Cover, which keys can share a statement: those of the same host and
	// class. A class is in [0, len(Replicas)); a key of another, or beyond the end, shares
	// with none. Nil means that all keys can share.
	Class []int32
	// Hosts is the number of hosts of the snapshot; every HostIndex is below it.
	Hosts int
	// Grouping is how keys become groups.
	Grouping Grouping
	// Cap is the most keys in a group, for Cover; 0 lets the planner choose, and a negative
	// value means no cap. It is exceeded only if no assignment of the keys to their
	// replicas respects it.
	Cap int
	// Size is the group size that suits the cost of statements and keys, for Cover with a
	// Cap of 0; 0 or less means unknown. It becomes the cap, unless it is smaller than both
	// the planner's own choice and a size that leaves a third of the hosts to choose from:
	// then the lesser of these does.
	Size int
	// Price is the relative cost of asking each host; nil is 1 for all, and NaN counts as
	// 1. Only ratios matter, and only within [MinPrice, MaxPrice].
	Price []float64
	// Avoid marks hosts that are asked only for keys without another replica; nil marks
	// none.
	Avoid []bool
	// Near marks hosts of the local rack, preferred at a similar price; nil marks none.
	Near []bool
	// Seed decides ties between equal hosts; use another for each lookup.
	Seed uint64
}

// Prices below MinPrice or above MaxPrice count as that limit.
const (
	MinPrice = 1e-3
	MaxPrice = 1e3
)

// nearFactor multiplies the price of a host in the local rack. DESIGN.md has measurements
// of other values.
const nearFactor = 0.75

// Group holds the keys to ask one host for in one sub-query.
type Group struct {
	// Host is the host to ask.
	Host ring.HostIndex
	// Keys are indices into Input.Replicas, ascending.
	Keys []int32
}

// Plan is the result of Make: every key of the input is in exactly one group or in
// Unplaced.
type Plan struct {
	// Groups are the sub-queries to send, in no particular order; none is
	// empty. With Cover and Owner no host has two.
	Groups []Group
	// Unplaced holds the keys that no host can be asked for, ascending; nil if there are
	// none.
	Unplaced []int32
}

// Make groups the keys of a lookup. It never fails: a key that has a replica is
// in exactly one group, whose host is a replica of the key, and that host is
// avoided only if all replicas of the key are. The same input gives the same
// plan. Make is safe for concurrent use; it allocates only the plan.
//
// # The life of a plan
//
// Six keys on four hosts, at price 1 but for host 1 at price 2, with a cap of 2:
//
//	Replicas: 0:[0 1 2]  1:[0 1 2]  2:[0 2 3]  3:[1 2 3]  4:[0 1 3]  5:[0 2 3]
//
// Index. Avoided replicas are removed from keys that have another.
//
// Cover. Hosts 0 and 2 hold five keys each, hosts 1 and 3 four, host 1 at twice the price.
// Keys above the cap add nothing, so hosts 0, 2 and 3 are worth the same; the seed picks
// one, say 0. Key 3 is left, for host 2 or 3: say 2.
//
// Prune. Without host 0 no chosen host would hold key 4, without host 2 none key 3: both
// stay.
//
// Spread. Six keys need three groups of two. Host 3 would give a second choice to keys 3
// and 4 and a third to keys 2 and 5. Host 1 would do as much at twice the price, so host 3
// is chosen.
//
// Assign. Each key has two or three choices. In their order, each goes to the group that
// costs least so far: 0 to host 0, 1 to 2, 2 to 3, 3 to 2, 4 to 0, 5 to 3.
//
// Relieve. No group is above the cap. Otherwise keys would be passed along to a group with
// headroom, or else to one more host.
//
// Level. No move of a key makes the most expensive group cheaper: done.
//
//	Groups: host 0: [0 4]  host 2: [1 3]  host 3: [2 5]
func Make(in *Input) Plan {
	s := pool.Get().(*scratch)
	defer pool.Put(s)
	return s.make(in)
}

func (s *scratch) make(in *Input) Plan {
	s.index(in)
	switch in.Grouping {
	case Owner:
		s.owner()
	case Range:
		s.ranges(in.Ranges)
	case Single:
		s.single()
	default:
		limit := s.limit(in.Cap, in.Size)
		s.cover(limit)
		s.prune()
		s.spread(limit)
		s.settle()
		if in.Class != nil {
			s.together(in.Class, limit)
		}
		s.assign()
		s.relieve(limit)
		if in.Class == nil { // levelling would separate the keys of a class
			s.level(limit)
		}
		s.collect()
	}
	return s.plan()
}
