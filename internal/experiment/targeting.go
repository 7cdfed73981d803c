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

func measureTargeting(ctx context.Context, lab *Lab, r *report.Report) error {
	r.Cluster = "6 nodes, RF 3, 3 racks, 450-byte rows, 50 keys"
	r.SLA = &operating
	defer judgeTargeting(r) // of what has been measured, also after an error
	for _, vnodes := range pick(lab, []int{16, 256, 1}, []int{16, 1, 256}) {
		err := lab.with(ctx, Layout{Nodes: 6, Racks: 3, VNodes: vnodes}, func(s *Site) error {
			if err := s.Load(ctx, products(), 3); err != nil {
				return err
			}
			return lab.targetingOn(ctx, s, r, vnodes)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// closed is the load under which CPU time is compared: enough to keep two cores
// busy, so that what nodes spend on themselves is small beside it.
var closed = bench.Load{Concurrency: 4}

// targetingOn measures one cluster.
func (lab *Lab) targetingOn(ctx context.Context, s *Site, r *report.Report, vnodes int) error {
	all := []string{bench.In, bench.InUnpaged, bench.Single, bench.Grouped, bench.ProxyGRPC, bench.ProxyGRPCCQL, bench.ProxyHTTP}
	c := lab.comparison(closed)
	if vnodes != 16 && !lab.Long {
		all = []string{bench.InUnpaged, bench.Single, bench.ProxyGRPC}
		c.Rounds = 2
	}
	one, err := s.driver(ctx, "consistency: LOCAL_ONE")
	if err != nil {
		return err
	}
	condition := func(level string) string { return fmt.Sprintf("%s, %d vnodes", level, vnodes) }
	if err := lab.run(ctx, r, c, one.Contenders(condition("LOCAL_ONE"), all...)...); err != nil {
		return err
	}
	if vnodes != 16 && !lab.Long {
		return nil
	}
	quorum, err := s.driver(ctx, "consistency: LOCAL_QUORUM")
	if err != nil {
		return err
	}
	if err := lab.run(ctx, r, lab.comparison(closed), quorum.Contenders(condition("LOCAL_QUORUM"), all[:5]...)...); err != nil {
		return err
	}
	if vnodes != 16 {
		return nil
	}
	idle := lab.comparison(bench.Load{Rate: 10})
	if err := lab.run(ctx, r, idle, one.Contenders("10 lookups/s", bench.Grouped, bench.ProxyGRPC)...); err != nil {
		return err
	}
	if err := lab.run(ctx, r, lab.capacity(20), one.Contenders("capacity", bench.In, bench.InUnpaged, bench.Single, bench.ProxyGRPC)...); err != nil {
		return err
	}
	return s.footprint(ctx, r)
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

func judgeTargeting(r *report.Report) {
	const one, quorum = "LOCAL_ONE, 16 vnodes", "LOCAL_QUORUM, 16 vnodes"
	proxy, grouped := find(r, bench.ProxyGRPC, one), find(r, bench.Grouped, one)
	cluster := func(claim string, limit float64, target, condition string) {
		atMost(r, "cluster CPU per lookup, "+claim, limit, find(r, bench.ProxyGRPC, condition), report.CassandraCPU, find(r, target, condition), report.CassandraCPU)
	}
	cluster("proxy-grpc / grouped", 1.05, bench.Grouped, one)
	cluster("proxy-grpc / in", 1.0/6, bench.In, one)
	cluster("proxy-grpc / in-unpaged", 1.0/2, bench.InUnpaged, one)
	cluster("proxy-grpc / single", 1/2.5, bench.Single, one)
	cluster("proxy-grpc / in-unpaged at LOCAL_QUORUM", 1, bench.InUnpaged, quorum)
	cluster("proxy-grpc / single at LOCAL_QUORUM", 1.0/2, bench.Single, quorum)
	atMost(r, "CPU of the proxy / client CPU of grouped, typed values", 2, proxy, report.ProxyCPU, grouped, report.ClientCPU)
	atMost(r, "CPU of the proxy / client CPU of grouped, CQL bytes", 1.5, find(r, bench.ProxyGRPCCQL, one), report.ProxyCPU, grouped, report.ClientCPU)
	capacity := func(limit float64, target string) {
		atLeast(r, "capacity at p95 ≤ 62.5 ms, proxy-grpc / "+target, limit, find(r, bench.ProxyGRPC, "capacity"), offered, find(r, target, "capacity"), offered)
	}
	capacity(4, bench.In)
	capacity(1.5, bench.InUnpaged)
	capacity(2, bench.Single)
	if a, b := find(r, bench.ProxyGRPC, "10 lookups/s"), find(r, bench.Grouped, "10 lookups/s"); a != nil && b != nil {
		added := a.Merge(report.P50).Median - b.Merge(report.P50).Median
		r.Findings = append(r.Findings, report.Finding{Claim: "p50 that the proxy adds to grouped ≤ 0.5 ms", Seen: fmt.Sprintf("%.2f ms", added), Holds: added <= 0.5})
	}
}
