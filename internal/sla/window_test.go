package sla

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func observe(r *Recorder, d time.Duration) {
	r.Observe(&Lookup{Table: shop, Keys: 50, Code: "OK", Duration: d, Groups: 6})
}

func TestALookupLeavesAWindowWithItsSlice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := recorder(t)
		counts := func() [2]int64 { return [2]int64{snapshot(t, r, Minute).Count, snapshot(t, r, FiveMinutes).Count} }

		time.Sleep(3 * time.Second)
		observe(r, 200*time.Millisecond) // in the slice of 0 s to 10 s
		assert.Equal(t, [2]int64{1, 1}, counts())

		time.Sleep(57*time.Second - 1)
		assert.Equal(t, [2]int64{1, 1}, counts(), "a nanosecond before a minute from the start of the slice")
		time.Sleep(time.Nanosecond)
		assert.Equal(t, [2]int64{0, 1}, counts(), "a minute from the start of the slice")
		assert.InDelta(t, 1.0, snapshot(t, r, Minute).Ratio, 0)
		assert.InDelta(t, 0.0, snapshot(t, r, FiveMinutes).Ratio, 0)

		time.Sleep(4*time.Minute - 1)
		assert.Equal(t, [2]int64{0, 1}, counts(), "a nanosecond before five minutes from the start of the slice")
		time.Sleep(time.Nanosecond)
		assert.Equal(t, [2]int64{0, 0}, counts(), "five minutes from the start of the slice")
	})
}

func TestAWindowHoldsTheLatestSlices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := recorder(t)
		// One lookup a second for twenty minutes, of as many milliseconds as seconds
		// have passed.
		for s := range 1200 {
			observe(r, time.Duration(s)*time.Millisecond)
			time.Sleep(time.Second)
		}
		time.Sleep(-1 + time.Second) // 1200.999 s: the current slice is empty
		one, five := snapshot(t, r, Minute), snapshot(t, r, FiveMinutes)
		assert.Equal(t, int64(50), one.Count, "five slices and an empty one")
		assert.Equal(t, int64(290), five.Count)
		assert.Equal(t, 1199*time.Millisecond, five.Max)
		assert.InEpsilon(t, 1174.5, float64(one.P50)/1e6, 0.002, "the median of 1150 to 1199")
		assert.InEpsilon(t, 1054.5, float64(five.P50)/1e6, 0.002, "the median of 910 to 1199")
	})
}

func TestAnIdleTableForgetsWithoutBeingAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := recorder(t)
		observe(r, time.Second)
		time.Sleep(24*time.Hour + 5*time.Second)
		const d = 123456789 * time.Nanosecond
		observe(r, d)
		p := snapshot(t, r, FiveMinutes)
		assert.Equal(t, int64(1), p.Count)
		assert.Equal(t, d, p.Max)
		assert.Equal(t, d, p.P999, "no quantile is above the longest")
	})
}

func TestLengthsOfWindowsAreHeldToWhatIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := recorder(t)
		for range 60 {
			observe(r, time.Millisecond)
			time.Sleep(10 * time.Second)
		}
		observe(r, time.Millisecond)
		for length, want := range map[time.Duration]int64{0: 1, -time.Hour: 1, time.Second: 1, 10 * time.Second: 1, 11 * time.Second: 2, Minute: 6, time.Hour: 30} {
			assert.Equal(t, want, snapshot(t, r, length).Count, "%s", length)
		}
	})
}

func TestPercentilesAreWithinAPercentOfTheExactOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := recorder(t)
		rng := rand.New(rand.NewPCG(1, 2))
		exact := make([]float64, 50_000)
		for i := range exact {
			d := time.Duration(6e6 * math.Exp(0.9*rng.NormFloat64())) // median 6 ms
			exact[i] = float64(d)
			observe(r, d)
			if i%1000 == 999 {
				time.Sleep(time.Second)
			}
		}
		slices.Sort(exact)
		p := snapshot(t, r, Minute)
		require.Equal(t, int64(len(exact)), p.Latencies)
		for share, got := range map[float64]time.Duration{0.5: p.P50, 0.95: p.P95, 0.99: p.P99, 0.999: p.P999, 1: p.Max} {
			want := exact[int(math.Ceil(share*float64(len(exact))))-1]
			assert.InEpsilon(t, want, float64(got), 0.002, "share %v", share)
		}
	})
}

func TestNoLookupIsLostAcrossSlices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := recorder(t)
		var wg sync.WaitGroup
		for worker := range 8 {
			wg.Go(func() {
				for range 400 {
					observe(r, time.Millisecond)
					time.Sleep(time.Duration(worker+1) * 13 * time.Millisecond)
				}
			})
		}
		for range 40 {
			snapshot(t, r, Minute)
			time.Sleep(time.Second)
		}
		wg.Wait()
		assert.Equal(t, int64(8*400), snapshot(t, r, FiveMinutes).Count)
	})
}

func TestALookupThatWasOvertakenStillCounts(t *testing.T) {
	w := &window{begin: time.Now()}
	w.record(w.begin.Add(25*time.Second), time.Millisecond, true, true)
	w.record(w.begin.Add(15*time.Second), time.Millisecond, true, true)
	w.record(w.begin.Add(26*time.Second), time.Millisecond, true, true)
	w.record(w.begin.Add(31*time.Second), time.Millisecond, true, true)
	assert.Equal(t, int64(4), w.percentiles(w.begin.Add(32*time.Second), 6).Count)
}
