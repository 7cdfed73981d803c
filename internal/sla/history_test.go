package sla

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestHistoryIsTheSlicesOfFiveMinutesThatHadLookups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := recorder(t)
		begin := time.Now()
		assert.Empty(t, r.History(shop))
		assert.Nil(t, r.History("no.such"))
		for s := range 50 { // slices, the 40th to the 42nd without a lookup
			if s < 40 || s > 42 {
				observe(r, time.Duration(100-s)*time.Millisecond)
				observe(r, 10*time.Second)
			}
			time.Sleep(sliceLength)
		}
		observe(r, 7*time.Millisecond)
		steps := r.History(shop)
		require.Len(t, steps, int(slices5m)-3)
		assert.Equal(t, begin.Add(21*sliceLength), steps[0].Time)
		for i, s := range steps[:len(steps)-1] {
			n := int(s.Time.Sub(begin) / sliceLength)
			assert.Equal(t, []int64{2, 2}, []int64{s.Count, s.Latencies})
			assert.InEpsilon(t, float64(time.Duration(100-n)*time.Millisecond), float64(s.P50), 0.002, "of its own slice alone")
			assert.Equal(t, 0.5, s.Ratio)
			assert.Greater(t, s.Burn, 1.0)
			if i > 0 {
				assert.True(t, s.Time.After(steps[i-1].Time))
			}
		}
		last := steps[len(steps)-1]
		assert.Equal(t, begin.Add(50*sliceLength), last.Time, "the current one")
		assert.Equal(t, 7*time.Millisecond, last.Max)
	})
}

func BenchmarkHistory(b *testing.B) {
	r, err := New(nil, map[string]Target{shop: {Percentile: 95, Target: time.Second}})
	require.NoError(b, err)
	w := r.current.Load().tables[shop].window
	for i := range slices5m * 100 {
		w.record(w.begin.Add(time.Duration(i)*sliceLength/100), time.Duration(i%97)*time.Millisecond, true, true)
	}
	b.ReportAllocs()
	for b.Loop() {
		r.History(shop)
	}
}
