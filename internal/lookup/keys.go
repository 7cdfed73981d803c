package lookup

import (
	"errors"

	"github.com/qosproxy/qosproxy/internal/partition"
)

// keySet holds the distinct keys of a request. A key that the request names
// several times is read once.
type keySet struct {
	// distinct are the distinct keys in the order of their first occurrence.
	distinct []partition.Key
	// first is the position of each of them in the request.
	first []int
	// of maps each position of the request to an index in distinct, or to
	// unread.
	of []int32
	// repeats maps an index in distinct to the later positions of the same key;
	// nil without any.
	repeats map[int32][]int
	// shed are the positions that are answered without a read.
	shed []int
}

// unread marks a position in keySet.of that is not read.
const unread = -1

// ErrOptionalShed is the error of an optional key that was not read.
var ErrOptionalShed = errors.New("the proxy does not read optional keys at present, to keep its latency target for the others; retry after a pause")

// keySet finds the distinct keys that a request reads. It leaves out optional
// keys when they are shed, but answers one that another position needs: that
// costs nothing.
func (r *Request) keySet() *keySet {
	s := &keySet{
		distinct: make([]partition.Key, 0, len(r.Keys)),
		first:    make([]int, 0, len(r.Keys)),
		of:       make([]int32, len(r.Keys)),
	}
	seen := make(map[partition.ID]int32, len(r.Keys))
	for i, k := range r.Keys {
		if r.ShedOptional && r.optional(i) {
			continue
		}
		id := k.ID()
		u, ok := seen[id]
		if ok {
			s.repeat(u, i)
			continue
		}
		s.of[i] = int32(len(s.distinct))
		seen[id] = s.of[i]
		s.distinct, s.first = append(s.distinct, k), append(s.first, i)
	}
	if !r.ShedOptional {
		return s
	}
	for i, k := range r.Keys {
		if !r.optional(i) {
			continue
		}
		if u, ok := seen[k.ID()]; ok {
			s.repeat(u, i)
		} else {
			s.of[i] = unread
			s.shed = append(s.shed, i)
		}
	}
	return s
}

// repeat records that position names the same key as an earlier one.
func (s *keySet) repeat(u int32, position int) {
	s.of[position] = u
	if s.repeats == nil {
		s.repeats = make(map[int32][]int)
	}
	s.repeats[u] = append(s.repeats[u], position)
}
