package coalesce

import (
	"hash/maphash"
	"slices"

	"github.com/qosproxy/qosproxy/internal/schema"
)

// Query is all that decides, besides the key, what a read answers. A read is
// shared among equal queries only.
type Query struct {
	// Table is the definition by which is read; another definition of the same
	// table is another query. Never nil.
	Table *schema.Table
	// Columns are the columns of a row, in order.
	Columns []schema.Column
	// Consistency is the level of the read.
	Consistency string
	// Limit is the most rows of one partition; Strict says that one with more is
	// an error and not cut.
	Limit  int
	Strict bool
	// MaxBytes is the size beyond which a partition is an error.
	MaxBytes int
}

// equal reports whether both ask for the same of a key.
func (q *Query) equal(o *Query) bool {
	return q == o || q.Table == o.Table && q.Limit == o.Limit && q.Strict == o.Strict && q.MaxBytes == o.MaxBytes &&
		q.Consistency == o.Consistency &&
		// Columns of one table are told apart by their names.
		slices.EqualFunc(q.Columns, o.Columns, func(a, b schema.Column) bool { return a.Name == b.Name })
}

// hash returns what equal queries have in common.
func (q *Query) hash(seed maphash.Seed) uint64 {
	h := maphash.Comparable(seed, struct {
		table       *schema.Table
		consistency string
		limit, of   int
	}{q.Table, q.Consistency, q.Limit, len(q.Columns)})
	for i := range q.Columns {
		h = h*31 + maphash.String(seed, q.Columns[i].Name)
	}
	return h
}
