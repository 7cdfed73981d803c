package ring

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// The multipliers of MurmurHash3_x64_128.
const (
	murmurC1 = 0x87c37b91114253d5
	murmurC2 = 0x4cf5ad432745937f
)

// Token returns the token of a partition by Cassandra's Murmur3Partitioner: the
// first half of MurmurHash3_x64_128 with seed 0 over the routing key, with the
// quirks of its org.apache.cassandra.utils.MurmurHash. An empty key, which no
// partition has, gets the minimum token. A hash equal to the minimum becomes the
// maximum, so that every partition lies above the minimum.
func Token(routingKey []byte) int64 {
	if len(routingKey) == 0 {
		return math.MinInt64
	}
	if h := int64(murmur3(routingKey)); h != math.MinInt64 {
		return h
	}
	return math.MaxInt64
}

// murmur3 returns the first 64 of the 128 bits.
func murmur3(key []byte) uint64 {
	var h1, h2 uint64
	tail := key
	for len(tail) >= 16 {
		h1 ^= mix1(binary.LittleEndian.Uint64(tail))
		h1 = (bits.RotateLeft64(h1, 27)+h2)*5 + 0x52dce729
		h2 ^= mix2(binary.LittleEndian.Uint64(tail[8:]))
		h2 = (bits.RotateLeft64(h2, 31)+h1)*5 + 0x38495ab5
		tail = tail[16:]
	}
	if len(tail) > 8 {
		h2 ^= mix2(signedWord(tail[8:]))
		tail = tail[:8]
	}
	if len(tail) > 0 {
		h1 ^= mix1(signedWord(tail))
	}
	n := uint64(len(key))
	h1 ^= n
	h2 ^= n
	h1 += h2
	h2 += h1
	return avalanche(h1) + avalanche(h2)
}

// signedWord combines up to eight bytes of the tail, lowest first. Cassandra
// widens them as signed bytes of Java, so a byte of 0x80 or above flips all bits
// above it. The published algorithm does not, so its libraries get the tokens of
// such keys wrong.
func signedWord(b []byte) uint64 {
	var w uint64
	for i, c := range b {
		w ^= uint64(int8(c)) << (8 * i)
	}
	return w
}

func mix1(k uint64) uint64 { return bits.RotateLeft64(k*murmurC1, 31) * murmurC2 }

func mix2(k uint64) uint64 { return bits.RotateLeft64(k*murmurC2, 33) * murmurC1 }

func avalanche(k uint64) uint64 {
	k ^= k >> 33
	k *= 0xff51afd7ed558ccd
	k ^= k >> 33
	k *= 0xc4ceb9fe1a85ec53
	return k ^ k>>33
}
