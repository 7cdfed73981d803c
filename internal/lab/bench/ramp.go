package bench

import (
	"fmt"

	"github.com/qosproxy/qosproxy/internal/lab/report"
)

// Ramp finds the capacity of a target: the highest rate at which the SLA holds.
// It climbs by Factor until two stages in a row fail, and then halves the step
// between the best rate that held and the least that did not. When the first rate
// does not hold it is halved, down to a 32nd, until one does.
type Ramp struct {
	// From is the first rate in lookups per second; To is where it ends at the
	// latest.
	From, To float64
	// Factor is what the rate grows by from stage to stage, above 1.
	Factor float64
	// Bisections is how often the step is halved at the end.
	Bisections int
}

// DefaultRamp finds a capacity between 5 and 100,000 lookups per second to some
// 5 %.
func DefaultRamp() *Ramp { return &Ramp{From: 5, To: 100_000, Factor: 1.5, Bisections: 3} }

// mostFailed is the share of lookups that may fail in a stage that holds.
const mostFailed = 0.001

// holds reports whether a stage met the SLA: the percentile in time, next to no
// lookup failed, and the target kept pace with the arrivals.
func holds(r *report.Round, sla report.SLA) bool {
	lost := float64(r.Counts.Failed+r.Counts.Partial) / float64(max(r.Counts.Lookups, 1))
	late := float64(r.Counts.Late) / float64(max(r.Counts.Lookups, 1))
	return r.Counts.Lookups > 0 && lost <= mostFailed && late <= 1-sla.Percentile/100
}

// descents is how often the first rate is halved at most.
const descents = 5

// start returns the rate at which to begin: From, or as much less as holds.
func (r *Ramp) start(sla report.SLA, stage func(rate float64) (report.Round, error)) (*report.Round, error) {
	rate := r.From
	for range descents + 1 {
		got, err := stage(rate)
		if err != nil || holds(&got, sla) {
			return &got, err
		}
		rate /= 2
	}
	return nil, fmt.Errorf("not even at %g lookups/s does the SLA hold (p%g ≤ %g ms)", rate*2, sla.Percentile, sla.TargetSeconds*1000)
}

// climb returns the best stage that held. When none does, it is an error.
func (r *Ramp) climb(sla report.SLA, stage func(rate float64) (report.Round, error)) (report.Round, error) {
	best, err := r.start(sla, stage)
	if err != nil {
		return report.Round{}, err
	}
	failedAt := 0.0
	for rate := best.OfferedRate * r.Factor; rate <= r.To; rate *= r.Factor {
		got, err := stage(rate)
		if err != nil {
			return got, err
		}
		if holds(&got, sla) {
			best, failedAt = &got, 0
			continue
		}
		if failedAt > 0 {
			break
		}
		failedAt = rate
	}
	if failedAt == 0 {
		return *best, nil
	}
	for range r.Bisections {
		rate := (best.OfferedRate + failedAt) / 2
		got, err := stage(rate)
		if err != nil {
			return got, err
		}
		if holds(&got, sla) {
			best = &got
		} else {
			failedAt = rate
		}
	}
	return *best, nil
}
