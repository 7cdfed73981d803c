package chaos

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// harmOf is an outcome of no-harm whose loads are all alike but the first, which is light.
func harmOf(c compared) *Outcome {
	o := &Outcome{}
	for i, one := range harmCells() {
		c := c
		if i == 0 {
			c = compared{inTime: 500, inTimeWithout: 500}
		}
		o.detail(one.figure(harmInTime), c.inTime)
		o.detail(one.figure(harmRefused), c.refused)
		o.detail(one.figure(harmInTimeWithout), c.inTimeWithout)
		o.detail(one.figure(harmLateWithout), c.lateWithout)
	}
	return o
}

func TestHarmIsToldFromChance(t *testing.T) {
	for name, tt := range map[string]struct {
		seen         compared
		kept, broken bool
	}{
		"as many":                       {compared{500, 0, 500, 0}, true, false},
		"more, and late without":        {compared{500, 900, 100, 400}, true, false},
		"refused for lateness":          {compared{480, 900, 480, 40}, true, false},
		"refused for nothing":           {compared{500, 1, 500, 5}, false, true},
		"fewer by chance, late without": {compared{440, 0, 500, 50}, true, false},
		"far fewer":                     {compared{350, 900, 500, 50}, false, true},
		"fewer on average":              {compared{470, 0, 500, 0}, false, false},
		"nothing in time either way":    {compared{0, 900, 0, 500}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			one := harmOf(tt.seen)
			v := &Verdict{Tries: []*Outcome{one}, Control: one}
			v.Judge(judgeHarm)
			assert.Equal(t, tt.kept, v.Kept, v.NotKept())
			assert.Equal(t, tt.broken, v.Proven())
			assert.Empty(t, one.String(), "details are for the judge")
		})
	}
}
