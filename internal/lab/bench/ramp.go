package bench

import (
	"fmt"

	"github.com/qosproxy/qosproxy/internal/lab/report"
)

// Ramp finds the capacity of a target: the highest rate at which the SLA holds. It multiplies the
// rate by Factor until two stages in a row fail, and then bisects between the highest rate that
// held and the lowest that did not. If the first rate does not hold, it is halved up to five times,
// to a 32nd.
type Ramp struct {
	// From is the first rate and To the highest, in lookups per second.
	From, To float64
	// Factor is the growth of the rate from stage to stage, above 1.
	Factor float64
	// Bisections is their number at the end.
	Bisections int
}

// DefaultRamp finds a capacity between 5 and 100,000 lookups per second to some 5 %.
func DefaultRamp() *Ramp { return &Ramp{From: 5, To: 100_000, Factor: 1.5, Bisections: 3} }

// mostFailed is the largest share of failed and partial lookups in a stage that holds.
const mostFailed = 0.001

// holds reports whether a stage met the SLA: enough lookups were in time, and next to none failed.
// A target that cannot keep pace with the arrivals fails, because lookups that are not sent count
// as failed.
func holds(r *report.Round, sla report.SLA) bool {
	lost := float64(r.Counts.Failed+r.Counts.Partial) / float64(max(r.Counts.Lookups, 1))
	late := float64(r.Counts.Late) / float64(max(r.Counts.Lookups, 1))
	return r.Counts.Lookups > 0 && lost <= mostFailed && late <= 1-sla.Percentile/100
}

// descents is how often the first rate is halved at most.
const descents = 5

// start returns the first stage that holds, at From or at a lower rate. It is an error if none
// does.
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

// climb returns the stage with the highest rate that held. It is an error if none did.
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
