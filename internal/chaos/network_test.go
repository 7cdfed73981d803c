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

	"github.com/qosproxy/qosproxy/internal/devcluster"
	"github.com/qosproxy/qosproxy/internal/hedge"
)

// filter puts a table of nftables in the place of the suite's own; no rules remove
// it. The suite runs in a network namespace of its own, so nobody else is hit.
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

// blackHole is a fault in which packets vanish. With safe false nothing is asked
// twice.
func blackHole(name, fault string, rules func(*devcluster.Node) []string) scenario {
	return scenario{
		name: name, fault: fault, promise: faultPromise, network: true, without: "speculative_retry NONE",
		measure: func(a *arena, safe bool) outcome {
			length := span(60 * time.Second)
			return a.underFault(a.hedged(safe), length+time.Second, func() {
				a.filter(rules(a.node(3))...)
				a.hold(length)
				a.filter()
			})
		},
	}
}

var blackHoles = []scenario{
	blackHole("black-hole", "CQL port of one node black-holed both ways for 60 s", func(n *devcluster.Node) []string {
		return []string{requests(n) + " drop", answers(n) + " drop"}
	}),
	blackHole("black-hole-requests", "requests to one node vanish for 60 s", func(n *devcluster.Node) []string { return []string{requests(n) + " drop"} }),
	blackHole("black-hole-answers", "answers of one node vanish for 60 s", func(n *devcluster.Node) []string { return []string{answers(n) + " drop"} }),
}

var loss = scenario{
	name: "loss", fault: "5 % packet loss to one node", promise: "≤ 0.1 % failed; ≤ 5 % extra sub-queries", network: true, without: "speculative_retry NONE",
	measure: func(a *arena, safe bool) outcome {
		var o outcome
		s := a.hedged(safe)
		a.load(s, 5*time.Second)
		a.filter(requests(a.node(3))+" numgen random mod 100 < 5 drop", answers(a.node(3))+" numgen random mod 100 < 5 drop")
		r := a.load(s, span(120*time.Second))
		a.filter()
		a.back(s, a.node(3))
		o.note("during:", "%s", seen(r))
		o.require(float64(failed(r)) <= 0.001*float64(r.Counts.Lookups), "%d of %d lookups failed", failed(r), r.Counts.Lookups)
		o.require(extra(r) <= promisedExtra, "%.1f %% extra sub-queries", extra(r)*100)
		return o
	},
}

// Ports of the relays: the first of them, and the one by which a relay reaches its
// node past the redirection.
const (
	relayPort = 17000
	nodePort  = 19042
)

// relays put a relay before each of some nodes, for connections that are opened
// from now on, and return what delays their answers, and what removes them.
func (a *arena) relays(nodes ...*devcluster.Node) (delay func(time.Duration), remove func()) {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	var proxies []*toxiproxy.Proxy
	var rules strings.Builder
	for _, n := range nodes {
		listen := fmt.Sprintf("127.0.0.1:%d", relayPort+n.Number())
		p := toxiproxy.NewProxy(server, n.IP(), listen, net.JoinHostPort(n.IP(), strconv.Itoa(nodePort)))
		a.must(p.Start())
		proxies = append(proxies, p)
		fmt.Fprintf(&rules, "%s dnat to %s\nip daddr %s tcp dport %d dnat to %s:9042\n", requests(n), listen, n.IP(), nodePort, n.IP())
	}
	a.nft("table ip relay {\nchain relays { type nat hook output priority -100;\n" + rules.String() + "}\n}\n")
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

var delayOne = scenario{
	name: "delay-one", fault: "+30 ms on one node", network: true, without: "replication factor 1",
	promise: "0 failed; extra sub-queries within the budget of hedges; p50 ≤ before + 10 ms, and no slower than without hedging",
	measure: func(a *arena, safe bool) outcome {
		if !safe {
			return a.delayed(1, nil, a.node(3))
		}
		return a.delayedTwice(a.node(3))
	},
}

var delayAll = scenario{
	name: "delay-all", fault: "+30 ms on all nodes", network: true,
	promise: "0 failed; extra sub-queries within the budget of hedges; p50 no slower than without hedging",
	why:     "the same load without hedging is what it is compared with",
	measure: func(a *arena, _ bool) outcome { return a.delayedTwice(a.cluster.Nodes()...) },
}

// delayedTwice compares with what becomes of the same load without hedging.
func (a *arena) delayedTwice(nodes ...*devcluster.Node) outcome {
	o := a.delayed(3, nil, nodes...)
	plain := a.delayed(3, noHedge, nodes...)
	o.note("without hedging:", "p50 %.1f ms", plain.p50*1e3)
	// Noise of a shared machine.
	o.require(o.p50 <= 1.1*plain.p50+0.002, "p50 %.1f ms, without hedging %.1f ms", o.p50*1e3, plain.p50*1e3)
	return o
}

// delayed loads a new proxy while the answers of some nodes come 30 ms late.
func (a *arena) delayed(factor int, with []string, nodes ...*devcluster.Node) outcome {
	var o outcome
	delay, remove := a.relays(nodes...)
	defer remove()
	// The relays take new connections only.
	s := a.subject(factor, append([]string{fmt.Sprintf("max_keys: %d", 100+len(a.proxies))}, with...)...)
	before := a.load(s, span(20*time.Second))
	delay(30 * time.Millisecond)
	during := a.load(s, span(40*time.Second))
	delay(0)
	a.must(s.proxy.Stop())
	o.p50 = during.Latency.P50
	o.note("before:", "p50 %.1f ms, p99 %.1f ms", before.Latency.P50*1e3, before.Latency.P99*1e3)
	o.note("during:", "%s", seen(during))
	o.require(failed(during) == 0, "%d of %d lookups failed", failed(during), during.Counts.Lookups)
	o.withinBudget(during, hedge.SubQueryBurst)
	if len(nodes) == 1 {
		o.require(o.p50 <= before.Latency.P50+0.010, "p50 %.1f ms, before %.1f ms", o.p50*1e3, before.Latency.P50*1e3)
	}
	return o
}
