package experiment

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/qosproxy/qosproxy/internal/lab/bench"
	"github.com/qosproxy/qosproxy/internal/lab/report"
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

// closed is the load of CPU comparisons in experiments without conditions of their own. It keeps
// two cores busy, so that what nodes spend when idle is small beside it.
var closed = bench.Load{Concurrency: 8}

// The conditions under which targets are compared.
const (
	few        = "LOCAL_ONE, 4 callers"
	many       = "LOCAL_ONE, 16 callers"
	atOwners   = "NODE_LOCAL, 16 callers"
	atQuorum   = "LOCAL_QUORUM, 4 callers"
	steady     = "LOCAL_ONE, 60 lookups/s"
	alone      = "LOCAL_ONE, 1 caller"
	clustered  = "four rows a key, 4 callers"
	twoColumns = "key of two columns, 4 callers"
	primaryKey = "full primary keys, 4 callers"
	climbing   = "capacity"
	idle       = "idle proxy"

	// The same at one rate for all contenders. In a closed loop the proxy takes CPU time from the
	// nodes; they answer fewer lookups, and the fewer a node answers, the more it spends on each. 250
	// is about half of what 16 callers get through the proxy.
	manyAtRate       = "LOCAL_ONE, 250 lookups/s"
	atOwnersAtRate   = "NODE_LOCAL, 250 lookups/s"
	clusteredAtRate  = "four rows a key, 120 lookups/s"
	twoColumnsAtRate = "key of two columns, 120 lookups/s"
	primaryKeyAtRate = "full primary keys, 120 lookups/s"

	// The same where all nodes share one CPU, and the proxy and the load generator have the others,
	// as they have on hosts of their own.
	fewApart      = "nodes on one CPU, LOCAL_ONE, 4 callers"
	manyApart     = "nodes on one CPU, LOCAL_ONE, 16 callers"
	atOwnersApart = "nodes on one CPU, NODE_LOCAL, 16 callers"
	climbingApart = "nodes on one CPU, capacity"
)

// Names of contenders that differ from others of the same target and condition.
const (
	unmerged    = "proxy-grpc, merge: off"
	bySocket    = "proxy-grpc, unix socket"
	byOwners    = "proxy-grpc, NODE_LOCAL"
	reference   = "in-unpaged, LOCAL_ONE"
	partitioned = "cover of the partitions"
)

// part is a part of an experiment that can be measured without the others.
type part struct {
	conditions []string
	measure    func(context.Context, *Lab, *Site, *report.Report) error
}

var targetingParts = []part{
	{[]string{few}, targetingFew},
	{[]string{many, manyAtRate}, targetingMany},
	{[]string{atOwners, atOwnersAtRate}, targetingAtOwners},
	{[]string{atQuorum}, targetingAtQuorum},
	{[]string{steady}, targetingSteady},
	{[]string{alone}, targetingAlone},
	{[]string{clustered, clusteredAtRate}, targetingTable("orders", clustered, clusteredAtRate)},
	{[]string{twoColumns, twoColumnsAtRate}, targetingTable("accounts", twoColumns, twoColumnsAtRate)},
	{[]string{primaryKey, primaryKeyAtRate}, targetingRows},
	{[]string{climbing}, targetingCapacity},
	{[]string{fewApart, manyApart, atOwnersApart, climbingApart}, targetingApart},
	{[]string{idle}, func(ctx context.Context, _ *Lab, s *Site, r *report.Report) error { return s.footprint(ctx, r) }},
}

// wanted returns the parts that have a selected condition. If none has, the error lists all
// conditions.
func (lab *Lab) wanted(parts []part) ([]part, error) {
	var out []part
	var all []string
	for _, p := range parts {
		all = append(all, p.conditions...)
		if slices.ContainsFunc(p.conditions, lab.wants) {
			out = append(out, p)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no condition matches %s; there are: %s", lab.Only, strings.Join(all, "; "))
	}
	return out, nil
}

// measureParts measures the wanted parts, which boot clusters of their own.
func (lab *Lab) measureParts(ctx context.Context, r *report.Report, parts []part) error {
	wanted, err := lab.wanted(parts)
	if err != nil {
		return err
	}
	for _, p := range wanted {
		if err := p.measure(ctx, lab, nil, r); err != nil {
			return err
		}
	}
	return nil
}

func measureTargeting(ctx context.Context, lab *Lab, r *report.Report) error {
	r.Cluster = "6 nodes, RF 3, 3 racks, 16 vnodes, 450-byte rows, 50 keys"
	r.SLA = &operating
	parts, err := lab.wanted(targetingParts)
	if err != nil {
		return err
	}
	defer judgeTargeting(r) // runs even after an error, on what has been measured
	return lab.with(ctx, sixNodes(16), func(s *Site) error {
		for _, p := range parts {
			if err := s.ensure(ctx, products(), 3); err != nil {
				return err
			}
			err := p.measure(ctx, lab, s, r)
			// Stop proxies that are no longer used: they would still refresh and probe.
			if err = errors.Join(err, s.clear()); err != nil {
				return err
			}
		}
		return nil
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

// compare measures targets of one driver under one condition.
func (lab *Lab) compare(ctx context.Context, s *Site, r *report.Report, c bench.Comparison, level, condition string, targets ...string) error {
	d, err := s.driver(ctx, "consistency: "+level)
	if err != nil {
		return err
	}
	return lab.run(ctx, r, c, d.Contenders(condition, targets...)...)
}

// named sets the name of contenders in the report.
func named(name string, contenders []bench.Contender) []bench.Contender {
	for i := range contenders {
		contenders[i].As = name
	}
	return contenders
}

func targetingFew(ctx context.Context, lab *Lab, s *Site, r *report.Report) error {
	return lab.compare(ctx, s, r, lab.comparison(bench.Load{Concurrency: 4}), "LOCAL_ONE", few,
		bench.In, bench.InUnpaged, bench.Single, bench.Cover, bench.Grouped, bench.ProxyGRPC, bench.ProxyGRPCCQL, bench.ProxyHTTP)
}

func targetingMany(ctx context.Context, lab *Lab, s *Site, r *report.Report) error {
	of, err := s.withMerging(ctx, r)
	if err != nil {
		return err
	}
	return errors.Join(
		lab.runCounting(ctx, s, r, lab.comparison(sixteenCallers), of(many)...),
		lab.runCounting(ctx, s, r, lab.comparison(highRate), of(manyAtRate)...))
}

// contendersOf returns contenders for a condition.
type contendersOf func(condition string) []bench.Contender

// withMerging returns contenders that include the proxy with and without merging.
func (s *Site) withMerging(ctx context.Context, r *report.Report) (contendersOf, error) {
	d, err := s.driver(ctx, "consistency: LOCAL_ONE")
	if err != nil {
		return nil, err
	}
	off, err := s.withoutMerging(ctx, r, "LOCAL_ONE")
	if err != nil {
		return nil, err
	}
	return func(condition string) []bench.Contender {
		return append(d.Contenders(condition, bench.InUnpaged, bench.Cover, bench.ProxyGRPC), off(condition)...)
	}, nil
}

// withoutMerging returns the proxy with merging off. If the proxy cannot merge at all, it returns
// no contenders and adds a note.
func (s *Site) withoutMerging(ctx context.Context, r *report.Report, level string) (contendersOf, error) {
	d, err := s.driver(ctx, "consistency: "+level, "merge: off")
	switch {
	case err == nil:
	case strings.Contains(err.Error(), `unknown key "merge"`): // an earlier release, given by --proxy
		r.Notes = append(r.Notes, "The proxy does not merge statements of different lookups.")
		return func(string) []bench.Contender { return nil }, nil
	default:
		return nil, err
	}
	return func(condition string) []bench.Contender {
		return named(unmerged, d.Contenders(condition, bench.ProxyGRPC))
	}, nil
}

func targetingAtOwners(ctx context.Context, lab *Lab, s *Site, r *report.Report) error {
	of, err := s.atOwners(ctx, r)
	if err != nil {
		return err
	}
	return errors.Join(
		lab.runCounting(ctx, s, r, lab.comparison(sixteenCallers), of(atOwners)...),
		lab.runCounting(ctx, s, r, lab.comparison(highRate), of(atOwnersAtRate)...))
}

// atOwners returns contenders at NODE_LOCAL. In-unpaged is the reference for them, but at
// LOCAL_ONE: at NODE_LOCAL an IN finds only the keys that its coordinator owns, which is half of
// them.
func (s *Site) atOwners(ctx context.Context, r *report.Report) (contendersOf, error) {
	one, err := s.driver(ctx, "consistency: LOCAL_ONE")
	if err != nil {
		return nil, err
	}
	local, err := s.driver(ctx, "consistency: NODE_LOCAL")
	if err != nil {
		return nil, err
	}
	off, err := s.withoutMerging(ctx, r, "NODE_LOCAL")
	if err != nil {
		return nil, err
	}
	return func(condition string) []bench.Contender {
		contenders := named(reference, one.Contenders(condition, bench.InUnpaged))
		contenders = append(contenders, local.Contenders(condition, bench.Cover, bench.ProxyGRPC)...)
		return append(contenders, off(condition)...)
	}, nil
}

func targetingAtQuorum(ctx context.Context, lab *Lab, s *Site, r *report.Report) error {
	return lab.compare(ctx, s, r, lab.comparison(bench.Load{Concurrency: 4}), "LOCAL_QUORUM", atQuorum,
		bench.InUnpaged, bench.Single, bench.Cover, bench.ProxyGRPC)
}

// targetingSteady measures nodes that are idle most of the time. Idle threads cost CPU time too,
// because they wake to look for work.
func targetingSteady(ctx context.Context, lab *Lab, s *Site, r *report.Report) error {
	return lab.compare(ctx, s, r, lab.comparison(bench.Load{Rate: 60}), "LOCAL_ONE", steady, bench.InUnpaged, bench.Cover, bench.ProxyGRPC)
}

// targetingAlone measures the latency that the proxy adds when nothing queues.
func targetingAlone(ctx context.Context, lab *Lab, s *Site, r *report.Report) error {
	tcp, err := s.driver(ctx, "consistency: LOCAL_ONE")
	if err != nil {
		return err
	}
	p, err := s.serveAt(ctx, "unix://"+filepath.Join(s.Cluster.Dir(), "grpc.sock"), connectionsPerHost, "consistency: LOCAL_ONE")
	if err != nil {
		return err
	}
	socket, err := s.driverOf(p, nil)
	if err != nil {
		return err
	}
	contenders := append(tcp.Contenders(alone, bench.Cover, bench.Grouped, bench.ProxyGRPC), named(bySocket, socket.Contenders(alone, bench.ProxyGRPC))...)
	return lab.run(ctx, r, lab.comparison(bench.Load{Concurrency: 1}), contenders...)
}

// Closed loops, and rates at which the machine is not saturated.
var (
	fourCallers    = bench.Load{Concurrency: 4}
	sixteenCallers = bench.Load{Concurrency: 16}
	oneRate        = bench.Load{Rate: 120}
	highRate       = bench.Load{Rate: 250}
)

// targetingTable measures the table of another profile, with four callers and at a fixed rate.
func targetingTable(name, condition, atRate string) func(context.Context, *Lab, *Site, *report.Report) error {
	return func(ctx context.Context, lab *Lab, s *Site, r *report.Report) error {
		if err := s.ensure(ctx, profile(name), 3); err != nil {
			return err
		}
		d, err := s.driver(ctx, "consistency: LOCAL_ONE")
		if err != nil {
			return err
		}
		return errors.Join(
			lab.run(ctx, r, lab.comparison(fourCallers), d.Contenders(condition, bench.Cover, bench.ProxyGRPC, bench.Single)...),
			lab.run(ctx, r, lab.comparison(oneRate), d.Contenders(atRate, bench.Cover, bench.ProxyGRPC)...))
	}
}

// targetingRows compares reads of rows by full primary key with reads of the partitions, each of
// which has just that row.
func targetingRows(ctx context.Context, lab *Lab, s *Site, r *report.Report) error {
	if err := s.ensure(ctx, profile("events"), 3); err != nil {
		return err
	}
	rows, proxy, err := s.Driver(ctx, nil, "consistency: LOCAL_ONE")
	if err != nil {
		return err
	}
	partitions, err := s.driverOf(proxy, func(open *bench.Open) {
		open.Consistency, open.Mix = "LOCAL_ONE", []bench.Kind{{Weight: 1, Keys: 50}}
	})
	if err != nil {
		return err
	}
	at := func(condition string, load bench.Load) error {
		contenders := append(named(partitioned, partitions.Contenders(condition, bench.Cover)), rows.Contenders(condition, bench.ProxyGRPC)...)
		return lab.run(ctx, r, lab.comparison(load), contenders...)
	}
	return errors.Join(at(primaryKey, fourCallers), at(primaryKeyAtRate, oneRate))
}

func targetingCapacity(ctx context.Context, lab *Lab, s *Site, r *report.Report) error {
	d, err := s.driver(ctx, "consistency: LOCAL_ONE")
	if err != nil {
		return err
	}
	return lab.climb(ctx, r, d.Contenders(climbing, bench.In, bench.InUnpaged, bench.ProxyGRPC))
}

// climb finds the capacity of contenders, in as many rounds as other comparisons have.
func (lab *Lab) climb(ctx context.Context, r *report.Report, contenders []bench.Contender) error {
	c := lab.capacity(40)
	c.Rounds = lab.comparison(bench.Load{}).Rounds
	return lab.run(ctx, r, c, contenders...)
}

// targetingApart measures nodes that share no CPU with the proxy.
func targetingApart(ctx context.Context, lab *Lab, s *Site, r *report.Report) error {
	local, err := s.atOwners(ctx, r)
	if err != nil {
		return err
	}
	one, err := s.withMerging(ctx, r)
	if err != nil {
		return err
	}
	return lab.whileApart(ctx, s, append(one(""), local("")[1:]...), func() error {
		return errors.Join(
			lab.runCounting(ctx, s, r, lab.comparison(fourCallers), one(fewApart)[:3]...),
			lab.runCounting(ctx, s, r, lab.comparison(sixteenCallers), one(manyApart)...),
			lab.runCounting(ctx, s, r, lab.comparison(sixteenCallers), local(atOwnersApart)...),
			lab.climb(ctx, r, append(one(climbingApart)[:3], named(byOwners, local(climbingApart)[2:3])...)))
	})
}

// whileApart calls measure while the nodes share one CPU, and the proxies started so far have the
// others. Before, it warms the nodes with the contenders on all CPUs.
func (lab *Lab) whileApart(ctx context.Context, s *Site, contenders []bench.Contender, measure func() error) (err error) {
	warm := lab.comparison(sixteenCallers)
	warm.Rounds = 1
	if _, err := bench.Compare(ctx, contenders, warm); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Apart(false)) }()
	if err := s.Apart(true); err != nil {
		return err
	}
	return measure()
}

// footprint measures an idle proxy: the time until it is ready, and its memory. It measures once
// more with as many connections as to 100 nodes, in place of a large cluster; the ring of 100 × 256
// tokens would add 2 MiB (BenchmarkNew of ring).
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

// clusterCPU adds the finding whether a lookup by the proxy costs the cluster at most limit times
// what it costs by another target under the same condition.
func clusterCPU(r *report.Report, claim string, limit float64, target, condition string) {
	atMost(r, "cluster CPU per lookup, "+claim, limit, find(r, bench.ProxyGRPC, condition), report.CassandraCPU, find(r, target, condition), report.CassandraCPU)
}

// judgeTargeting adds the findings for the runs that were measured.
func judgeTargeting(r *report.Report) {
	clusterCPU(r, "proxy-grpc / cover, 4 callers", 1.1, bench.Cover, few)
	clusterCPU(r, "proxy-grpc / in-unpaged, 4 callers", 0.45, bench.InUnpaged, few)
	clusterCPU(r, "proxy-grpc / in, 4 callers", 1.0/5, bench.In, few)
	clusterCPU(r, "proxy-grpc / single, 4 callers", 1.0/4, bench.Single, few)
	clusterCPU(r, "proxy-grpc / cover, "+fewApart, 1.1, bench.Cover, fewApart)
	clusterCPU(r, "proxy-grpc / in-unpaged, "+fewApart, 0.45, bench.InUnpaged, fewApart)
	for _, condition := range []string{many, manyAtRate, manyApart} {
		clusterCPU(r, "proxy-grpc / cover, "+condition, 0.95, bench.Cover, condition)
		atMost(r, "p99, proxy-grpc / cover, "+condition, 1, find(r, bench.ProxyGRPC, condition), report.P99, find(r, bench.Cover, condition), report.P99)
	}
	for _, condition := range []string{atOwners, atOwnersAtRate, atOwnersApart} {
		clusterCPU(r, "proxy-grpc / in-unpaged at LOCAL_ONE, "+condition, 1.0/4, reference, condition)
	}
	for _, condition := range []string{clustered, clusteredAtRate} {
		clusterCPU(r, "proxy-grpc / cover, "+condition, 1.15, bench.Cover, condition)
	}
	for _, condition := range []string{twoColumns, twoColumnsAtRate} {
		clusterCPU(r, "proxy-grpc / cover, "+condition, 1.2, bench.Cover, condition)
	}
	for _, condition := range []string{primaryKey, primaryKeyAtRate} {
		clusterCPU(r, "proxy-grpc / cover of the partitions, "+condition, 1.3, partitioned, condition)
	}
	clusterCPU(r, "proxy-grpc / in-unpaged, 60 lookups/s", 1, bench.InUnpaged, steady)
	atMost(r, "p50, proxy-grpc / in-unpaged, 60 lookups/s", 1, find(r, bench.ProxyGRPC, steady), report.P50, find(r, bench.InUnpaged, steady), report.P50)
	capacity := func(condition, target string, limit float64, other string) {
		atLeast(r, condition+" at p95 ≤ 62.5 ms, "+target+" / "+other, limit, find(r, target, condition), offered, find(r, other, condition), offered)
	}
	capacity(climbing, bench.ProxyGRPC, 1.5, bench.InUnpaged)
	capacity(climbing, bench.ProxyGRPC, 4, bench.In)
	capacity(climbingApart, bench.ProxyGRPC, 1.5, bench.InUnpaged)
	capacity(climbingApart, byOwners, 4, bench.InUnpaged)
	within(r, "CPU of the proxy per lookup, gRPC with typed values, 4 callers", 0.45, find(r, bench.ProxyGRPC, few), report.ProxyCPU)
	within(r, "CPU of the proxy per lookup, gRPC with CQL cells, 4 callers", 0.35, find(r, bench.ProxyGRPCCQL, few), report.ProxyCPU)
	within(r, "CPU of the proxy per lookup, HTTP, 4 callers", 0.5, find(r, bench.ProxyHTTP, few), report.ProxyCPU)
	for _, plan := range []string{bench.Grouped, bench.Cover} {
		adds(r, "p50 that the proxy adds to "+plan+" over TCP", 0.5, find(r, bench.ProxyGRPC, alone), find(r, plan, alone))
		adds(r, "p50 that the proxy adds to "+plan+" over a unix socket", 0.5, find(r, bySocket, alone), find(r, plan, alone))
	}
}
