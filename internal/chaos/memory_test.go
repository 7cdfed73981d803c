//go:build chaos

package chaos

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/qosproxy/qosproxy/internal/bench"
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

// memoryLimit is what the proxy is held to, in bytes.
const memoryLimit = 256 << 20

var memory = scenario{
	name: "memory", fault: "1,000 concurrent lookups of partitions of 10 MiB in 256 MiB of memory",
	promise: "no kill; TOO_LARGE where read; ≥ 95 % of small lookups in time",
	without: "max_response_bytes 64MiB, no admission, no GOMEMLIMIT",
	measure: func(a *arena, safe bool) outcome {
		var o outcome
		p, err := bench.ParseProfile([]byte(wideRows))
		a.must(err)
		wide := a.fill(p)
		yaml, env := a.configure("", []caller{{name: "small", priority: "interactive"}, {name: "wide", priority: "batch"}}), []string{fmt.Sprintf("GOMEMLIMIT=%d", memoryLimit/10*9)}
		// Every lookup reads by itself, or eight reads would do for all.
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
		defer small.driver.Close()
		a.load(small, 3*time.Second)
		lift, err := a.cluster.LimitMemory(owned.proxy.PID(), memoryLimit)
		if err != nil {
			o.note("control group", "none (%v): held to the peak of its memory", err)
		} else {
			defer func() {
				owned.close()
				a.must(lift())
			}()
		}
		owned.token = caller{name: "wide"}.token()
		var statuses map[string]int64
		watch := watchPeak(owned.proxy.PID())
		r := a.during(small, 0, func() { statuses = a.flood(owned, wide, 1000, span(30*time.Second)) })
		peak := watch()
		if !safe {
			// The nodes do not survive that.
			defer a.restart()
		}
		killed := false
		select {
		case <-owned.proxy.Done():
			killed = true
		default:
		}
		good := max(0, float64(r.Counts.Lookups-failed(r))/float64(max(r.Counts.Lookups, 1))) // one may be partial and late
		o.note("large:", "%v", statuses)
		o.note("small:", "%s", seen(r))
		o.note("peak of memory", "%d MiB", peak>>20)
		o.require(!killed && peak <= memoryLimit, "killed: %t, peak of memory %d MiB", killed, peak>>20)
		o.require(statuses["TOO_LARGE"] > 0 && statuses["FOUND"] == 0, "large lookups were %v", statuses)
		o.require(good >= 0.95, "%.1f %% of small lookups in time", good*100)
		return o
	},
}

// flood has so many callers look one key of a dataset up each, over and over, and
// returns how often each status came; error is for what was no answer.
func (a *arena) flood(s *subject, d *bench.Dataset, callers int, length time.Duration) map[string]int64 {
	ctx, cancel := context.WithTimeout(a.t.Context(), length)
	defer cancel()
	var mu sync.Mutex
	statuses := map[string]int64{}
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			body := fmt.Sprintf(`{"keys":["id-%07d"]}`, i%d.Profile.Partitions)
			for ctx.Err() == nil {
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
				if status != "TOO_LARGE" {
					time.Sleep(time.Second) // as Retry-After says
				}
			}
		})
	}
	all.Wait()
	return statuses
}

// watchPeak follows a process until what it returns is called, which tells the most
// memory the process has had resident, in bytes.
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
