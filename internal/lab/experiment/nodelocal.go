package experiment

import (
	"context"

	"github.com/qosproxy/qosproxy/internal/lab/bench"
	"github.com/qosproxy/qosproxy/internal/lab/report"
)

var nodeLocal = Experiment{
	Name:     "node-local",
	Title:    "NODE_LOCAL against LOCAL_ONE",
	Question: "Cassandra 5.0 reads at NODE_LOCAL without planning replicas. What does that save when every group goes to an owner anyway?",
	measure:  measureNodeLocal,
	overview: &overview{
		title: "CPU of Cassandra per lookup",
		kind:  report.Bars, y: "CPU per lookup, ms",
		figure: report.CassandraCPU,
		place:  func(r *report.Run) (string, string) { return r.Condition, r.Target },
	},
}

func measureNodeLocal(ctx context.Context, lab *Lab, r *report.Report) error {
	r.Cluster = "6 nodes with -Dcassandra.enable_nodelocal_queries=true, RF 3, 3 racks, 16 vnodes"
	r.SLA = &operating
	return lab.with(ctx, sixNodes(16), func(s *Site) error {
		if err := s.ensure(ctx, products(), 3); err != nil {
			return err
		}
		var contenders []bench.Contender
		for _, level := range []string{"LOCAL_ONE", "NODE_LOCAL"} {
			d, err := s.driver(ctx, "consistency: "+level)
			if err != nil {
				return err
			}
			contenders = append(contenders, d.Contenders(level, bench.ProxyGRPC)...)
		}
		if err := lab.run(ctx, r, lab.comparison(closed), contenders...); err != nil {
			return err
		}
		a, b := find(r, bench.ProxyGRPC, "NODE_LOCAL"), find(r, bench.ProxyGRPC, "LOCAL_ONE")
		atMost(r, "cluster CPU per lookup through the proxy, NODE_LOCAL / LOCAL_ONE", 0.65, a, report.CassandraCPU, b, report.CassandraCPU)
		atLeast(r, "lookups per second, NODE_LOCAL / LOCAL_ONE", 1, a, report.Rate, b, report.Rate)
		return nil
	})
}
