package experiment

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/lab/bench"
	"github.com/qosproxy/qosproxy/internal/lab/report"
)

var ownership = Experiment{
	Name:     "vnodes",
	Title:    "vnodes and racks: who owns what, and how many sub-queries a lookup needs",
	Question: "How even is the ring of six real nodes with 1, 16 and 256 tokens each, chosen for replication or drawn at random, and what does that make of a 50-key lookup?",
	measure:  measureOwnership,
	overview: &overview{
		title: "Sub-queries per lookup of 50 keys, six nodes",
		kind:  report.Bars, y: "sub-queries",
		figure: report.SubQueries,
		place:  func(r *report.Run) (string, string) { return r.Condition, r.Target },
	},
}

func measureOwnership(ctx context.Context, lab *Lab, r *report.Report) error {
	r.Cluster = "6 nodes, RF 3, LOCAL_ONE"
	t := report.Table{
		Title:   "Shares of the ring and sub-queries per lookup",
		Columns: []string{"vnodes", "tokens", "racks", "least share", "greatest share", "standard deviation", "sub-queries"},
	}
	layouts := []Layout{{VNodes: 16, Racks: 3}, {VNodes: 16, Racks: 3, RandomTokens: true}, {VNodes: 256, Racks: 3}, {VNodes: 1, Racks: 3}}
	if lab.Long {
		layouts = append(layouts, Layout{VNodes: 1, Racks: 3, RandomTokens: true}, Layout{VNodes: 256, Racks: 3, RandomTokens: true},
			Layout{VNodes: 1, Racks: 1}, Layout{VNodes: 16, Racks: 1}, Layout{VNodes: 16, Racks: 1, RandomTokens: true}, Layout{VNodes: 256, Racks: 1})
	}
	for _, layout := range layouts {
		layout.Nodes = 6
		err := lab.with(ctx, layout, func(s *Site) error {
			p := products()
			p.Partitions = 5000
			if err := s.ensure(ctx, p, 3); err != nil {
				return err
			}
			row, err := lab.ownershipOf(ctx, s, r, layout)
			t.Rows = append(t.Rows, row)
			return err
		})
		r.Tables = append(r.Tables[:0], t)
		if err != nil {
			return err
		}
	}
	return nil
}

func (lab *Lab) ownershipOf(ctx context.Context, s *Site, r *report.Report, l Layout) ([]string, error) {
	shares, err := s.shares(ctx)
	if err != nil {
		return nil, err
	}
	d, err := s.driver(ctx)
	if err != nil {
		return nil, err
	}
	tokens := "allocated"
	if l.RandomTokens {
		tokens = "random"
	}
	c := lab.comparison(closed)
	c.Rounds = 1
	condition := fmt.Sprintf("%d vnodes, %s, %d racks", l.VNodes, tokens, l.Racks)
	if err := lab.run(ctx, r, c, d.Contenders(condition, bench.ProxyGRPC)...); err != nil {
		return nil, err
	}
	least, most, mean, squares := math.Inf(1), 0.0, 0.0, 0.0
	for _, share := range shares {
		least, most, mean = min(least, share), max(most, share), mean+share/float64(len(shares))
	}
	for _, share := range shares {
		squares += (share - mean) * (share - mean) / float64(len(shares))
	}
	percent := func(v float64) string { return fmt.Sprintf("%.1f %%", v*100) }
	return []string{
		strconv.Itoa(l.VNodes), tokens, strconv.Itoa(l.Racks), percent(least), percent(most), percent(math.Sqrt(squares)),
		r.Runs[len(r.Runs)-1].Merge(report.SubQueries).String(),
	}, nil
}

// shares returns the share of the data of which each node is a replica.
func (s *Site) shares(ctx context.Context) ([]float64, error) {
	cluster, err := cassandra.Open(ctx, s.Cassandra())
	if err != nil {
		return nil, err
	}
	defer cluster.Close()
	if err := cluster.WaitReady(ctx); err != nil {
		return nil, err
	}
	p, ok := cluster.Ring().Placement(s.Data.Profile.Keyspace)
	if !ok {
		return nil, fmt.Errorf("the ring does not know keyspace %s", s.Data.Profile.Keyspace)
	}
	return p.Ownership(), nil
}
