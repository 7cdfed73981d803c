//go:build chaos

package chaos

import (
	"context"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/qosproxy/qosproxy/internal/bench"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/report"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// The promises under a fault.
const (
	promisedTail  = 25 * time.Millisecond // p99 above that before
	promisedExtra = 0.05                  // sub-queries beyond the first attempts
	promisedBack  = time.Minute           // until a host that is well is asked again
)

// noHedge are the settings of the control in which nothing is asked twice.
var noHedge = []string{"speculative_retry: NONE"}

// underFault loads a proxy before, during and after a fault of node 3 and holds it
// to the promises of the scoreboard's first line. The fault is over when it
// returns.
func (a *arena) underFault(s *subject, length time.Duration, fault func()) outcome {
	var o outcome
	before := a.load(s, span(20*time.Second))
	during := a.during(s, length, fault)
	back := a.back(s, a.node(3))
	after := a.load(s, span(20*time.Second))
	o.note("before:", "p99 %.1f ms", before.Latency.P99*1e3)
	o.note("during:", "%s", seen(during))
	o.note("traffic back after", "%.1f s", back.Seconds())
	o.note("after:", "%d failed, p99 %.1f ms", failed(after), after.Latency.P99*1e3)
	o.require(failed(during) == 0, "%d of %d lookups failed", failed(during), during.Counts.Lookups)
	o.require(failed(after) == 0, "%d lookups failed afterwards", failed(after))
	o.tail(before, during)
	o.require(extra(during) <= promisedExtra, "%.1f %% extra sub-queries", extra(during)*100)
	o.require(back < promisedBack, "no traffic back within %s", promisedBack)
	return o
}

// tail requires a p99 near that before.
func (o *Outcome) tail(before, during *report.Round) {
	o.require(during.Latency.P99 <= before.Latency.P99+promisedTail.Seconds(), "p99 %.1f ms, before %.1f ms", during.Latency.P99*1e3, before.Latency.P99*1e3)
}

// hedged returns the proxy with all safeguards or the one that never asks twice.
func (a *arena) hedged(safe bool) *subject {
	if safe {
		return a.subject(3)
	}
	return a.subject(3, noHedge...)
}

const faultPromise = "0 failed; p99 ≤ before + 25 ms; ≤ 5 % extra sub-queries; traffic back ≤ 60 s after it is well"

var frozen = scenario{
	name: "frozen", fault: "one node frozen for 60 s", promise: faultPromise, without: "speculative_retry NONE",
	measure: func(a *arena, safe bool) outcome {
		length := span(60 * time.Second)
		return a.underFault(a.hedged(safe), length+time.Second, func() {
			a.must(a.node(3).Pause())
			a.hold(length)
			a.must(a.node(3).Resume())
		})
	},
}

var slow = scenario{
	name: "slow", fault: "one node with 5 % of a CPU for 60 s", promise: faultPromise, without: "speculative_retry NONE",
	measure: func(a *arena, safe bool) outcome {
		length := span(60 * time.Second)
		return a.underFault(a.hedged(safe), length+time.Second, func() {
			a.must(a.node(3).LimitCPU(0.05))
			a.hold(length)
			a.must(a.node(3).LimitCPU(0))
		})
	},
}

// replicated returns the proxy for three replicas, or the one for a single replica:
// nobody is left to fail over to.
func (a *arena) replicated(safe bool) *subject {
	if safe {
		return a.subject(3)
	}
	return a.subject(1)
}

var killed = scenario{
	name: "killed", fault: "one node killed (-9) and restarted, three times", promise: faultPromise, without: "replication factor 1",
	measure: func(a *arena, safe bool) outcome {
		times := 3
		if *short || !safe {
			times = 1
		}
		return a.underFault(a.replicated(safe), time.Duration(times)*20*time.Second, func() {
			for range times {
				a.hold(2 * time.Second)
				a.must(a.node(3).Kill())
				a.hold(5 * time.Second)
				a.must(a.node(3).Start(a.t.Context()))
			}
		})
	},
}

var rollingRestart = scenario{
	name: "rolling-restart", fault: "rolling restart of the whole cluster, the next node when the proxy has found the last one well for 5 s, or after 3 minutes", promise: "0 failed", without: "replication factor 1",
	measure: func(a *arena, safe bool) outcome {
		var o outcome
		s := a.replicated(safe)
		before := a.denied(s)
		asking := a.explained(s)
		defer asking.driver.Close()
		during := a.during(asking, 90*time.Second, func() {
			defer a.apart()()
			for _, n := range a.cluster.Nodes() {
				a.must(n.Stop())
				a.must(n.Start(a.t.Context()))
				a.untilWell(s, n)
				a.must(n.LimitCPU(0))
			}
		})
		after := a.denied(s)
		o.note("during:", "%s", seen(during))
		o.note("hedges denied", "%.0f", after-before)
		a.tell(during)
		o.require(failed(during) == 0, "%d of %d lookups failed", failed(during), during.Counts.Lookups)
		return o
	},
}

// startShare is the share of a CPU that a node gets from its start on where nodes
// start under load. A JVM that starts takes all it can get for half a minute, which in
// production it takes from nobody else.
const startShare = 0.5

// apart gives every node that is started from now on a share of a CPU of its own, until
// what it returns is called.
func (a *arena) apart() (lift func()) {
	running := map[int]bool{}
	for _, n := range a.cluster.Nodes() {
		running[n.PID()] = true
	}
	enough := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-enough:
				return
			case <-time.After(20 * time.Millisecond):
			}
			for _, n := range a.cluster.Nodes() {
				if pid := n.PID(); pid != 0 && !running[pid] {
					running[pid] = n.LimitCPU(startShare) == nil
				}
			}
		}
	})
	return func() {
		close(enough)
		watch.Wait()
		for _, n := range a.cluster.Nodes() {
			if n.PID() != 0 {
				a.must(n.LimitCPU(0))
			}
		}
	}
}

var allDown = scenario{
	name: "all-down", fault: "all nodes down for 30 s, then up", quick: true,
	promise: "UNAVAILABLE in < 20 ms (p95); answers ≤ 15 s after the first node serves; the process stays",
	why:     "measured by the same load as all others, which sees the answers come back",
	measure: func(a *arena, _ bool) outcome {
		var o outcome
		s := a.subject(3)
		for _, n := range a.cluster.Nodes() {
			a.must(n.Kill())
		}
		a.hold(2 * time.Second)
		down := a.load(s, span(28*time.Second))
		o.note("down:", "%s", seen(down))
		o.require(down.Counts.OK == 0, "%d lookups were answered by nobody", down.Counts.OK)
		o.require(down.Latency.P95 < 0.020, "p95 %.1f ms", down.Latency.P95*1e3)
		for _, n := range a.cluster.Nodes() {
			a.must(n.Start(a.t.Context()))
			if n == a.node(1) {
				start := time.Now()
				o.require(a.recovered(s, 15*time.Second), "no lookup with an answer within 15 s")
				o.note("first answer", "%.1f s after the first node", time.Since(start).Seconds())
			}
		}
		a.back(s, a.node(3))
		return o
	},
}

// recovered waits until a lookup has some answer.
func (a *arena) recovered(s *subject, within time.Duration) bool {
	for end := time.Now().Add(within); time.Now().Before(end); {
		if r := a.load(s, 500*time.Millisecond); r.Counts.OK+r.Counts.Partial > 0 {
			return true
		}
	}
	return false
}

var oneReplica = scenario{
	name: "rf1", fault: "replication factor 1, one node down", quick: true, promise: "exactly that node's keys UNAVAILABLE, the others FOUND",
	why: "the keys are counted against nodetool's replicas, on both sides",
	measure: func(a *arena, _ bool) outcome {
		var o outcome
		s, d := a.subject(1), a.data[1]
		replicas, err := a.site.Replicas(a.t.Context())
		a.must(err)
		a.must(a.node(3).Kill())
		a.hold(2 * time.Second)
		keys := make([]int, partitions)
		for i := range keys {
			keys[i] = i
		}
		answered, err := s.driver.Answered(a.t.Context(), keys)
		a.must(err)
		lost, wrong := 0, 0
		for i, ok := range answered {
			down := replicas(d.Profile.Keyspace, ring.Token(d.Routing(i)))[0] == a.node(3).Addr()
			if down {
				lost++
			}
			if ok == down {
				wrong++
			}
		}
		a.must(a.node(3).Start(a.t.Context()))
		a.back(a.subject(3), a.node(3))
		o.note("keys", "%d, %d of them on the node that is down", len(keys), lost)
		o.note("answered wrongly", "%d", wrong)
		o.require(wrong == 0 && lost > 0, "%d keys", wrong)
		return o
	},
}

var quorumLost = scenario{
	name: "quorum-lost", fault: "two of three nodes down at LOCAL_QUORUM", quick: true, promise: "every answer ≤ 125 ms, UNAVAILABLE",
	why: "an answer of any other kind is counted",
	measure: func(a *arena, _ bool) outcome {
		var o outcome
		s := a.subject(3, "consistency: LOCAL_QUORUM")
		a.must(a.node(2).Kill())
		a.must(a.node(3).Kill())
		a.hold(3 * time.Second)
		r := a.load(s, span(30*time.Second))
		for _, n := range []int{2, 3} {
			a.must(a.node(n).Start(a.t.Context()))
		}
		a.back(a.subject(3), a.node(3))
		o.note("during:", "%s", seen(r))
		unavailable := int64(0)
		for text, n := range r.Counts.Errors {
			if strings.Contains(strings.ToUpper(text), "UNAVAILABLE") {
				unavailable += n
			}
		}
		o.require(r.Counts.Late == 0, "%d answers were late", r.Counts.Late)
		o.require(unavailable == r.Counts.Lookups, "%d of %d answers were UNAVAILABLE", unavailable, r.Counts.Lookups)
		return o
	},
}

var thawUnderLoad = scenario{
	name: "thaw", fault: "a node frozen for 15 s at the highest load, then thawed", promise: "the node answers ≤ 1 s after",
	why: "the executor's own test has the control: without its cap of sub-queries in flight the owed work grows without bound",
	measure: func(a *arena, _ bool) outcome {
		var o outcome
		s := a.subject(3)
		var took time.Duration
		during := a.duringAt(s, bench.Load{Concurrency: 8}, 20*time.Second, func() {
			a.hold(2 * time.Second)
			a.must(a.node(3).Pause())
			a.hold(15 * time.Second)
			a.must(a.node(3).Resume())
			thawed := time.Now()
			a.awaitCQL(a.node(3).Addr())
			took = time.Since(thawed)
		})
		o.note("during:", "%s", seen(during))
		o.note("first answer", "%.2f s after the thaw", took.Seconds())
		o.require(took <= time.Second, "%.2f s", took.Seconds())
		return o
	},
}

// withinBudget requires that the sub-queries beyond the first attempts were the share
// that hedges have, what a budget has saved up besides, and its floor of one a second.
func (o *Outcome) withinBudget(r *report.Round, saved float64) {
	most := hedge.SubQueryRatio + (saved+r.Seconds)/max(firstAttempts(r), 1)
	o.require(extra(r) <= most, "%.1f %% extra sub-queries, %.1f %% allowed", extra(r)*100, most*100)
}

// awaitCQL waits until a node answers a request of the native protocol: OPTIONS,
// which it puts in line with all others.
func (a *arena) awaitCQL(addr string) {
	for {
		ctx, cancel := context.WithTimeout(a.t.Context(), 5*time.Second)
		err := options(ctx, addr)
		cancel()
		if err == nil {
			return
		}
		a.must(a.t.Context().Err())
		a.hold(5 * time.Millisecond)
	}
}

// options sends an OPTIONS request of protocol version 4 and reads the head of the
// answer.
func options(ctx context.Context, addr string) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if end, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(end)
	}
	if _, err := conn.Write([]byte{4, 0, 0, 0, 5, 0, 0, 0, 0}); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 9))
	return err
}

var hedgeStorm = scenario{
	name: "hedge-storm", fault: "all nodes slowed to 15 % of a CPU each for 60 s",
	promise: "sub-queries, counted at the nodes, ≤ 1.05 × the first attempts + 1/s",
	without: "hedge_budget 100% (a delay of 15 ms without a budget)",
	measure: func(a *arena, safe bool) outcome {
		var o outcome
		s := a.subject(3)
		if !safe {
			s = a.subject(3, "hedge_budget: 100%")
		}
		a.load(s, 2*time.Second)
		executed, sent := a.executed(), a.sent(s)
		lift := a.limitNodes(0.15)
		defer lift()
		during := a.load(s, span(time.Minute))
		lift()
		a.hold(5 * time.Second) // for the nodes to work off what nobody waits for
		executed = a.executed() - executed
		for kind, n := range a.sent(s) {
			sent[kind] = n - sent[kind]
		}
		a.back(s, a.node(3))
		first := sent[executor.KindFirst]
		o.note("during:", "%s", seen(during))
		o.note("at the nodes", "%.0f sub-queries for %.0f first attempts (%+.1f %%)", executed, first, 100*(executed/max(first, 1)-1))
		o.note("sent besides", "%.0f hedges, %.0f fail-overs, %.0f probes", sent[executor.KindHedge], sent[executor.KindFailover], sent[executor.KindProbe])
		o.require(executed <= (1+hedge.SubQueryRatio)*first+during.Seconds, "%.0f sub-queries for %.0f first attempts", executed, first)
		o.require(executed > 0.95*first, "%.0f sub-queries at the nodes for %.0f first attempts: too few are counted", executed, first)
		return o
	},
}

// sent is how many sub-queries a proxy has sent so far, by what for.
func (a *arena) sent(s *subject) map[string]float64 {
	kinds := map[string]float64{}
	for _, m := range a.metrics(s)["qosproxy_subqueries_total"].GetMetric() {
		kinds[label(m, "attempt")] = m.GetCounter().GetValue()
	}
	return kinds
}

// executed counts the prepared statements that the nodes have executed, as they say
// themselves: every sub-query is one, and what else a proxy asks is none.
func (a *arena) executed() float64 {
	total := 0.0
	for i := range a.cluster.Nodes() {
		out, err := a.cluster.Nodetool(a.t.Context(), i, "sjk", "mx", "-mg", "-f", "Count", "-b", "org.apache.cassandra.metrics:type=CQL,name=PreparedStatementsExecuted")
		a.must(err)
		// The name of the metric, and its value.
		n, err := strconv.ParseFloat(strings.TrimSpace(out[strings.LastIndex(strings.TrimSpace(out), "\n")+1:]), 64)
		a.must(err)
		total += n
	}
	return total
}
