//go:build chaos

package chaos

import (
	"time"

	"github.com/qosproxy/qosproxy/internal/bench"
	"github.com/qosproxy/qosproxy/internal/report"
)

// goodput is the lookups per second that were answered in full and in time.
func goodput(r *report.Round) float64 { return float64(r.Counts.OK-r.Counts.Late) / r.Seconds }

var overload = scenario{
	name: "overload", fault: "10 × the possible load for 30 s", quick: true, without: "admission.enabled false",
	promise: "goodput ≥ 90 % of the peak; p99 of what is answered ≤ 125 ms",
	measure: func(a *arena, safe bool) outcome {
		var o outcome
		s := a.subject(3)
		if !safe {
			s = a.unguarded()
		}
		peak := 0.0
		for _, callers := range []int{2, 4, 8} {
			peak = max(peak, goodput(a.loadAt(s, bench.Load{Concurrency: callers}, 5*time.Second)))
		}
		all, late := a.late(s)
		during := a.loadAt(s, bench.Load{Rate: 10 * peak}, span(30*time.Second))
		allAfter, lateAfter := a.late(s)
		share := (lateAfter - late) / max(allAfter-all, 1)
		o.note("peak", "%.0f lookups/s", peak)
		o.note("under 10 ×:", "%.0f lookups/s in time", goodput(during))
		o.note("answered in full but late", "%.2f %%", share*100)
		o.require(goodput(during) >= 0.9*peak, "goodput %.0f of %.0f lookups/s", goodput(during), peak)
		o.require(share <= 0.01, "%.1f %% of what was answered was late", share*100)
		a.back(a.subject(3), a.node(3))
		return o
	},
}
