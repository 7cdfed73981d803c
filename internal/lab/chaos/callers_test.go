//go:build chaos

package chaos

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/lab/bench"
)

// held is what a proxy holds while it has no lookups.
type held struct{ goroutines, permits, outstanding, heap float64 }

func (h held) String() string {
	return fmt.Sprintf("%.0f goroutines, %.0f keys with permits, %.0f outstanding at hosts, %.1f MiB of heap", h.goroutines, h.permits, h.outstanding, h.heap/(1<<20))
}

// holds returns what a proxy holds after a garbage collection. The proxy must serve its profiler.
func (a *arena) holds(s *subject) held {
	resp, err := http.Get("http://" + s.proxy.Admin + "/debug/pprof/heap?gc=1")
	a.must(err)
	_ = resp.Body.Close()
	return held{
		goroutines: a.sum(s, "go_goroutines"), permits: a.sum(s, "qosproxy_admission_inflight_keys"),
		outstanding: a.sum(s, "qosproxy_host_inflight"), heap: a.sum(s, "go_memstats_heap_alloc_bytes"),
	}
}

// near reports whether it is about as much as at the start: goroutines of driver and connections
// come and go, and caches fill.
func (h held) near(start held) bool {
	return h.goroutines <= start.goroutines+20 && h.permits == 0 && h.outstanding == 0 && h.heap <= start.heap+16<<20
}

var cancelled = scenario{
	name: "cancelled", fault: "100,000 lookups cancelled at random, connections cut under 1 in 500", quick: 1,
	promise: "goroutines within 20, permits and outstanding sub-queries none, heap within 16 MiB of the start, within 20 s; 0 lost from 5 s after on",
	rely:    "Callers who cancel or vanish leave nothing behind.",
	without: "500 callers keep their connections and read nothing",
	measure: func(a *arena, safe bool) *Outcome {
		o := &Outcome{}
		d := a.data[3]
		s := a.own(d, fmt.Sprintf("listen: {%s, pprof: true, write_timeout: 10m}\nshutdown: {delay: 0s}\ntables:\n  - {name: chaos_rf3.products, timeout: 2s}\n", anywhere))
		defer s.close()
		lookups := 100_000
		if *short {
			lookups = 20_000
		}
		if !safe {
			lookups = 5_000
		}
		st := storm{address: s.proxy.GRPC, lookups: 5_000, callers: 64, patience: 10 * time.Millisecond, cut: 500, request: requestOf}
		// What the first lookups leave for good is no leak: connections, statements, caches.
		_, err := st.run(a.t.Context())
		a.must(err)
		a.hold(3 * time.Second)
		start := a.holds(s)
		st.lookups = lookups
		seen, err := st.run(a.t.Context())
		a.must(err)
		o.figure(Sum, "lookups", float64(lookups), "")
		o.figure(Sum, "cancelled", float64(seen.cancelled.Load()), "")
		o.figure(Sum, refusedMeanwhile, a.sum(s, "qosproxy_admission_shed_total"), "")
		o.figure(Sum, "connections cut", float64(seen.cuts.Load()), "")
		if !safe {
			request, err := message(requestOf(0))
			a.must(err)
			for range 500 {
				c, err := readSlowly(s.proxy.GRPC, "", request)
				a.must(err)
				defer c.Close()
			}
		}
		end := a.holds(s)
		for wait := time.Now(); !end.near(start) && time.Since(wait) < 20*time.Second; end = a.holds(s) {
			a.hold(time.Second)
		}
		a.hold(5 * time.Second) // as after any overload
		after := a.load(s, 3*time.Second)
		o.load("after", after)
		o.figure(Most, moreGoroutines, end.goroutines-start.goroutines, "")
		o.figure(Most, leftPermits, end.permits, "")
		o.figure(Most, leftOutstanding, end.outstanding, "")
		o.figure(Most, moreHeap, (end.heap-start.heap)/(1<<20), "MiB")
		return o
	},
	judge: func(o *Outcome) []Check {
		return []Check{
			amount(moreGoroutines, o.Value(moreGoroutines), 20, "goroutines"),
			counted(leftPermits, int64(o.Value(leftPermits)), 0),
			counted(leftOutstanding, int64(o.Value(leftOutstanding)), 0),
			amount(moreHeap, o.Value(moreHeap), 16, "MiB"),
			counted("lookups lost afterwards", o.Load("after").Lost, 0),
			sane("too few were cancelled: it was no storm", o.Value("cancelled") > o.Value("lookups")/10 && o.Value("connections cut") > 0),
		}
	},
}

// What a storm may leave behind.
const (
	moreGoroutines  = "more goroutines"
	leftPermits     = "keys with permits"
	leftOutstanding = "outstanding sub-queries"
	moreHeap        = "more heap"
	// refusedMeanwhile counts the lookups of the storm that were refused for load. A caller that hangs
	// up does not make a host look late; a lookup for which the proxy had no CPU does.
	refusedMeanwhile = "lookups refused meanwhile"
)

// requestOf asks for one to five keys.
func requestOf(int) *qosproxyv1.BatchGetRequest {
	in := &qosproxyv1.BatchGetRequest{Keyspace: "chaos_rf3", Table: "products"}
	for range 1 + rand.IntN(5) {
		in.Keys = append(in.Keys, textKey(fmt.Sprintf("id-%07d", rand.IntN(partitions()))))
	}
	return in
}

func textKey(s string) *qosproxyv1.Key {
	return &qosproxyv1.Key{Components: []*qosproxyv1.Value{{Kind: &qosproxyv1.Value_Text{Text: s}}}}
}

// The abusive peers.
const (
	halfOpen    = 2000
	slowloris   = 600
	slowReaders = 20
)

var abuse = scenario{
	name: "abuse", fault: "floods of HTTP/2, 2,000 half-open connections, 600 of slowloris, 20 slow readers",
	promise: "good clients, who connect anew every 5 s: p99 ≤ 2 × that before; 0 lost",
	rely:    "Peers that misuse connections are cut off, and good clients lose nothing.",
	why:     "several safeguards protect, each of which is enough here; tests of the server have a control of each",
	measure: func(a *arena, _ bool) *Outcome {
		o := &Outcome{}
		// The flooding client has a share: keys that are asked for and reset at once are still read, as
		// CQL has no cancellation.
		good, bad := caller{name: "good", priority: "interactive"}, caller{"bad", "batch", ", keys_per_second: 1000"}
		s := a.own(a.data[3], a.configure(", max_connections: 500, max_connection_age: 5s, write_timeout: 2s, handshake_timeout: 2s", []caller{good, bad}))
		defer s.close()
		g := a.metered(s.proxy, a.site.Meter(s.proxy), a.data[3], func(o *bench.Open) { o.Token = good.token() })
		defer g.leave()
		o.load("before", a.load(g, span(10*time.Second)))

		peers, err := startPeers(a.t.Context(), &abuser{Address: s.proxy.GRPC, Token: bad.token(), Slowloris: slowloris, HalfOpen: halfOpen, SlowReaders: slowReaders})
		a.must(err)
		defer peers.kill()
		o.load("during", a.load(g, span(faultLength)))
		abused, err := peers.stop()
		a.must(err)
		o.figure(Sum, "lookups lost", float64(o.Load("during").Lost), "")
		o.figure(Sum, "floods", float64(abused.Floods), "")
		o.figure(Most, "half-open connections left", float64(abused.HalfOpen), "")
		return o
	},
	judge: func(o *Outcome) []Check {
		before, during := o.Load("before"), o.Load("during")
		return append(noneLost(o), room(before), amount("p99", during.P99*1e3, 2*before.P99*1e3, "ms"))
	},
}
