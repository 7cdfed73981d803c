package cassandra

import (
	"context"
	"slices"
	"sync/atomic"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// behind asks for the rows of a key behind its cursor, as many as are asked for. CQL compares
// several columns by their values, and not in clustering order, so that it takes a statement
// for each column: behind the row (3, 5) come c1 = 3 AND c2 > 5, then c1 > 3. Most pages are
// full after the first of them.
func (r *reading) behind(ctx context.Context, k int, level gocql.Consistency, page int) error {
	out := partition.Result{Status: partition.NotFound}
	for _, s := range steps(r.table, r.Keys[k], r.slice) {
		q, part, left := *r.Query, *r.SubQuery, r.left
		q.Limit -= len(out.Rows)
		full := q.Limit == 0
		if full { // whether there are more is all that is missing, and nothing is kept
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
		case full, res.Status == partition.TooLarge: // for what is left of the bytes
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

// step is one statement for the rows behind a cursor.
type step struct {
	key   partition.Key
	slice *partition.Slice
}

// steps returns what to ask for the rows behind the cursor of a key that meet a slice, in
// their order: for the last clustering column those that have its values in all columns before,
// then for the column before that. What the slice leaves out is not asked.
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

// beyond returns a slice with the values of one clustering column that come behind a value;
// nil when there can be none. The columns before it are named by the key.
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

// meets reports whether a value of a clustering column meets what a slice says of it.
func meets(t *schema.Table, s *partition.Slice, column int, value []byte) bool {
	for _, r := range s.On(column) {
		if !slices.ContainsFunc(r.Values, func(v []byte) bool { return r.Operator.Holds(t.Clustering[column].Type.Compare(value, v)) }) {
			return false
		}
	}
	return true
}
