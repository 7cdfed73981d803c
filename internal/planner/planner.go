// Package planner decides which host to ask for which keys: it groups the keys
// of a lookup by one of their replicas, so that each group is one local read.
// It is pure: no I/O, no clock, no locks.
package planner

import (
	"github.com/qosproxy/qosproxy/internal/ring"
)

// Input is what a plan is made from. Slices are read, never kept or changed.
type Input struct {
	// Replicas are the hosts that may be asked for each key, in ring order and
	// each once. A key with none is left unplaced; an index outside [0, Hosts)
	// is ignored.
	Replicas [][]ring.HostIndex
	// Ranges is the token range of each key, for Range; nil otherwise. A key
	// beyond its end is a range of its own.
	Ranges []int32
	// Class tells keys apart, for Cover, by what they can share a statement with: keys of
	// the same host and class can. A class is in [0, len(Replicas)); a key of another, or
	// beyond the end, shares with none. Nil when all keys share.
	Class []int32
	// Hosts is the number of hosts of the snapshot; every HostIndex is below it.
	Hosts int
	// Grouping is how keys become groups.
	Grouping Grouping
	// Cap is the largest group in keys, for Cover; 0 lets the planner choose. It
	// yields when no assignment of the keys to their replicas respects it.
	// Negative means no cap.
	Cap int
	// Size is how many keys a group may have by what statements and keys cost, for
	// Cover with a Cap of 0; 0 or less is not known. Groups are no smaller than leaves a
	// third of the hosts to choose from, or than the number of keys alone would say.
	Size int
	// Price is what it costs to ask each host, relative to 1; nil is 1 for all,
	// as is NaN. Only the ratios matter, and only within [MinPrice, MaxPrice].
	Price []float64
	// Avoid marks hosts that are not asked while a key has another replica; nil
	// marks none.
	Avoid []bool
	// Near marks hosts of the local rack, preferred at like price; nil marks
	// none.
	Near []bool
	// Seed rotates ties between equal hosts; give each lookup another.
	Seed uint64
}

// The prices that are told apart; a price beyond them counts as the limit.
const (
	MinPrice = 1e-3
	MaxPrice = 1e3
)

// nearFactor is what the price of a host in the local rack is multiplied with.
// DESIGN.md has the counts of other values.
const nearFactor = 0.75

// Group is the keys to ask of one host in one sub-query.
type Group struct {
	// Host is whom to ask.
	Host ring.HostIndex
	// Keys are indices into Input.Replicas, ascending.
	Keys []int32
}

// Plan is the outcome of Make: every key of the input is in exactly one group
// or in Unplaced.
type Plan struct {
	// Groups are the sub-queries to send, in no particular order; none is
	// empty. With Cover and Owner no host has two.
	Groups []Group
	// Unplaced are the keys that no host can be asked for, ascending; nil when
	// there are none.
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
// Index. Replicas that are avoided are struck from a key that has another.
//
// Cover. Hosts 0 and 2 hold five keys each, hosts 1 and 3 four, 1 at the price of
// two. No group may have more than two, so 0, 2 and 3 are worth the same and the
// seed decides, say for 0. Key 3 is left, and 2 or 3 may have it: say 2.
//
// Prune. Without host 0 nobody would hold key 4, without host 2 nobody key 3:
// both stay.
//
// Spread. Six keys need three groups of two. Host 3 would give a second choice to
// keys 3 and 4 and a third to 2 and 5, host 1 the like at twice the price: 3 it
// is.
//
// Assign. All keys have two choices or three; in their order, each goes where the
// group so far costs least: 0 to host 0, 1 to 2, 2 to 3, 3 to 2, 4 to 0, 5 to 3.
//
// Relieve. No group is above the cap. If one were, its keys would be passed along
// to a group with headroom, or else to one more host.
//
// Level. No key can move so that the most expensive group gets cheaper: done.
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
		if in.Class == nil { // levelling would part keys again
			s.level(limit)
		}
		s.collect()
	}
	return s.plan()
}
