//go:build chaos

package chaos

import (
	"fmt"
	"time"

	"github.com/qosproxy/qosproxy/internal/bench"
)

// goodput loads a proxy and returns the lookups per second that it answered in full
// and in time, and the share of its full answers that were late. It is counted at the
// proxy: under such load the client, on the same CPUs, is late itself.
func (a *arena) goodput(s *subject, load bench.Load, length time.Duration) (perSecond, late float64) {
	_, fullBefore, inTimeBefore := a.within(s)
	r := a.loadAt(s, load, length)
	_, fullAfter, inTimeAfter := a.within(s)
	full, inTime := fullAfter-fullBefore, inTimeAfter-inTimeBefore
	a.t.Logf("%s; %s", seen(r), spent(r))
	return inTime / max(r.Seconds, 1), (full - inTime) / max(full, 1)
}

// answered loads a proxy with so many lookups per second and returns the share of them
// that it answered in full and in time, from the sixth second on.
func (a *arena) answered(s *subject, rate float64) float64 {
	a.loadAt(s, bench.Load{Rate: rate}, 5*time.Second)
	askedBefore, _, inTimeBefore := a.within(s)
	r := a.loadAt(s, bench.Load{Rate: rate}, span(30*time.Second))
	asked, _, inTime := a.within(s)
	a.t.Logf("%s; %s", seen(r), spent(r))
	return (inTime - inTimeBefore) / max(asked-askedBefore, 1)
}

// nodeShare is the share of a CPU that each node has, and gets, while the possible load
// is looked for and exceeded: nodes are the bottleneck then, as they are in production,
// and what is left of the machine is for the proxy and the load generator.
const nodeShare = 0.25

// limitNodes holds every node to a share of a CPU until lift is called, once or more.
func (a *arena) limitNodes(share float64) (lift func()) {
	a.t.Helper()
	set := func(share float64) {
		for _, n := range a.cluster.Nodes() {
			a.must(n.LimitCPU(share))
		}
	}
	set(share)
	return func() { set(0) }
}

// peak returns the most lookups per second that the nodes answer with at most one in a
// hundred late, as is promised of what is answered under more. They are
// asked through a proxy that refuses nothing: callers that are refused come back at
// once, and their refusals would be the load. It is looked for until it rises no
// more: under such load, and with so little CPU, nodes compile for a while.
func (a *arena) peak() float64 {
	s, peak := a.unguarded(), 0.0
	for range 6 {
		before := peak
		for _, callers := range []int{2, 4, 6, 8} {
			rate, late := a.goodput(s, bench.Load{Concurrency: callers}, 5*time.Second)
			if late > 0.01 && peak > 0 {
				break
			}
			peak = max(peak, rate)
		}
		if peak < 1.1*before {
			break
		}
	}
	return peak
}

var overload = scenario{
	name: "overload", fault: "10 × the possible load for 30 s, 3 × for 30 s, then 0.7 ×", without: "admission.enabled false",
	promise: "goodput ≥ 90 % of the peak; p99 of what is answered ≤ 125 ms; full goodput 5 s after",
	measure: func(a *arena, safe bool) outcome {
		var o outcome
		s := a.subject(3)
		if !safe {
			s = a.unguarded()
		}
		lift := a.limitNodes(nodeShare)
		defer lift()
		peak := a.peak()
		o.note("peak", "%.0f lookups/s", peak)
		before := a.answered(s, 0.7*peak)
		for _, times := range []float64{10, 3} {
			during, share := a.goodput(s, bench.Load{Rate: times * peak}, span(30*time.Second))
			o.note(fmt.Sprintf("under %.0f ×:", times), "%.0f lookups/s in time, %.2f %% of the full answers late", during, share*100)
			o.require(during >= 0.9*peak, "goodput %.0f of %.0f lookups/s under %.0f ×", during, peak, times)
			o.require(share <= 0.01, "%.1f %% of what was answered was late", share*100)
		}
		after := a.answered(s, 0.7*peak)
		o.note("5 s after, at 0.7 ×:", "%.2f %% of the lookups answered in time (%.2f %% before)", after*100, before*100)
		o.require(after >= 0.99, "%.1f %% in time afterwards, %.1f %% before", after*100, before*100)
		lift()
		a.back(a.subject(3), a.node(3))
		return o
	},
}
