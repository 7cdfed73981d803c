package simulate

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/lab/report"
	"github.com/qosproxy/qosproxy/internal/planner"
)

// pauseKeys is the number of keys of a lookup of the experiment, pauseDelay the hedge delay, and
// pauseCluster the description of its nodes.
const (
	pauseKeys    = 50
	pauseDelay   = 15 * time.Millisecond
	pauseCluster = "simulated nodes, RF 3, 3 racks, 16 vnodes with replica-aware tokens"
)

// Cluster is a case of PausesAndLimpingNodes: a size of the cluster and a load.
type Cluster struct {
	// Nodes is the number of nodes, at least 3.
	Nodes int
	// Load is the share of the read threads, above 0 and below 1, that lookups by owner keep busy on
	// healthy nodes.
	Load float64
	// Lookups is how many lookups each policy makes on each draw; a fiftieth of them is warm-up.
	Lookups int
	// Draws is how many rings are drawn, each with its own keys, arrivals and troubles; at least 1.
	// Few nodes are seldom in trouble, so a single draw depends much on whether two are at once.
	Draws int
	// Keys is what the keys of the table cost; zero for those of the pause experiment.
	Keys KeyCost
}

// PausesAndLimpingNodes compares policies on clusters whose nodes pause (garbage collection) and
// limp. Each run is in a bubble of its own. All policies get the same keys, arrivals and troubles.
// It fails if a ring cannot be built.
func PausesAndLimpingNodes(o Options, clusters []Cluster, bubble Bubble) (*report.Report, error) {
	out := newReport(o, "limping", "Pausing and limping nodes: by owner without hedging, and the shipped policies")
	out.Question = "When nodes pause or limp, how much of it does a lookup of 50 keys feel, at how many extra reads? " +
		"Target: p99.9 no more than a tenth of by-owner without hedging, at no more than 2 % extra keys."
	out.Cluster = pauseCluster
	for _, c := range clusters {
		rows, err := pauseRows(o, c, bubble)
		if err != nil {
			return nil, err
		}
		out.add(rows)
		out.Tables = append(out.Tables, latencyTable(fmt.Sprintf("%s: latency in milliseconds", c), rows))
		out.pauseFindings(c, rows)
	}
	out.Charts = append(out.Charts, out.pauseChart(clusters))
	out.Notes = append(out.Notes,
		"A node: 4 read threads, one queue; a sub-query costs 0.2 ms and each key a lognormal time (median 0.2 ms, sigma 0.5), one in a hundred "+
			"another exponential 6 ms (disk); 0.25 ms each way. It pauses every 10 s on average (exponential) for a lognormal time of median 60 ms, sigma 0.6, at most 400 ms.",
		"A limping node does everything ten times slower; each limps once in 100 s on average, for 2 s on average (both exponential).",
		"plain is a client that asks owners, waits, and knows nothing of how hosts are doing; owner, NONE is the shipped executor, which avoids suspects without hedging.",
		"Extra keys are all that nodes were sent beyond those asked for: hedges, fail-over and probes. Rounded to a tenth of a percent; the budget begins with 500 keys saved up.",
		"A load is of the whole healthy cluster. Of three nodes two cannot carry 70 %, and one and a limping one cannot carry 50 %: what is then beyond the cap of 1,024 keys owed by a node is refused (keys without answer), while plain lets it queue.")
	return &out.Report, nil
}

// String returns the name of the cluster, such as "12 nodes, 50 %".
func (c Cluster) String() string { return fmt.Sprintf("%d nodes, %.0f %%", c.Nodes, 100*c.Load) }

func pauseRows(o Options, c Cluster, bubble Bubble) ([]row, error) {
	policies, err := pausePolicies()
	if err != nil {
		return nil, err
	}
	var rows []row
	for _, p := range policies {
		all, err := pauseTrials(o.Seed, c, p, bubble)
		if err != nil {
			return nil, err
		}
		o.progress("%s: %s", c, all.line(p.name))
		rows = append(rows, row{policy: p.name, condition: c.String(), tally: all})
	}
	return rows, nil
}

// pausePolicies returns what is compared. The last differs from the third by merging alone.
func pausePolicies() ([]policy, error) {
	least, err := hedge.ParsePolicy("MIN(99p,15ms)")
	return []policy{
		{name: "owner, plain", grouping: planner.Owner, plain: true},
		{name: "owner, NONE", grouping: planner.Owner},
		{name: "cover, 15ms, 2 %", hedge: hedge.Fixed(pauseDelay), budget: 0.02},
		{name: "cover, MIN(99p,15ms), 2 %", hedge: least, budget: 0.02},
		{name: "cover, 15ms, 2 %, merged", hedge: hedge.Fixed(pauseDelay), budget: 0.02, merge: true},
	}, err
}

// pauseTrials runs a policy on all draws and returns the sum.
func pauseTrials(seed uint64, c Cluster, p policy, bubble Bubble) (*tally, error) {
	m, all := smallNode().with(c.Keys), new(tally)
	for draw := range c.Draws {
		t, err := pauseTrial(seed+uint64(draw), c.Nodes)
		if err != nil {
			return nil, err
		}
		owners := 1.0
		for _, share := range t.placement.Primary() {
			owners += 1 - pow(1-share, pauseKeys)
		}
		t.policy, t.lookups, t.warmup = p, c.Lookups, c.Lookups/50
		t.rate = m.rate(c.Load, c.Nodes, pauseKeys, owners-1)
		// Troubles continue for half as long again as the arrivals, for lookups that are still queued.
		until := time.Duration(1.5 * float64(c.Lookups) / t.rate * float64(time.Second))
		all.add(t.runOn(m, until, bubble))
	}
	return all, nil
}

// pauseTrial returns a trial with lookups of pauseKeys keys, on a ring that it draws.
func pauseTrial(seed uint64, nodes int) (*trial, error) {
	r, placement, err := layout{nodes: nodes, racks: 3, vnodes: 16, choice: allocated}.build(rand.New(rand.NewPCG(seed, 3)))
	return &trial{ring: r, placement: placement, keys: pauseKeys, seed: seed}, err
}

// runOn runs the trial on nodes of a model, whose troubles end at a time.
func (t *trial) runOn(m nodeModel, until time.Duration, bubble Bubble) (got *tally) {
	var ids []string
	for _, h := range t.ring.Hosts() {
		ids = append(ids, h.ID)
	}
	bubble(func() {
		t.serve = m.newNodes(ids, until, rand.New(rand.NewPCG(t.seed, 4)))
		got = t.run()
	})
	return got
}

func pow(x float64, n int) float64 {
	out := 1.0
	for range n {
		out *= x
	}
	return out
}

func (b *builder) pauseFindings(c Cluster, rows []row) {
	plain, none := rows[0].tally.at(0.999), rows[1].tally.at(0.999)
	for _, r := range rows[2:] {
		got := r.tally.at(0.999)
		b.find(fmt.Sprintf("%s, %s: p99.9 is no more than a tenth of owner, plain, with no more than 2.0 %% extra keys", c, r.policy),
			fmt.Sprintf("%s of %s ms (%.1f times; owner, NONE %s ms), %s %%", millis(got), millis(plain),
				float64(plain)/float64(got), millis(none), percent(r.tally.extra())),
			10*got <= plain && tenths(r.tally.extra()) <= 2)
	}
}

// pauseChart returns a chart of the p99.9 of each policy by cluster.
func (b *builder) pauseChart(clusters []Cluster) report.Chart {
	chart := report.Chart{
		Name: b.Name + "-p999", Title: "p99.9 of a lookup of 50 keys", Kind: report.Bars,
		XName: "nodes, load", YName: "ms", LogY: true,
	}
	for _, c := range clusters {
		chart.X = append(chart.X, c.String())
	}
	for _, run := range b.Runs {
		i := 0
		for i < len(chart.Series) && chart.Series[i].Name != run.Target {
			i++
		}
		if i == len(chart.Series) {
			chart.Series = append(chart.Series, report.Series{Name: run.Target})
		}
		ms := 1000 * run.Rounds[0].Latency.P999
		chart.Series[i].Values = append(chart.Series[i].Values, &ms)
	}
	return chart
}
