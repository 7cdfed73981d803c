//go:build chaos

package chaos

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/qosproxy/qosproxy/internal/lab/bench"
)

// served counts the lookups of a period by the proxy's own metrics: under such load the client, on
// the same CPUs, is late itself.
type served struct {
	ended
	seconds float64
	// cpu is the CPU time of the proxy and this process, in seconds.
	cpu float64
}

// late returns the share of lookups that were not in time. One that ends unanswered at its deadline
// counts as late.
func (s *served) late() float64 { return (s.all - s.inTime) / max(s.all, 1) }

// admitted returns how many lookups were not refused.
func (s *served) admitted() float64 { return s.all - s.refused }

// serve loads a proxy and counts its lookups.
func (a *arena) serve(s *subject, load bench.Load, length time.Duration) *served {
	before, cpu := a.ended(s), a.spent(s)
	over := make(chan struct{})
	var log sync.WaitGroup
	log.Go(func() { a.followEnded(s, over) })
	l := a.loadAt(s, load, length)
	close(over)
	log.Wait()
	got := &served{a.ended(s).minus(before), max(l.Seconds, 1), a.spent(s) - cpu}
	a.t.Logf("%s; CPU of proxy and load generator %.2f", l, got.cpu/got.seconds)
	return got
}

// spent returns the CPU time of a proxy and of this process so far, in seconds.
func (a *arena) spent(s *subject) float64 {
	var self syscall.Rusage
	a.must(syscall.Getrusage(syscall.RUSAGE_SELF, &self))
	own := time.Duration(self.Utime.Nano() + self.Stime.Nano())
	return a.sum(s, "process_cpu_seconds_total") + own.Seconds()
}

// followEnded logs the proxy's counts of lookups once a second, to explain failures.
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

// limitNodes limits every node to a share of a CPU until lift is called, once or more.
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

// onOneCPU makes all nodes share one CPU until lift is called, once or more, while the possible
// load is searched and exceeded. The nodes are then the bottleneck, as in production, and the other
// CPUs are for the proxies and the load generator. With a quota of a quarter of a CPU each, nodes
// were stopped for most of any 10 ms, and answered 32 to 229 lookups a second.
func (a *arena) onOneCPU() (lift func()) {
	a.t.Helper()
	a.must(a.site.Apart(true))
	return func() { a.must(a.site.Apart(false)) }
}

// The limits of busiest: how often it warms the nodes, and how often it searches.
const (
	warmings = 8
	searches = 6
)

// mostLate is the largest share of late lookups of a load that counts as possible.
const mostLate = 0.01

// loads are numbers of callers in a closed loop that are searched for the possible load.
var loads = []int{4, 8, 16, 24}

// risen is the factor by which a warm-up must exceed the best one before it to show that the nodes
// still get faster.
const risen = 1.1

// busiest returns the number of callers that get the most lookups per second in time, over all
// searches and with at most mostLate of them late. They ask through a proxy that refuses nothing:
// refused callers would come back at once, and their refusals would be the load. With so little
// CPU, nodes would compile for minutes the code that only a high load needs. So they are warmed
// with all CPUs until they answer no more than before, and the search is repeated until two in a
// row find no more. Scenarios of equal settings share the result. It leaves the nodes on one CPU.
func (a *arena) busiest(settings ...string) int {
	key := strings.Join(settings, ", ")
	if found := a.callers[key]; found > 0 {
		return found
	}
	s := a.unguarded(settings...)
	best := 0.0
	a.must(a.site.Apart(false))
	for left, same := warmings, 0; left > 0 && same < 2; left-- {
		got := a.serve(s, bench.Load{Concurrency: 16}, span(30*time.Second)) // large statements compile, too
		answered := got.all / got.seconds
		if same++; answered >= risen*best {
			same = 0
		}
		best = max(best, answered)
		a.hold(span(cool)) // for the compiler threads
	}
	a.must(a.site.Apart(true))
	sums := make([]served, len(loads))
	most := 0.0
	for left, same := searches, 0; left > 0 && same < 2; left-- {
		before := most
		for i, callers := range loads {
			got := a.serve(s, bench.Load{Concurrency: callers}, 5*time.Second)
			sum := &sums[i]
			sum.all, sum.inTime, sum.seconds = sum.all+got.all, sum.inTime+got.inTime, sum.seconds+got.seconds
			if sum.late() > mostLate && most > 0 {
				break
			}
			most = max(most, got.inTime/got.seconds)
		}
		if same++; most >= risen*before {
			same = 0
		}
	}
	found := loads[0]
	most = 0
	for i := range sums {
		if rate := sums[i].inTime / max(sums[i].seconds, 1); rate > most && sums[i].late() <= mostLate {
			found, most = loads[i], rate
		}
	}
	a.t.Logf("the nodes answer %.0f lookups/s at most, of %d callers", most, found)
	a.callers[key] = found
	return found
}

// possible loads a proxy that refuses nothing with the callers of busiest. The machine's speed varies
// by half from one minute to the next, so it is measured beside what is compared with it.
func (a *arena) possible() *served {
	callers := a.busiest()
	return a.serve(a.unguarded(), bench.Load{Concurrency: callers}, span(10*time.Second))
}

// peak returns the load of those closed loops that has the most lookups in time per second at this
// moment. One that has more callers than the first counts only with at most mostLate of them late.
func (a *arena) peak(settings ...string) *served {
	s := a.unguarded(settings...)
	var best *served
	for _, callers := range loads {
		got := a.serve(s, bench.Load{Concurrency: callers}, span(5*time.Second))
		if best != nil && got.late() > mostLate {
			break
		}
		if best == nil || got.goodput() > best.goodput() {
			best = got
		}
	}
	return best
}

// goodput returns how many lookups were in time per second.
func (s *served) goodput() float64 { return s.inTime / s.seconds }

// atQuorum has a lookup cost the nodes some five times as much as at LOCAL_ONE, and the proxy no more.
// At LOCAL_ONE proxy and client have no time on their CPU for more than twice the possible load.
const atQuorum = "consistency: LOCAL_QUORUM"

// overloads are the loads of the proxy relative to the possible load. At 1.5, the nodes answered
// nearly all of it, since more lookups share a statement; 11 and 16 % were late, and few refused.
var overloads = []float64{3, 2}

// goodput returns the name of the figure for an overload.
func goodput(times float64) string {
	return fmt.Sprintf("in time under %g ×, of the possible", times)
}

func admitted(times float64) string {
	return fmt.Sprintf("not in time under %g ×, of what was not refused", times)
}

// afterLoad is the load after the overload, relative to the possible load.
const afterLoad = 0.4

var afterwards = fmt.Sprintf("not in time 5 s after, at %g ×", afterLoad)

var overload = scenario{
	name: "overload", fault: "at LOCAL_QUORUM 3 × the possible load for 40 s, 2 × for 40 s, then 0.4 ×", without: "admission.enabled false, four times as many keys outstanding at a host",
	promise: "goodput ≥ 90 % of what is possible just before and after; ≥ 93 % of what is not refused in time; ≥ 99 % in time 5 s after",
	rely:    "Under overload as much is answered in time as without it, while the proxy has the CPU to refuse the rest at once; what is not refused is in time.",
	measure: func(a *arena, safe bool) *Outcome {
		o := &Outcome{}
		s := a.subject(3, atQuorum)
		if !safe {
			// Any number of keys would keep the nodes busy long after the load.
			s = a.start(false, 3, []string{atQuorum}, "CHAOS_HOST_KEYS=4096").alone()
		}
		a.busiest(atQuorum)
		lift := a.onOneCPU()
		defer lift()
		before := a.peak(atQuorum)
		for _, times := range overloads {
			got := a.serve(s, bench.Load{Rate: times * before.goodput()}, span(40*time.Second))
			after := a.peak(atQuorum)
			possible := (before.goodput() + after.goodput()) / 2
			o.figure(Least, fmt.Sprintf("possible beside %g ×", times), possible, "lookups/s")
			o.share(fmt.Sprintf("CPU of proxy and client beside %g ×, of the one they share", times), before.cpu+after.cpu, before.seconds+after.seconds)
			o.share(fmt.Sprintf("CPU of both under %g ×", times), got.cpu, got.seconds)
			before = after
			o.share(goodput(times), got.inTime, possible*got.seconds)
			o.share(admitted(times), got.admitted()-got.inTime, got.admitted())
			o.share(fmt.Sprintf("refused under %g ×", times), got.refused, got.all)
		}
		a.loadAt(s, bench.Load{Rate: afterLoad * before.goodput()}, 5*time.Second)
		after := a.serve(s, bench.Load{Rate: afterLoad * before.goodput()}, span(10*time.Second))
		o.share(afterwards, after.all-after.inTime, after.all)
		lift()
		a.back(a.subject(3), a.node(3))
		return o
	},
	judge: func(o *Outcome) []Check {
		checks := []Check{amount(afterwards, o.Value(afterwards)*100, 1, "%")}
		for _, times := range overloads {
			checks = append(checks,
				amount(fmt.Sprintf("of the possible load not in time under %g ×", times), (1-o.Value(goodput(times)))*100, 10, "%"),
				amount(admitted(times), o.Value(admitted(times))*100, 7, "%"))
		}
		return checks
	},
}
