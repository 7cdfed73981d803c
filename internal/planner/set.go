package planner

import "math/bits"

// set is a set of keys, a bit for each. Sets of one Make have the same length.
type set []uint64

// put adds the key.
func (a set) put(key int32) { a[key>>6] |= 1 << (key & 63) }

// has reports whether the key is in the set.
func (a set) has(key int32) bool { return a[key>>6]>>(key&63)&1 != 0 }

// move takes one key that is in b, too, from the set to another.
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

// meets reports whether a key is in both sets.
func (a set) meets(b set) bool {
	b = b[:len(a)]
	for w, x := range a {
		if x&b[w] != 0 {
			return true
		}
	}
	return false
}

// within reports whether all keys are in the other set.
func (a set) within(b set) bool {
	b = b[:len(a)]
	for w, x := range a {
		if x&^b[w] != 0 {
			return false
		}
	}
	return true
}

// shared is how many keys are in both sets.
func (a set) shared(b set) int32 {
	n := 0
	b = b[:len(a)]
	for w, x := range a {
		n += bits.OnesCount64(x & b[w])
	}
	return int32(n)
}

// sharedWith is how many keys are in all three sets.
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
