package hotkeys

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/qosproxy/qosproxy/internal/partition"
)

func key(t testing.TB, name string) partition.Key {
	t.Helper()
	k, err := partition.NewKey([]byte(name))
	require.NoError(t, err)
	return k
}

func TestTheHottestKeysAreFoundAmongMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, random := New(), rand.New(rand.NewPCG(1, 2))
		const lookups, wide = 20_000, 20
		for i := range lookups {
			keys := make([]partition.Key, 0, wide)
			if i%2 == 0 {
				keys = append(keys, key(t, "hot"))
			}
			if i%5 == 0 {
				keys = append(keys, key(t, "warm"))
			}
			for len(keys) < wide {
				keys = append(keys, key(t, strconv.Itoa(random.IntN(1_000_000))))
			}
			s.Observe(keys)
			time.Sleep(time.Millisecond) // 20,000 keys a second
		}
		r := s.Top(2)
		require.Len(t, r.Top, 2)
		assert.Equal(t, "hot", string(r.Top[0].Routing))
		assert.Equal(t, "warm", string(r.Top[1].Routing))
		assert.Equal(t, 20*time.Second, r.Window)
		assert.InEpsilon(t, lookups*wide, r.Keys, 0.1)
		assert.InEpsilon(t, lookups/2, r.Top[0].Count, 0.3)
		assert.Greater(t, r.OneIn, 4, "a sample, as there are many")
	})
}

func TestFewKeysAreAllLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		for range 7 {
			s.Observe([]partition.Key{key(t, "a"), key(t, "b")})
			time.Sleep(100 * time.Millisecond)
		}
		s.Observe([]partition.Key{key(t, "a")})
		assert.Equal(t, Report{Window: 700 * time.Millisecond, Keys: 15, OneIn: 1, Top: []Key{
			{Routing: []byte("a"), Count: 8}, {Routing: []byte("b"), Count: 7}}}, s.Top(10))
	})
}

func TestWhatWasHotIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		s.Observe([]partition.Key{key(t, "old")})
		time.Sleep(HalfWindow + time.Second)
		s.Observe([]partition.Key{key(t, "new")})
		r := s.Top(10)
		assert.Len(t, r.Top, 2)
		assert.Equal(t, HalfWindow+time.Second, r.Window)
		time.Sleep(HalfWindow)
		assert.Equal(t, []Key{{Routing: []byte("new"), Count: 1}}, s.Top(10).Top)
		time.Sleep(2 * HalfWindow)
		r = s.Top(10)
		assert.Empty(t, r.Top)
		assert.Zero(t, r.Keys)
	})
}

func TestTheSampleGetsThickerWhenTheLoadIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, one := New(), []partition.Key{key(t, "a")}
		for range 100_000 {
			s.Observe(one)
		}
		assert.Greater(t, s.Top(1).OneIn, 8)
		for range 20 * 100 {
			s.Observe(one)
			time.Sleep(10 * time.Millisecond)
		}
		assert.Equal(t, 1, s.Top(1).OneIn)
	})
}

// TestCountsAreWithinTheirError compares a report with exact counts.
func TestCountsAreWithinTheirError(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h, exact := newHalf(time.Time{}), map[string]uint64{}
		var total uint64
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		zipf := rand.NewZipf(random, 1+rapid.Float64Range(0.01, 2).Draw(rt, "skew"), 1, 100_000)
		for range rapid.IntRange(1, 20_000).Draw(rt, "keys") {
			k := strconv.FormatUint(zipf.Uint64(), 10)
			n := 1 + random.Uint64N(4)
			h.add([]byte(k), n)
			exact[k] += n
			total += n
		}
		require.Equal(rt, total, h.total)
		require.LessOrEqual(rt, len(h.heap), capacity)
		require.Len(rt, h.at, len(h.heap))
		for k, n := range exact {
			c, ok := h.at[k]
			if !ok {
				require.LessOrEqual(rt, n, total/capacity, "a hot key was lost")
				continue
			}
			require.LessOrEqual(rt, n, c.count)
			require.LessOrEqual(rt, c.count-c.over, n)
		}
	})
}

func TestHugeKeysAreNotKept(t *testing.T) {
	s := New()
	s.Observe([]partition.Key{key(t, string(make([]byte, maxKeyBytes+1)))})
	r := s.Top(1)
	assert.Empty(t, r.Top)
	assert.Equal(t, uint64(1), r.Keys)
}

// BenchmarkObserve50Keys measures what Observe adds to a lookup of 50 keys.
func BenchmarkObserve50Keys(b *testing.B) {
	s := New()
	lookups := make([][]partition.Key, 64)
	for i := range lookups {
		for j := range 50 {
			lookups[i] = append(lookups[i], key(b, fmt.Sprintf("user-%08d", i*j)))
		}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.Observe(lookups[i%len(lookups)])
	}
}
