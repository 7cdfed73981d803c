package chaos

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// harmOf returns an outcome of no-harm whose loads are alike, except for a light first one. Of six
// pairs each, those with admission are in time alternately more and less often, by a share swing.
func harmOf(c compared, swing float64) *Outcome {
	o := &Outcome{}
	for i, one := range harmCells() {
		c := c
		if i == 0 {
			c = compared{inTime: 500, inTimeWithout: 500}
		}
		for pair := range 6 {
			c := c
			if swing *= -1; pair%2 == 0 {
				c.refused, c.lateWithout = 0, 0 // they are all in the other pairs
			} else {
				c.refused, c.lateWithout = c.refused/3, c.lateWithout/3
			}
			c.inTime, c.inTimeWithout = c.inTime/6+swing*c.inTimeWithout/6, c.inTimeWithout/6
			one.note(o, c)
		}
	}
	return Merge(o)
}

func TestHarmIsToldFromChance(t *testing.T) {
	for name, tt := range map[string]struct {
		seen         compared
		swing        float64
		kept, broken bool
	}{
		"as many":                       {compared{inTime: 500, inTimeWithout: 500}, 0, true, false},
		"more, and late without":        {compared{inTime: 500, refused: 900, inTimeWithout: 100, lateWithout: 400}, 0, true, false},
		"refused for lateness":          {compared{inTime: 480, refused: 900, inTimeWithout: 480, lateWithout: 40}, 0, true, false},
		"refused for nothing":           {compared{inTime: 500, refused: 3, inTimeWithout: 500, lateWithout: 5}, 0, false, true},
		"fewer by chance, late without": {compared{inTime: 440, inTimeWithout: 500, lateWithout: 50}, 0, true, false},
		"far fewer":                     {compared{inTime: 350, refused: 900, inTimeWithout: 500, lateWithout: 50}, 0, false, true},
		"fewer on average":              {compared{inTime: 4700, inTimeWithout: 5000}, 0, false, false},
		"nothing in time either way":    {compared{refused: 900, lateWithout: 500}, 0, true, false},
		"fewer than by counts alone":    {compared{inTime: 4400, inTimeWithout: 5000, lateWithout: 500}, 0, false, true},
		"as few of loads that scatter":  {compared{inTime: 4400, inTimeWithout: 5000, lateWithout: 500}, 0.2, true, false},
		"too few even for that":         {compared{inTime: 3400, inTimeWithout: 5000, lateWithout: 500}, 0.2, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			one := harmOf(tt.seen, tt.swing)
			v := &Verdict{Tries: []*Outcome{one}, Control: one}
			v.Judge(judgeHarm)
			assert.Equal(t, tt.kept, v.Kept, v.NotKept())
			assert.Equal(t, tt.broken, v.Proven())
			assert.Empty(t, one.String(), "details are for the judge")
		})
	}
}

// The scatter is estimated from all loads that need no admission: one alone has too few pairs.
func TestLoadsScatterAlike(t *testing.T) {
	calm := compared{inTime: 600, inTimeWithout: 600, pairs: 6, squares: 6 * 4}
	wild := compared{inTime: 600, inTimeWithout: 600, pairs: 6, squares: 6 * 40 * 40}
	late := compared{inTime: 60, inTimeWithout: 600, lateWithout: 60, pairs: 6, squares: 6 * 90 * 90}
	assert.InDelta(t, 6./5*6*40*40, wild.variance(), 1)
	assert.InDelta(t, wild.variance()/600/600/2, scatter([]compared{calm, wild, late}), 1e-4, "not by what is late")
	assert.Zero(t, scatter([]compared{late, {}}))
	few := compared{inTime: 480, inTimeWithout: 600, pairs: 6, squares: 6 * 20 * 20}
	assert.True(t, few.harmed(0))
	assert.False(t, few.harmed(0.01), "others scatter by a tenth")
}
