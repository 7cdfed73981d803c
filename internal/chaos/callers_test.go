//go:build chaos

package chaos

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/bench"
)

// held is what a proxy holds while nobody asks.
type held struct{ goroutines, permits, owed, heap float64 }

func (h held) String() string {
	return fmt.Sprintf("%.0f goroutines, %.0f keys with permits, %.0f owed by hosts, %.1f MiB of heap", h.goroutines, h.permits, h.owed, h.heap/(1<<20))
}

// holds reads what a proxy holds after a garbage collection; it serves its
// profiler.
func (a *arena) holds(s *subject) held {
	resp, err := http.Get("http://" + s.proxy.Admin + "/debug/pprof/heap?gc=1")
	a.must(err)
	_ = resp.Body.Close()
	return held{
		goroutines: a.sum(s, "go_goroutines"), permits: a.sum(s, "qosproxy_admission_inflight_keys"),
		owed: a.sum(s, "qosproxy_host_inflight"), heap: a.sum(s, "go_memstats_heap_alloc_bytes"),
	}
}

// near reports whether it is as much as at the start: goroutines of the driver and
// of connections come and go, and caches have filled.
func (h held) near(start held) bool {
	return h.goroutines <= start.goroutines+20 && h.permits == 0 && h.owed == 0 && h.heap <= start.heap+16<<20
}

var cancelled = scenario{
	name: "cancelled", fault: "1,000,000 lookups cancelled at random, connections cut under 1 in 500", quick: true,
	promise: "goroutines, permits and heap back to the start within 60 s", without: "500 callers keep their connections and read nothing",
	measure: func(a *arena, safe bool) outcome {
		var o outcome
		d := a.data[3]
		s := a.own(d, fmt.Sprintf("listen: {%s, pprof: true, write_timeout: 10m}\nshutdown: {delay: 0s}\ntables:\n  - {name: chaos_rf3.products, timeout: 2s}\n", anywhere))
		defer s.close()
		lookups := 1_000_000
		if *short {
			lookups = 30_000
		}
		if !safe {
			lookups = 5_000
		}
		st := storm{address: s.proxy.GRPC, lookups: 5_000, callers: 64, patience: 10 * time.Millisecond, cut: 500, request: requestOf}
		// What is kept from the first lookups on is no leak: connections, statements,
		// caches.
		_, err := st.run(a.t.Context())
		a.must(err)
		a.hold(5 * time.Second)
		start := a.holds(s)
		st.lookups = lookups
		began := time.Now()
		seen, err := st.run(a.t.Context())
		a.must(err)
		o.note("lookups", "%d in %.0f s, %d answered, %d cancelled, %d connections cut", lookups, time.Since(began).Seconds(),
			seen.answered.Load(), seen.cancelled.Load(), seen.cuts.Load())
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
		for wait := time.Now(); !end.near(start) && time.Since(wait) < span(60*time.Second); end = a.holds(s) {
			a.hold(time.Second)
		}
		after := a.load(s, 5*time.Second)
		o.note("start:", "%s", start)
		o.note("end:", "%s", end)
		o.require(end.near(start), "%s; at the start %s", end, start)
		o.require(seen.cancelled.Load() > int64(lookups/10) && (seen.cuts.Load() > 0), "too few were cancelled: it was no storm")
		o.require(!safe || lost(after) == 0, "%d of %d lookups lost afterwards", lost(after), after.Counts.Lookups)
		return o
	},
}

// requestOf asks for one to five keys.
func requestOf(int) *qosproxyv1.BatchGetRequest {
	in := &qosproxyv1.BatchGetRequest{Keyspace: "chaos_rf3", Table: "products"}
	for range 1 + rand.IntN(5) {
		in.Keys = append(in.Keys, textKey(fmt.Sprintf("id-%07d", rand.IntN(partitions))))
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
	promise: "good clients, who connect anew every 5 s: p99 < 2 × that before; 0 lost",
	without: "handshake_timeout 1h (500 connections at most, as before)",
	measure: func(a *arena, safe bool) outcome {
		var o outcome
		handshake := "2s"
		if !safe {
			handshake = "1h"
		}
		// Whoever may flood is held to a share: what is asked and reset at once is read all
		// the same, as CQL has no cancel.
		good, bad := caller{name: "good", priority: "interactive"}, caller{"bad", "batch", ", keys_per_second: 1000"}
		s := a.own(a.data[3], a.configure(", max_connections: 500, max_connection_age: 5s, write_timeout: 2s, handshake_timeout: "+handshake, []caller{good, bad}))
		defer s.close()
		g := a.metered(s.proxy, a.site.Meter(s.proxy), a.data[3], func(o *bench.Open) { o.Token = good.token() })
		defer g.driver.Close()
		before := a.load(g, span(20*time.Second))

		peers, err := startPeers(a.t.Context(), &abuser{Address: s.proxy.GRPC, Token: bad.token(), Slowloris: slowloris, HalfOpen: halfOpen, SlowReaders: slowReaders})
		a.must(err)
		defer peers.kill()
		during := a.load(g, span(40*time.Second))
		abused, err := peers.stop()
		a.must(err)
		o.note("before:", "p99 %.1f ms; %s", before.Latency.P99*1e3, spent(before))
		o.note("during:", "%s; %s", seen(during), spent(during))
		o.note("peers", "%d floods, %d of %d half-open connections left", abused.Floods, abused.HalfOpen, halfOpen)
		o.require(during.Latency.P99 < 2*before.Latency.P99, "p99 %.1f ms, before %.1f ms", during.Latency.P99*1e3, before.Latency.P99*1e3)
		o.require(lost(during) == 0, "%d of %d lookups lost", lost(during), during.Counts.Lookups)
		return o
	},
}
