package shadow

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// sampleSize is how many durations a sample keeps: all of them up to this number, then a
// random choice of all.
const sampleSize = 200_000

// sample keeps durations for percentiles.
type sample struct {
	kept []time.Duration
	seen int64
}

// add adds a duration.
func (s *sample) add(d time.Duration) {
	s.seen++
	if len(s.kept) < sampleSize {
		s.kept = append(s.kept, d)
	} else if i := rand.Int64N(s.seen); i < sampleSize {
		s.kept[i] = d
	}
}

// Latency is the latency of a side in milliseconds. A percentile is nil if the sample is
// too small for it: p99 needs 100 lookups.
type Latency struct {
	Lookups int64    `json:"lookups"`
	P50     *float64 `json:"p50_ms"`
	P95     *float64 `json:"p95_ms"`
	P99     *float64 `json:"p99_ms"`
	Max     *float64 `json:"max_ms"`
}

// latency returns the percentiles of a sample.
func (s *sample) latency() Latency {
	sorted := slices.Sorted(slices.Values(s.kept))
	at := func(q float64) *float64 {
		n := len(sorted)
		if n == 0 || q < 1 && float64(n)*(1-q) < 1-1e-9 {
			return nil
		}
		ms := float64(sorted[max(int(math.Ceil(q*float64(n)-1e-9))-1, 0)]) / float64(time.Millisecond)
		return &ms
	}
	return Latency{Lookups: s.seen, P50: at(0.5), P95: at(0.95), P99: at(0.99), Max: at(1)}
}
