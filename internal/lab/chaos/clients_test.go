//go:build chaos

package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/qosproxy/qosproxy/internal/lab/bench"
)

// caller is a client of the configuration. limits are further settings of the client, in YAML.
type caller struct{ name, priority, limits string }

// token is the bearer token of a client.
func (c caller) token() string { return "token-of-" + c.name + "-0123456789abcdef" }

// configure returns a configuration with clients that may read the table, and with further settings
// of listeners (listen) and of the table (settings).
func (a *arena) configure(listen string, clients []caller, settings ...string) string {
	a.t.Helper()
	dir, err := os.MkdirTemp(a.cluster.Dir(), "clients")
	a.must(err)
	var b strings.Builder
	fmt.Fprintf(&b, "listen: {%s%s}\nshutdown: {delay: 0s}\nclients:\n", anywhere, listen)
	for _, c := range clients {
		file := filepath.Join(dir, c.name)
		a.must(os.WriteFile(file, []byte(c.token()+"\n"), 0o600))
		fmt.Fprintf(&b, "  - {name: %s, priority: %s, token_file: %s, tables: [{name: chaos_rf3.products}]%s}\n", c.name, c.priority, file, c.limits)
	}
	table := append([]string{"name: chaos_rf3.products", "timeout: 2s"}, settings...)
	fmt.Fprintf(&b, "tables:\n  - {%s}\n", strings.Join(table, ", "))
	return b.String()
}

// The proxy's histogram separates lookups by their number of keys, so the caller's share can be
// counted there. The client would count wrong: under such load, on the same CPUs, it is late
// itself.
const (
	measuredKeys = 50 // of the callers with a promise
	crowdKeys    = 60 // of the callers that ask for too much
	measured     = "11-50"
)

// as returns a subject that loads the proxy as a client, with lookups of this many keys.
func (a *arena) as(s *subject, c caller, keys int) *subject {
	return a.client(s.proxy, a.data[3], func(o *bench.Open) {
		o.Token, o.Mix = c.token(), []bench.Kind{{Weight: 1, Keys: keys}}
	})
}

// crowding is the crowd's load relative to the possible load. It may be more than overloads, since
// the crowd's own results are not measured.
const crowding = 3

// settled is how long a crowd has been there before the results of others are counted: as long as
// the proxy may take to find its limit. The proxy is as old when the others are counted alone.
const settled = 5 * time.Second

// crowded loads a proxy with polite lookups, which have a promise, first alone and then beside
// greedy ones. It notes the share of polite lookups that were not answered in full and in time:
// alone, which shows whether the machine is large enough, and beside the others once settled. All
// lookups that clients sent count, including those that the proxy refuses before it knows their
// number of keys.
func (a *arena) crowded(o *Outcome, s *subject, length time.Duration, polite map[*subject]float64, greedy *subject, greed float64) {
	of := func(length time.Duration) (lookups int64) {
		var load sync.WaitGroup
		var sum atomic.Int64
		for p, rate := range polite {
			load.Go(func() { sum.Add(a.loadAt(p, bench.Load{Rate: rate}, length).Lookups) })
		}
		load.Wait()
		return sum.Load()
	}
	count := func(name string, length time.Duration) (lookups float64) {
		before := a.ended(s, "keys", measured)
		lookups = float64(of(length))
		after := a.ended(s, "keys", measured)
		o.share(name, lookups-(after.inTime-before.inTime), lookups)
		return lookups
	}
	of(settled) // the proxy has just started
	count(notInTimeAlone, settled)
	var load sync.WaitGroup
	load.Go(func() { a.loadAt(greedy, bench.Load{Rate: greed}, settled+length) })
	load.Go(func() { a.followLimit(s, settled+length) })
	of(settled)
	o.figure(Sum, "lookups", count(notInTime, length), "")
	load.Wait()
	for p := range polite {
		p.leave()
	}
	greedy.leave()
}

// followLimit logs once a second how much a proxy admits, to explain failures.
func (a *arena) followLimit(s *subject, length time.Duration) {
	var seen []string
	for end := time.Now().Add(length); time.Now().Before(end); {
		a.hold(time.Second)
		seen = append(seen, fmt.Sprintf("%.0f/%.0f", a.sum(s, "qosproxy_admission_inflight_keys"), a.sum(s, "qosproxy_admission_limit_keys")))
	}
	a.t.Logf("keys in-flight and their limit, by second: %s", strings.Join(seen, " "))
}

const (
	notInTime      = "not in time"
	notInTimeAlone = "not in time before the crowd"
)

// crowdChecks returns checks that allow a percentage of lookups not in time.
func crowdChecks(percent float64) func(o *Outcome) []Check {
	return func(o *Outcome) []Check {
		return []Check{
			amount(notInTime, o.Value(notInTime)*100, percent, "%"),
			sane("no lookups were made", o.Value("lookups") > 0),
			sane("the machine is too small for the load", o.Value(notInTimeAlone)*100 <= percent),
		}
	}
}

var priorities = scenario{
	name: "priorities", fault: "two priorities: interactive at a fifth of the possible load, batch at 3 × of it, from the eleventh second on",
	promise: "≥ 99.4 % of interactive in time", without: "both are one client, of one priority", judge: crowdChecks(0.6),
	rely: "Interactive lookups are answered in time whatever batch asks for.",
	measure: func(a *arena, safe bool) *Outcome {
		o := &Outcome{}
		high, low := caller{name: "high", priority: "interactive"}, caller{name: "low", priority: "batch"}
		if !safe {
			low = high
		}
		s := a.own(a.data[3], a.configure("", []caller{high, {name: "low", priority: "batch"}}))
		defer s.close()
		a.busiest()
		lift := a.onOneCPU()
		defer lift()
		possible := a.possible().goodput()
		a.crowded(o, s, span(15*time.Second), map[*subject]float64{a.as(s, high, measuredKeys): possible / 5}, a.as(s, low, crowdKeys), crowding*possible)
		lift()
		o.figure(Sum, "refused of batch", a.sum(s, "qosproxy_admission_shed_total", "priority", "batch"), "")
		o.figure(Sum, "refused of interactive", a.sum(s, "qosproxy_admission_shed_total", "priority", "interactive"), "")
		a.back(a.subject(3), a.node(3))
		return o
	},
}

var greedyClient = scenario{
	name: "greedy", fault: "one client at 3 × of the possible load, nine at a fortieth of it each, from the eleventh second on",
	promise: "≥ 99 % of the lookups of the nine in time", without: "all ten are one client", judge: crowdChecks(1),
	rely: "A client that asks for too much takes nothing from those that stay within their share.",
	measure: func(a *arena, safe bool) *Outcome {
		o := &Outcome{}
		clients := make([]caller, 10)
		for i := range clients {
			clients[i] = caller{name: fmt.Sprintf("client-%d", i), priority: "standard"}
		}
		s := a.own(a.data[3], a.configure("", clients))
		defer s.close()
		a.busiest()
		lift := a.onOneCPU()
		defer lift()
		possible := a.possible().goodput()
		polite := map[*subject]float64{}
		for i := range clients {
			if i > 0 {
				who := clients[i]
				if !safe {
					who = clients[0]
				}
				polite[a.as(s, who, measuredKeys)] = possible / 40
			}
		}
		a.crowded(o, s, span(15*time.Second), polite, a.as(s, clients[0], crowdKeys), crowding*possible)
		lift()
		o.figure(Sum, "refused of the greedy one", a.sum(s, "qosproxy_admission_client_shed_total", "client", clients[0].name), "")
		o.figure(Sum, "refused in all", a.sum(s, "qosproxy_admission_client_shed_total"), "")
		a.back(a.subject(3), a.node(3))
		return o
	},
}
