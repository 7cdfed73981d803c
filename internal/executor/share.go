package executor

import (
	"math"
	"sync/atomic"
)

// shareMemory is over how many lookups the share of a host is remembered: the
// keys of a lookup that long ago weigh 1/e.
const shareMemory = 500

// share is how many keys a host was recently sent, decaying with each lookup of
// the executor rather than with time, so that it means the same at any rate. Its
// value (a float32) and the lookup it is of share one word, so that neither is
// ever read without the other.
type share struct{ word atomic.Uint64 }

func (s *share) add(keys int, lookup uint32) {
	for {
		old := s.word.Load()
		v := float32(decayed(old, lookup)) + float32(keys)
		if s.word.CompareAndSwap(old, uint64(math.Float32bits(v))<<32|uint64(lookup)) {
			return
		}
	}
}

func (s *share) at(lookup uint32) float64 { return decayed(s.word.Load(), lookup) }

func decayed(word uint64, lookup uint32) float64 {
	v := float64(math.Float32frombits(uint32(word >> 32)))
	// As a signed distance, for lookups overtake each other and the count wraps.
	passed := int32(lookup - uint32(word))
	if v == 0 || passed <= 0 {
		return v
	}
	return v * math.Exp(-float64(passed)/shareMemory)
}
