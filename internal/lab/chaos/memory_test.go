//go:build chaos

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/qosproxy/qosproxy/internal/lab/bench"
)

// wideRows is a table of 8 partitions of 10 MiB.
const wideRows = `
name: wide
keyspace: ` + schemaKeyspace + `
table: wide
options: speculative_retry = 'NONE'
partitions: 8
rows_per_partition: 160
key: {name: id, type: text}
clustering: {name: ck, type: int}
columns:
  - {name: v, type: blob, bytes: [65536]}
mix:
  - keys: 1
`

// memoryLimit is the memory limit of the proxy, in bytes.
const memoryLimit = 256 << 20

// smallLoad is the load of the floods. At 50 lookups a second the promise could not be kept beside
// nodes that read partitions of 10 MiB on the same two CPUs.
var smallLoad = bench.Load{Rate: floodRate}

// The figures of memory.
const (
	peakMemory   = "peak of memory"
	kills        = "kills"
	largeRefused = "large lookups TOO_LARGE"
	largeFound   = "large lookups FOUND"
)

var memory = scenario{
	name: "memory", fault: "1,000 concurrent lookups of partitions of 10 MiB in 256 MiB of memory",
	promise: "no kill; TOO_LARGE where read; ≥ 95 % of small lookups in time",
	rely:    "Answers that are too large are refused, and neither the proxy nor small lookups die of them.",
	without: "max_response_bytes 64MiB, no admission, no GOMEMLIMIT",
	measure: func(a *arena, safe bool) *Outcome {
		o := &Outcome{}
		p, err := bench.ParseProfile([]byte(wideRows))
		a.must(err)
		cold := a.wide == nil
		if cold {
			a.wide = a.fill(p)
		}
		yaml, env := a.configure("", []caller{{name: "small", priority: "interactive"}, {name: "wide", priority: "batch"}}), []string{fmt.Sprintf("GOMEMLIMIT=%d", memoryLimit/10*9)}
		// Without coalescing every lookup reads by itself; otherwise eight reads would serve all.
		table := "  - {name: " + schemaKeyspace + ".wide, timeout: 2s, coalesce: false, max_rows_per_key: 1000"
		if safe {
			table += "}\n"
		} else {
			table += ", max_response_bytes: 64MiB}\nadmission: {enabled: false}\n"
			env = nil
		}
		grant := "tables: [{name: chaos_rf3.products}"
		yaml = strings.ReplaceAll(yaml, grant, grant+", {name: "+schemaKeyspace+".wide}") + table
		owned := a.own(a.data[3], yaml, env...)
		defer owned.close()
		small := a.as(owned, caller{name: "small"}, 50)
		defer small.leave()
		a.loadAt(small, smallLoad, 3*time.Second)
		lift, err := a.cluster.LimitMemory(owned.proxy.PID(), memoryLimit)
		if err != nil {
			a.t.Logf("no control group (%v): held to the peak of its memory", err)
		} else {
			defer func() {
				owned.close()
				a.must(lift())
			}()
		}
		owned.token = caller{name: "wide"}.token()
		var statuses map[string]int64
		crowd := func() { statuses = a.flood(owned, a.wide, 1000, span(15*time.Second)) }
		if cold {
			// Nodes that read such partitions for the first time compile, which delays everything else.
			a.duringAt(small, smallLoad, 0, crowd)
		}
		watch := watchPeak(owned.proxy.PID())
		spent := a.sum(owned, "process_cpu_seconds_total")
		l := a.duringAt(small, smallLoad, 0, crowd)
		peak := watch()
		if safe {
			a.t.Logf("the proxy spent %.1f s of CPU in %.0f s; statuses of the large: %v", a.sum(owned, "process_cpu_seconds_total")-spent, l.Seconds, statuses)
		}
		if !safe {
			// The nodes do not survive the control.
			defer a.restart()
		}
		killed := 0.0
		select {
		case <-owned.proxy.Done():
			killed = 1
		default:
		}
		o.load("small lookups", l)
		o.share("small not in time", float64(l.Failed), float64(l.Lookups))
		o.figure(Sum, largeRefused, float64(statuses["TOO_LARGE"]), "")
		o.figure(Sum, "large lookups refused for load", float64(statuses["SHED"]), "")
		o.figure(Sum, largeFound, float64(statuses["FOUND"]), "")
		o.figure(Most, peakMemory, float64(peak>>20), "MiB")
		o.figure(Sum, kills, killed, "")
		return o
	},
	judge: func(o *Outcome) []Check {
		return []Check{
			counted(kills, int64(o.Value(kills)), 0),
			amount(peakMemory, o.Value(peakMemory), memoryLimit>>20, "MiB"),
			amount("small lookups not in time", o.Value("small not in time")*100, 5, "%"),
			counted(largeFound, int64(o.Value(largeFound)), 0),
			sane("no large lookup was TOO_LARGE", o.Value(largeRefused) > 0),
		}
	},
}

// longestPause is the longest backoff of a caller of flood.
const longestPause = 8 * time.Second

// flood lets callers look up one key each of a data set, over and over, and returns how often each
// status came; error stands for what was no answer. A refused caller waits a second, as Retry-After
// says, and twice as long after each further refusal, with a random jitter of half, as clients do:
// a thousand that return at one moment would take the CPU that the nodes need.
func (a *arena) flood(s *subject, d *bench.Dataset, callers int, length time.Duration) map[string]int64 {
	ctx, cancel := context.WithTimeout(a.t.Context(), length)
	defer cancel()
	var mu sync.Mutex
	statuses := map[string]int64{}
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			body := fmt.Sprintf(`{"keys":["id-%07d"]}`, i%d.Profile.Partitions)
			for pause := time.Second; ctx.Err() == nil; {
				status := "error"
				got, err := ask(ctx, s, d.Profile.Keyspace+"."+d.Profile.Table, "batchGet", body)
				switch {
				case err == nil && len(got.Results) == 1:
					status = got.Results[0].Status
				case ctx.Err() != nil:
					return
				}
				mu.Lock()
				statuses[status]++
				mu.Unlock()
				if status == "TOO_LARGE" {
					pause = time.Second
					continue
				}
				select {
				case <-ctx.Done():
				case <-time.After(time.Duration((0.5 + rand.Float64()) * float64(pause))):
				}
				pause = min(2*pause, longestPause)
			}
		})
	}
	all.Wait()
	return statuses
}

// watchPeak watches a process until the returned function is called, which returns the peak of its
// resident memory in bytes.
func watchPeak(pid int) func() int64 {
	enough, result := make(chan struct{}), make(chan int64)
	go func() {
		peak := int64(0)
		for {
			if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); err == nil {
				_, rest, _ := strings.Cut(string(status), "VmHWM:")
				var kib int64
				_, _ = fmt.Sscan(rest, &kib)
				peak = max(peak, kib<<10)
			}
			select {
			case <-enough:
				result <- peak
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return func() int64 {
		close(enough)
		return <-result
	}
}
