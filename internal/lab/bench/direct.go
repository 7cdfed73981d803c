package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/planner"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// plainTarget reads with the driver alone.
type plainTarget struct {
	data    *Dataset
	driver  *cassandra.Baseline
	read    func(context.Context, *executor.Query, []partition.Key) ([]partition.Result, error)
	queries map[*kind]*executor.Query
	perKey  bool
}

// speculativeDelay is when single-speculative asks again.
const speculativeDelay = 15 * time.Millisecond

// newPlain returns the target in, in-unpaged, single or single-speculative.
func (o *Open) newPlain(ctx context.Context, name string) (*plainTarget, error) {
	cfg := cassandra.BaselineConfig{Config: o.Cassandra, OnlyContactPoints: o.OnlyContactPoints}
	switch name {
	case In:
		cfg.PageSize = cassandra.DriverPageSize
	case SingleSpeculative:
		cfg.SpeculativeDelay = speculativeDelay
	}
	driver, err := cassandra.OpenBaseline(ctx, cfg)
	if err != nil {
		return nil, err
	}
	t := &plainTarget{data: o.Data, driver: driver, read: driver.In, queries: o.queries()}
	if strings.HasPrefix(name, Single) {
		t.read, t.perKey = driver.Single, true
	}
	return t, nil
}

// queries returns the query of the driver's targets for each kind of lookup.
func (o *Open) queries() map[*kind]*executor.Query {
	table, queries := o.Data.table(), map[*kind]*executor.Query{}
	for _, k := range o.kinds {
		limit := k.Limit
		if limit == 0 {
			limit = o.Data.Profile.RowsPerPartition
		}
		q := &executor.Query{Table: table, Consistency: partition.Level(o.Consistency), Limit: limit}
		for _, name := range k.names {
			column, _ := table.Column(name)
			q.Columns = append(q.Columns, column)
		}
		queries[k] = q
	}
	return queries
}

// table returns the schema of the profile's table.
func (d *Dataset) table() *schema.Table {
	kinds := map[string]*cqltype.Type{}
	for _, name := range columnTypes {
		kinds[name], _ = cqltype.Parse(name, nil, "")
	}
	p := d.Profile
	var columns []schema.Column
	for _, c := range p.keyColumns() {
		columns = append(columns, schema.Column{Name: c.Name, Type: kinds[c.Type], Kind: schema.PartitionKey})
	}
	if p.Clustering != nil {
		columns = append(columns, schema.Column{Name: p.Clustering.Name, Type: kinds[p.Clustering.Type], Kind: schema.Clustering})
	}
	regular := slices.SortedFunc(slices.Values(p.Columns), func(a, b Column) int { return strings.Compare(a.Name, b.Name) })
	for _, c := range regular {
		columns = append(columns, schema.Column{Name: c.Name, Type: kinds[c.Type], Kind: schema.Regular})
	}
	return schema.NewTable(p.Keyspace, p.Table, "", columns)
}

// Close implements Target.
func (t *plainTarget) Close() { t.driver.Close() }

// Do implements Target.
func (t *plainTarget) Do(ctx context.Context, l *Lookup) Outcome {
	results, err := t.read(ctx, t.queries[l.kind], t.data.cqlKeys(l))
	if err != nil {
		return Outcome{SubQueries: 1, Failed: len(l.Keys), Err: err}
	}
	o := Outcome{SubQueries: 1}
	if t.perKey {
		o.SubQueries = len(l.Keys)
	}
	t.data.verifyAll(&o, l, results)
	return o
}

// cqlKeys returns the keys of a lookup.
func (d *Dataset) cqlKeys(l *Lookup) []partition.Key {
	keys := make([]partition.Key, len(l.Keys))
	for i, k := range l.Keys {
		keys[i] = d.keys[k].cql
	}
	return keys
}

// verifyAll compares the results of a lookup with what was written and counts them in o.
func (d *Dataset) verifyAll(o *Outcome, l *Lookup, results []partition.Result) {
	for i := range results {
		r := &results[i]
		if !r.Status.Answered() {
			o.Failed++
			o.Err = fmt.Errorf("%s: %w", r.Status, r.Err)
			continue
		}
		d.verify(o, l, i, len(r.Rows), equalRaw(r.Rows))
	}
}

// groupedTarget runs the proxy's lookup path in this process, without listeners.
type groupedTarget struct {
	data     *Dataset
	cluster  *cassandra.Cluster
	executor *executor.Executor
	lookups  *lookup.Service
	columns  map[*kind][]schema.Column
}

// defaultRowsPerKey is the proxy's default of max_rows_per_key.
const defaultRowsPerKey = 1000

// newGrouped returns the target grouped. It waits until ring and schema are known.
func (o *Open) newGrouped(ctx context.Context) (*groupedTarget, error) {
	cluster, err := cassandra.Open(ctx, o.Cassandra)
	if err != nil {
		return nil, err
	}
	if err := cluster.WaitReady(ctx); err != nil {
		cluster.Close()
		return nil, err
	}
	p := o.Data.Profile
	retry, err := hedge.ParsePolicy(o.SpeculativeRetry)
	if err != nil {
		cluster.Close()
		return nil, err
	}
	t := &groupedTarget{
		data: o.Data, cluster: cluster, columns: map[*kind][]schema.Column{},
		executor: executor.New(executor.Config{Reader: cluster, Ring: cluster.Ring, Logger: o.Cassandra.Logger}),
	}
	t.lookups = lookup.New(lookup.Config{
		Ring: cluster.Ring, Schema: cluster.Schema, Executor: t.executor,
		Tables: []lookup.Settings{{
			Keyspace: p.Keyspace, Table: p.Table, Consistency: partition.Level(o.Consistency), Timeout: o.Timeout,
			SpeculativeRetry: retry, HedgeBudget: o.HedgeBudget, Grouping: planner.Cover,
			MaxKeys: p.Partitions, MaxRowsPerKey: max(p.RowsPerPartition, defaultRowsPerKey), MaxResponseBytes: maxAnswer,
		}},
	})
	table, err := t.lookups.Table(p.Keyspace, p.Table)
	if err != nil {
		t.Close()
		return nil, err
	}
	for _, k := range o.kinds {
		for _, name := range k.names {
			column, _ := table.Schema.Column(name)
			t.columns[k] = append(t.columns[k], column)
		}
	}
	return t, nil
}

// Close implements Target.
func (t *groupedTarget) Close() {
	t.executor.Close()
	t.cluster.Close()
}

// Do implements Target.
func (t *groupedTarget) Do(ctx context.Context, l *Lookup) Outcome {
	table, err := t.lookups.Table(t.data.Profile.Keyspace, t.data.Profile.Table)
	if err != nil {
		return Outcome{Failed: len(l.Keys), Err: err}
	}
	resp, err := t.lookups.Get(ctx, &lookup.Request{
		Table: table, Keys: t.data.cqlKeys(l), Columns: t.columns[l.kind], LimitPerKey: l.kind.Limit,
	})
	if err != nil {
		return Outcome{Failed: len(l.Keys), Err: err}
	}
	o := Outcome{SubQueries: resp.Stats.SubQueries, Hedges: resp.Stats.Hedges, Failovers: resp.Stats.Failovers}
	t.data.verifyAll(&o, l, resp.Results)
	return o
}
