package planner

import "math/bits"

// set is a set of keys, one bit for each. All sets of one call of Make have the same
// length.
type set []uint64

// put adds the key.
func (a set) put(key int32) { a[key>>6] |= 1 << (key & 63) }

// has reports whether the key is in the set.
func (a set) has(key int32) bool { return a[key>>6]>>(key&63)&1 != 0 }

// move moves one key of a that is also in b, if there is any, to another set.
func (a set) move(b, to set) {
	for w, x := range a {
		if x &= b[w]; x != 0 {
			x &= -x
			a[w] ^= x
			to[w] |= x
			return
		}
	}
}

// meets reports whether some key is in both sets.
func (a set) meets(b set) bool {
	b = b[:len(a)]
	for w, x := range a {
		if x&b[w] != 0 {
			return true
		}
	}
	return false
}

// within reports whether all keys of a are in b.
func (a set) within(b set) bool {
	b = b[:len(a)]
	for w, x := range a {
		if x&^b[w] != 0 {
			return false
		}
	}
	return true
}

// shared returns how many keys are in both sets.
func (a set) shared(b set) int32 {
	n := 0
	b = b[:len(a)]
	for w, x := range a {
		n += bits.OnesCount64(x & b[w])
	}
	return int32(n)
}

// sharedWith returns how many keys are in all three sets.
func (a set) sharedWith(b, c set) int32 {
	n := 0
	b, c = b[:len(a)], c[:len(a)]
	for w, x := range a {
		n += bits.OnesCount64(x & b[w] & c[w])
	}
	return int32(n)
}

// appendTo appends the keys, ascending.
func (a set) appendTo(keys []int32) []int32 {
	for w, x := range a {
		for ; x != 0; x &= x - 1 {
			keys = append(keys, int32(w<<6|bits.TrailingZeros64(x)))
		}
	}
	return keys
}
