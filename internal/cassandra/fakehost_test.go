package cassandra

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"sync"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// fakeHost answers the statements of a reading from memory, as a node does: the keys of an IN in
// the order of its values, each value once, by the comparison of its type.
type fakeHost struct {
	table *schema.Table
	// rows is the number of rows of a partition by its routing bytes. Partitions in bad fail; those
	// in unavailable have too few live replicas.
	rows             map[string]int
	bad, unavailable map[string]bool
	// most is the most keys of an IN; 0 for any number.
	most int
	// limitLess is how many rows less than its limit a statement returns, so that nobody notices
	// what was cut off.
	limitLess int

	mu sync.Mutex
	// statements are the numbers of keys of the statements sent, and texts their texts.
	statements []int
	texts      map[string]bool
	paged      int
}

// fakeRows are the rows of one statement.
type fakeRows struct {
	cells [][]rawCell
	err   error
}

func (r *fakeRows) Columns() []gocql.ColumnInfo { return nil }
func (r *fakeRows) NumRows() int                { return len(r.cells) }
func (r *fakeRows) Close() error                { return r.err }

func (r *fakeRows) Scan(dest ...any) bool {
	if len(r.cells) == 0 || r.err != nil {
		return false
	}
	for i, cell := range r.cells[0] {
		*dest[i].(*rawCell) = cell
	}
	r.cells = r.cells[1:]
	return true
}

func (h *fakeHost) send(_ context.Context, s statement) rows {
	keys := h.keys(s)
	h.mu.Lock()
	h.statements = append(h.statements, len(keys))
	if h.texts == nil {
		h.texts = map[string]bool{}
	}
	h.texts[s.text] = true
	if s.page > 0 {
		h.paged++
	}
	h.mu.Unlock()
	if h.most > 0 && len(keys) > h.most {
		return &fakeRows{err: answer{gocql.ErrCodeInvalid, "Guardrail partition_keys_in_select violated"}}
	}
	perKey, limit := math.MaxInt, math.MaxInt
	n := len(h.table.PartitionKey)
	if len(s.args) > n {
		perKey = s.args[n].(int)
	}
	if len(s.args) > n+1 {
		limit = s.args[n+1].(int) - h.limitLess
	}
	out := &fakeRows{}
	for _, k := range keys {
		if h.unavailable[string(k.Routing())] {
			return &fakeRows{err: answer{gocql.ErrCodeUnavailable, ""}}
		}
		if h.bad[string(k.Routing())] {
			return &fakeRows{err: answer{gocql.ErrCodeReadFailure, ""}}
		}
		for i := range min(h.rows[string(k.Routing())], perKey, limit-len(out.cells)) {
			out.cells = append(out.cells, h.row(s.text, k, i))
		}
	}
	return out
}

// keys returns the keys of a statement in the order in which a node reads them.
func (h *fakeHost) keys(s statement) []partition.Key {
	in := none
	components := make([][]byte, len(h.table.PartitionKey))
	for i, c := range h.table.PartitionKey {
		if strings.Contains(s.text, quote(c.Name)+" IN ?") {
			in = i
		} else {
			components[i] = s.args[i].(rawValue)
		}
	}
	if in == none {
		k, _ := partition.NewKey(components...)
		return []partition.Key{k}
	}
	var values [][]byte
	list := s.args[in].(rawValue)
	n, list := binary.BigEndian.Uint32(list), list[4:]
	for range n {
		size := binary.BigEndian.Uint32(list)
		values = append(values, list[4:4+size:4+size])
		list = list[4+size:]
	}
	slices.SortFunc(values, bytes.Compare)
	values = slices.CompactFunc(values, func(a, b []byte) bool {
		return bytes.Equal(a, b) || h.table.PartitionKey[in].Type.Kind == cqltype.Decimal
	})
	var out []partition.Key
	for _, v := range values {
		of := slices.Clone(components)
		of[in] = v
		k, _ := partition.NewKey(of...)
		out = append(out, k)
	}
	return out
}

// row is the i-th row of a partition as the statement selects it.
func (h *fakeHost) row(text string, k partition.Key, i int) []rawCell {
	selected, _, _ := strings.Cut(strings.TrimPrefix(text, "SELECT "), " FROM ")
	var row []rawCell
	for name := range strings.SplitSeq(selected, ", ") {
		at := slices.IndexFunc(h.table.PartitionKey, func(c schema.Column) bool { return quote(c.Name) == name })
		if at >= 0 {
			row = append(row, rawCell(k.Components()[at]))
			continue
		}
		row = append(row, binary.BigEndian.AppendUint32(nil, uint32(i)))
	}
	return row
}

// reading returns a reading of keys from the host.
func (h *fakeHost) reading(q *executor.Query, v *volume, limits *inLimits, early executor.Early, keys ...partition.Key) *reading {
	r := &reading{
		SubQuery:  &executor.SubQuery{Query: q, Keys: keys, Early: early},
		selection: newSelection(q), sender: h, limits: limits, most: math.MaxInt, volume: v,
		outstanding: newOutstanding(func() {}, nil), results: make([]partition.Result, len(keys)),
	}
	r.left = &r.bytes
	r.left.Store(math.MaxInt64)
	if q.MaxBytes > 0 {
		r.left.Store(int64(q.MaxBytes))
	}
	return r
}

// want returns what a lookup of one key alone returns.
func (h *fakeHost) want(q *executor.Query, k partition.Key) (partition.Status, int) {
	n := h.rows[string(k.Routing())]
	switch {
	case h.bad[string(k.Routing())]:
		return partition.Failed, 0
	case n == 0:
		return partition.NotFound, 0
	case len(h.table.Clustering) == 0:
		return partition.Found, 1
	case q.Strict && n > q.Limit:
		return partition.TooLarge, 0
	}
	return partition.Found, min(n, q.Limit)
}
