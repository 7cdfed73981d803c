package experiment

import (
	"context"
	"fmt"
	"regexp"
	"strconv"

	"github.com/qosproxy/qosproxy/internal/lab/bench"
	"github.com/qosproxy/qosproxy/internal/lab/report"
)

var rowCache = Experiment{
	Name:  "row-cache",
	Title: "Targeting and Cassandra's row cache together",
	Question: "With a skewed choice of keys and a row cache that holds the hot ones, how many lookups does the cluster hold within the SLA, " +
		"asked by the proxy, against one IN without a row cache?",
	measure: measureRowCache,
	overview: &overview{
		title: "CPU of Cassandra per lookup, skewed keys",
		kind:  report.Bars, y: "CPU per lookup, ms",
		figure: report.CassandraCPU,
		place:  byTarget("no row cache, capacity", "row cache, capacity"),
	},
}

func measureRowCache(ctx context.Context, lab *Lab, r *report.Report) error {
	r.Cluster = "6 nodes, RF 3, 3 racks, 16 vnodes, zipf keys, LOCAL_ONE"
	r.SLA = &operating
	return lab.with(ctx, sixNodes(16), func(s *Site) error {
		var contenders []bench.Contender
		for _, cached := range []bool{false, true} {
			p := products()
			p.Keys.Distribution, p.Keys.Exponent = "zipf", 1.1
			condition := "no row cache"
			if cached {
				p.Table, condition = "products_cached", "row cache"
				p.Options += " AND caching = {'keys': 'ALL', 'rows_per_partition': 'ALL'}"
			}
			if err := s.ensure(ctx, p, 3); err != nil {
				return err
			}
			d, err := s.driver(ctx)
			if err != nil {
				return err
			}
			contenders = append(contenders, d.Contenders(condition, bench.In, bench.InUnpaged, bench.ProxyGRPC)...)
		}
		if err := lab.run(ctx, r, lab.comparison(closed), contenders...); err != nil {
			return err
		}
		if err := s.hitRatios(ctx, r); err != nil {
			return err
		}
		for i := range contenders {
			contenders[i].Condition += ", capacity"
		}
		if err := lab.run(ctx, r, lab.capacity(20), contenders...); err != nil {
			return err
		}
		atLeast(r, "capacity at p95 ≤ 62.5 ms, proxy-grpc with row cache / in without", 4,
			find(r, bench.ProxyGRPC, "row cache, capacity"), offered, find(r, bench.In, "no row cache, capacity"), offered)
		atMost(r, "cluster CPU per lookup, proxy-grpc with row cache / without", 1,
			find(r, bench.ProxyGRPC, "row cache"), report.CassandraCPU, find(r, bench.ProxyGRPC, "no row cache"), report.CassandraCPU)
		return nil
	})
}

// rowCacheLine matches the row cache in "nodetool info".
var rowCacheLine = regexp.MustCompile(`Row Cache .*?entries (\d+), size ([^,]+),.*?(\d+) hits, (\d+) requests`)

// hitRatios adds a table of the row caches' hit ratios.
func (s *Site) hitRatios(ctx context.Context, r *report.Report) error {
	t := report.Table{Title: "Row cache of each node", Columns: []string{"node", "entries", "size", "hits", "requests", "hit ratio"}}
	hits, requests := 0.0, 0.0
	for i, n := range s.Cluster.Nodes() {
		out, err := s.Cluster.Nodetool(ctx, i, "info")
		if err != nil {
			return err
		}
		m := rowCacheLine.FindStringSubmatch(out)
		if m == nil {
			return fmt.Errorf("nodetool info says nothing of the row cache:\n%s", out)
		}
		h, _ := strconv.ParseFloat(m[3], 64)
		q, _ := strconv.ParseFloat(m[4], 64)
		hits, requests = hits+h, requests+q
		t.Rows = append(t.Rows, []string{n.IP(), m[1], m[2], m[3], m[4], fmt.Sprintf("%.1f %%", 100*h/max(q, 1))})
	}
	r.Tables = append(r.Tables, t)
	share := 100 * hits / max(requests, 1)
	r.Findings = append(r.Findings, report.Finding{
		Claim: "hit ratio of the row cache is 80–85 %", Seen: fmt.Sprintf("%.1f %%", share), Holds: share >= 80 && share <= 85,
	})
	return nil
}
