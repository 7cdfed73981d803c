//go:build chaos

package chaos

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/lab/devcluster"
)

// filter replaces the suite's own table of nftables; without rules it removes the table. The suite
// has its own network namespace, so nobody else is affected.
func (a *arena) filter(rules ...string) {
	a.t.Helper()
	script := "table ip chaos {}\ndelete table ip chaos\n"
	if len(rules) > 0 {
		script += "table ip chaos {\nchain faults { type filter hook output priority 0;\n" + strings.Join(rules, "\n") + "\n}\n}\n"
	}
	a.nft(script)
}

func (a *arena) nft(script string) {
	a.t.Helper()
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(script)
	out, err := cmd.CombinedOutput()
	require.NoError(a.t, err, "nft (Debian: apt-get install nftables): %s", out)
}

// requests and answers match the packets of the native protocol to and from a node.
func requests(n *devcluster.Node) string {
	return fmt.Sprintf("ip daddr %s tcp dport 9042", n.IP())
}

func answers(n *devcluster.Node) string {
	return fmt.Sprintf("ip saddr %s tcp sport 9042", n.IP())
}

// blackHole returns a scenario in which packets vanish.
func blackHole(name, fault string, rules func(*devcluster.Node) []string) scenario {
	return scenario{
		name: name, fault: fault, promise: faultPromise, rely: faultRely, network: true, without: nothingProtects, judge: faultChecks,
		measure: func(a *arena, safe bool) *Outcome {
			return a.underFault(a.protected(safe), safe, 0, func() { a.drop(rules(a.node(3))...) })
		},
	}
}

// drop applies rules for the length of a fault.
func (a *arena) drop(rules ...string) {
	a.filter(rules...)
	a.hold(span(faultLength))
	a.filter()
	a.hold(time.Second)
}

// bothWays drops all packets of the native protocol to and from a node.
func bothWays(n *devcluster.Node) []string {
	return []string{requests(n) + " drop", answers(n) + " drop"}
}

var blackHoles = []scenario{
	blackHole("black-hole", "CQL port of one node black-holed both ways for 20 s", bothWays),
	blackHole("black-hole-requests", "requests to one node vanish for 20 s", func(n *devcluster.Node) []string { return []string{requests(n) + " drop"} }),
	blackHole("black-hole-answers", "answers of one node vanish for 20 s", func(n *devcluster.Node) []string { return []string{answers(n) + " drop"} }),
}

// lost is the percentage of packets that the scenario loss drops. TCP resends a lost loopback
// packet within milliseconds, so with less nothing would fail in the control.
const lost = 15

// promisedLoss is the share of lookups that may fail while packets are lost.
const promisedLoss = 0.001

var loss = scenario{
	name: "loss", fault: fmt.Sprintf("%d %% packet loss to and from one node for 20 s", lost), promise: "≤ 0.1 % failed; ≤ 5 % extra sub-queries", network: true,
	rely:    "A node with a bad cable costs next to no lookup: one of a thousand fails or is late.",
	without: nothingProtects,
	measure: func(a *arena, safe bool) *Outcome {
		o := &Outcome{}
		s := a.protected(safe)
		o.load("before", a.load(s, 5*time.Second))
		drop := fmt.Sprintf(" numgen random mod 100 < %d drop", lost)
		a.filter(requests(a.node(3))+drop, answers(a.node(3))+drop)
		o.load("during", a.load(s, span(faultLength)))
		a.filter()
		a.back(a.tables(), a.node(3))
		return o
	},
	judge: func(o *Outcome) []Check {
		during := o.Load("during")
		return []Check{
			room(o.Load("before")),
			counted("lookups failed", during.Failed, promisedLoss*float64(during.Lookups)),
			amount("extra sub-queries", during.ExtraShare()*100, promisedExtra*100, "%"),
		}
	},
}

// Ports of the relays: the first of them, and the one from which a relay reaches its node without
// being redirected.
const (
	relayPort = 17000
	nodePort  = 19042
)

// relays puts a relay in front of each of these nodes, for connections opened from now on. delay
// sets the delay of their answers; remove removes the relays.
func (a *arena) relays(nodes ...*devcluster.Node) (delay func(time.Duration), remove func()) {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	var proxies []*toxiproxy.Proxy
	var rules strings.Builder
	for _, n := range nodes {
		listen := fmt.Sprintf("127.0.0.1:%d", relayPort+n.Number())
		proxies = append(proxies, toxiproxy.NewProxy(server, n.IP(), listen, net.JoinHostPort(n.IP(), strconv.Itoa(nodePort))))
		fmt.Fprintf(&rules, "%s dnat to %s\nip daddr %s tcp dport %d dnat to %s:9042\n", requests(n), listen, n.IP(), nodePort, n.IP())
	}
	// This may fail, so it is first: a relay that stays would be in the way of the next.
	a.nft("table ip relay {\nchain relays { type nat hook output priority -100;\n" + rules.String() + "}\n}\n")
	for _, p := range proxies {
		a.must(p.Start())
	}
	delay = func(d time.Duration) {
		for _, p := range proxies {
			if d == 0 {
				a.must(p.Toxics.RemoveToxic(context.Background(), "late"))
				continue
			}
			toxic := fmt.Sprintf(`{"name":"late","type":"latency","stream":"downstream","attributes":{"latency":%d}}`, d.Milliseconds())
			_, err := p.Toxics.AddToxicJson(strings.NewReader(toxic))
			a.must(err)
		}
	}
	return delay, func() {
		a.nft("delete table ip relay\n")
		for _, p := range proxies {
			p.Stop()
		}
	}
}

// slower is how many milliseconds one distant node may add to the median.
const slower = 2.5

const delayPromise = "0 failed; extra sub-queries within the budget of hedges; p50 ≤ 1.1 × that without hedging + 2 ms"

var delayOne = scenario{
	name: "delay-one", fault: "+30 ms on one node", network: true, without: "replication factor 1",
	promise: fmt.Sprintf("%s; p50 ≤ before + %.1f ms", delayPromise, slower),
	rely:    "A node that is further away than the others slows lookups by no more than 2.5 ms in the median.",
	measure: func(a *arena, safe bool) *Outcome {
		if !safe {
			return a.delayed(1, [][]string{nil}, a.node(3))
		}
		return a.delayed(3, delayedTwice(), a.node(3))
	},
	judge: func(o *Outcome) []Check {
		return append(delayChecks(o),
			amount("p50 above that before", (o.Load("during").P50-o.Load("before").P50)*1e3, slower, "ms"))
	},
}

var delayAll = scenario{
	name: "delay-all", fault: "+30 ms on all nodes", network: true, promise: delayPromise,
	rely:    "A cluster that is far away as a whole is not asked for more.",
	why:     "the same load without hedging is what it is compared with",
	measure: func(a *arena, _ bool) *Outcome { return a.delayed(3, delayedTwice(), a.cluster.Nodes()...) },
	judge:   delayChecks,
}

func delayChecks(o *Outcome) []Check {
	during, plain := o.Load("during"), o.Load("without hedging")
	checks := []Check{
		room(o.Load("before")),
		counted("lookups failed", during.Failed, 0),
		withinBudget(during, hedge.SubQueryBurst*float64(*times)), // each try has its own proxy
	}
	if plain.Lookups > 0 {
		// The tolerance is the noise of a shared machine.
		checks = append(checks, amount("p50", during.P50*1e3, 1.1*plain.P50*1e3+2, "ms"))
	}
	return checks
}

// another returns a setting that forces a new proxy, because relays affect only new connections.
func (a *arena) another() string { return fmt.Sprintf("max_keys: %d", 100+len(a.proxies)) }

// delayedTwice returns the settings with which delayed compares a load with the same load without
// hedging.
func delayedTwice() [][]string { return [][]string{nil, noHedge} }

// delayed loads a new proxy with each of the settings, one after the other, while the answers of
// these nodes come 30 ms late.
func (a *arena) delayed(replication int, settings [][]string, nodes ...*devcluster.Node) *Outcome {
	o := &Outcome{}
	delay, remove := a.relays(nodes...)
	defer remove()
	var subjects []*subject
	for _, with := range settings {
		s := a.subject(replication, append([]string{a.another()}, with...)...)
		defer func() { a.must(s.proxy.Stop()) }()
		subjects = append(subjects, s)
	}
	a.calm(subjects[0])
	o.load("before", a.load(subjects[0], span(8*time.Second)))
	if len(subjects) > 1 {
		a.load(subjects[1], 2*time.Second)
	}
	delay(30 * time.Millisecond)
	o.load("during", a.load(subjects[0], span(12*time.Second)))
	if len(subjects) > 1 {
		o.load("without hedging", a.load(subjects[1], span(8*time.Second)))
	}
	delay(0)
	return o
}
