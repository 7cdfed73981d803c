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
	defer func() { r.Tables = append(r.Tables, t) }()
	var parts []part
	for _, layout := range layouts {
		layout.Nodes = 6
		parts = append(parts, part{[]string{tokensOf(layout)}, func(ctx context.Context, lab *Lab, _ *Site, r *report.Report) error {
			return lab.with(ctx, layout, func(s *Site) error {
				p := products()
				p.Partitions = 5000
				if err := s.ensure(ctx, p, 3); err != nil {
					return err
				}
				row, err := lab.ownershipOf(ctx, s, r, layout)
				if row != nil {
					t.Rows = append(t.Rows, row)
				}
				return err
			})
		}})
	}
	return lab.measureParts(ctx, r, parts)
}

// tokensOf returns the condition of a layout.
func tokensOf(l Layout) string {
	return fmt.Sprintf("%d vnodes, %s, %d racks", l.VNodes, howChosen(l), l.Racks)
}

// howChosen tells how the tokens of a layout are chosen.
func howChosen(l Layout) string {
	if l.RandomTokens {
		return "random"
	}
	return "allocated"
}

// ownershipOf returns a row of the table; nil if the target is not wanted.
func (lab *Lab) ownershipOf(ctx context.Context, s *Site, r *report.Report, l Layout) ([]string, error) {
	shares, err := s.shares(ctx)
	if err != nil {
		return nil, err
	}
	d, err := s.driver(ctx)
	if err != nil {
		return nil, err
	}
	c := lab.comparison(closed)
	c.Rounds = 1
	before := len(r.Runs)
	if err := lab.run(ctx, r, c, d.Contenders(tokensOf(l), bench.ProxyGRPC)...); err != nil {
		return nil, err
	}
	if len(r.Runs) == before {
		return nil, nil
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
		strconv.Itoa(l.VNodes), howChosen(l), strconv.Itoa(l.Racks), percent(least), percent(most), percent(math.Sqrt(squares)),
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
