//go:build chaos

package chaos

import (
	"fmt"
	"slices"
	"time"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/lab/bench"
)

// The memory of the proxy in the floods, in MiB: the budget of its configuration, and how much more
// its resident memory may rise.
const (
	floodBudget = 128
	floodSlack  = 64
)

// floodRate is the rate of the good lookups beside a flood, per second. In production a flooding
// peer has its own CPUs; here it shares two.
const floodRate = 20

// floodStop is the rise of resident memory, in MiB, at which a flood ends: more than ten times what
// is allowed shows nothing further.
const floodStop = floodBudget + 12*floodSlack

// mebibytes is a table of partitions of 1 MiB.
const mebibytes = `
name: mebibytes
keyspace: ` + schemaKeyspace + `
table: mebibytes
options: speculative_retry = 'NONE'
partitions: 4
rows_per_partition: 16
key: {name: id, type: text}
clustering: {name: ck, type: int}
columns:
  - {name: v, type: blob, bytes: [65536]}
mix:
  - keys: 1
`

const (
	floodPromise = "resident memory rises by no more than the budget (`admission.max_memory` 128 MiB) + 64 MiB; 0 good lookups lost"
	floodRely    = "Memory stays within `admission.max_memory`, whatever a peer begins and does not end, or asks and does not read."
	noLimit      = "admission.enabled false, max_memory 64GiB"
	goodLost     = "good lookups lost"
)

// by describes the number of attacking connections.
func by(connections int) string {
	if connections == 1 {
		return "by 1 connection"
	}
	return fmt.Sprintf("by %d connections", connections)
}

// rise and calls return the names of figures for a number of connections.
func rise(connections int) string  { return "rise of memory " + by(connections) }
func calls(connections int) string { return "calls begun " + by(connections) }

// flooded attacks a new proxy with one connection, and another with fifty, beside good lookups, and
// notes how much their memory rose. The control attacks with enough connections to show the rise.
func (a *arena) flooded(safe bool, control int, attack func(connections int) *Attack) *Outcome {
	o := &Outcome{}
	if a.mebibytes == nil {
		p, err := bench.ParseProfile([]byte(mebibytes))
		a.must(err)
		a.mebibytes = a.fill(p)
	}
	admission := fmt.Sprintf("{max_memory: %dMiB}", floodBudget)
	if !safe {
		admission = "{enabled: false, max_memory: 64GiB}"
	}
	table := "  - {name: " + schemaKeyspace + ".mebibytes, timeout: 2s, max_response_bytes: 2MiB, max_rows_per_key: 100}\n"
	numbers, length := []int{1, 50}, max(span(8*time.Second), 4*time.Second)
	if !safe {
		numbers, length = []int{control}, 20*time.Second
	}
	for _, connections := range numbers {
		s := a.own(a.data[3], plain(a.data[3])+table+"admission: "+admission+"\n")
		a.beside(o, s, attack(connections), rise(connections), length)
		s.close()
	}
	return o
}

// beside attacks a proxy while it serves good lookups.
func (a *arena) beside(o *Outcome, s *subject, attack *Attack, figure string, length time.Duration) {
	attack.Address = s.proxy.GRPC
	a.loadAt(s, bench.Load{Rate: floodRate}, 3*time.Second)
	start, err := s.proxy.Resident()
	a.must(err)
	peers, err := startPeers(a.t.Context(), &abuser{Attack: attack})
	a.must(err)
	defer peers.kill()
	most := start
	l := a.duringAt(s, bench.Load{Rate: floodRate}, 0, func() {
		for end := time.Now().Add(length); time.Now().Before(end) && most-start < floodStop<<20; {
			now, err := s.proxy.Resident()
			a.must(err)
			most = max(most, now)
			a.hold(50 * time.Millisecond)
		}
	})
	seen, err := peers.stop()
	if err != nil {
		a.t.Logf("attack: %v", err)
	}
	a.t.Logf("attack: %+v", *seen)
	o.load("good lookups beside the flood "+by(attack.Connections)+":", l)
	o.figure(Most, figure, float64(most-start)/(1<<20), "MiB")
	o.figure(Sum, calls(attack.Connections), float64(seen.Calls), "")
	o.figure(Sum, "calls ended by the proxy "+by(attack.Connections), float64(seen.Reset+seen.Ended), "")
	if at := slices.IndexFunc(o.Figures, func(f Figure) bool { return f.Name == goodLost }); at >= 0 {
		o.Figures[at].Value += float64(l.Lost)
		return
	}
	o.figure(Sum, goodLost, float64(l.Lost), "")
}

func floodChecks(o *Outcome) []Check {
	made := int64(0)
	for _, l := range o.Loads {
		made += l.Lookups
	}
	checks := []Check{counted(goodLost, int64(o.Value(goodLost)), 0), sane("no good lookups were made", made > 0)}
	for _, connections := range []int{1, 50} {
		if seen := o.Value(rise(connections)); seen > 0 {
			checks = append(checks, amount("memory beyond the budget "+by(connections), seen-floodBudget, floodSlack, "MiB"))
		}
	}
	return checks
}

var floodRequests = scenario{
	name: "flood-requests", fault: "1 and 50 connections, not authenticated, begin 250 calls of 4 MiB each and end none", quick: 1,
	promise: floodPromise, rely: floodRely, without: noLimit, judge: floodChecks,
	measure: func(a *arena, safe bool) *Outcome {
		return a.flooded(safe, 1, func(connections int) *Attack {
			return &Attack{Path: qosproxyv1.QosProxy_BatchGet_FullMethodName, Connections: connections, Calls: 250, Announced: 4<<20 - 1024}
		})
	},
}

var floodAnswers = scenario{
	name: "flood-answers", fault: "1 connection asks for 250 answers of 1 MiB, 50 for 20 each, and read none",
	promise: floodPromise, rely: floodRely, without: noLimit, judge: floodChecks,
	measure: func(a *arena, safe bool) *Outcome {
		request, err := message(&qosproxyv1.BatchGetRequest{Keyspace: schemaKeyspace, Table: "mebibytes", Keys: []*qosproxyv1.Key{textKey("id-0000000")}})
		a.must(err)
		return a.flooded(safe, 50, func(connections int) *Attack {
			// As fast as the proxy admits them: a refused lookup has no answer to read slowly.
			most, pause := 250, 20*time.Millisecond
			if connections > 1 {
				most, pause = 20, 500*time.Millisecond
			}
			return &Attack{Path: qosproxyv1.QosProxy_BatchGet_FullMethodName, Connections: connections, Calls: most, Pause: pause, Request: request}
		})
	},
}

// readerPause is the time between the beginnings of two calls of slow-readers. The scenario is
// about what the readers hold, not about the cost to hosts of thirty thousand keys at once.
const readerPause = 150 * time.Millisecond

var slowReading = scenario{
	name: "slow-readers", fault: "60 calls of StreamBatchGet with 500 keys each, begun within 9 s, whose client stops reading", quick: 1,
	promise: "0 good lookups refused or lost", rely: "A client that reads slowly takes no room from others.",
	why: "a good lookup that is refused is counted by the same load as in the floods, whose controls lose some",
	measure: func(a *arena, _ bool) *Outcome {
		o := &Outcome{}
		in := &qosproxyv1.BatchGetRequest{Keyspace: "chaos_rf3", Table: "products"}
		for n := range 500 {
			in.Keys = append(in.Keys, textKey(fmt.Sprintf("id-%07d", n)))
		}
		request, err := message(in)
		a.must(err)
		s := a.own(a.data[3], fmt.Sprintf("listen: {%s}\nshutdown: {delay: 0s}\ntables:\n  - {name: chaos_rf3.products, timeout: 2s, max_keys: 500}\n", anywhere))
		defer s.close()
		a.beside(o, s, &Attack{Path: qosproxyv1.QosProxy_StreamBatchGet_FullMethodName, Connections: 1, Calls: 60, Pause: readerPause, Request: request},
			rise(1), 60*readerPause+3*time.Second)
		return o
	},
	judge: func(o *Outcome) []Check {
		return []Check{counted(goodLost, int64(o.Value(goodLost)), 0), sane("not all calls were made", o.Value(calls(1)) >= 60)}
	},
}
