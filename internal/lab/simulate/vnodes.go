package simulate

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/qosproxy/qosproxy/internal/lab/report"
	"github.com/qosproxy/qosproxy/internal/planner"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// vnodesKeys is the number of keys of a lookup of the experiment.
const vnodesKeys = 50

// The groupings whose sub-queries VnodesAndRacks counts. A cap of 0 is the default, -1 is none.
var groupings = []struct {
	name     string
	grouping planner.Grouping
	cap      int
}{
	{"cover", planner.Cover, 0},
	{"cover, no cap", planner.Cover, -1},
	{"owner", planner.Owner, 0},
	{"range", planner.Range, 0},
	{"single", planner.Single, 0},
}

// Sizes says what VnodesAndRacks covers.
type Sizes struct {
	// Nodes are the sizes of the rings, each at least 3; Tokens are the values of num_tokens.
	Nodes, Tokens []int
	// Rings is the number of rings drawn of each kind, and Lookups the number made on each.
	Rings, Lookups int
}

// figures are the results for the rings of one kind.
type figures struct {
	// least, most and deviation describe the share of the data that a node holds, relative to the
	// mean: the least and the greatest on any ring, and the mean standard deviation.
	least, most, deviation float64
	// subQueries and largest are means per lookup, in the order of groupings.
	subQueries, largest [5]float64
}

// VnodesAndRacks draws rings and plans lookups on them. It reports how even the rings are and how
// many sub-queries 50 keys need, by num_tokens, choice of tokens, and racks. It only plans, so it
// needs no virtual time. It fails if a ring cannot be built.
func VnodesAndRacks(o Options, s Sizes) (*report.Report, error) {
	out := newReport(o, "vnodes", "vnodes and racks: how even a ring is, and how many sub-queries a lookup of 50 keys")
	out.Question = "What do num_tokens, replica-aware token allocation and racks do to ownership, and to the sub-queries of a lookup?"
	out.Cluster = "simulated rings, RF 3, NetworkTopologyStrategy"
	seen := make(map[layout]figures)
	for _, racks := range []int{1, 3} {
		for _, choice := range []choice{random, allocated} {
			table := report.Table{Title: fmt.Sprintf("%s, %s tokens: share of the data of a node over the mean, and sub-queries of 50 keys (keys of the largest)",
				rackWord(racks), choice)}
			table.Columns = []string{"nodes", "num_tokens", "least", "most", "std. dev."}
			for _, g := range groupings {
				table.Columns = append(table.Columns, g.name)
			}
			for _, nodes := range s.Nodes {
				for _, vnodes := range s.Tokens {
					l := layout{nodes: nodes, racks: racks, vnodes: vnodes, choice: choice}
					f, err := l.figures(o.Seed, s)
					if err != nil {
						return nil, err
					}
					seen[l] = f
					table.Rows = append(table.Rows, f.cells(l))
				}
			}
			o.progress("%s, %s tokens", rackWord(racks), choice)
			out.Tables = append(out.Tables, table)
		}
	}
	out.vnodesCharts(s, seen)
	out.vnodesFindings(seen)
	out.Notes = append(out.Notes,
		fmt.Sprintf("%d rings of each kind, %d lookups on each; least and most are of all rings, the rest are means.", s.Rings, s.Lookups),
		"Allocated tokens follow Cassandra's allocator (dht.tokenallocator, allocate_tokens_for_local_replication_factor: 3), nodes joining one after another and racks in turn.",
		"Prices are 1 for all nodes: no load, no suspects.")
	return &out.Report, nil
}

// String returns the name of the choice in reports.
func (c choice) String() string {
	switch c {
	case allocated:
		return "allocated"
	case even:
		return "even"
	case random:
	}
	return "random"
}

func rackWord(racks int) string {
	if racks == 1 {
		return "one rack"
	}
	return strconv.Itoa(racks) + " racks"
}

func (l layout) figures(seed uint64, s Sizes) (figures, error) {
	out := figures{least: 1, most: 1}
	for n := range s.Rings {
		rng := rand.New(rand.NewPCG(seed, uint64(n)))
		r, p, err := l.build(rng)
		if err != nil {
			return out, err
		}
		b := p.Balance("")
		out.least, out.most = min(out.least, b.Min), max(out.most, b.Max)
		out.deviation += b.StdDev / float64(s.Rings)
		for range s.Lookups {
			out.lookup(r, p, rng, float64(s.Rings*s.Lookups))
		}
	}
	return out, nil
}

// lookup plans one lookup with every grouping and adds it to the means.
func (f *figures) lookup(r *ring.Ring, p *ring.Placement, rng *rand.Rand, of float64) {
	in := planner.Input{Hosts: r.Len()}
	for range vnodesKeys {
		token := int64(rng.Uint64())
		in.Replicas = append(in.Replicas, p.Local(token))
		in.Ranges = append(in.Ranges, p.Range(token))
	}
	for i, g := range groupings {
		in.Grouping, in.Cap, in.Seed = g.grouping, g.cap, rng.Uint64()
		largest := 0
		plan := planner.Make(&in)
		for _, group := range plan.Groups {
			largest = max(largest, len(group.Keys))
		}
		f.subQueries[i] += float64(len(plan.Groups)) / of
		f.largest[i] += float64(largest) / of
	}
}

func (f figures) cells(l layout) []string {
	out := []string{
		strconv.Itoa(l.nodes), strconv.Itoa(l.vnodes),
		fmt.Sprintf("%.2f", f.least), fmt.Sprintf("%.2f", f.most), fmt.Sprintf("%.3f", f.deviation),
	}
	for i := range groupings {
		out = append(out, fmt.Sprintf("%.1f (%.1f)", f.subQueries[i], f.largest[i]))
	}
	return out
}

// vnodesCharts adds charts of the deviation of ownership, and of the sub-queries of each grouping,
// by number of nodes.
func (b *builder) vnodesCharts(s Sizes, seen map[layout]figures) {
	var x []string
	for _, n := range s.Nodes {
		x = append(x, strconv.Itoa(n))
	}
	for _, racks := range []int{1, 3} {
		uneven := report.Chart{
			Name: fmt.Sprintf("ownership-%d", racks), Title: "Standard deviation of ownership over its mean, " + rackWord(racks),
			Kind: report.Lines, X: x, XName: "nodes", YName: "std. dev.",
		}
		for _, choice := range []choice{random, allocated} {
			for _, vnodes := range s.Tokens {
				uneven.Series = append(uneven.Series, series(fmt.Sprintf("%s, %d", choice, vnodes), s.Nodes, func(nodes int) float64 {
					return seen[layout{nodes, racks, vnodes, choice}].deviation
				}))
			}
		}
		b.Charts = append(b.Charts, uneven)
	}
	for _, vnodes := range s.Tokens {
		asked := report.Chart{
			Name:  fmt.Sprintf("sub-queries-%d", vnodes),
			Title: fmt.Sprintf("Sub-queries of a lookup of 50 keys, num_tokens %d, allocated, 3 racks", vnodes),
			Kind:  report.Bars, X: x, XName: "nodes", YName: "sub-queries",
		}
		for i, g := range groupings {
			asked.Series = append(asked.Series, series(g.name, s.Nodes, func(nodes int) float64 {
				return seen[layout{nodes, 3, vnodes, allocated}].subQueries[i]
			}))
		}
		b.Charts = append(b.Charts, asked)
	}
}

func series(name string, nodes []int, value func(nodes int) float64) report.Series {
	out := report.Series{Name: name}
	for _, n := range nodes {
		v := value(n)
		out.Values = append(out.Values, &v)
	}
	return out
}

func (b *builder) vnodesFindings(seen map[layout]figures) {
	evener, fewest, capped := true, true, true
	worst, times := 0.0, 0.0
	const cover, uncapped, owner, byRange, single = 0, 1, 2, 3, 4
	for l, f := range seen {
		if l.choice == allocated && l.nodes > replicas {
			other := l
			other.choice = random
			evener = evener && f.deviation < seen[other].deviation
			if l.vnodes == 16 {
				worst = max(worst, f.deviation)
			}
		}
		for _, more := range []int{owner, byRange, single} {
			fewest = fewest && f.subQueries[uncapped] <= f.subQueries[more]
			if l.vnodes >= 16 {
				capped = capped && f.subQueries[cover] <= f.subQueries[more]
			}
		}
		if l.nodes == 12 && l.vnodes == 16 && l.choice == allocated && l.racks == 3 {
			times = f.subQueries[byRange] / f.subQueries[cover]
		}
	}
	b.find("replica-aware tokens are more even than random ones on every ring of more than three nodes",
		fmt.Sprintf("std. dev. at 16 tokens at most %.3f of the mean", worst), evener)
	b.find("cover without a cap needs no more sub-queries than owner, range and single, on any ring", "all kinds of rings", fewest)
	b.find("cover with the cap needs no more, from 16 tokens on", "all kinds of rings", capped)
	if times > 0 {
		b.find("12 nodes, 16 tokens, 3 racks: cover needs at most a fifth of the sub-queries of range",
			fmt.Sprintf("%.1f times fewer", times), times >= 5)
	}
}
