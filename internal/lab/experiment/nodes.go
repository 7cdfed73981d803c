package experiment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/qosproxy/qosproxy/internal/lab/bench"
	"github.com/qosproxy/qosproxy/internal/lab/report"
)

var nodeSettings = Experiment{
	Name:  "nodes",
	Title: "What settings of nodes and tables do for the proxy's reads",
	Question: "What do concurrent_reads, native_transport_max_threads, dynamic_snitch, the chunk cache, the table's speculative_retry " +
		"and the number of connections change in the CPU and in the latency of a lookup, and in the messages between nodes?",
	measure: measureNodes,
	overview: &overview{
		title: "CPU of Cassandra per lookup by setting of the nodes",
		kind:  report.Bars, y: "CPU per lookup, ms",
		figure: report.CassandraCPU,
		place:  func(r *report.Run) (string, string) { return r.Condition, r.Target },
	},
}

// asTested is the condition of nodes with the settings of all other experiments.
const asTested = "as tested"

// nodeChange is one change of the nodes, their table or the connections to them.
type nodeChange struct {
	condition string
	// yaml overrides settings of the nodes, which then need a cluster of their own; may be nil.
	yaml map[string]any
	// options replace the table options of the profile; empty keeps them.
	options string
	// oneConnection uses one connection to each host in place of two.
	oneConnection bool
}

// busy returns the condition of this change with sixteen callers, under which hosts are never idle.
func (c *nodeChange) busy() string { return c.condition + ", 16 callers" }

const (
	speculating = "speculative_retry 99p on the table"
	notDynamic  = "dynamic_snitch: false"
)

var nodeChanges = []nodeChange{
	{condition: asTested},
	{condition: speculating, options: "speculative_retry = '99p'"},
	{condition: "1 connection per host", oneConnection: true},
	{condition: notDynamic, yaml: map[string]any{"dynamic_snitch": false}},
	{condition: "concurrent_reads: 4", yaml: map[string]any{"concurrent_reads": 4}},
	{condition: "concurrent_reads: 64", yaml: map[string]any{"concurrent_reads": 64}},
	{condition: "native_transport_max_threads: 4", yaml: map[string]any{"native_transport_max_threads": 4}},
	{condition: "file_cache_enabled: false", yaml: map[string]any{"file_cache_enabled": false}},
}

// measureNodes measures each cluster by itself, with in-unpaged as a yardstick on all of them,
// because the machine's speed varies over an hour.
func measureNodes(ctx context.Context, lab *Lab, r *report.Report) error {
	r.Cluster = "6 nodes, RF 3, 3 racks, 16 vnodes, 450-byte rows, 50 keys, LOCAL_ONE, 4 callers unless said otherwise; a cluster for each setting of cassandra.yaml"
	r.SLA = &operating
	defer judgeNodes(r) // of what has been measured, also after an error
	return lab.measureParts(ctx, r, nodeParts())
}

// nodeParts groups the changes by the cluster that they need.
func nodeParts() []part {
	clusters := [][]nodeChange{nil}
	for _, c := range nodeChanges {
		if c.yaml == nil {
			clusters[0] = append(clusters[0], c)
		} else {
			clusters = append(clusters, []nodeChange{c})
		}
	}
	parts := make([]part, len(clusters))
	for i, changes := range clusters {
		for _, c := range changes {
			parts[i].conditions = append(parts[i].conditions, c.condition, c.busy())
		}
		layout := sixNodes(16)
		maps.Copy(layout.YAML, changes[0].yaml)
		parts[i].measure = func(ctx context.Context, lab *Lab, _ *Site, r *report.Report) error {
			return lab.with(ctx, layout, func(s *Site) error { return lab.nodesOn(ctx, s, r, changes) })
		}
	}
	return parts
}

// nodesOn measures the changes of one cluster.
func (lab *Lab) nodesOn(ctx context.Context, s *Site, r *report.Report, changes []nodeChange) error {
	var few, busy []bench.Contender
	for _, change := range changes {
		if !lab.wants(change.condition) && !lab.wants(change.busy()) {
			continue
		}
		p, connections := products(), connectionsPerHost
		if change.options != "" {
			p.Table, p.Options = "products_changed", change.options
		}
		if change.oneConnection {
			connections = 1
		}
		if err := s.ensure(ctx, p, 3); err != nil {
			return err
		}
		proxy, err := s.serve(ctx, connections, "consistency: LOCAL_ONE")
		if err != nil {
			return err
		}
		d, err := s.driverOf(proxy, func(o *bench.Open) { o.Cassandra.ConnectionsPerHost = connections })
		if err != nil {
			return err
		}
		few = append(few, d.Contenders(change.condition, bench.InUnpaged, bench.Cover, bench.ProxyGRPC)...)
		busy = append(busy, d.Contenders(change.busy(), bench.InUnpaged, bench.Cover, bench.ProxyGRPC)...)
	}
	return errors.Join(
		lab.runCounting(ctx, s, r, lab.comparison(fourCallers), few...),
		lab.runCounting(ctx, s, r, lab.comparison(sixteenCallers), busy...))
}

// runCounting is run that also counts the messages that nodes receive from each other.
func (lab *Lab) runCounting(ctx context.Context, s *Site, r *report.Report, c bench.Comparison, contenders ...bench.Contender) error {
	count := s.countMessages(ctx, messagesOf(r), c.Progress)
	c.Progress = count.at
	err := lab.run(ctx, r, c, contenders...)
	return errors.Join(err, count.failed)
}

// messagesOf returns the report's table of messages. The pointer is valid until another table is
// added.
func messagesOf(r *report.Report) *report.Table {
	const title = "Messages between nodes per lookup in each round, those of gossip included"
	i := slices.IndexFunc(r.Tables, func(t report.Table) bool { return t.Title == title })
	if i < 0 {
		i = len(r.Tables)
		r.Tables = append(r.Tables, report.Table{Title: title, Columns: []string{"condition", "target", "messages"}})
	}
	return &r.Tables[i]
}

// messageCount adds to a table how many messages nodes received from each other in each round.
type messageCount struct {
	read   func() (int64, error)
	table  *report.Table
	tell   func(bench.Progress)
	before int64
	failed error
}

func (s *Site) countMessages(ctx context.Context, t *report.Table, tell func(bench.Progress)) *messageCount {
	return &messageCount{table: t, tell: tell, read: func() (int64, error) { return s.messages(ctx) }}
}

// at reads the count when a round begins and when it ends.
func (m *messageCount) at(p bench.Progress) {
	if m.tell != nil {
		m.tell(p)
	}
	if p.Round == 0 || m.failed != nil {
		return
	}
	now, err := m.read()
	if err != nil {
		m.failed = err
		return
	}
	if p.Done != nil {
		m.add(p, float64(now-m.before)/float64(max(p.Done.Counts.Lookups, 1)))
	}
	m.before = now
}

// add writes the figure of a round into the row of its contender.
func (m *messageCount) add(p bench.Progress, messages float64) {
	text := fmt.Sprintf("%.1f", messages)
	for i, row := range m.table.Rows {
		if row[0] == p.Condition && row[1] == p.Name() {
			m.table.Rows[i][2] += ", " + text
			return
		}
	}
	m.table.Rows = append(m.table.Rows, []string{p.Condition, p.Name(), text})
}

// messages returns how many messages all nodes together have received from other nodes since they
// were started.
func (s *Site) messages(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var all int64
	for _, n := range s.Cluster.Nodes() {
		rows, err := s.Client.QueryAt(ctx, n.HostID(), "SELECT received_count FROM system_views.internode_inbound")
		if err != nil {
			return 0, err
		}
		for _, row := range rows {
			all += row["received_count"].(int64)
		}
	}
	return all, nil
}

// judgeNodes compares each change with the nodes as tested. It judges the two changes that
// operators are advised to make.
func judgeNodes(r *report.Report) {
	t := report.Table{
		Title:   "CPU per lookup against the nodes as tested",
		Columns: []string{"setting", "proxy-grpc / as tested", "in-unpaged / as tested", "proxy-grpc / in-unpaged"},
	}
	add := func(condition, tested string) {
		run, beside := find(r, bench.ProxyGRPC, condition), find(r, bench.InUnpaged, condition)
		if run == nil {
			return
		}
		row := []string{condition}
		for _, pair := range [][2]*report.Run{{run, find(r, bench.ProxyGRPC, tested)}, {beside, find(r, bench.InUnpaged, tested)}, {run, beside}} {
			row = append(row, report.Ratio(pair[0], report.CassandraCPU, pair[1], report.CassandraCPU).String())
		}
		t.Rows = append(t.Rows, row)
	}
	for _, c := range nodeChanges {
		add(c.condition, asTested)
		add(c.busy(), nodeChanges[0].busy())
	}
	r.Tables = append(r.Tables, t)
	before := find(r, bench.ProxyGRPC, asTested)
	atMost(r, "cluster CPU per lookup, proxy-grpc, speculative_retry NONE / 99p", 1, before, report.CassandraCPU, find(r, bench.ProxyGRPC, speculating), report.CassandraCPU)
	atMost(r, "cluster CPU per lookup, proxy-grpc, dynamic_snitch false / true", 1, find(r, bench.ProxyGRPC, notDynamic), report.CassandraCPU, before, report.CassandraCPU)
}
