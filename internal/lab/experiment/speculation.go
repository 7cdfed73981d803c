package experiment

import (
	"context"
	"fmt"
	"time"

	"github.com/qosproxy/qosproxy/internal/lab/bench"
	"github.com/qosproxy/qosproxy/internal/lab/report"
)

var speculation = Experiment{
	Name:  "speculation",
	Title: "Speculative retry, with one slow node and with none",
	Question: "What do the policies of speculative_retry do to the tail and to the load when one of six nodes is slow, " +
		"against the driver's own speculative execution over single reads?",
	measure: measureSpeculation,
	overview: &overview{
		title: "p99 by policy and by trouble",
		kind:  report.Bars, logY: true, y: "p99, ms",
		figure: report.P99,
		place:  byPolicy,
	},
}

// slowCPU is a slow node's share of one CPU.
const slowCPU = 0.05

func measureSpeculation(ctx context.Context, lab *Lab, r *report.Report) error {
	r.Cluster = fmt.Sprintf("6 nodes, RF 3, 3 racks, 16 vnodes, LOCAL_ONE; a slow node has %g %% of one CPU", slowCPU*100)
	r.SLA = &report.SLA{Percentile: 95, TargetSeconds: 0.125}
	return lab.with(ctx, sixNodes(16), func(s *Site) error {
		if err := s.ensure(ctx, products(), 3); err != nil {
			return err
		}
		var contenders []bench.Contender
		for _, policy := range []string{"NONE", "15ms", "99p", "MIN(99p,15ms)", "ALWAYS"} {
			d, err := s.driver(ctx, "speculative_retry: "+policy)
			if err != nil {
				return err
			}
			contenders = append(contenders, d.Contenders(policy, bench.ProxyGRPC)...)
		}
		contenders = append(contenders, contenders[0].Driver.Contenders("", bench.Single, bench.SingleSpeculative)...)
		return lab.speculationOn(ctx, s, r, contenders)
	})
}

func (lab *Lab) speculationOn(ctx context.Context, s *Site, r *report.Report, contenders []bench.Contender) error {
	c := lab.comparison(bench.Load{Rate: 40})
	c.SLA = *r.SLA
	c.Length = pick(lab, 6*time.Second, 30*time.Second)
	if err := lab.run(ctx, r, c, conditioned(contenders, "all well")...); err != nil {
		return err
	}
	slow := s.Cluster.Nodes()[5]
	if err := slow.LimitCPU(slowCPU); err != nil {
		return err
	}
	c.Warmup = 3 * time.Second
	if err := lab.run(ctx, r, c, conditioned(contenders, "one node slow")...); err != nil {
		return err
	}
	if err := slow.LimitCPU(0); err != nil {
		return err
	}
	judgeSpeculation(r)
	return nil
}

// conditioned appends word to the conditions of contenders.
func conditioned(contenders []bench.Contender, word string) []bench.Contender {
	out := make([]bench.Contender, len(contenders))
	for i, c := range contenders {
		out[i] = c
		if c.Condition != "" {
			word := c.Condition + ", " + word
			out[i].Condition = word
			continue
		}
		out[i].Condition = word
	}
	return out
}

func judgeSpeculation(r *report.Report) {
	const slow = "15ms, one node slow"
	atMost(r, "p99 with one slow node, 15ms / NONE", 1, find(r, bench.ProxyGRPC, slow), report.P99, find(r, bench.ProxyGRPC, "NONE, one node slow"), report.P99)
	atMost(r, "p99 with one slow node, 15ms / the driver's speculation over single reads", 1,
		find(r, bench.ProxyGRPC, slow), report.P99, find(r, bench.SingleSpeculative, "one node slow"), report.P99)
	t := report.Table{Title: "Extra load: hedges and failovers by first sub-queries", Columns: []string{"target", "condition", "extra"}}
	for i := range r.Runs {
		run := &r.Runs[i]
		if bench.IsProxy(run.Target) {
			extra := run.Merge(extraLoad)
			t.Rows = append(t.Rows, []string{run.Target, run.Condition, fmt.Sprintf("%.2f %% (%.2f–%.2f)", extra.Median*100, extra.Min*100, extra.Max*100)})
		}
	}
	r.Tables = append(r.Tables, t)
}

// extraLoad is the ratio of hedges and fail-overs to first attempts.
func extraLoad(r *report.Round) *float64 {
	all, hedges, failovers := r.PerLookup.SubQueries, r.PerLookup.Hedges, r.PerLookup.Failovers
	if all == nil || hedges == nil || failovers == nil || *all == *hedges+*failovers {
		return nil
	}
	v := (*hedges + *failovers) / (*all - *hedges - *failovers)
	return &v
}
