package simulate

import (
	"fmt"
	"strconv"
	"time"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/lab/report"
)

// The tables for which group sizes are compared: keys in memory, keys of the pause experiment, and
// keys that are expensive to read, because of the disk or wide rows.
var (
	inMemory  = KeyCost{Name: "0.05 ms a key", Key: 50 * time.Microsecond}
	usual     = KeyCost{Name: "0.2 ms a key, 1 % from disk", Key: 200 * time.Microsecond, Miss: 0.01}
	expensive = KeyCost{Name: "1 ms a key, 1 % from disk", Key: time.Millisecond, Miss: 0.01}
)

// GroupSizes compares groups that are sized by the number of keys with groups that are sized by the
// learned costs of statements and keys, on clusters whose nodes pause and limp. Each run is in a
// bubble of its own. Both policies get the same keys, arrivals and troubles. It fails if a ring
// cannot be built.
func GroupSizes(o Options, clusters []Cluster, bubble Bubble) (*report.Report, error) {
	out := newReport(o, "sizes", "Groups sized by what statements and keys cost")
	out.Question = "How large do groups get by what statements and keys cost, and what does it do to the tail of a lookup of 50 keys on nodes that pause and limp? " +
		"Target: p99.9, as the median over the draws, at most 1.1 times that of sizes by the number of keys; fewer sub-queries where keys are cheap."
	out.Cluster = pauseCluster
	for _, c := range clusters {
		var rows []row
		for _, p := range []policy{
			{name: "by the number of keys", hedge: hedge.Fixed(pauseDelay), budget: 0.02},
			{name: "by cost, as learned", hedge: hedge.Fixed(pauseDelay), budget: 0.02, learned: true},
		} {
			all, err := pauseTrials(o.Seed, c, p, bubble)
			if err != nil {
				return nil, err
			}
			o.progress("%s, %s: %s, groups of %d", c, c.Keys.Name, all.line(p.name), all.size.Keys)
			rows = append(rows, row{policy: p.name, condition: c.String() + ", " + c.Keys.Name, tally: all})
		}
		out.add(rows)
		out.Tables = append(out.Tables, latencyTable(fmt.Sprintf("%s, %s: latency in milliseconds", c, c.Keys.Name), rows))
		out.sizeFindings(c, rows)
	}
	return &out.Report, nil
}

func (b *builder) sizeFindings(c Cluster, rows []row) {
	before, after := rows[0].tally, rows[1].tally
	b.find(fmt.Sprintf("%s, %s: p99.9, as the median over the draws, is at most 1.1 times that of sizes by the number of keys", c, c.Keys.Name),
		fmt.Sprintf("%s and %s ms", millis(after.medianP999()), millis(before.medianP999())),
		10*after.medianP999() <= 11*before.medianP999())
	per := func(t *tally) float64 { return float64(t.subQueries) / float64(t.lookups) }
	switch c.Keys {
	case inMemory:
		b.find(fmt.Sprintf("%s, %s: fewer sub-queries", c, c.Keys.Name),
			fmt.Sprintf("%.1f and %.1f, groups of %d", per(after), per(before), after.size.Keys), per(after) < per(before))
	case expensive:
		b.find(fmt.Sprintf("%s, %s: groups stay as small as ten keys", c, c.Keys.Name), strconv.Itoa(after.size.Keys)+" keys", after.size.Keys <= 10)
	}
}

// phase is one load of changingLoad, with the least and greatest group size seen under it, in keys.
type phase struct {
	load  float64
	least int
	most  int
}

// changingLoad lets three nodes serve a table under one load after the other. It returns the group
// sizes under each and how often the size changed, without the first half of the first load.
func changingLoad(seed uint64, keys KeyCost, loads []float64, each time.Duration, bubble Bubble) ([]phase, int, error) {
	const nodes = 3
	t, err := pauseTrial(seed, nodes)
	if err != nil {
		return nil, 0, err
	}
	m := smallNode().with(keys)
	full := m.rate(1, nodes, pauseKeys, nodes)
	phases, total := make([]phase, len(loads)), 0.0
	for i, load := range loads {
		phases[i] = phase{load: load}
		total += load * full * each.Seconds()
	}
	at := func(at time.Duration) *phase { return &phases[min(int(at/each), len(phases)-1)] }
	changes, last := 0, 0
	t.rate, t.lookups = full, int(total)
	t.policy = policy{hedge: hedge.Fixed(pauseDelay), budget: 0.02, learned: true}
	t.surge = func(now time.Duration) float64 { return at(now).load }
	t.watch = func(now time.Duration, size executor.GroupSize) {
		if now < each/2 {
			last = size.Keys
			return
		}
		p := at(now)
		p.most = max(p.most, size.Keys)
		if p.least == 0 || size.Keys < p.least {
			p.least = size.Keys
		}
		if size.Keys != last {
			changes, last = changes+1, size.Keys
		}
	}
	t.runOn(m, 2*each*time.Duration(len(loads)), bubble)
	return phases, changes, nil
}
