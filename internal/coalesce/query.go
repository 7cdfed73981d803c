package coalesce

import (
	"hash/maphash"
	"slices"

	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// equal reports whether two queries have the same answer for a key, so that they may
// share a read. Readable, Shape and Alone decide how a key is read, not what is answered.
// Two definitions of one table make different queries.
func equal(q, o *partition.Query) bool {
	return q == o || q.Table == o.Table && q.Limit == o.Limit && q.Strict == o.Strict && q.Paged == o.Paged && q.MaxBytes == o.MaxBytes &&
		q.Consistency == o.Consistency && q.Slice.Same(o.Slice) &&
		// Their names tell columns of one table apart.
		slices.EqualFunc(q.Columns, o.Columns, func(a, b schema.Column) bool { return a.Name == b.Name })
}

// hash returns a hash that equal queries have in common.
func hash(q *partition.Query, seed maphash.Seed) uint64 {
	h := maphash.Comparable(seed, struct {
		table     *schema.Table
		level     partition.Level
		limit, of int
	}{q.Table, q.Consistency, q.Limit, len(q.Columns)})
	for i := range q.Columns {
		h = h*31 + maphash.String(seed, q.Columns[i].Name)
	}
	return h
}
