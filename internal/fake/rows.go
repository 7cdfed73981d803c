package fake

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/reasons"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// The errors of keys, with the texts of the real proxy.
var (
	errTooManyRows  = errors.New("the key has more rows than the limit; read them in pages, or set limit_per_key")
	errTooManyBytes = errors.New("the rows exceed the limit of bytes; read them in pages, or fewer columns")
	errReadFailure  = errors.New("every replica failed to read this key")
	errReloaded     = errors.New("the data was replaced twice since the lookup began")
)

// table is a table with its rows.
type table struct {
	schema *schema.Table
	// written is the write time of cells for which the file gives none, in microseconds since
	// 1970.
	written int64
	// partitions are the rows by partition.Key.Routing.
	partitions map[string]*rows
	faults     []*fault
}

// rows are the rows of one partition in clustering order. A partition that has only static
// values has one row without clustering values, and is bare.
type rows struct {
	all  []*row
	bare bool
}

// row has a cell for each column of the table, in the table's order. versions has the write
// times and TTLs that the file gives, by the position of the column.
type row struct {
	cells    partition.Row
	versions map[int]version
}

// version is the write time of a cell, in microseconds since 1970, and its TTL in seconds; nil
// if the file does not give it.
type version struct{ written, ttl *int64 }

// answer returns the rows of a key, within the limits of the query.
func (t *table) answer(q *executor.SubQuery, k partition.Key) partition.Result {
	found := t.slice(q, k)
	switch {
	case len(found) == 0:
		return partition.Result{Status: partition.NotFound}
	case q.Strict && len(found) > q.Limit:
		return partition.Unanswered(reasons.TooManyRows, errTooManyRows)
	}
	res := partition.Result{Status: partition.Found, More: q.Paged && len(found) > q.Limit}
	for _, from := range found[:min(len(found), q.Limit)] {
		out, size := make(partition.Row, len(q.Columns)), 0
		for i, c := range q.Columns {
			out[i] = t.cell(from, c)
			size += len(out[i])
		}
		if res.Bytes+size > q.MaxBytes {
			if !q.Paged || len(res.Rows) == 0 {
				return partition.Unanswered(reasons.TooManyBytes, errTooManyBytes)
			}
			res.More = true
			return res
		}
		res.Rows, res.Bytes = append(res.Rows, out), res.Bytes+size
	}
	return res
}

// cell returns the value of a column of a query: a cell, or the write time or TTL of a cell.
func (t *table) cell(of *row, c schema.Column) []byte {
	if c.Function == schema.Value {
		return of.cells[t.position(c.Name)]
	}
	at := t.position(c.Of)
	v := of.versions[at]
	switch {
	case of.cells[at] == nil:
		return nil
	case c.Function == schema.TTL && v.ttl == nil:
		return nil
	case c.Function == schema.TTL:
		return binary.BigEndian.AppendUint32(nil, uint32(*v.ttl)) //nolint:gosec // An int, as parsed.
	case v.written != nil:
		return binary.BigEndian.AppendUint64(nil, uint64(*v.written)) //nolint:gosec // The bits of a bigint.
	}
	return binary.BigEndian.AppendUint64(nil, uint64(t.written)) //nolint:gosec // The bits of a bigint.
}

// position returns the position of the column with a name, -1 for none.
func (t *table) position(name string) int {
	return slices.IndexFunc(t.schema.Columns, func(c schema.Column) bool { return c.Name == name })
}

// slice returns the rows of a key that a query selects, in the order of the query.
func (t *table) slice(q *executor.SubQuery, k partition.Key) []*row {
	of := t.partitions[string(k.Routing())]
	switch {
	case of == nil:
		return nil
	case of.bare && (q.Slice != nil && len(q.Slice.Restrictions) > 0 || len(k.Components()) > len(t.schema.PartitionKey) || k.Cursor() != nil):
		return nil
	}
	var out []*row
	for _, r := range of.all {
		if t.matches(q.Slice, k, r.cells) && (k.Cursor() == nil || t.isBehind(r.cells, k, q.Slice.Reversed())) {
			out = append(out, r)
		}
	}
	if q.Slice.Reversed() {
		slices.Reverse(out)
	}
	return out
}

// isBehind reports whether a row comes after the cursor of a key, in the order of the query.
func (t *table) isBehind(cells partition.Row, k partition.Key, reverse bool) bool {
	named := len(k.Components())
	for i, value := range k.Cursor() {
		column := t.schema.KeyColumn(named + i)
		if c := column.Type.Compare(cells[named+i], value); c != 0 {
			return c > 0 != (column.Descending != reverse)
		}
	}
	return false
}

// matches reports whether a row begins with the components of a key and meets all restrictions.
func (t *table) matches(s *partition.Slice, k partition.Key, cells partition.Row) bool {
	if !begins(t.schema, cells, k.Components()) {
		return false
	}
	if s == nil {
		return true
	}
	for _, r := range s.Restrictions {
		i := len(t.schema.PartitionKey) + r.Column
		if !slices.ContainsFunc(r.Values, func(v []byte) bool { return r.Operator.Holds(t.schema.KeyColumn(i).Type.Compare(cells[i], v)) }) {
			return false
		}
	}
	return true
}

// begins reports whether values of the key columns, in key order, have with as their prefix.
func begins(s *schema.Table, values, with [][]byte) bool {
	if len(values) < len(with) {
		return false
	}
	for i, v := range with {
		if s.KeyColumn(i).Type.Compare(values[i], v) != 0 {
			return false
		}
	}
	return true
}

// compare compares two rows of a partition in clustering order.
func (t *table) compare(a, b *row) int {
	for i := range t.schema.Clustering {
		at, c := len(t.schema.PartitionKey)+i, t.schema.Clustering[i]
		if order := c.Type.Compare(a.cells[at], b.cells[at]); order != 0 {
			if c.Descending {
				return -order
			}
			return order
		}
	}
	return 0
}
