package sla

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The sliding windows. Time is cut into slices, counted from the start of the
// recorder; a window is the current slice and those before it that began
// within its length. So it never holds anything older than its length, and
// forgets in steps of one slice.
const (
	sliceLength = 10 * time.Second
	slices5m    = int64(5 * time.Minute / sliceLength)
)

// The resolution of latencies: a microsecond, three significant digits, and all
// above a minute as a minute.
const (
	resolution = time.Microsecond
	longest    = time.Minute
	digits     = 3
)

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(longest/resolution), digits)
}

// tally holds the counts of one slice.
type tally struct {
	// total is the number of lookups that count for the SLO, and good that of those that
	// met it.
	total, good int64
	// max is the longest latency.
	max time.Duration
}

func (t *tally) add(o tally) {
	t.total += o.total
	t.good += o.good
	t.max = max(t.max, o.max)
}

// closed is a slice that is over; it does not change any more.
type closed struct {
	number int64
	tally
	latencies *hdrhistogram.PackedHistogram
}

// window keeps the lookups of one table over the last five minutes. A dense
// histogram takes the current slice; a slice that is over is kept packed, at a
// tenth of the size. Safe for concurrent use.
type window struct {
	begin time.Time

	mu      sync.Mutex
	number  int64 // of the current slice
	now     tally
	current *hdrhistogram.Histogram // nil before the first lookup
	past    [slices5m]closed        // by number modulo the length
}

// record adds a lookup that has just ended. Only a latency is part of the percentiles.
func (w *window) record(now time.Time, d time.Duration, good, latency bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advance(now)
	w.now.total++
	if good {
		w.now.good++
	}
	if !latency {
		return
	}
	w.now.max = max(w.now.max, d)
	// In range after the clamping, so there is no error.
	_ = w.current.RecordValue(int64(min(max(d, 0), longest) / resolution))
}

// advance closes the current slice if it is over.
func (w *window) advance(now time.Time) {
	if w.current == nil {
		w.current = newHistogram()
	}
	number := int64(now.Sub(w.begin) / sliceLength)
	if number <= w.number { // a caller that was overtaken counts in the current slice
		return
	}
	if w.now.total > 0 {
		w.past[w.number%slices5m] = closed{w.number, w.now, pack(w.current)}
		w.current.Reset()
		w.now = tally{}
	}
	w.number = number
}

func pack(h *hdrhistogram.Histogram) *hdrhistogram.PackedHistogram {
	p := hdrhistogram.NewPacked(1, int64(longest/resolution), digits)
	p.MergeFrom(h)
	p.Compact()
	return p
}

// dense pools histograms for sums of slices.
var dense = sync.Pool{New: func() any { return newHistogram() }}

// percentiles sums up the last n slices, the current one among them.
func (w *window) percentiles(now time.Time, n int64) Percentiles {
	parts := w.parts(now, n)
	sum := dense.Get().(*hdrhistogram.Histogram)
	defer func() {
		sum.Reset()
		dense.Put(sum)
	}()
	var t tally
	for _, p := range parts {
		t.add(p.tally)
		p.latencies.MergeInto(sum)
	}
	return summarize(t, sum)
}

// parts returns the slices of a window that have lookups. They are immutable, so that
// they are summed up without the mutex.
func (w *window) parts(now time.Time, n int64) []closed {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advance(now)
	parts := make([]closed, 0, n)
	if w.now.total > 0 {
		parts = append(parts, closed{w.number, w.now, pack(w.current)})
	}
	for _, p := range w.past {
		if p.latencies != nil && p.number > w.number-n {
			parts = append(parts, p)
		}
	}
	return parts
}

func summarize(t tally, h *hdrhistogram.Histogram) Percentiles {
	p := Percentiles{Count: t.total, Max: t.max, Ratio: 1}
	if t.total > 0 {
		p.Ratio = float64(t.good) / float64(t.total)
	}
	p.Latencies = h.TotalCount()
	// A quantile is the upper bound of its bucket, which may exceed the longest latency.
	at := func(percentile float64) time.Duration {
		return min(time.Duration(h.ValueAtPercentile(percentile))*resolution, t.max)
	}
	p.P50, p.P95, p.P99, p.P999 = at(50), at(95), at(99), at(99.9)
	return p
}
