package experiment

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/lab/bench"
	"github.com/qosproxy/qosproxy/internal/lab/report"
	"github.com/qosproxy/qosproxy/internal/ring"
)

var replication = Experiment{
	Name:     "replication",
	Title:    "Replication factor and one node down",
	Question: "With RF 1, 2 and 3 on three nodes and one of them down: which keys are not answered, and what do rate and latency become?",
	measure:  measureReplication,
	overview: &overview{
		title: "Lookups per second by replication factor",
		kind:  report.Bars, y: "lookups/s",
		figure: report.Rate,
		place:  byLast,
	},
}

func measureReplication(ctx context.Context, lab *Lab, r *report.Report) error {
	r.Cluster = "3 nodes, 3 racks, 16 vnodes, LOCAL_ONE"
	r.SLA = &operating
	return lab.with(ctx, Layout{Nodes: 3, Racks: 3, VNodes: 16}, func(s *Site) error {
		var (
			contenders []bench.Contender
			data       []*bench.Dataset
		)
		for rf := 1; rf <= 3; rf++ {
			p := products()
			p.Keyspace, p.Partitions = fmt.Sprintf("bench_rf%d", rf), 10_000
			if err := s.ensure(ctx, p, rf); err != nil {
				return err
			}
			d, err := s.driver(ctx)
			if err != nil {
				return err
			}
			data = append(data, s.Data)
			contenders = append(contenders, d.Contenders(fmt.Sprintf("RF %d", rf), bench.ProxyGRPC)...)
		}
		if err := lab.run(ctx, r, lab.comparison(closed), conditioned(contenders, "all up")...); err != nil {
			return err
		}
		replicas, err := s.Replicas(ctx)
		if err != nil {
			return err
		}
		s.worn = true
		down := s.Cluster.Nodes()[2]
		if err := down.Kill(); err != nil {
			return err
		}
		if err := lab.run(ctx, r, lab.comparison(closed), conditioned(contenders, "one down")...); err != nil {
			return err
		}
		t := report.Table{
			Title:   "Every key asked with one node down",
			Columns: []string{"RF", "keys", "only on the node that is down", "not answered", "not answered though another replica is up", "answered though none is up"},
		}
		for i, d := range data {
			row, err := sweep(ctx, r, contenders[i].Driver, d, replicas, down.Addr())
			if err != nil {
				return err
			}
			t.Rows = append(t.Rows, append([]string{strconv.Itoa(i + 1)}, row...))
		}
		r.Tables = append(r.Tables, t)
		return nil
	})
}

// Replicas returns a function for the replicas of a token in a keyspace, by address (as Node.Addr),
// in ring order. It uses the current ring.
func (s *Site) Replicas(ctx context.Context) (func(keyspace string, token int64) []string, error) {
	cluster, err := cassandra.Open(ctx, s.Cassandra())
	if err != nil {
		return nil, err
	}
	defer cluster.Close()
	if err := cluster.WaitReady(ctx); err != nil {
		return nil, err
	}
	snapshot := cluster.Ring()
	return func(keyspace string, token int64) []string {
		var out []string
		if p, ok := snapshot.Placement(keyspace); ok {
			for _, h := range p.Replicas(token) {
				out = append(out, snapshot.Host(h).Addr)
			}
		}
		return out
	}, nil
}

// sweep asks for every key while a node is down, and counts.
func sweep(ctx context.Context, r *report.Report, driver *bench.Driver, d *bench.Dataset, replicas func(string, int64) []string, down string) ([]string, error) {
	keys := make([]int, d.Profile.Partitions)
	for i := range keys {
		keys[i] = i
	}
	answered, err := driver.Answered(ctx, keys)
	if err != nil {
		return nil, err
	}
	lost, missing, needless, odd := 0, 0, 0, 0
	for i, ok := range answered {
		alone := slices.Equal(replicas(d.Profile.Keyspace, ring.Token(d.Routing(i))), []string{down})
		if alone {
			lost++
		}
		if !ok {
			missing++
		}
		switch {
		case !ok && !alone:
			needless++
		case ok && alone:
			odd++
		}
	}
	r.Findings = append(r.Findings, report.Finding{
		Claim: d.Profile.Keyspace + ": exactly the keys without a live replica are not answered",
		Seen:  fmt.Sprintf("%d of %d; %d needlessly", missing, len(keys), needless), Holds: needless == 0 && odd == 0,
	})
	return []string{strconv.Itoa(len(keys)), strconv.Itoa(lost), strconv.Itoa(missing), strconv.Itoa(needless), strconv.Itoa(odd)}, nil
}
