//go:build chaos

package chaos

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/qosproxy/qosproxy/internal/lab/bench"
)

// served is what a proxy has made of the lookups of a stretch, by its own count: under such
// load the client, on the same CPUs, is late itself.
type served struct {
	ended
	seconds float64
}

// admitted is how many were not refused.
func (s *served) admitted() float64 { return s.all - s.refused }

// serve loads a proxy and counts.
func (a *arena) serve(s *subject, load bench.Load, length time.Duration) *served {
	before := a.ended(s)
	over := make(chan struct{})
	var log sync.WaitGroup
	log.Go(func() { a.followEnded(s, over) })
	l := a.loadAt(s, load, length)
	close(over)
	log.Wait()
	got := a.ended(s).minus(before)
	a.t.Logf("%s", l)
	return &served{got, max(l.Seconds, 1)}
}

// followEnded logs once a second what a proxy has made of the lookups, so that a failure can be
// read.
func (a *arena) followEnded(s *subject, over <-chan struct{}) {
	var seen []string
	for last := a.ended(s); ; {
		select {
		case <-over:
			a.t.Logf("in time/not refused, and the limit of keys, by second: %s", strings.Join(seen, " "))
			return
		case <-time.After(time.Second):
		}
		now := a.ended(s)
		got := now.minus(last)
		last = now
		seen = append(seen, fmt.Sprintf("%.0f/%.0f:%.0f", got.inTime, got.all-got.refused, a.sum(s, "qosproxy_admission_limit_keys")))
	}
}

// nodeShare is the share of a CPU that each node has, and gets, while the possible load
// is looked for and exceeded: nodes are the bottleneck then, as they are in production,
// and what is left of the machine is for the proxy and the load generator. With 0.15 three nodes
// answered 78 lookups a second: two at a time, which is the least that is let in, were too many.
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

// The bounds of peak: how often the nodes are warmed, and how often the load is looked for.
const (
	warmings = 6
	searches = 6
)

// risen is how much more a stretch must answer than the best before it to say that nodes
// still become faster.
const risen = 1.1

// peak returns the most lookups per second that the nodes answer with at most one in a
// hundred late. They are asked through a proxy that refuses nothing: callers that are
// refused come back at once, and their refusals would be the load. Nodes with so little CPU
// compile for minutes what a high load is the first to need. So they are warmed with all the CPU
// there is until they answer no more than before, and the load is looked for until two searches
// in turn find no more; once for all scenarios. It leaves the nodes held to nodeShare.
func (a *arena) peak() float64 {
	if a.most > 0 {
		return a.most
	}
	s := a.unguarded()
	best := 0.0
	a.limitNodes(0)
	for range warmings {
		before := best
		got := a.serve(s, bench.Load{Concurrency: 16}, span(30*time.Second)) // large statements compile, too
		if best = max(best, got.all/got.seconds); best < risen*before {
			break
		}
	}
	a.limitNodes(nodeShare)
	for left, same := searches, 0; left > 0 && same < 2; left-- {
		before := a.most
		for _, callers := range []int{2, 4, 6, 8} {
			// What ends unanswered at its deadline is as late as what comes after it.
			got := a.serve(s, bench.Load{Concurrency: callers}, 5*time.Second)
			if late := (got.all - got.inTime) / max(got.all, 1); late > 0.01 && a.most > 0 {
				break
			}
			a.most = max(a.most, got.inTime/got.seconds)
		}
		if same++; a.most >= risen*before {
			same = 0
		}
	}
	a.t.Logf("the nodes answer %.0f lookups/s at most", a.most)
	return a.most
}

// overloads are how many times the possible load the proxy is asked for. For ten times, 2,200
// lookups a second, proxy and load generator took what the nodes should have had of the CPUs.
var overloads = []float64{5, 3}

// goodput is the name of a figure.
func goodput(times float64) string {
	return fmt.Sprintf("in time under %.0f ×, of the possible", times)
}

func admitted(times float64) string {
	return fmt.Sprintf("not in time under %.0f ×, of what was not refused", times)
}

// afterLoad is what part of the possible is asked for afterwards. The possible is the best that
// the nodes have shown: at 0.6 of it they were by themselves late for 1 to 4 %.
const afterLoad = 0.4

var afterwards = fmt.Sprintf("not in time 5 s after, at %g ×", afterLoad)

var overload = scenario{
	name: "overload", fault: "5 × the possible load for 20 s, 3 × for 20 s, then 0.4 ×", without: "admission.enabled false",
	promise: "goodput ≥ 90 % of the possible; ≥ 92 % of what is not refused in time; ≥ 99 % in time 5 s after",
	rely:    "Under any load as much is answered in time as without it; the rest is refused at once, and what is not refused is in time.",
	measure: func(a *arena, safe bool) *Outcome {
		o := &Outcome{}
		s := a.subject(3)
		if !safe {
			s = a.unguarded()
		}
		lift := a.limitNodes(nodeShare)
		defer lift()
		peak := a.peak()
		o.figure(Least, "possible", peak, "lookups/s")
		for _, times := range overloads {
			got := a.serve(s, bench.Load{Rate: times * peak}, span(20*time.Second))
			o.share(goodput(times), got.inTime, peak*got.seconds)
			o.share(admitted(times), got.admitted()-got.inTime, got.admitted())
			o.share(fmt.Sprintf("refused under %.0f ×", times), got.refused, got.all)
		}
		a.loadAt(s, bench.Load{Rate: afterLoad * peak}, 5*time.Second)
		after := a.serve(s, bench.Load{Rate: afterLoad * peak}, span(10*time.Second))
		o.share(afterwards, after.all-after.inTime, after.all)
		lift()
		a.back(a.subject(3), a.node(3))
		return o
	},
	judge: func(o *Outcome) []Check {
		checks := []Check{amount(afterwards, o.Value(afterwards)*100, 1, "%")}
		for _, times := range overloads {
			checks = append(checks,
				amount(fmt.Sprintf("of the possible load not in time under %.0f ×", times), (1-o.Value(goodput(times)))*100, 10, "%"),
				amount(admitted(times), o.Value(admitted(times))*100, 8, "%"))
		}
		return checks
	},
}
