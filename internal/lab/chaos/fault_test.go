//go:build chaos

package chaos

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/lab/bench"
	"github.com/qosproxy/qosproxy/internal/lab/devcluster"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// The promises under a fault.
const (
	promisedTail  = 25 * time.Millisecond // increase of p99 over that before
	promisedExtra = 0.05                  // sub-queries beyond the first attempts
	promisedBack  = time.Minute           // until a healthy host is asked again
)

// faultLength is how long a fault lasts, and restLength how long the load before and
// after it.
const (
	faultLength = 20 * time.Second
	restLength  = 6 * time.Second
)

// noHedge are the settings of a table without hedging.
var noHedge = []string{"speculative_retry: NONE"}

// nothingProtects says what is off in the control of a fault.
const nothingProtects = "no hedging (speculative_retry NONE) and no avoidance of hosts in trouble"

// trafficBack is the figure for how long a host was not asked after it was healthy again.
const trafficBack = "asked again after"

// underFault loads a proxy before, during and after a fault of node 3. The fault is over
// when it returns.
func (a *arena) underFault(s *subject, safe bool, length time.Duration, fault func()) *Outcome {
	o := &Outcome{}
	a.calm(s)
	o.load("before", a.load(s, restLength))
	o.load("during", a.during(s, length, fault))
	if !safe {
		// The node has recovered when proxies that avoid hosts ask it again.
		a.back(a.tables(), a.node(3))
		return o
	}
	o.figure(Most, trafficBack, a.back(s, a.node(3)).Seconds(), "s")
	o.load("after", a.load(s, restLength))
	return o
}

// faultChecks returns the checks of underFault.
func faultChecks(o *Outcome) []Check {
	before, during := o.Load("before"), o.Load("during")
	return []Check{
		room(before),
		counted("lookups failed during the fault", during.Failed, 0),
		counted("lookups failed afterwards", o.Load("after").Failed, 0),
		amount("p99 above that before", (during.P99-before.P99)*1e3, promisedTail.Seconds()*1e3, "ms"),
		amount("extra sub-queries", during.ExtraShare()*100, promisedExtra*100, "%"),
		amount(trafficBack, o.Value(trafficBack), promisedBack.Seconds(), "s"),
	}
}

// protected returns the proxy with all safeguards, or the one that neither hedges nor
// avoids; both load all tables.
func (a *arena) protected(safe bool) *subject {
	if safe {
		return a.tables()
	}
	return a.unprotected()
}

const (
	faultPromise = "0 failed; p99 ≤ before + 25 ms; ≤ 5 % extra sub-queries; asked again ≤ 60 s after it is healthy"
	faultRely    = "No lookup fails or is late; the replicas that are left answer."
)

var frozen = scenario{
	name: "frozen", fault: "one node frozen for 20 s (SIGSTOP)", promise: faultPromise, rely: faultRely, without: nothingProtects, judge: faultChecks,
	measure: func(a *arena, safe bool) *Outcome {
		return a.underFault(a.protected(safe), safe, 0, a.freeze)
	},
}

func (a *arena) freeze() {
	a.must(a.node(3).Pause())
	a.hold(span(faultLength))
	a.must(a.node(3).Resume())
	a.hold(time.Second)
}

var slow = scenario{
	name: "slow", fault: "one node with 5 % of a CPU for 20 s", promise: faultPromise, rely: faultRely, without: nothingProtects, judge: faultChecks,
	measure: func(a *arena, safe bool) *Outcome {
		return a.underFault(a.protected(safe), safe, 0, a.slow)
	},
}

func (a *arena) slow() {
	a.must(a.node(3).LimitCPU(0.05))
	a.hold(span(faultLength))
	a.must(a.node(3).LimitCPU(0))
	a.hold(time.Second)
}

// replicated returns the proxy for all tables with three replicas, or the one for a table
// with a single one: nobody is left to fail over to.
func (a *arena) replicated(safe bool) *subject {
	if safe {
		return a.tables()
	}
	return a.subject(1)
}

var killed = scenario{
	name: "killed", fault: "one node killed (-9) and started again" + staticNodes, promise: faultPromise, rely: faultRely, without: "replication factor 1, one table", judge: faultChecks, static: true,
	measure: func(a *arena, safe bool) *Outcome {
		return a.underFault(a.replicated(safe), safe, 0, a.kill)
	},
}

func (a *arena) kill() {
	defer a.apart()()
	a.hold(2 * time.Second)
	a.must(a.node(3).Kill())
	a.hold(5 * time.Second)
	a.must(a.node(3).Start(a.t.Context()))
	a.hold(5 * time.Second)
}

// noFailures checks that no lookup failed meanwhile.
func noFailures(o *Outcome) []Check {
	during := o.Load("during")
	return []Check{
		counted("lookups failed", during.Failed, 0),
		sane("no lookups were made", during.Lookups > 0),
	}
}

var rollingRestart = scenario{
	name: "rolling-restart", fault: "all nodes restarted one after the other, the next when the proxy has asked the last one for 5 s" + staticNodes, promise: "0 failed",
	static:  true,
	rely:    "No lookup fails in a rolling restart, if the next node waits until the proxy asks the last one again.",
	without: "replication factor 1, one table", judge: noFailures,
	measure: func(a *arena, safe bool) *Outcome {
		o := &Outcome{}
		s := a.replicated(safe)
		o.load("during", a.duringAt(s, bench.Load{Rate: restartRate}, 0, func() {
			defer a.apart()()
			began := time.Now()
			told := func(n *devcluster.Node, what string) {
				a.t.Logf("%.1f s: node %d %s", time.Since(began).Seconds(), n.Number(), what)
			}
			for _, n := range a.cluster.Nodes() {
				told(n, "is stopped")
				a.must(n.Stop())
				a.must(n.Start(a.t.Context()))
				told(n, "serves")
				if !safe {
					return // one node shows it
				}
				a.hold(5 * time.Second)
				a.must(n.LimitCPU(0)) // lifting a limit makes a node pause and look unhealthy, too
				o.figure(Most, fmt.Sprintf("node %d asked again after", n.Number()), a.untilSteady(s, n).Seconds(), "s")
			}
			told(a.node(3), "is steady")
		}))
		if !safe {
			a.back(a.tables(), a.node(1))
		}
		return o
	},
}

// restartRate is the load while nodes start, in lookups per second. In production a starting JVM
// has its own CPUs; here it shares two with everything else.
const restartRate = 20

// The waits of untilSteady.
const (
	steady  = 5 * time.Second
	patient = 2 * time.Minute
)

// untilSteady waits until a proxy considers a host healthy and asks it for some seconds under
// restartRate, for two minutes at most. It returns how long that took.
func (a *arena) untilSteady(s *subject, n *devcluster.Node) time.Duration {
	start := time.Now()
	for since := start; time.Since(since) < steady && time.Since(start) < patient; {
		before := a.asked(s, n)
		a.hold(time.Second)
		if a.asked(s, n) < before+restartRate/10 || a.sum(s, "qosproxy_host_state", "host", n.Addr()) > 0 {
			since = time.Now()
		}
	}
	return time.Since(start)
}

// startShare is the share of a CPU that a node gets where nodes start under load, as far as others
// leave it. A starting JVM takes all CPU it can get for half a minute; in production nobody else
// wants it.
const startShare = 0.5

// apart limits every node that starts from now on to startShare of a CPU, and only of what nobody
// else wants, until lift is called.
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
					running[pid] = n.YieldCPU(startShare) == nil
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
	name: "all-down", fault: "all nodes down for 12 s, then up", quick: 1,
	promise: "UNAVAILABLE in < 20 ms (p95); answers ≤ 15 s after the first node serves; the process stays",
	rely:    "Without any node lookups fail at once with UNAVAILABLE, and succeed again by themselves.",
	why:     "measured by the same load as all others, which sees the answers come back",
	measure: func(a *arena, _ bool) *Outcome {
		o := &Outcome{}
		s := a.subject(3)
		for _, n := range a.cluster.Nodes() {
			a.must(n.Kill())
		}
		a.hold(2 * time.Second)
		o.load("down", a.load(s, span(10*time.Second)))
		a.must(a.node(1).Start(a.t.Context()))
		o.figure(Most, "first answer after", a.recovered(s, 20*time.Second).Seconds(), "s")
		var others errgroup.Group
		for _, n := range a.cluster.Nodes()[1:] {
			others.Go(func() error { return n.Start(a.t.Context()) })
		}
		a.must(others.Wait())
		a.back(s, a.node(3))
		a.load(a.tables(), 5*time.Second) // nodes are cold
		return o
	},
	judge: func(o *Outcome) []Check {
		down := o.Load("down")
		return []Check{
			counted("lookups were answered by nobody", down.OK, 0),
			amount("p95", down.P95*1e3, 20, "ms"),
			amount("first answer after", o.Value("first answer after"), 15, "s"),
			counted("answers were other than UNAVAILABLE", down.Lookups-down.unavailable(), 0),
			sane("no lookups were made", down.Lookups > 0),
		}
	},
}

// unavailable counts the lookups that ended with UNAVAILABLE.
func (l *Load) unavailable() (n int64) {
	for text, count := range l.Errors {
		if strings.Contains(strings.ToUpper(text), "UNAVAILABLE") {
			n += count
		}
	}
	return n
}

// recovered waits until a lookup has some answer, and returns how long that took.
func (a *arena) recovered(s *subject, patience time.Duration) time.Duration {
	start := time.Now()
	for time.Since(start) < patience {
		if l := a.load(s, 300*time.Millisecond); l.unavailable() < l.Lookups {
			break
		}
	}
	return time.Since(start)
}

var oneReplica = scenario{
	name: "rf1", fault: "replication factor 1, one node down", quick: 1, promise: "exactly that node's keys UNAVAILABLE, the others FOUND",
	rely: "A lookup says of each key whether it was answered, and one key that cannot be read costs no other.",
	why:  "the keys are counted against nodetool's replicas, on both sides",
	measure: func(a *arena, _ bool) *Outcome {
		o := &Outcome{}
		s, d := a.subject(1), a.data[1]
		replicas, err := a.site.Replicas(a.t.Context())
		a.must(err)
		a.must(a.node(3).Kill())
		a.hold(2 * time.Second)
		keys := make([]int, partitions())
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
		o.figure(Sum, "keys asked", float64(len(keys)), "")
		o.figure(Sum, "keys of the node that is down", float64(lost), "")
		o.figure(Sum, "keys answered wrongly", float64(wrong), "")
		return o
	},
	judge: func(o *Outcome) []Check {
		return []Check{
			counted("keys answered wrongly", int64(o.Value("keys answered wrongly")), 0),
			sane("no key was of the node that is down", o.Value("keys of the node that is down") > 0),
		}
	},
}

var quorumLost = scenario{
	name: "quorum-lost", fault: "two of three nodes down at LOCAL_QUORUM", promise: "every answer ≤ 125 ms, UNAVAILABLE",
	rely: "Where the consistency level cannot be had lookups say UNAVAILABLE in time, and never answer at a lower one.",
	why:  "an answer of any other kind is counted",
	measure: func(a *arena, _ bool) *Outcome {
		o := &Outcome{}
		s := a.subject(3, "consistency: LOCAL_QUORUM")
		a.calm(s) // its first lookups, which prepare statements, are before the fault
		a.must(a.node(2).Kill())
		a.must(a.node(3).Kill())
		a.hold(3 * time.Second)
		o.load("during", a.load(s, span(10*time.Second)))
		for _, n := range []int{2, 3} {
			a.must(a.node(n).Start(a.t.Context()))
		}
		a.back(a.subject(3), a.node(3))
		a.load(a.tables(), 5*time.Second) // nodes are cold
		return o
	},
	judge: func(o *Outcome) []Check {
		during := o.Load("during")
		return []Check{
			counted("answers were late", during.Late, 0),
			counted("answers were other than UNAVAILABLE", during.Lookups-during.unavailable(), 0),
			sane("no lookups were made", during.Lookups > 0),
		}
	},
}

var thawUnderLoad = scenario{
	name: "thaw", fault: "a node frozen for 10 s at the highest load, then thawed", promise: "the node answers ≤ 1 s after",
	rely: "A node that comes back finds no backlog of this proxy to work off.",
	why:  "a test of the executor has the control: without its limit of keys outstanding at a host the backlog grows without bound",
	measure: func(a *arena, _ bool) *Outcome {
		o := &Outcome{}
		s := a.subject(3)
		var took time.Duration
		o.load("during", a.duringAt(s, bench.Load{Concurrency: 8}, 14*time.Second, func() {
			a.hold(2 * time.Second)
			a.must(a.node(3).Pause())
			a.hold(10 * time.Second)
			a.must(a.node(3).Resume())
			thawed := time.Now()
			a.awaitCQL(a.node(3).Addr())
			took = time.Since(thawed)
		}))
		o.figure(Most, "first answer after", took.Seconds()*1e3, "ms")
		a.back(s, a.node(3))
		return o
	},
	judge: func(o *Outcome) []Check {
		return []Check{
			amount("first answer after", o.Value("first answer after"), 1000, "ms"),
			sane("no lookups were made", o.Load("during").Lookups > 0),
		}
	},
}

// withinBudget checks that the attempts beyond the first stay within the hedge budget, what the
// budgets of the proxies have saved up, and their floor of one a second.
func withinBudget(l *Load, saved float64) Check {
	most := hedge.SubQueryRatio + (saved+l.Seconds)/max(l.First, 1)
	return amount("extra sub-queries", l.ExtraShare()*100, most*100, "%")
}

// awaitCQL waits until a node answers OPTIONS, a request of the native protocol that queues like
// all others.
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

// options sends an OPTIONS request of protocol version 4 and reads the header of the answer.
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

// mostHedged is the share of keys that hedges, fail-overs and probes may add to a cluster that
// is slow as a whole: their budgets are below it.
const mostHedged = 0.05

var hedgeStorm = scenario{
	name: "hedge-storm", fault: "all nodes slowed to 15 % of a CPU each for 60 s",
	promise: "keys read, counted at the nodes, ≤ 1.05 × the keys of the lookups",
	rely:    "Hedges never become the load: a cluster that is too slow is asked for at most 5 % more.",
	without: "speculative_retry ALWAYS, which has no budget, and admission.enabled false, for its first brown-out step is fewer hedges",
	measure: func(a *arena, safe bool) *Outcome {
		o := &Outcome{}
		s := a.subject(3)
		if !safe {
			s = a.unguarded("speculative_retry: ALWAYS", "hedge_budget: 100%")
		}
		a.load(s, 2*time.Second)
		read, wanted := a.keysRead(), a.keysWanted(s)
		lift := a.limitNodes(0.15)
		defer lift()
		// Long enough that what budgets have saved up matters little.
		length := time.Minute
		if !safe {
			length = faultLength
		}
		o.load("during", a.load(s, span(length)))
		lift()
		a.hold(5 * time.Second) // for the nodes to finish reads for which nobody waits
		o.figure(Sum, "keys read by the nodes", a.keysRead()-read, "")
		o.figure(Sum, "keys of the lookups", a.keysWanted(s)-wanted, "")
		a.back(a.subject(3), a.node(3))
		return o
	},
	judge: func(o *Outcome) []Check {
		read, wanted := o.Value("keys read by the nodes"), o.Value("keys of the lookups")
		return []Check{
			counted("keys read beyond those of the lookups", int64(read-wanted), mostHedged*wanted),
			sane(fmt.Sprintf("%.0f keys read by the nodes for %.0f of the lookups: too few are counted", read, wanted), read > 0.95*wanted && wanted > 0),
		}
	},
}

// keysWanted is how many keys the lookups of a proxy have asked hosts for so far. Shed keys
// are left out, since most of them were not sent.
func (a *arena) keysWanted(s *subject) float64 {
	return a.sum(s, "qosproxy_keys_total") - a.sum(s, "qosproxy_keys_total", "status", "SHED")
}

// keysRead is how many partitions of the first table the nodes have read so far, as they say
// themselves: hedges, fail-overs and probes count, whoever waits for them.
func (a *arena) keysRead() float64 {
	total := 0.0
	p := a.data[3].Profile
	bean := "org.apache.cassandra.metrics:type=Table,keyspace=" + p.Keyspace + ",scope=" + p.Table + ",name=ReadLatency"
	for i := range a.cluster.Nodes() {
		out, err := a.cluster.Nodetool(a.t.Context(), i, "sjk", "mx", "-mg", "-f", "Count", "-b", bean)
		a.must(err)
		// The name of the metric, and its value.
		n, err := strconv.ParseFloat(strings.TrimSpace(out[strings.LastIndex(strings.TrimSpace(out), "\n")+1:]), 64)
		a.must(err)
		total += n
	}
	return total
}
