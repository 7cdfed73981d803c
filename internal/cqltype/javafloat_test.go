package cqltype

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestJavaFloatsAsJava17PrintsThem(t *testing.T) {
	for want, v := range map[string]float64{
		"0.0":                    0,
		"-0.0":                   math.Copysign(0, -1),
		"1.0":                    1,
		"0.001":                  1e-3,
		"9.99E-4":                9.99e-4,
		"9999999.0":              9999999,
		"1.0E7":                  1e7,
		"1.0E10":                 1e10,
		"9.999999999999999E22":   1e23,
		"1.9999999999999998E23":  2e23,
		"3.9849999999999997E21":  3.985e21,
		"4.9E-324":               math.SmallestNonzeroFloat64,
		"1.7976931348623157E308": math.MaxFloat64,
		"4.0301848979298272E17":  403018489792982727,
		"5.9604644775390625E-8":  0x1p-24,
		"6.32E-322":              128 * math.SmallestNonzeroFloat64,
		"7.9E-323":               0x10 * math.SmallestNonzeroFloat64,
		"3.3773280603696075E25":  math.Float64frombits(0x453befc535cab7fc),
		"2.29376E27":             0x1.da56a4b0835bfp90,
		"2.2937600000000001E27":  0x1.da56a4b0835cp90,
		"9.39524096E30":          0x1.da56a4b0835bfp102,
		"9.395240960000001E30":   0x1.da56a4b0835cp102,
	} {
		assert.Equal(t, want, string(appendJavaFloat(nil, v, 64)))
	}
	for want, v := range map[string]float32{
		"0.1":           0.1,
		"3.4028235E38":  math.MaxFloat32,
		"1.4E-45":       math.SmallestNonzeroFloat32,
		"1.6777216E7":   1 << 24,
		"-4.0956415E25": -4.0956416e25,
		"2.32070277E17": 2.3207028e17,
	} {
		assert.Equal(t, want, string(appendJavaFloat(nil, float64(v), 32)))
	}
}

// TestShortestIsJavaWhereClaimed compares the digits of strconv with those of
// Java's method where strconv replaces it, exponent by exponent.
func TestShortestIsJavaWhereClaimed(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{32, 64} {
		compared := 0
		for exp := range 2047 {
			for range 60 {
				v := math.Float64frombits(uint64(exp)<<52 | r.Uint64()>>12)
				if size == 32 {
					v = float64(math.Float32frombits(uint32(exp%255)<<23 | r.Uint32()>>9))
				}
				n := decompose(v, size)
				width := n.precision - bits.TrailingZeros64(n.mantissa)
				if v == 0 || n.exp <= 62 && width <= n.exp+1 || !n.shortestIsJava() {
					continue
				}
				compared++
				want, wantExp := steeleWhite(nil, n, width)
				got, gotExp := shortestDigits(nil, v, size)
				require.Equal(t, string(layoutDigits(nil, want, wantExp)), string(layoutDigits(nil, got, gotExp)), "%g", v)
			}
		}
		assert.Greater(t, compared, 40_000)
	}
}

func TestJavaFloatsReadBack(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 100_000 {
		v := math.Float64frombits(r.Uint64())
		if math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		got, err := strconv.ParseFloat(string(appendJavaFloat(nil, v, 64)), 64)
		require.NoError(t, err)
		require.Equal(t, math.Float64bits(v), math.Float64bits(got))
	}
}
