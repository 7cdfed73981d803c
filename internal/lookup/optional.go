package lookup

import (
	"errors"

	"github.com/qosproxy/qosproxy/internal/partition"
)

// ErrOptionalShed is the error of an optional key that was not read.
var ErrOptionalShed = errors.New("the proxy does not read optional keys at present, to keep its latency target for the others; retry after a pause")

// asked finds the distinct partitions that a request reads. Without its optional
// keys, when they are shed: the one of a partition that a needed key names as well
// is answered with it, for it costs nothing.
func (r *Request) asked() *keySet {
	if !r.ShedOptional || len(r.Optional) == 0 {
		return distinct(r.Keys)
	}
	read := make([]partition.Key, 0, len(r.Keys))
	at := make([]int, 0, len(r.Keys))
	var optional []int
	for i, k := range r.Keys {
		if r.optional(i) {
			optional = append(optional, i)
			continue
		}
		read, at = append(read, k), append(at, i)
	}
	return distinct(read).spread(r.Keys, at, optional)
}

// spread moves a set over some of the keys to their positions among all, where
// the key at i of the set is the one at at[i], and sheds the others that it has
// not.
func (s *keySet) spread(all []partition.Key, at, others []int) *keySet {
	of := make([]int32, len(all))
	index := make(map[string]int32, len(s.keys))
	for u, k := range s.keys {
		index[string(k.Routing())] = int32(u)
		s.first[u] = at[s.first[u]]
	}
	for i, u := range s.of {
		of[at[i]] = u
	}
	for _, again := range s.again {
		for n := range again {
			again[n] = at[again[n]]
		}
	}
	s.of = of
	for _, i := range others {
		u, ok := index[string(all[i].Routing())]
		if !ok {
			s.of[i] = unread
			s.shed = append(s.shed, i)
			continue
		}
		s.of[i] = u
		if s.again == nil {
			s.again = make(map[int32][]int)
		}
		s.again[u] = append(s.again[u], i)
	}
	return s
}
