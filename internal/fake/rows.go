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

// The errors of keys, in the words of the real proxy.
var (
	errTooManyRows  = errors.New("the key has more rows than the limit; read them in pages, or set limit_per_key")
	errTooManyBytes = errors.New("the rows exceed the limit of bytes; read them in pages, or fewer columns")
	errReadFailure  = errors.New("every replica failed to read this key")
	errReloaded     = errors.New("the data was replaced twice since the lookup began")
)

// table is a table with its rows.
type table struct {
	schema *schema.Table
	// written is when cells were written of which the file does not say it, in
	// microseconds since 1970.
	written int64
	// partitions are by partition.Key.Routing.
	partitions map[string]*rows
	faults     []*fault
}

// rows are those of one partition in clustering order. One that has static values alone is one
// row, bare of clustering values.
type rows struct {
	all  []*row
	bare bool
}

// row has a cell for each column of the table, in its order. Versions are by the position of
// the column, of those cells of which the file gives one.
type row struct {
	cells    partition.Row
	versions map[int]version
}

// version is when a cell was written, in microseconds since 1970, and after how many seconds it
// expires; nil for what the file does not say.
type version struct{ written, ttl *int64 }

// answer returns what the table has of a key, within the limits of the query.
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

// cell returns what a query asks for of a row: a cell, or when it was written or expires.
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

// position returns which column of the table has that name, -1 for none.
func (t *table) position(name string) int {
	return slices.IndexFunc(t.schema.Columns, func(c schema.Column) bool { return c.Name == name })
}

// slice returns the rows of a key that a query asks for, in its order.
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

// isBehind reports whether a row comes after the cursor of a key.
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

// matches reports whether a row begins with the values of a key and meets all restrictions.
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

// begins reports whether values of the key columns, in key order, begin with others.
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
