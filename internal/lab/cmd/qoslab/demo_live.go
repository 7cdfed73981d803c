package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/qosproxy/qosproxy/internal/lab/devcluster"
	"github.com/qosproxy/qosproxy/internal/sla"
	"github.com/qosproxy/qosproxy/internal/terminal"
)

// liveCounts counts the lookups of the demo's load.
type liveCounts struct {
	lookups, failed, subQueries, hedges atomic.Int64
}

// live runs a light load and shows its percentiles until Ctrl-C.
func (d *demo) live(ctx context.Context, tour *demoTour, cluster *devcluster.Cluster) error {
	nodes := cluster.Nodes()
	last := nodes[len(nodes)-1]
	fmt.Fprintf(d.out, "\nNow %d lookups of %d keys a second run. Freeze node%d and watch the tail:\n  kill -STOP %d; sleep 10; kill -CONT %d\n"+
		"Percentiles are of the last minute. Ctrl-C ends.\n\n",
		demoRate, demoKeys, last.Number(), last.PID(), last.PID())

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
			d.show(&counts, nodes)
		}
	}
}

// generate starts lookups at a fixed rate, whether or not earlier ones have ended, until ctx ends.
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
func (d *demo) show(counts *liveCounts, nodes []*devcluster.Node) {
	l := liveLine{
		latency: d.proxy.Percentiles("shop.products", time.Minute),
		lookups: counts.lookups.Load(), failed: counts.failed.Load(), subQueries: counts.subQueries.Load(), hedges: counts.hedges.Load(),
	}
	for _, address := range d.proxy.Avoided() {
		l.avoided = append(l.avoided, nodeName(address, nodes))
	}
	if terminal.Is(d.out) {
		// Leave the last column free: a cursor after it would wrap.
		fmt.Fprint(d.out, "\r"+l.text(terminal.Columns(d.out, plainColumns)-1, true)+terminal.ClearLine)
		return
	}
	fmt.Fprintln(d.out, l.text(0, false))
}

// nodeName returns the demo's name for the node at an address.
func nodeName(address string, nodes []*devcluster.Node) string {
	for _, n := range nodes {
		if n.Addr() == address {
			return fmt.Sprintf("node%d", n.Number())
		}
	}
	return address
}

// plainColumns is the assumed width of a terminal that does not report it.
const plainColumns = 80

// liveLine is the content of the live line.
type liveLine struct {
	latency                             sla.Percentiles
	avoided                             []string
	lookups, failed, subQueries, hedges int64
}

// text returns the line, cut to width columns if width is above 0. The most important figures come
// first.
func (l *liveLine) text(width int, colour bool) string {
	line := fmt.Sprintf("p50 %5.1f  p95 %5.1f  p99 %5.1f ms", ms(l.latency.P50), ms(l.latency.P95), ms(l.latency.P99))
	if len(l.avoided) > 0 {
		line += "  " + terminal.Paint("AVOIDED "+strings.Join(l.avoided, ", "), terminal.BoldRed, colour)
	}
	line += fmt.Sprintf("  %d failed  %d hedges  %d lookups  %.2f sub-queries each",
		l.failed, l.hedges, l.lookups, float64(l.subQueries)/float64(max(l.lookups-l.failed, 1)))
	if width > 0 {
		return terminal.Fit(line, width)
	}
	return line
}

// ms returns a duration in milliseconds.
func ms(d time.Duration) float64 { return d.Seconds() * 1000 }
