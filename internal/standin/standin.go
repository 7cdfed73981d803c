// Package standin decides nothing but how slow a key is. It is a proxy with its rows
// in memory instead of a cluster, for tests of clients. Listeners, lookups and
// deadlines are those of the real proxy.
package standin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/planner"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
	"github.com/qosproxy/qosproxy/internal/server"
)

// Table is a table with its rows.
type Table struct {
	// Name is keyspace.table.
	Name string
	// Columns are written as in CQL, "price double", in the order of SELECT *; the
	// first Key of them (0 is 1) are the partition key, the next Clustering the
	// clustering columns.
	Columns         []string
	Key, Clustering int
	// Types are the fields of user-defined types by name, written like Columns.
	Types map[string][]string
	// Rows are cells as JSON by column. Those of a partition are in clustering
	// order.
	Rows [][]string
	// Slow is how long the partition of a key takes, the key written as JSON; of
	// several columns, as an array.
	Slow map[string]time.Duration
}

// Timeout is the timeout of every table, MaxKeys its most keys of one lookup.
const (
	Timeout = 2 * time.Second
	MaxKeys = 100
)

// table is a Table whose values are encoded.
type table struct {
	schema *schema.Table
	rows   map[string][]partition.Row
	slow   map[string]time.Duration
}

// Serve runs a proxy of the tables until the returned function is called. Of deps
// it sets the Lookup.
func Serve(ctx context.Context, cfg server.Config, deps server.Deps, tables ...Table) (*server.Server, func(), error) {
	named := map[*schema.Table]*table{}
	var settings []lookup.Settings
	var schemas []*schema.Table
	keyspaces := map[string]ring.Replication{}
	for _, t := range tables {
		encoded, err := encode(t)
		if err != nil {
			return nil, nil, fmt.Errorf("table %s: %w", t.Name, err)
		}
		named[encoded.schema] = encoded
		schemas = append(schemas, encoded.schema)
		keyspaces[encoded.schema.Keyspace] = ring.Replication{Strategy: ring.SimpleStrategy, Factor: 1}
		settings = append(settings, lookup.Settings{
			Keyspace: encoded.schema.Keyspace, Table: encoded.schema.Name, Consistency: "LOCAL_ONE", Timeout: Timeout,
			Grouping: planner.Single, MaxKeys: MaxKeys, MaxRowsPerKey: 100, MaxResponseBytes: 4 << 20,
		})
	}
	snapshot, err := ring.New(ring.Topology{LocalDC: "dc1", Keyspaces: keyspaces,
		Hosts: []ring.Host{{ID: "1", Addr: "192.0.2.1:9042", DC: "dc1", Rack: "r1", Tokens: []int64{0}}}})
	if err != nil {
		return nil, nil, err
	}
	current, all := func() *ring.Ring { return snapshot }, schema.New(schemas)
	asking := executor.New(executor.Config{Ring: current, Reader: executor.ReaderFunc(func(ctx context.Context, q *executor.SubQuery) ([]partition.Result, error) {
		return named[q.Table].read(ctx, q)
	})})
	deps.Lookup = lookup.New(lookup.Config{Tables: settings, Ring: current, Schema: func() *schema.Schema { return all }, Executor: asking})
	s := server.New(cfg, deps)
	if err := s.Start(ctx); err != nil {
		asking.Close()
		return nil, nil, err
	}
	return s, func() {
		_ = s.Shutdown(context.WithoutCancel(ctx))
		asking.Close()
	}, nil
}

// read answers each key of a sub-query after the time that its slowest takes.
func (t *table) read(ctx context.Context, q *executor.SubQuery) ([]partition.Result, error) {
	defer q.Settled()
	results := make([]partition.Result, len(q.Keys))
	slowest := time.Duration(0)
	for i, k := range q.Keys {
		slowest = max(slowest, t.slow[string(k.Routing())])
		results[i].Status = partition.NotFound
		rows := t.slice(q, k)
		results[i].More = q.Paged && len(rows) > q.Limit
		for _, full := range rows[:min(len(rows), q.Limit)] {
			row := make(partition.Row, len(q.Columns))
			for c, column := range q.Columns {
				row[c] = full[t.position(column.Name)]
				results[i].Bytes += len(row[c])
			}
			results[i].Status, results[i].Rows = partition.Found, append(results[i].Rows, row)
		}
	}
	if slowest == 0 {
		return results, nil
	}
	select {
	case <-time.After(slowest):
		return results, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// slice returns the rows of a key that a query asks for, in its order.
func (t *table) slice(q *executor.SubQuery, k partition.Key) []partition.Row {
	var out []partition.Row
	for _, row := range t.rows[string(k.Routing())] {
		if t.matches(q.Slice, k, row) {
			out = append(out, row)
		}
	}
	if q.Slice.Reversed() {
		slices.Reverse(out)
	}
	if k.Cursor() != nil {
		out = slices.DeleteFunc(out, func(row partition.Row) bool { return !t.isBehind(row, k, q.Slice.Reversed()) })
	}
	return out
}

// isBehind reports whether a row comes after the cursor of a key.
func (t *table) isBehind(row partition.Row, k partition.Key, reverse bool) bool {
	named := len(k.Components())
	for i, value := range k.Cursor() {
		column := t.schema.KeyColumn(named + i)
		if c := column.Type.Compare(row[named+i], value); c != 0 {
			return c > 0 != (column.Descending != reverse)
		}
	}
	return false
}

// matches reports whether a row begins with the values of a key and meets all restrictions.
func (t *table) matches(s *partition.Slice, k partition.Key, row partition.Row) bool {
	for i, value := range k.Components() {
		if t.schema.KeyColumn(i).Type.Compare(row[i], value) != 0 {
			return false
		}
	}
	if s == nil {
		return true
	}
	for _, r := range s.Restrictions {
		i := len(t.schema.PartitionKey) + r.Column
		if !slices.ContainsFunc(r.Values, func(v []byte) bool { return r.Operator.Holds(t.schema.KeyColumn(i).Type.Compare(row[i], v)) }) {
			return false
		}
	}
	return true
}

func (t *table) position(column string) int {
	for i, c := range t.schema.Columns {
		if c.Name == column {
			return i
		}
	}
	return -1
}

// encode turns the JSON of a table into cells.
func encode(t Table) (*table, error) {
	keyspace, name, ok := strings.Cut(t.Name, ".")
	if !ok {
		return nil, errors.New("the name is not keyspace.table")
	}
	columns := make([]schema.Column, len(t.Columns))
	for i, c := range t.Columns {
		column, typ, err := parseColumn(keyspace, c, t.Types)
		if err != nil {
			return nil, err
		}
		kind := schema.Regular
		switch {
		case i < max(t.Key, 1):
			kind = schema.PartitionKey
		case i < max(t.Key, 1)+t.Clustering:
			kind = schema.Clustering
		}
		columns[i] = schema.Column{Name: column, Type: typ, Kind: kind}
	}
	out := &table{schema: schema.NewTable(keyspace, name, "1", columns), rows: map[string][]partition.Row{}, slow: map[string]time.Duration{}}
	for _, cells := range t.Rows {
		row := make(partition.Row, len(cells))
		for i, cell := range cells {
			var err error
			if row[i], err = encodeCell(columns[i].Type, cell); err != nil {
				return nil, fmt.Errorf("column %s: %w", columns[i].Name, err)
			}
		}
		key, err := partition.NewKey(row[:max(t.Key, 1)]...)
		if err != nil {
			return nil, err
		}
		out.rows[string(key.Routing())] = append(out.rows[string(key.Routing())], row)
	}
	var types []*cqltype.Type
	var names []string
	for _, c := range out.schema.PartitionKey {
		types, names = append(types, c.Type), append(names, c.Name)
	}
	for key, after := range t.Slow {
		components, err := cqltype.PartitionKeyFromJSON(types, names, []byte(key))
		if err != nil {
			return nil, err
		}
		k, err := partition.NewKey(components...)
		if err != nil {
			return nil, err
		}
		out.slow[string(k.Routing())] = after
	}
	return out, nil
}

// encodeCell encodes a cell; a counter is given like a bigint.
func encodeCell(t *cqltype.Type, json string) ([]byte, error) {
	if t.Kind == cqltype.Counter {
		t = &cqltype.Type{Kind: cqltype.BigInt}
	}
	return t.EncodeJSON([]byte(json))
}

// parseColumn parses a column that is written as in CQL.
func parseColumn(keyspace, written string, types map[string][]string) (string, *cqltype.Type, error) {
	name, typ, _ := strings.Cut(written, " ")
	var resolve func(keyspace, name string) (*cqltype.Type, error)
	resolve = func(keyspace, name string) (*cqltype.Type, error) {
		udt := &cqltype.Type{Kind: cqltype.UDT, Keyspace: keyspace, Name: name}
		for _, f := range types[name] {
			field, typ, _ := strings.Cut(f, " ")
			parsed, err := cqltype.Parse(typ, resolve, keyspace)
			if err != nil {
				return nil, err
			}
			udt.Fields, udt.Elems = append(udt.Fields, field), append(udt.Elems, parsed)
		}
		return udt, nil
	}
	parsed, err := cqltype.Parse(typ, resolve, keyspace)
	return name, parsed, err
}
