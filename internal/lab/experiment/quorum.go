package experiment

import (
	"context"
	"errors"
	"fmt"

	"github.com/qosproxy/qosproxy/internal/lab/bench"
	"github.com/qosproxy/qosproxy/internal/lab/report"
)

var quorumReads = Experiment{
	Name:  "quorum",
	Title: "Quorum reads through coordinators and through replicas",
	Question: "What does a lookup at LOCAL_QUORUM cost Cassandra when the proxy asks a quorum of replicas for their own data and compares it, " +
		"where nodes allow NODE_LOCAL, where they have dynamic_snitch: false instead, and when replicas differ?",
	measure: measureQuorum,
	overview: &overview{
		title: "CPU of Cassandra per lookup at LOCAL_QUORUM",
		kind:  report.Bars, y: "CPU per lookup, ms",
		figure: report.CassandraCPU,
		place:  func(r *report.Run) (string, string) { return r.Condition, r.Target },
	},
}

const (
	// byReplicas is the proxy with quorum_reads: replicas.
	byReplicas = "proxy-grpc, replicas"
	// allowed is the condition of nodes that allow NODE_LOCAL.
	allowed = "NODE_LOCAL"
)

// quorumCase is a condition under which quorum reads are compared.
type quorumCase struct {
	condition string
	// differ is the share of the keys, 0 to 1, whose own data differ on all replicas.
	differ float64
	// direct uses nodes without NODE_LOCAL, but with dynamic_snitch: false.
	direct bool
	// all measures every contender and further loads; otherwise only in-unpaged and the replicas.
	all bool
}

var quorumCases = []quorumCase{
	{condition: allowed, all: true},
	{condition: allowed + ", 0.1 % differ", differ: 0.001},
	{condition: allowed + ", 1 % differ", differ: 0.01},
	{condition: allowed + ", 10 % differ", differ: 0.1},
	{condition: notDynamic, direct: true, all: true},
}

func measureQuorum(ctx context.Context, lab *Lab, r *report.Report) error {
	r.Cluster = "6 nodes, RF 3, 3 racks, 16 vnodes, 450-byte rows, 50 keys, LOCAL_QUORUM, 4 callers unless said otherwise"
	r.SLA = &operating
	r.Notes = append(r.Notes, "Keys that differ have another write time on each node and equal values. The table has read_repair = 'NONE', or the first read would end the difference. "+
		"So the proxy returns the newest cells, and has none read again.")
	defer judgeQuorum(r) // runs even after an error, on what has been measured
	outcomes := report.Table{Title: "Keys of quorum_reads: replicas by outcome", Columns: []string{"condition", "outcome", "keys, %"}}
	defer func() { r.Tables = append(r.Tables, outcomes) }()
	var parts []part
	for _, c := range quorumCases {
		parts = append(parts, part{c.conditions(), func(ctx context.Context, lab *Lab, _ *Site, r *report.Report) error {
			return c.measure(ctx, lab, r, &outcomes)
		}})
	}
	return lab.measureParts(ctx, r, parts)
}

// conditions returns the conditions of the case: one or, with all, also a fixed rate, more callers,
// and nodes that share one CPU.
func (q quorumCase) conditions() []string {
	if !q.all {
		return []string{q.condition}
	}
	return []string{q.condition, q.atRate(), q.many(), q.apart()}
}

// atRate returns the condition with an open loop for all contenders. The rate is what unpaged IN
// can just sustain on two CPUs.
func (q quorumCase) atRate() string { return q.condition + ", 60 lookups/s" }

// many returns the condition in which hosts are busy.
func (q quorumCase) many() string { return q.condition + ", 16 callers" }

// apart returns the condition in which the nodes share one CPU, and the proxy has the others.
func (q quorumCase) apart() string { return q.condition + ", nodes on one CPU, 16 callers" }

func (q quorumCase) measure(ctx context.Context, lab *Lab, r *report.Report, outcomes *report.Table) error {
	layout := sixNodes(16)
	if q.direct {
		layout.JVMArgs = nil
		layout.YAML["dynamic_snitch"] = false
	}
	return lab.with(ctx, layout, func(s *Site) error {
		if err := q.prepare(ctx, s); err != nil {
			return err
		}
		const level = "consistency: LOCAL_QUORUM"
		replicas, proxy, err := s.Driver(ctx, nil, level, "quorum_reads: replicas")
		if err != nil {
			return err
		}
		coordinators, err := s.driver(ctx, level)
		if err != nil {
			return err
		}
		client, err := s.driverOf(proxy, func(open *bench.Open) {
			if open.Consistency = "NODE_LOCAL"; q.direct {
				open.Consistency = "LOCAL_ONE"
			}
		})
		if err != nil {
			return err
		}
		of := func(condition string, targets ...string) []bench.Contender {
			contenders := append(coordinators.Contenders(condition, targets...), named(byReplicas, replicas.Contenders(condition, bench.ProxyGRPC))...)
			if q.all {
				contenders = append(contenders, client.Contenders(condition, bench.QuorumCover)...)
			}
			return contenders
		}
		at := func(condition string, load bench.Load, targets ...string) error {
			return lab.runCounting(ctx, s, r, lab.comparison(load), of(condition, targets...)...)
		}
		targets := []string{bench.InUnpaged}
		if q.all {
			targets = append(targets, bench.Single, bench.ProxyGRPC)
		}
		if err = at(q.condition, fourCallers, targets...); q.all {
			err = errors.Join(err,
				at(q.atRate(), bench.Load{Rate: 60}, bench.InUnpaged),
				at(q.many(), sixteenCallers, bench.InUnpaged, bench.ProxyGRPC))
		}
		if q.all && lab.wants(q.apart()) {
			err = errors.Join(err, lab.whileApart(ctx, s, of("", bench.InUnpaged, bench.ProxyGRPC), func() error {
				return at(q.apart(), sixteenCallers, bench.InUnpaged, bench.ProxyGRPC)
			}))
		}
		return errors.Join(err, q.outcomes(ctx, proxy, outcomes))
	})
}

// prepare loads the table of the case.
func (q quorumCase) prepare(ctx context.Context, s *Site) error {
	p := products()
	if q.differ == 0 {
		return s.ensure(ctx, p, 3)
	}
	p.Table, p.Options = fmt.Sprintf("products_differ_%d", int(1000*q.differ)), "speculative_retry = 'NONE' AND read_repair = 'NONE'"
	if err := s.ensure(ctx, p, 3); err != nil {
		return err
	}
	var hosts []string
	for _, n := range s.Cluster.Nodes() {
		hosts = append(hosts, n.HostID())
	}
	s.lab.Say("writing %.3g %% of the keys with a time of its own at each node", 100*q.differ)
	if err := s.Data.Differ(ctx, s.Client, hosts, q.differ); err != nil {
		return err
	}
	return s.flush(ctx)
}

// outcomes adds to a table the outcomes of the keys that a proxy read from replicas.
func (q quorumCase) outcomes(ctx context.Context, p *Proxy, t *report.Table) error {
	families, err := p.Metrics(ctx)
	if err != nil {
		return err
	}
	metrics, total := families["qosproxy_quorum_reads_total"].GetMetric(), 0.0
	for _, m := range metrics {
		total += m.GetCounter().GetValue()
	}
	for _, m := range metrics {
		n := m.GetCounter().GetValue()
		if n == 0 {
			continue
		}
		for _, l := range m.GetLabel() {
			if l.GetName() == "outcome" {
				t.Rows = append(t.Rows, []string{q.condition, l.GetValue(), fmt.Sprintf("%.2f", 100*n/total)})
			}
		}
	}
	return nil
}

// judgeQuorum adds the findings for the runs that were measured.
func judgeQuorum(r *report.Report) {
	cpu := func(condition string, limit float64, target string) {
		atMost(r, fmt.Sprintf("cluster CPU per lookup, replicas / %s, %s", target, condition), limit,
			find(r, byReplicas, condition), report.CassandraCPU, find(r, target, condition), report.CassandraCPU)
	}
	for _, q := range quorumCases {
		limit := 1.0 / 5
		if q.direct {
			limit = 1.0 / 3
		}
		for _, condition := range q.conditions() {
			cpu(condition, limit, bench.InUnpaged)
			atMost(r, "cluster CPU per lookup, quorum-cover / in-unpaged, "+condition, limit,
				find(r, bench.QuorumCover, condition), report.CassandraCPU, find(r, bench.InUnpaged, condition), report.CassandraCPU)
		}
		if q.all {
			cpu(q.condition, 1.0/10, bench.Single)
			for _, condition := range []string{q.condition, q.many(), q.apart()} {
				atLeast(r, "lookups per second, replicas / in-unpaged, "+condition, 2.5,
					find(r, byReplicas, condition), report.Rate, find(r, bench.InUnpaged, condition), report.Rate)
			}
		}
	}
}
