package experiment

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/qosproxy/qosproxy/internal/lab/bench"
	"github.com/qosproxy/qosproxy/internal/lab/report"
)

var sizing = Experiment{
	Name:     "sizing",
	Title:    "Which configuration holds p95 below 5 ms, and at what rate",
	Question: "For 3 and 6 nodes, ONE and QUORUM, values of 100, 1,000 and 10,000 bytes and more and more callers: where is p95 below 5 ms, and how many lookups of 50 keys per second are that?",
	measure:  measureSizing,
	overview: &overview{
		title: "p95 by configuration and callers",
		kind:  report.Bars, logY: true, y: "p95, ms",
		figure: report.P95,
		place:  byCallers,
	},
}

// drawnCallers are the numbers of callers in the overview, which has four bars for each
// configuration.
var drawnCallers = []string{"1 caller", "4 callers", "32 callers", "256 callers"}

// byCallers places a run at its configuration, in the series of its callers.
func byCallers(r *report.Run) (x, series string) {
	x, callers := cutLast(r.Condition)
	if !slices.Contains(drawnCallers, callers) {
		return x, ""
	}
	return x, callers
}

// tight is the SLA of the sizing experiment.
var tight = report.SLA{Percentile: 95, TargetSeconds: 0.005}

func measureSizing(ctx context.Context, lab *Lab, r *report.Report) error {
	r.Cluster = "RF 3, 3 racks, 16 vnodes; proxy-grpc with CQL cells, closed loop"
	r.SLA = &tight
	best := report.Table{
		Title:   "Highest rate with p95 < 5 ms",
		Columns: []string{"nodes", "level", "value bytes", "callers", "lookups/s", "p95 ms"},
	}
	for _, nodes := range []int{3, 6} {
		layout := sixNodes(16)
		layout.Nodes = nodes
		err := lab.with(ctx, layout, func(s *Site) error {
			for _, size := range []int{100, 1000, 10_000} {
				if err := s.ensure(ctx, sized(size), 3); err != nil {
					return err
				}
				for _, level := range []string{"ONE", "QUORUM"} {
					if err := lab.sizingOf(ctx, s, r, &best, nodes, size, level); err != nil {
						return err
					}
				}
			}
			return nil
		})
		r.Tables = append(r.Tables[:0], best)
		if err != nil {
			return err
		}
	}
	return nil
}

// sized returns a profile of rows with one value of this size. The larger the values, the fewer
// there are, so that all fit in the memory of the machine.
func sized(bytes int) *bench.Profile {
	p := products()
	p.Name, p.Table = "sized", fmt.Sprintf("sized_%d", bytes)
	p.Columns = []bench.Column{{Name: "value", Type: "blob", Bytes: []int{bytes}}}
	p.Partitions = 10_000_000 / max(bytes, 1000)
	return p
}

// sizingOf measures one size of values at one level, with ever more callers.
func (lab *Lab) sizingOf(ctx context.Context, s *Site, r *report.Report, best *report.Table, nodes, size int, level string) error {
	d, err := s.driver(ctx, "consistency: "+level)
	if err != nil {
		return err
	}
	row := []string{strconv.Itoa(nodes), level, strconv.Itoa(size), "none", "", ""}
	top := 0.0
	warm := len(s.tables) > 1 || level != "ONE"
	for i, callers := range pick(lab, []int{1, 4, 32}, []int{1, 4, 8, 16, 32, 64, 128, 256, 512}) {
		c := lab.comparison(bench.Load{Concurrency: callers})
		c.SLA = tight
		c.Rounds = 1
		c.Length = pick(lab, 3*time.Second, 10*time.Second)
		switch {
		case i > 0:
			c.Warmup = 0
		case warm:
			c.Warmup = pick(lab, 9*time.Second, 20*time.Second)
		}
		condition := fmt.Sprintf("%d nodes, %s, %d bytes, %d callers", nodes, level, size, callers)
		if callers == 1 {
			condition = strings.TrimSuffix(condition, "s")
		}
		if err := lab.run(ctx, r, c, d.Contenders(condition, bench.ProxyGRPCCQL)...); err != nil {
			return err
		}
		round := &r.Runs[len(r.Runs)-1].Rounds[0]
		if got := *report.Rate(round); round.Latency.P95 < tight.TargetSeconds && got > top {
			top = got
			row = append(row[:3], strconv.Itoa(callers), fmt.Sprintf("%.0f", got), fmt.Sprintf("%.1f", round.Latency.P95*1000))
		}
	}
	best.Rows = append(best.Rows, row)
	return nil
}
