package experiment

import (
	"fmt"

	"github.com/qosproxy/qosproxy/internal/lab/report"
)

// offered is the arrival rate of an open loop in lookups per second.
func offered(r *report.Round) *float64 { return &r.OfferedRate }

// find returns the run of a target under a condition, or nil.
func find(r *report.Report, target, condition string) *report.Run {
	for i := range r.Runs {
		if r.Runs[i].Target == target && r.Runs[i].Condition == condition {
			return &r.Runs[i]
		}
	}
	return nil
}

// atMost adds the finding whether a ratio is at most a limit, if it was measured.
func atMost(r *report.Report, claim string, limit float64, a *report.Run, fa report.Figure, b *report.Run, fb report.Figure) {
	if got := report.Ratio(a, fa, b, fb); got.Rounds > 0 {
		r.Findings = append(r.Findings, report.Finding{Claim: fmt.Sprintf("%s ≤ %.3g", claim, limit), Seen: got.String(), Holds: got.Median <= limit})
	}
}

// atLeast is atMost for a ratio that must be at least a limit.
func atLeast(r *report.Report, claim string, limit float64, a *report.Run, fa report.Figure, b *report.Run, fb report.Figure) {
	if got := report.Ratio(a, fa, b, fb); got.Rounds > 0 {
		r.Findings = append(r.Findings, report.Finding{Claim: fmt.Sprintf("%s ≥ %.3g", claim, limit), Seen: got.String(), Holds: got.Median >= limit})
	}
}

// within adds the finding whether a figure in milliseconds is at most a limit, if it was measured.
func within(r *report.Report, claim string, limit float64, run *report.Run, figure report.Figure) {
	if run == nil {
		return
	}
	if got := run.Merge(figure); got.Rounds > 0 {
		r.Findings = append(r.Findings, report.Finding{Claim: fmt.Sprintf("%s ≤ %.3g ms", claim, limit), Seen: got.String() + " ms", Holds: got.Median <= limit})
	}
}

// adds adds the finding whether the p50 of a is at most limit milliseconds above that of b.
func adds(r *report.Report, claim string, limit float64, a, b *report.Run) {
	if a == nil || b == nil {
		return
	}
	of, beside := a.Merge(report.P50), b.Merge(report.P50)
	if of.Rounds == 0 || beside.Rounds == 0 {
		return
	}
	added := of.Median - beside.Median
	r.Findings = append(r.Findings, report.Finding{Claim: fmt.Sprintf("%s ≤ %.3g ms", claim, limit), Seen: fmt.Sprintf("%.2f ms", added), Holds: added <= limit})
}
