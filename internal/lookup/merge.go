package lookup

import (
	"context"
	"errors"
	"unsafe"

	"github.com/qosproxy/qosproxy/internal/partition"
)

// keySet is the distinct partitions of a request. A request may name a partition
// several times; it is read once.
type keySet struct {
	// keys are the distinct keys in the order of their first occurrence.
	keys []partition.Key
	// first is the position of each of keys in the request.
	first []int
	// of is the index in keys of each position of the request, or unread.
	of []int32
	// again lists the later positions of keys that occur more than once; nil
	// when none does.
	again map[int32][]int
	// shed are the positions that are answered unread.
	shed []int
}

// unread is in keySet.of for a position that is not read.
const unread = -1

// distinct finds the distinct partitions of a request.
func distinct(keys []partition.Key) *keySet {
	s := &keySet{
		keys:  make([]partition.Key, 0, len(keys)),
		first: make([]int, 0, len(keys)),
		of:    make([]int32, len(keys)),
	}
	seen := make(map[string]int32, len(keys))
	for i, k := range keys {
		// Keys are immutable, so the map may look at their bytes in place.
		routing := unsafe.String(unsafe.SliceData(k.Routing()), len(k.Routing()))
		u, ok := seen[routing]
		if !ok {
			u = int32(len(s.keys))
			seen[routing] = u
			s.keys = append(s.keys, k)
			s.first = append(s.first, i)
		} else {
			if s.again == nil {
				s.again = make(map[int32][]int)
			}
			s.again[u] = append(s.again[u], i)
		}
		s.of[i] = u
	}
	return s
}

// ErrResponseTooLarge is the error of a key whose rows would make the answer
// exceed max_response_bytes.
var ErrResponseTooLarge = errors.New("the rows of this key would make the answer exceed max_response_bytes; ask for fewer keys or columns")

// merge hands the results of distinct keys to every position that asked for
// them, and keeps the answer within its size. Its methods are never called
// concurrently.
type merge struct {
	asked *keySet
	left  int
	emit  func(int, partition.Result) error
	stop  context.CancelFunc
	err   error
	// soft is told of each result; nil without a soft deadline.
	soft *softDeadline
}

func newMerge(asked *keySet, maxBytes int, emit func(int, partition.Result) error, stop context.CancelFunc) *merge {
	return &merge{asked: asked, left: maxBytes, emit: emit, stop: stop}
}

// shed answers the positions that are not read.
func (m *merge) shed() {
	for _, i := range m.asked.shed {
		m.put(i, partition.Result{Status: partition.Shed, Err: ErrOptionalShed})
	}
}

// add takes the result of the distinct key u.
func (m *merge) add(u int, r partition.Result) {
	m.put(m.asked.first[u], r)
	for _, i := range m.asked.again[int32(u)] {
		m.put(i, r)
	}
}

func (m *merge) put(i int, r partition.Result) {
	if m.err != nil {
		return
	}
	if r.Bytes > m.left {
		r = partition.Result{Status: partition.TooLarge, Err: ErrResponseTooLarge}
	}
	m.left -= r.Bytes
	r = m.soft.count(i, r)
	if m.err = m.emit(i, r); m.err != nil {
		m.stop()
	}
}
