package partition

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A product that overflows would pass every bound.
func TestTheValuesOfASliceAreCountedWithoutOverflow(t *testing.T) {
	for values, want := range map[int]int{1: 1, 10: 10_000, 215: 215 * 215 * 215 * 215, 216: math.MaxInt32, 60_000: math.MaxInt32, 1 << 16: math.MaxInt32} {
		s := &Slice{}
		for column := range 4 {
			s.Restrictions = append(s.Restrictions, Restriction{Column: column, Operator: In, Values: make([][]byte, values)})
		}
		assert.Equal(t, want, s.Each(), values)
	}
	assert.Equal(t, 1, (*Slice)(nil).Each())
}
