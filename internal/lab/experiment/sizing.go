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
	defer func() { r.Tables = append(r.Tables, best) }()
	var parts []part
	for _, nodes := range []int{3, 6} {
		var all []sizingCase
		var conditions []string
		for _, size := range []int{100, 1000, 10_000} {
			for _, level := range []string{"ONE", "QUORUM"} {
				c := sizingCase{nodes, size, level}
				all, conditions = append(all, c), append(conditions, c.conditions(lab)...)
			}
		}
		parts = append(parts, part{conditions, func(ctx context.Context, lab *Lab, _ *Site, r *report.Report) error {
			layout := sixNodes(16)
			layout.Nodes = nodes
			return lab.with(ctx, layout, func(s *Site) error {
				for _, c := range all {
					if !slices.ContainsFunc(c.conditions(lab), lab.wants) {
						continue
					}
					if err := s.ensure(ctx, sized(c.size), 3); err != nil {
						return err
					}
					if err := lab.sizingOf(ctx, s, r, &best, c); err != nil {
						return err
					}
				}
				return nil
			})
		}})
	}
	return lab.measureParts(ctx, r, parts)
}

// sizingCase is a cluster, a size of values in bytes, and a level.
type sizingCase struct {
	nodes, size int
	level       string
}

// sizingCallers are the numbers of callers that are measured in turn.
func sizingCallers(lab *Lab) []int {
	return pick(lab, []int{1, 4, 32}, []int{1, 4, 8, 16, 32, 64, 128, 256, 512})
}

func (c sizingCase) condition(callers int) string {
	s := fmt.Sprintf("%d nodes, %s, %d bytes, %d callers", c.nodes, c.level, c.size, callers)
	if callers == 1 {
		s = strings.TrimSuffix(s, "s")
	}
	return s
}

func (c sizingCase) conditions(lab *Lab) []string {
	var out []string
	for _, callers := range sizingCallers(lab) {
		out = append(out, c.condition(callers))
	}
	return out
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
func (lab *Lab) sizingOf(ctx context.Context, s *Site, r *report.Report, best *report.Table, of sizingCase) error {
	d, err := s.driver(ctx, "consistency: "+of.level)
	if err != nil {
		return err
	}
	row := []string{strconv.Itoa(of.nodes), of.level, strconv.Itoa(of.size), "none", "", ""}
	top, before := 0.0, len(r.Runs)
	warm := len(s.tables) > 1 || of.level != "ONE"
	for _, callers := range sizingCallers(lab) {
		condition := of.condition(callers)
		if !lab.wants(condition) {
			continue
		}
		c := lab.comparison(bench.Load{Concurrency: callers})
		c.SLA = tight
		c.Rounds = 1
		c.Length = pick(lab, 3*time.Second, 10*time.Second)
		switch {
		case len(r.Runs) > before:
			c.Warmup = 0
		case warm:
			c.Warmup = pick(lab, 9*time.Second, 20*time.Second)
		}
		if err := lab.run(ctx, r, c, d.Contenders(condition, bench.ProxyGRPCCQL)...); err != nil {
			return err
		}
		if len(r.Runs) == before { // the target is not wanted
			return nil
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
