package ring_test

import (
	"encoding/hex"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/ring"
)

func TestTokenOfTheEdges(t *testing.T) {
	assert.Equal(t, int64(math.MinInt64), ring.Token(nil), "an empty key has the minimum token")
	// The vectors hold a key for each of the two hashes that share this token.
	var vectors goldenTokens
	golden(t, "tokens.json.gz", &vectors)
	keys := 0
	for _, v := range vectors.Keys {
		if v.Token == math.MaxInt64 {
			key, err := hex.DecodeString(v.Key)
			require.NoError(t, err)
			assert.Equal(t, int64(math.MaxInt64), ring.Token(key), "key 0x%s", v.Key)
			keys++
		}
	}
	assert.Equal(t, 2, keys)
}

func TestTokenDoesNotAllocate(t *testing.T) {
	key := make([]byte, 45)
	assert.Zero(t, testing.AllocsPerRun(100, func() { ring.Token(key) }))
}

// slowToken transcribes MurmurHash.hash3_x64_128 from its Java source, byte by
// byte, for comparison.
func slowToken(key []byte) int64 {
	const c1, c2 = -0x783c846eeebdac2b, 0x4cf5ad432745937f
	rotl := func(v int64, n int) int64 { return v<<n | int64(uint64(v)>>(64-n)) }
	block := func(at int) (k int64) {
		for j := 7; j >= 0; j-- {
			k = k<<8 + int64(key[at+j])
		}
		return k
	}
	var h1, h2, k1, k2 int64
	at := 0
	for ; at+16 <= len(key); at += 16 {
		h1 ^= rotl(block(at)*c1, 31) * c2
		h1 = (rotl(h1, 27)+h2)*5 + 0x52dce729
		h2 ^= rotl(block(at+8)*c2, 33) * c1
		h2 = (rotl(h2, 31)+h1)*5 + 0x38495ab5
	}
	for j, b := range key[at:] {
		if j < 8 {
			k1 ^= int64(int8(b)) << (8 * j)
		} else {
			k2 ^= int64(int8(b)) << (8 * (j - 8))
		}
	}
	h2 ^= rotl(k2*c2, 33) * c1
	h1 ^= rotl(k1*c1, 31) * c2
	h1 ^= int64(len(key))
	h2 ^= int64(len(key))
	h1 += h2
	h2 += h1
	fmix := func(k int64) int64 {
		k ^= int64(uint64(k) >> 33)
		k *= -0xae502812aa7333
		k ^= int64(uint64(k) >> 33)
		k *= -0x3b314601e57a13ad
		return k ^ int64(uint64(k)>>33)
	}
	switch h := fmix(h1) + fmix(h2); {
	case len(key) == 0:
		return math.MinInt64
	case h == math.MinInt64:
		return math.MaxInt64
	default:
		return h
	}
}

func FuzzToken(f *testing.F) {
	for n := range 34 {
		key := make([]byte, n)
		for i := range key {
			key[i] = byte(i*37 + 128)
		}
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key []byte) {
		if got, want := ring.Token(key), slowToken(key); got != want {
			t.Fatalf("token of 0x%x is %d, want %d", key, got, want)
		}
	})
}
