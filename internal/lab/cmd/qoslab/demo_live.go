package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/qosproxy/qosproxy/internal/lab/devcluster"
	"github.com/qosproxy/qosproxy/internal/terminal"
)

// liveCounts are what the load of the demo has seen.
type liveCounts struct {
	lookups, failed, subQueries, hedges atomic.Int64
}

// live runs a light load and shows its percentiles until Ctrl-C.
func (d *demo) live(ctx context.Context, tour *demoTour, cluster *devcluster.Cluster) error {
	nodes := cluster.Nodes()
	last := nodes[len(nodes)-1]
	fmt.Fprintf(d.out, "\nNow %d lookups of %d keys a second run. Freeze a node and watch the tail:\n  kill -STOP %d; sleep 10; kill -CONT %d\nCtrl-C ends.\n\n",
		demoRate, demoKeys, last.PID(), last.PID())

	var counts liveCounts
	var load sync.WaitGroup
	load.Go(func() { d.generate(ctx, tour, &counts) })
	defer load.Wait()

	every := 10 * time.Second
	if terminal.Is(d.out) {
		every = time.Second
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			fmt.Fprintln(d.out)
			return nil
		case <-ticker.C:
			d.show(&counts)
		}
	}
}

// generate starts lookups at a fixed rate, whether or not earlier ones have
// ended.
func (d *demo) generate(ctx context.Context, tour *demoTour, counts *liveCounts) {
	conn, err := tour.dial()
	if err != nil {
		return
	}
	defer conn.Close()
	var running sync.WaitGroup
	defer running.Wait()
	ticker := time.NewTicker(time.Second / demoRate)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		running.Go(func() {
			resp, err := tour.grpcLookup(ctx, conn)
			if ctx.Err() != nil {
				return
			}
			counts.lookups.Add(1)
			if err != nil {
				counts.failed.Add(1)
				return
			}
			counts.subQueries.Add(int64(resp.GetStats().GetSubQueries()))
			counts.hedges.Add(int64(resp.GetStats().GetHedges()))
		})
	}
}

// show prints the live line.
func (d *demo) show(counts *liveCounts) {
	p := d.proxy.Percentiles("shop.products", time.Minute)
	answered := max(counts.lookups.Load()-counts.failed.Load(), 1)
	line := fmt.Sprintf("p50 %5.1f ms  p95 %5.1f ms  p99 %5.1f ms (1 min)  %.2f sub-queries per lookup  %d lookups, %d hedges, %d failed",
		ms(p.P50), ms(p.P95), ms(p.P99), float64(counts.subQueries.Load())/float64(answered),
		counts.lookups.Load(), counts.hedges.Load(), counts.failed.Load())
	if terminal.Is(d.out) {
		fmt.Fprintf(d.out, "\r%s%s", line, strings.Repeat(" ", 4))
		return
	}
	fmt.Fprintln(d.out, line)
}

// ms returns a duration in milliseconds.
func ms(d time.Duration) float64 { return d.Seconds() * 1000 }
