package experiment

import (
	"context"
	"fmt"
	"strings"

	"github.com/qosproxy/qosproxy/internal/lab/bench"
	"github.com/qosproxy/qosproxy/internal/lab/report"
)

var coordinators = Experiment{
	Name:  "coordinators",
	Title: "The proxy against coordinator-only Cassandra nodes",
	Question: "Two nodes that hold no data (join_ring=false) can take the INs off the storage nodes, too. " +
		"What do they and the data nodes spend on a lookup, against the proxy and the data nodes behind it?",
	measure: measureCoordinators,
	overview: &overview{
		title: "CPU of all nodes per lookup, coordinators included",
		kind:  report.Bars, y: "CPU per lookup, ms",
		figure: report.CassandraCPU,
		place: func(r *report.Run) (string, string) {
			return strings.TrimSpace(r.Target + " " + r.Condition), "Cassandra"
		},
	},
}

func measureCoordinators(ctx context.Context, lab *Lab, r *report.Report) error {
	r.Cluster = "6 nodes, RF 3, 3 racks, 16 vnodes, and 2 coordinators; LOCAL_ONE"
	r.SLA = &operating
	return lab.with(ctx, Layout{Nodes: 6, Racks: 3, VNodes: 16, Coordinators: 2}, func(s *Site) error {
		if err := s.ensure(ctx, products(), 3); err != nil {
			return err
		}
		owners, err := s.driver(ctx)
		if err != nil {
			return err
		}
		through, _, err := s.Driver(ctx, func(o *bench.Open) {
			o.OnlyContactPoints = true
			o.Cassandra.ContactPoints = nil
			for _, n := range s.Cluster.Nodes() {
				if n.HostID() == "" {
					o.Cassandra.ContactPoints = append(o.Cassandra.ContactPoints, n.IP())
				}
			}
		})
		if err != nil {
			return err
		}
		contenders := owners.Contenders("", bench.InUnpaged, bench.ProxyGRPC)
		contenders = append(contenders, through.Contenders("through coordinators", bench.In, bench.InUnpaged)...)
		if err := lab.run(ctx, r, lab.comparison(closed), contenders...); err != nil {
			return err
		}
		s.splitCPU(r)
		atMost(r, "CPU of the data nodes per lookup, proxy-grpc / in-unpaged through coordinators", 1,
			find(r, bench.ProxyGRPC, ""), s.dataCPU, find(r, bench.InUnpaged, "through coordinators"), s.dataCPU)
		atMost(r, "CPU before the data nodes per lookup, the proxy / the coordinators (in-unpaged)", 1,
			find(r, bench.ProxyGRPC, ""), report.ProxyCPU, find(r, bench.InUnpaged, "through coordinators"), s.coordinatorCPU)
		return nil
	})
}

// dataCPU is the CPU time of the nodes with data, and coordinatorCPU of those without, in
// milliseconds per lookup.
func (s *Site) dataCPU(r *report.Round) *float64        { return s.sumCPU(r, true) }
func (s *Site) coordinatorCPU(r *report.Round) *float64 { return s.sumCPU(r, false) }

func (s *Site) sumCPU(r *report.Round, data bool) *float64 {
	total := 0.0
	for _, n := range s.Cluster.Nodes() {
		if (n.HostID() != "") == data {
			total += r.NodeCPUMillis[n.Addr()]
		}
	}
	return &total
}

// splitCPU adds a table of who spent the CPU time.
func (s *Site) splitCPU(r *report.Report) {
	t := report.Table{
		Title:   "CPU time per lookup, ms",
		Columns: []string{"target", "data nodes", "coordinators", "proxy", "client"},
	}
	for i := range r.Runs {
		run := &r.Runs[i]
		name := run.Target
		if run.Condition != "" {
			name += " " + run.Condition
		}
		proxy := ""
		if bench.IsProxy(run.Target) {
			proxy = run.Merge(report.ProxyCPU).String()
		}
		t.Rows = append(t.Rows, []string{
			name, run.Merge(s.dataCPU).String(), run.Merge(s.coordinatorCPU).String(), proxy, fmt.Sprint(run.Merge(report.ClientCPU)),
		})
	}
	r.Tables = append(r.Tables, t)
}
