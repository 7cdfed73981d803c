package experiment

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/qosproxy/qosproxy/internal/bench"
	"github.com/qosproxy/qosproxy/internal/report"
)

var targeting = Experiment{
	Name:  "targeting",
	Title: "What a 50-key lookup costs Cassandra, by the way in which it is asked",
	Question: "Does grouping keys by the host to ask, behind a proxy, spare the cluster CPU against one IN to any coordinator " +
		"and against one read for each key, and how many more lookups does the cluster hold within the SLA?",
	measure: measureTargeting,
}

var targetingVnodes = Experiment{
	Name:     "targeting-vnodes",
	Title:    "What a 50-key lookup costs Cassandra with 1 and with 256 tokens a node",
	Question: "Does what targeting spares the cluster depend on the number of vnodes?",
	measure:  measureTargetingVnodes,
	overview: &overview{
		title: "CPU of Cassandra per lookup by tokens a node",
		kind:  report.Bars, y: "CPU per lookup, ms",
		figure: report.CassandraCPU,
		place:  byTarget(),
	},
}

// closed is the load under which CPU time is compared: enough to keep two cores
// busy, so that what nodes spend on themselves is small beside it.
var closed = bench.Load{Concurrency: 8}

// The conditions under which targets are compared.
const (
	onDisk    = "LOCAL_ONE"
	large     = onDisk + ", max_keys_per_group 17"
	inMemory  = onDisk + ", rows in memtables"
	atQuorum  = "LOCAL_QUORUM"
	atLeisure = "10 lookups/s"
	climbing  = "capacity"
)

func measureTargeting(ctx context.Context, lab *Lab, r *report.Report) error {
	r.Cluster = "6 nodes, RF 3, 3 racks, 16 vnodes, 450-byte rows, 50 keys"
	r.SLA = &operating
	defer judgeTargeting(r) // of what has been measured, also after an error
	return lab.with(ctx, sixNodes(16), func(s *Site) error {
		if err := s.ensure(ctx, products(), 3); err != nil {
			return err
		}
		return lab.targetingOn(ctx, s, r)
	})
}

func measureTargetingVnodes(ctx context.Context, lab *Lab, r *report.Report) error {
	r.Cluster = "6 nodes, RF 3, 3 racks, 450-byte rows, 50 keys"
	r.SLA = &operating
	for _, vnodes := range []int{1, 256} {
		err := lab.with(ctx, sixNodes(vnodes), func(s *Site) error {
			if err := s.ensure(ctx, products(), 3); err != nil {
				return err
			}
			d, err := s.driver(ctx, "consistency: LOCAL_ONE")
			if err != nil {
				return err
			}
			condition := fmt.Sprintf("%d vnodes", vnodes)
			if err := lab.run(ctx, r, lab.comparison(closed), d.Contenders(condition, bench.InUnpaged, bench.Single, bench.ProxyGRPC)...); err != nil {
				return err
			}
			clusterCPU(r, "proxy-grpc / in-unpaged, "+condition, 1, bench.InUnpaged, condition)
			clusterCPU(r, "proxy-grpc / single, "+condition, 1/2.5, bench.Single, condition)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// targetingOn measures one cluster.
func (lab *Lab) targetingOn(ctx context.Context, s *Site, r *report.Report) error {
	all := []string{bench.In, bench.InUnpaged, bench.Single, bench.Grouped, bench.ProxyGRPC, bench.ProxyGRPCCQL, bench.ProxyHTTP}
	one, err := s.driver(ctx, "consistency: LOCAL_ONE")
	if err != nil {
		return err
	}
	fewer, err := s.driver(ctx, "consistency: LOCAL_ONE", "max_keys_per_group: 17")
	if err != nil {
		return err
	}
	contenders := append(one.Contenders(onDisk, all...), fewer.Contenders(large, bench.ProxyGRPC)...)
	if err := lab.run(ctx, r, lab.comparison(closed), contenders...); err != nil {
		return err
	}
	quorum, err := s.driver(ctx, "consistency: LOCAL_QUORUM")
	if err != nil {
		return err
	}
	if err := lab.run(ctx, r, lab.comparison(closed), quorum.Contenders(atQuorum, all[:5]...)...); err != nil {
		return err
	}
	if err := lab.run(ctx, r, lab.comparison(bench.Load{Rate: 10}), one.Contenders(atLeisure, bench.Grouped, bench.ProxyGRPC)...); err != nil {
		return err
	}
	if err := lab.targetingInMemory(ctx, s, r); err != nil {
		return err
	}
	if err := lab.run(ctx, r, lab.capacity(20), one.Contenders(climbing, bench.In, bench.InUnpaged, bench.Single, bench.Grouped, bench.ProxyGRPC)...); err != nil {
		return err
	}
	return s.footprint(ctx, r)
}

// targetingInMemory measures a table that has not been flushed. What a node spends on
// reading a row from an SSTable, which is the same however it is asked, is left out
// there, so that what asking costs is seen.
func (lab *Lab) targetingInMemory(ctx context.Context, s *Site, r *report.Report) error {
	flushed := s.Data
	defer func() { s.Data = flushed }()
	p := products()
	p.Table = "products_fresh"
	if err := s.write(ctx, p, 3); err != nil {
		return err
	}
	d, err := s.driver(ctx, "consistency: LOCAL_ONE")
	if err != nil {
		return err
	}
	return lab.run(ctx, r, lab.comparison(closed), d.Contenders(inMemory, bench.InUnpaged, bench.Single, bench.Grouped, bench.ProxyGRPC)...)
}

// footprint reports what a proxy needs that nobody asks anything: the time until it
// is ready, and memory. As many connections as to 100 nodes stand for a large
// cluster; its ring of 100 × 256 tokens is 2 MiB more (BenchmarkNew of ring).
func (s *Site) footprint(ctx context.Context, r *report.Report) error {
	t := report.Table{Title: "An idle proxy", Columns: []string{"connections", "start to ready, ms", "resident, MiB"}}
	for _, connections := range []int{connectionsPerHost, 100 * connectionsPerHost / 6} {
		p, err := s.serve(ctx, connections)
		if err != nil {
			return err
		}
		select {
		case <-time.After(5 * time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
		resident, err := p.Resident()
		if err != nil {
			return err
		}
		mib := float64(resident) / (1 << 20)
		t.Rows = append(t.Rows, []string{strconv.Itoa(6 * connections), strconv.FormatInt(p.StartToReady.Milliseconds(), 10), fmt.Sprintf("%.1f", mib)})
		r.Findings = append(r.Findings,
			report.Finding{Claim: fmt.Sprintf("start to ready with %d connections ≤ 1 s", 6*connections), Seen: fmt.Sprintf("%.2f s", p.StartToReady.Seconds()), Holds: p.StartToReady <= time.Second},
			report.Finding{Claim: fmt.Sprintf("resident with %d connections, idle ≤ 64 MiB", 6*connections), Seen: fmt.Sprintf("%.1f MiB", mib), Holds: mib <= 64})
		if err := p.Stop(); err != nil {
			return err
		}
	}
	r.Tables = append(r.Tables, t)
	return nil
}

// clusterCPU judges what the proxy costs the cluster by a lookup relative to another
// target under the same condition.
func clusterCPU(r *report.Report, claim string, limit float64, target, condition string) {
	atMost(r, "cluster CPU per lookup, "+claim, limit, find(r, bench.ProxyGRPC, condition), report.CassandraCPU, find(r, target, condition), report.CassandraCPU)
}

func judgeTargeting(r *report.Report) {
	proxy, grouped := find(r, bench.ProxyGRPC, onDisk), find(r, bench.Grouped, onDisk)
	clusterCPU(r, "proxy-grpc / grouped", 1.05, bench.Grouped, onDisk)
	clusterCPU(r, "proxy-grpc / in", 1.0/6, bench.In, onDisk)
	clusterCPU(r, "proxy-grpc / in-unpaged", 1.0/2, bench.InUnpaged, onDisk)
	clusterCPU(r, "proxy-grpc / single", 1/2.5, bench.Single, onDisk)
	atMost(r, "cluster CPU per lookup, proxy-grpc with max_keys_per_group 17 / without", 1, find(r, bench.ProxyGRPC, large), report.CassandraCPU, proxy, report.CassandraCPU)
	atMost(r, "cluster CPU per lookup, proxy-grpc with max_keys_per_group 17 / in-unpaged", 1.0/2, find(r, bench.ProxyGRPC, large), report.CassandraCPU, find(r, bench.InUnpaged, onDisk), report.CassandraCPU)
	clusterCPU(r, "proxy-grpc / in-unpaged, rows in memtables", 1.0/2, bench.InUnpaged, inMemory)
	clusterCPU(r, "proxy-grpc / single, rows in memtables", 1/2.5, bench.Single, inMemory)
	clusterCPU(r, "proxy-grpc / in-unpaged at LOCAL_QUORUM", 1, bench.InUnpaged, atQuorum)
	clusterCPU(r, "proxy-grpc / single at LOCAL_QUORUM", 1.0/2, bench.Single, atQuorum)
	atMost(r, "CPU of the proxy / client CPU of grouped, typed values", 2, proxy, report.ProxyCPU, grouped, report.ClientCPU)
	atMost(r, "CPU of the proxy / client CPU of grouped, CQL bytes", 1.5, find(r, bench.ProxyGRPCCQL, onDisk), report.ProxyCPU, grouped, report.ClientCPU)
	capacity := func(limit float64, target string) {
		atLeast(r, "capacity at p95 ≤ 62.5 ms, proxy-grpc / "+target, limit, find(r, bench.ProxyGRPC, climbing), offered, find(r, target, climbing), offered)
	}
	capacity(4, bench.In)
	capacity(1.5, bench.InUnpaged)
	capacity(2, bench.Single)
	if a, b := find(r, bench.ProxyGRPC, atLeisure), find(r, bench.Grouped, atLeisure); a != nil && b != nil {
		added := a.Merge(report.P50).Median - b.Merge(report.P50).Median
		r.Findings = append(r.Findings, report.Finding{Claim: "p50 that the proxy adds to grouped ≤ 0.5 ms", Seen: fmt.Sprintf("%.2f ms", added), Holds: added <= 0.5})
	}
}
