package cassandra

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// oneHost answers statements for one partition as CQL defines, from its rows, which are in
// clustering order.
type oneHost struct {
	table      *schema.Table
	rows       []partition.Row // of all clustering columns
	statements int
}

var conditionText = regexp.MustCompile(`"(c\d)" (=|>=|<=|>|<|IN) \?`)

func (h *oneHost) send(_ context.Context, s statement) rows {
	h.statements++
	args := s.args[len(h.table.PartitionKey):]
	type condition struct {
		column int
		holds  func(cell []byte) bool
	}
	var conditions []condition
	for i, m := range conditionText.FindAllStringSubmatch(s.text, -1) {
		column := int(m[1][1] - '0')
		o := partition.Operators[slices.IndexFunc(partition.Operators, func(o partition.Operator) bool { return o.CQL() == " "+m[2]+" ?" })]
		values := [][]byte{args[i].(rawValue)}
		if o == partition.In {
			values = listOf(args[i].(rawValue))
		}
		conditions = append(conditions, condition{column, func(cell []byte) bool {
			return slices.ContainsFunc(values, func(v []byte) bool { return o.Holds(h.table.Clustering[column].Type.Compare(cell, v)) })
		}})
	}
	limit := math.MaxInt
	if strings.Contains(s.text, "LIMIT") {
		limit = args[len(conditions)].(int)
	}
	found := slices.Clone(h.rows)
	if strings.Contains(s.text, "ORDER BY") {
		slices.Reverse(found)
	}
	out := &fakeRows{}
	for _, row := range found {
		if len(out.cells) < limit && !slices.ContainsFunc(conditions, func(c condition) bool { return !c.holds(row[c.column]) }) {
			cells := []rawCell{rawCell("k")}
			for _, cell := range row {
				cells = append(cells, rawCell(cell))
			}
			out.cells = append(out.cells, cells)
		}
	}
	return out
}

// listOf returns the values of a serialized list.
func listOf(list rawValue) (values [][]byte) {
	for list = list[4:]; len(list) > 0; {
		size := int(list[0])<<24 | int(list[1])<<16 | int(list[2])<<8 | int(list[3])
		values, list = append(values, list[4:4+size]), list[4+size:]
	}
	return values
}

// pagedCase is a random partition, and what is asked of it.
type pagedCase struct {
	host   oneHost
	key    partition.Key
	slice  *partition.Slice
	limit  int
	bytes  int
	column func(r *rand.Rand, i int) []byte
}

func drawPaged(t *testing.T, r *rand.Rand) *pagedCase {
	t.Helper()
	kinds := []cqltype.Kind{cqltype.Text, cqltype.Int, cqltype.Decimal}
	columns := []schema.Column{{Name: "a", Type: textType, Kind: schema.PartitionKey}}
	for i := range 1 + r.IntN(3) {
		columns = append(columns, schema.Column{Name: fmt.Sprintf("c%d", i), Type: &cqltype.Type{Kind: kinds[r.IntN(3)]}, Kind: schema.Clustering, Descending: r.IntN(2) == 0})
	}
	c := &pagedCase{limit: 1 + r.IntN(4)}
	if r.IntN(4) == 0 {
		c.bytes = 20 + r.IntN(100)
	}
	c.host.table = schema.NewTable("ks", "t", "id", columns)
	clustering := c.host.table.Clustering
	c.column = func(r *rand.Rand, i int) []byte {
		text := strconv.Itoa(r.IntN(4))
		if clustering[i].Type.Kind == cqltype.Decimal && r.IntN(2) == 0 {
			text += ".0"
		}
		cell, err := clustering[i].Type.EncodeText(text)
		require.NoError(t, err)
		return cell
	}
	for range r.IntN(30) {
		row := make(partition.Row, len(clustering))
		for i := range row {
			row[i] = c.column(r, i)
		}
		c.host.rows = append(c.host.rows, row)
	}
	order := func(a, b partition.Row) int {
		for i, column := range clustering {
			if o := column.Type.Compare(a[i], b[i]); o != 0 {
				if column.Descending {
					return -o
				}
				return o
			}
		}
		return 0
	}
	slices.SortFunc(c.host.rows, order)
	c.host.rows = slices.CompactFunc(c.host.rows, func(a, b partition.Row) bool { return order(a, b) == 0 })
	components := [][]byte{[]byte("k")}
	named := r.IntN(len(clustering))
	for i := range named {
		components = append(components, c.column(r, i))
	}
	var err error
	c.key, err = partition.NewRowKey(1, components...)
	require.NoError(t, err)
	c.slice = &partition.Slice{Reverse: r.IntN(2) == 0}
	for i := named; i < len(clustering); i++ {
		o := partition.Operators[r.IntN(len(partition.Operators))]
		restriction := partition.Restriction{Column: i, Operator: o, Values: [][]byte{c.column(r, i)}}
		if r.IntN(3) == 0 {
			break
		}
		if o == partition.In {
			restriction.Values = append(restriction.Values, c.column(r, i), c.column(r, i))
		}
		c.slice.Restrictions = append(c.slice.Restrictions, restriction)
		if o.Range() {
			if o.Lower() && r.IntN(2) == 0 {
				c.slice.Restrictions = append(c.slice.Restrictions, partition.Restriction{Column: i, Operator: partition.LessOrEqual, Values: [][]byte{c.column(r, i)}})
			}
			break
		}
	}
	if len(c.slice.Restrictions) == 0 && !c.slice.Reverse {
		c.slice = nil
	}
	return c
}

// want returns the rows that are asked for, in reading order.
func (c *pagedCase) want() (out []partition.Row) {
	clustering := c.host.table.Clustering
	for _, row := range c.host.rows {
		meets := true
		for i, v := range c.key.Components()[1:] {
			meets = meets && clustering[i].Type.Compare(row[i], v) == 0
		}
		for i := range clustering {
			for _, r := range c.slice.On(i) {
				meets = meets && slices.ContainsFunc(r.Values, func(v []byte) bool { return r.Operator.Holds(clustering[i].Type.Compare(row[i], v)) })
			}
		}
		if meets {
			out = append(out, row)
		}
	}
	if c.slice.Reversed() {
		slices.Reverse(out)
	}
	return out
}

// TestPagesAreAllRowsInOrder reads random partitions page by page, and all rows after their
// cursors.
func TestPagesAreAllRowsInOrder(t *testing.T) {
	statements, pages := 0, 0
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 1))
		c := drawPaged(t, r)
		q := &executor.Query{Table: c.host.table, Columns: c.host.table.Clustering, Limit: c.limit, Paged: true, Slice: c.slice, MaxBytes: c.bytes}
		want, key := c.want(), c.key
		for n := 0; ; n++ {
			read := &reading{
				SubQuery: &executor.SubQuery{Query: q, Keys: []partition.Key{key}}, selection: newSelection(q), sender: &c.host, limits: &inLimits{},
				most: math.MaxInt, volume: &volume{}, outstanding: newOutstanding(func() {}, nil), results: make([]partition.Result, 1),
			}
			read.left = &read.bytes
			read.left.Store(math.MaxInt64)
			if q.MaxBytes > 0 {
				read.left.Store(int64(q.MaxBytes))
			}
			results, err := read.run(t.Context())
			require.NoError(t, err)
			got := results[0]
			require.Equal(t, got.Status == partition.Found, len(got.Rows) > 0)
			require.LessOrEqual(t, len(got.Rows), min(len(want), c.limit), "seed %d, page %d", seed, n)
			for i, row := range got.Rows {
				require.Equal(t, want[i], row, "seed %d, page %d", seed, n)
			}
			if c.bytes == 0 {
				require.Len(t, got.Rows, min(len(want), c.limit), "seed %d, page %d", seed, n)
			} else {
				require.LessOrEqual(t, got.Bytes, c.bytes)
			}
			want = want[len(got.Rows):]
			require.Equal(t, len(want) > 0, got.More, "seed %d, page %d", seed, n)
			pages++
			if !got.More {
				break
			}
			last := got.Rows[len(got.Rows)-1]
			key, err = c.key.Behind(last[len(c.key.Components())-1:])
			require.NoError(t, err)
		}
		statements += c.host.statements
	}
	t.Logf("%.2f statements a page", float64(statements)/float64(pages))
}

// TestACursorOutsideOfTheSliceReadsNothingElse covers cursors that no row of the slice gave.
func TestACursorOutsideOfTheSliceReadsNothingElse(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 2))
		c := drawPaged(t, r)
		named := len(c.key.Components()) - 1
		var cursor [][]byte
		for i := named; i < len(c.host.table.Clustering); i++ {
			cursor = append(cursor, c.column(r, i))
		}
		key, err := c.key.Behind(cursor)
		require.NoError(t, err)
		q := &executor.Query{Table: c.host.table, Columns: c.host.table.Clustering, Limit: 100, Paged: true, Slice: c.slice}
		read := &reading{
			SubQuery: &executor.SubQuery{Query: q, Keys: []partition.Key{key}}, selection: newSelection(q), sender: &c.host, limits: &inLimits{},
			most: math.MaxInt, volume: &volume{}, outstanding: newOutstanding(func() {}, nil), results: make([]partition.Result, 1),
		}
		read.left = &read.bytes
		read.left.Store(math.MaxInt64)
		results, err := read.run(t.Context())
		require.NoError(t, err)
		var want []partition.Row
		for _, row := range c.want() {
			for i, v := range cursor {
				column := c.host.table.Clustering[named+i]
				if o := column.Type.Compare(row[named+i], v); o != 0 {
					if o > 0 != (column.Descending != c.slice.Reversed()) {
						want = append(want, row)
					}
					break
				}
			}
		}
		assert.Equal(t, want, results[0].Rows, "seed %d", seed)
	}
}

// TestWhetherThereAreMoreTakesNoBytes reads two full pages that use up the limit of bytes.
func TestWhetherThereAreMoreTakesNoBytes(t *testing.T) {
	table := testTable([]string{"a"}, []string{"c0", "c1"}, nil)
	host := &oneHost{table: table}
	for _, row := range []string{"11", "12", "21", "22", "31"} {
		host.rows = append(host.rows, partition.Row{[]byte(row[:1]), []byte(row[1:])})
	}
	var keys []partition.Key
	for _, cursor := range []string{"10", "20"} {
		k, err := textKey(t, "k").Behind([][]byte{[]byte(cursor[:1]), []byte(cursor[1:])})
		require.NoError(t, err)
		keys = append(keys, k)
	}
	const bytes = 2 * 2 * 2
	q := &executor.Query{Table: table, Columns: table.Clustering, Limit: 2, Paged: true, MaxBytes: bytes}
	read := (&fakeHost{table: table}).reading(q, &volume{}, &inLimits{}, nil, keys...)
	read.sender = host
	for k := range keys {
		require.NoError(t, read.part(t.Context(), span{k, k + 1}))
		assert.Equal(t, partition.Found, read.results[k].Status)
		assert.Len(t, read.results[k].Rows, 2, "key %d", k)
		assert.True(t, read.results[k].More)
	}
	assert.Zero(t, read.left.Load())

	read.left.Store(bytes)
	sent := 0
	read.sender = senderFunc(func(ctx context.Context, s statement) rows {
		if sent++; sent == 2 {
			return &fakeRows{err: errLoaded}
		}
		return host.send(ctx, s)
	})
	require.ErrorIs(t, read.part(t.Context(), span{0, 1}), errLoaded)
	assert.EqualValues(t, bytes, read.left.Load(), "what was read before it is not kept")
}
