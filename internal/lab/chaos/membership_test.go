//go:build chaos

package chaos

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/qosproxy/qosproxy/internal/lab/bench"
	"github.com/qosproxy/qosproxy/internal/lab/devcluster"
)

// promisedRing is how long the proxy may use a ring that has changed.
const promisedRing = 90 * time.Second

// membershipRate is the load while nodes join and leave: half of restartRate, because one more node
// shares the two CPUs.
const membershipRate = restartRate / 2

const ringRightAfter = "ring right after"

var membership = scenario{
	name: "membership", fault: "a fourth node added, then decommissioned" + staticNodes, promise: "0 wrong, 0 missing, 0 failed; ring right ≤ 90 s",
	rely:    "Nodes with `dynamic_snitch: false` can join and leave under load without a wrong, missing or failed answer.",
	static:  true,
	without: "replication factor 1, one table, and the node killed before it is decommissioned",
	measure: func(a *arena, safe bool) *Outcome {
		o := &Outcome{}
		s := a.replicated(safe)
		right := time.Duration(0)
		o.load("during", a.duringAt(s, bench.Load{Rate: membershipRate}, 0, func() {
			defer a.apart()()
			// The ring delay, for which a node announces that it joins or leaves, is 30 s by default, but
			// shorter in a development cluster.
			node, err := a.cluster.AddNode(a.t.Context(), devcluster.NodeConfig{DC: "dc1", Rack: "rack1", ExtraYAML: snitch(true), JVMArgs: []string{"-Dcassandra.ring_delay_ms=6000"}})
			a.must(err)
			if safe { // the control reads another table
				right = a.ringRight(s)
			}
			a.hold(3 * time.Second)
			if !safe {
				a.must(node.Kill())
				a.hold(5 * time.Second)
				a.must(node.Start(a.t.Context()))
			}
			a.must(a.cluster.Decommission(a.t.Context(), node))
			if safe {
				right = max(right, a.ringRight(s))
			}
			a.hold(3 * time.Second)
		}))
		o.figure(Most, ringRightAfter, right.Seconds(), "s")
		return o
	},
	judge: func(o *Outcome) []Check {
		during := o.Load("during")
		return []Check{
			counted("rows wrong or missing", during.WrongRows+during.MissingKeys, 0),
			counted("lookups failed", during.Failed, 0),
			amount(ringRightAfter, o.Value(ringRightAfter), promisedRing.Seconds(), "s"),
			sane("no lookups were made", during.Lookups > 0),
		}
	},
}

// ringRight waits until the proxy has the replicas of keys that a session has which
// is opened now, and returns how long that took.
func (a *arena) ringRight(s *subject) time.Duration {
	const keyspace, table, keys = "chaos_rf3", "chaos_rf3.products", 500
	replicas, err := a.site.Replicas(a.t.Context())
	a.must(err)
	start := time.Now()
	for {
		right := 0
		for from := 0; from < keys; from += 50 {
			names := make([]string, 50)
			for i := range names {
				names[i] = fmt.Sprintf("id-%07d", from+i)
			}
			got, err := ask(a.t.Context(), s, table, "explain", `{"keys":["`+strings.Join(names, `","`)+`"]}`)
			if err != nil {
				continue
			}
			for _, k := range got.Keys {
				token, err := strconv.ParseInt(k.Token, 10, 64)
				a.must(err)
				if slices.Equal(k.Replicas, replicas(keyspace, token)) {
					right++
				}
			}
		}
		if right == keys || time.Since(start) > 2*promisedRing {
			return time.Since(start)
		}
		a.hold(200 * time.Millisecond)
	}
}
