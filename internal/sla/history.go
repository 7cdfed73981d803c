package sla

import (
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Step is one slice of time of a table: 10 s, except the last, which has not ended.
type Step struct {
	// Time is when it began.
	Time time.Time
	Percentiles
}

// History returns the slices of the last five minutes in which a table had a lookup, the
// oldest first; nil for a table without a target. It takes up to a few milliseconds.
func (r *Recorder) History(name string) []Step {
	t, ok := r.current.Load().tables[name]
	if !ok {
		return nil
	}
	parts := t.window.parts(time.Now(), slices5m)
	slices.SortFunc(parts, func(a, b closed) int { return int(a.number - b.number) })
	sum := dense.Get().(*hdrhistogram.Histogram)
	defer dense.Put(sum)
	steps := make([]Step, len(parts))
	for i, p := range parts {
		p.latencies.MergeInto(sum)
		steps[i] = Step{Time: t.window.begin.Add(time.Duration(p.number) * sliceLength), Percentiles: summarize(p.tally, sum)}
		steps[i].Burn = t.target.burn(steps[i].Ratio)
		sum.Reset()
	}
	return steps
}
