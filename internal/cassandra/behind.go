package cassandra

import (
	"context"
	"slices"
	"sync/atomic"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// behind reads the rows of a key that follow its cursor, up to the limit. CQL compares several
// columns by their values and not in clustering order, so it takes a statement for each column:
// after the row (3, 5) come c1 = 3 AND c2 > 5, then c1 > 3. Most pages are full after the first of
// them.
func (r *reading) behind(ctx context.Context, k int, level gocql.Consistency, page int) error {
	out := partition.Result{Status: partition.NotFound}
	for _, s := range steps(r.table, r.Keys[k], r.slice) {
		q, part, left := *r.Query, *r.SubQuery, r.left
		q.Limit -= len(out.Rows)
		full := q.Limit == 0
		if full { // only whether there are more rows is still unknown; keep nothing
			q.Limit, q.Paged, left = 1, false, new(atomic.Int64)
		}
		part.Query, part.Keys, part.Early = &q, []partition.Key{s.key}, nil
		a := &reading{
			SubQuery: &part, selection: r.selection, sender: r.sender, level: r.level, limits: r.limits, outstanding: r.outstanding,
			most: r.most, volume: r.volume, left: left, results: make([]partition.Result, 1),
		}
		a.slice = s.slice
		if err := a.statement(ctx, span{0, 1}, level, page); err != nil {
			r.left.Add(int64(out.Bytes))
			return err
		}
		res := a.results[0]
		switch {
		case res.Status == partition.NotFound:
			continue
		case len(out.Rows) == 0:
			out = res
		case full, res.Status == partition.TooLarge: // the next row exceeds the bytes left
			out.More = true
		default:
			out.Rows, out.Bytes, out.More = append(out.Rows, res.Rows...), out.Bytes+res.Bytes, res.More
		}
		if out.More || out.Status != partition.Found {
			break
		}
	}
	r.results[k] = out
	return nil
}

// step is one statement for the rows after a cursor.
type step struct {
	key   partition.Key
	slice *partition.Slice
}

// steps returns the statements for the rows after the cursor of a key that meet a slice, in reading
// order: first for the last clustering column, among the rows that equal the cursor in all columns
// before it, then for the column before that. It omits those that the slice makes empty.
func steps(t *schema.Table, k partition.Key, s *partition.Slice) []step {
	cursor, named := k.Cursor(), len(k.Components())
	first := named - len(t.PartitionKey)
	components := append(slices.Clip(k.Components()), cursor...)
	var out []step
	for i, value := range cursor {
		if slice := beyond(t, s, first+i, value); slice != nil {
			if key, err := partition.NewRowKey(len(t.PartitionKey), components[:named+i]...); err == nil {
				out = append(out, step{key, slice})
			}
		}
		if !meets(t, s, first+i, value) {
			break
		}
	}
	slices.Reverse(out)
	return out
}

// beyond returns the part of a slice in which one clustering column comes after a value in reading
// order; nil when there can be none. It omits the columns before that one, which the key names.
func beyond(t *schema.Table, s *partition.Slice, column int, value []byte) *partition.Slice {
	typ, bound := t.Clustering[column].Type, partition.Restriction{Column: column, Operator: partition.Greater, Values: [][]byte{value}}
	out := &partition.Slice{Reverse: s.Reversed()}
	if t.Clustering[column].Descending != out.Reverse {
		bound.Operator = partition.Less
	}
	isBehind := func(other []byte) bool { return bound.Operator.Holds(typ.Compare(other, value)) }
	bounded := false
	for _, r := range s.On(column) {
		switch {
		case !r.Operator.Range():
			r.Values = slices.DeleteFunc(slices.Clone(r.Values), func(v []byte) bool { return !isBehind(v) })
			if len(r.Values) == 0 {
				return nil
			}
			bounded = true
		case r.Operator.Lower() == bound.Operator.Lower():
			if !isBehind(r.Values[0]) {
				continue // the cursor is the nearer bound
			}
			bounded = true
		}
		out.Restrictions = append(out.Restrictions, r)
	}
	if !bounded {
		out.Restrictions = append(out.Restrictions, bound)
	}
	if s != nil {
		for _, r := range s.Restrictions {
			if r.Column > column {
				out.Restrictions = append(out.Restrictions, r)
			}
		}
	}
	return out
}

// meets reports whether a value of a clustering column meets the restrictions of a slice on it.
func meets(t *schema.Table, s *partition.Slice, column int, value []byte) bool {
	for _, r := range s.On(column) {
		if !slices.ContainsFunc(r.Values, func(v []byte) bool { return r.Operator.Holds(t.Clustering[column].Type.Compare(value, v)) }) {
			return false
		}
	}
	return true
}
