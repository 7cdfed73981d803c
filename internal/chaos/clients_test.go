//go:build chaos

package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/qosproxy/qosproxy/internal/bench"
)

// caller is a client of the configuration; limits are further settings of it, in YAML.
type caller struct{ name, priority, limits string }

// token is the bearer token of a client.
func (c caller) token() string { return "token-of-" + c.name + "-0123456789abcdef" }

// configure returns a configuration with clients that may read the table, and
// listeners that have more settings; further settings are those of the table.
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

// The proxy's histogram of lookups tells them apart by their number of keys, so that
// what a caller got can be counted there: under such load the client, on the same
// CPUs, is late itself.
const (
	measuredKeys = 50 // of those a promise is made to
	crowdKeys    = 60 // of those that ask for too much
	measured     = "11-50"
)

// as returns a proxy with a client's load of lookups with so many keys.
func (a *arena) as(s *subject, c caller, keys int) *subject {
	return a.client(s.proxy, a.data[3], func(o *bench.Open) {
		o.Token, o.Mix = c.token(), []bench.Kind{{Weight: 1, Keys: keys}}
	})
}

// settled is how long a crowd has been there when what others get of the proxy is
// counted: as long as the proxy may take to find the limit.
const settled = 5 * time.Second

// crowded loads a proxy with lookups to which a promise is made, and with others
// meanwhile, and returns how many of the first there were and which share of them
// was answered in full and in time: first of the time until it has settled, and then
// of the length.
func (a *arena) crowded(s *subject, length time.Duration, polite map[*subject]float64, greedy *subject, greed float64) (early float64, lookups, share float64) {
	var load sync.WaitGroup
	count := func() func() (lookups, share float64) {
		all, _, inTime := a.within(s, "keys", measured)
		return func() (lookups, share float64) {
			allAfter, _, inTimeAfter := a.within(s, "keys", measured)
			return allAfter - all, (inTimeAfter - inTime) / max(allAfter-all, 1)
		}
	}
	first := count()
	for p, rate := range polite {
		load.Go(func() { a.loadAt(p, bench.Load{Rate: rate}, settled+length) })
	}
	load.Go(func() { a.loadAt(greedy, bench.Load{Rate: greed}, settled+length) })
	a.hold(settled)
	_, early = first()
	then := count()
	load.Wait()
	lookups, share = then()
	for p := range polite {
		p.driver.Close()
	}
	greedy.driver.Close()
	return early, lookups, share
}

var priorities = scenario{
	name: "priorities", fault: "two priorities: interactive at half of the possible load, batch at 5 × of it, after 5 s",
	promise: "interactive ≥ 99.4 % in SLA", without: "both are one client, of one priority",
	measure: func(a *arena, safe bool) outcome {
		var o outcome
		high, low := caller{name: "high", priority: "interactive"}, caller{name: "low", priority: "batch"}
		if !safe {
			low = high
		}
		s := a.own(a.data[3], a.configure("", []caller{high, {name: "low", priority: "batch"}}))
		defer s.close()
		lift := a.limitNodes(nodeShare)
		defer lift()
		peak := a.peak()
		early, lookups, share := a.crowded(s, span(30*time.Second), map[*subject]float64{a.as(s, high, measuredKeys): peak / 2}, a.as(s, low, crowdKeys), 5*peak)
		lift()
		o.note("peak", "%.0f lookups/s", peak)
		o.note("interactive:", "%.0f lookups, %.2f %% in time (in the first 5 s %.2f %%)", lookups, share*100, early*100)
		o.note("shed:", "%.0f of batch, %.0f of interactive", a.sum(s, "qosproxy_admission_shed_total", "priority", "batch"),
			a.sum(s, "qosproxy_admission_shed_total", "priority", "interactive"))
		o.require(lookups > 0 && share >= 0.994, "%.2f %% of %.0f lookups in time", share*100, lookups)
		a.back(a.subject(3), a.node(3))
		return o
	},
}

var greedyClient = scenario{
	name: "greedy", fault: "one client at 5 × of the possible load, nine at a twentieth of it each, after 5 s",
	promise: "the nine ≥ 99 % in SLA", without: "all ten are one client",
	measure: func(a *arena, safe bool) outcome {
		var o outcome
		clients := make([]caller, 10)
		for i := range clients {
			clients[i] = caller{name: fmt.Sprintf("client-%d", i), priority: "standard"}
		}
		s := a.own(a.data[3], a.configure("", clients))
		defer s.close()
		lift := a.limitNodes(nodeShare)
		defer lift()
		peak := a.peak()
		polite := map[*subject]float64{}
		for i := range clients {
			if i > 0 {
				who := clients[i]
				if !safe {
					who = clients[0]
				}
				polite[a.as(s, who, measuredKeys)] = peak / 20
			}
		}
		early, lookups, share := a.crowded(s, span(30*time.Second), polite, a.as(s, clients[0], crowdKeys), 5*peak)
		lift()
		o.note("peak", "%.0f lookups/s", peak)
		o.note("the nine:", "%.0f lookups, %.2f %% in time (in the first 5 s %.2f %%)", lookups, share*100, early*100)
		o.note("shed:", "%.0f of the greedy one, %.0f in all", a.sum(s, "qosproxy_admission_client_shed_total", "client", clients[0].name),
			a.sum(s, "qosproxy_admission_client_shed_total"))
		o.require(lookups > 0 && share >= 0.99, "%.2f %% of %.0f lookups in time", share*100, lookups)
		a.back(a.subject(3), a.node(3))
		return o
	},
}
