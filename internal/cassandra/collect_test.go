package cassandra

import (
	"fmt"
	"math"
	"slices"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// newTestReading returns a reading of n keys k0, k1, … of a table with rows.
func newTestReading(tb interface{ Fatal(...any) }, n, limit, maxBytes int, strict bool) *reading {
	q := ask(testTable([]string{"id"}, []string{"seq"}, []string{"v"}), "v", "seq")
	q.Limit, q.Strict, q.MaxBytes = limit, strict, maxBytes
	r := &reading{SubQuery: &executor.SubQuery{Query: q}, selection: newSelection(q), results: make([]partition.Result, n)}
	r.vary(0)
	for i := range n {
		k, err := partition.NewKey(fmt.Appendf(nil, "k%d", i))
		if err != nil {
			tb.Fatal(err)
		}
		r.Keys = append(r.Keys, k)
	}
	r.left = &r.bytes
	r.left.Store(int64(maxBytes))
	return r
}

func cells(key string, seq, v []byte) []rawCell { return []rawCell{rawCell(key), seq, v} }

func TestCollectorSortsRowsByKey(t *testing.T) {
	r := newTestReading(t, 4, 10, math.MaxInt32, true)
	c := newCollector(r, span{1, 4})
	frame := []byte("abcdef")
	require.NoError(t, c.add(cells("k3", frame[0:1], frame[1:2])))
	require.NoError(t, c.add(cells("k1", frame[2:3], nil)))
	require.NoError(t, c.add(cells("k3", frame[3:4], frame[4:4])))
	require.ErrorIs(t, c.add(cells("k0", nil, nil)), errForeignRow)
	c.store()
	copy(frame, "######")
	assert.Equal(t, partition.Pending, r.results[0].Status, "not in the span")
	assert.Equal(t, partition.Result{Status: partition.Found, Rows: []partition.Row{{nil, []byte("c")}}, Bytes: 1}, r.results[1])
	assert.Equal(t, partition.Result{Status: partition.NotFound}, r.results[2])
	assert.Equal(t, partition.Found, r.results[3].Status)
	assert.Equal(t, []partition.Row{{[]byte("b"), []byte("a")}, {[]byte{}, []byte("d")}}, r.results[3].Rows, "cells are copied out of the frame")
	assert.NotNil(t, r.results[3].Rows[1][0], "an empty value is not null")
}

func TestCollectorGivesUpOnlyTheKeyThatIsTooLarge(t *testing.T) {
	r := newTestReading(t, 3, 10, 10, true)
	c := newCollector(r, span{0, 3})
	require.NoError(t, c.add(cells("k0", []byte("1"), []byte("1234"))))
	require.NoError(t, c.add(cells("k1", []byte("1"), []byte("123"))))
	require.NoError(t, c.add(cells("k1", []byte("2"), []byte("1234"))))
	require.NoError(t, c.add(cells("k1", []byte("3"), []byte(""))))
	require.NoError(t, c.add(cells("k2", []byte("1"), []byte("1234"))))
	c.store()
	assert.Equal(t, partition.Found, r.results[0].Status)
	assert.Equal(t, *crowded, r.results[1], "alone it would fit")
	assert.Equal(t, partition.Found, r.results[2].Status, "the room of the key that was given up is free again")
	assert.Zero(t, r.left.Load())
}

func TestCollectorTellsAKeyThatIsTooLargeAlone(t *testing.T) {
	r := newTestReading(t, 2, 10, 10, true)
	c := newCollector(r, span{0, 2})
	require.NoError(t, c.add(cells("k0", []byte("1"), []byte("1234"))))
	require.NoError(t, c.add(cells("k1", []byte("1"), []byte("1234567890"))))
	c.store()
	assert.Equal(t, *tooManyBytes, r.results[1])
}

// A key of which only a part is read says that keys have no fewer rows than that.
func TestAKeyThatIsTooLargeDoesNotLowerTheRowsOfAKey(t *testing.T) {
	for name, tt := range map[string]struct {
		maxBytes int
		lower    bool
	}{"read whole": {math.MaxInt32, true}, "too large": {10, false}} {
		r := newTestReading(t, 1, 100, tt.maxBytes, true)
		r.volume = &volume{}
		r.volume.observe(1, 1000, 1000, false)
		before := r.volume.rowsOfKey()
		var came fakeRows
		for range 4 {
			came.cells = append(came.cells, cells("k0", []byte("1"), []byte("12345678")))
		}
		require.NoError(t, newCollector(r, span{0, 1}).collect(&came))
		assert.Equal(t, tt.lower, r.volume.rowsOfKey() < before, name)
	}
}

// TestCollectorKeepsEveryRow compares the collector with a map, for rows that
// come in any order.
func TestCollectorKeepsEveryRow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 2*linearKeys).Draw(t, "keys")
		limit := rapid.IntRange(1, 4).Draw(t, "limit")
		strict := rapid.Bool().Draw(t, "strict")
		r := newTestReading(t, n, limit, math.MaxInt32, strict)
		c := newCollector(r, span{0, n})
		want := make([][]partition.Row, n)
		for i, k := range rapid.SliceOfN(rapid.IntRange(0, n-1), 0, 300).Draw(t, "rows") {
			v := fmt.Appendf(nil, "row %d", i)
			require.NoError(t, c.add(cells(fmt.Sprintf("k%d", k), nil, v)))
			want[k] = append(want[k], partition.Row{v, nil})
		}
		c.store()
		for k, rows := range want {
			res := r.results[k]
			switch {
			case len(rows) == 0:
				require.Equal(t, partition.NotFound, res.Status)
			case len(rows) > limit && strict:
				require.Equal(t, partition.TooLarge, res.Status)
				require.Empty(t, res.Rows)
			default:
				require.Equal(t, partition.Found, res.Status)
				require.Equal(t, rows[:min(limit, len(rows))], res.Rows)
			}
		}
	})
}

// pages are rows, each a page with metadata of its own, followed by an error.
type pages struct {
	*fakeRows
	columns [][]gocql.ColumnInfo
	at      int
	err     error
}

func (p *pages) Columns() []gocql.ColumnInfo { return p.columns[max(p.at-1, 0)] }
func (p *pages) Close() error                { return p.err }

func (p *pages) Scan(dest ...any) bool {
	p.at++
	return p.fakeRows.Scan(dest...)
}

func TestCollectorGivesBackWhatAFailedStatementTook(t *testing.T) {
	r := newTestReading(t, 2, 10, 10, true)
	failing := &pages{
		fakeRows: &fakeRows{cells: [][]rawCell{cells("k0", nil, []byte("1234")), cells("k1", nil, []byte("123"))}},
		columns:  make([][]gocql.ColumnInfo, 3), err: errLoaded,
	}
	require.ErrorIs(t, newCollector(r, span{0, 2}).collect(failing), errLoaded)
	assert.EqualValues(t, 10, r.left.Load())
	foreign := &fakeRows{cells: [][]rawCell{cells("k0", nil, []byte("1234")), cells("k9", nil, nil)}}
	require.ErrorIs(t, newCollector(r, span{0, 2}).collect(foreign), errForeignRow)
	assert.EqualValues(t, 10, r.left.Load())
}

func TestCollectorChecksTheTypesOfEachPage(t *testing.T) {
	texts := []gocql.ColumnInfo{{TypeInfo: native(gocql.TypeVarchar)}, {TypeInfo: native(gocql.TypeVarchar)}, {TypeInfo: native(gocql.TypeVarchar)}}
	changed := slices.Clone(texts)
	changed[1].TypeInfo = native(gocql.TypeInt)
	for name, test := range map[string]struct {
		columns [][]gocql.ColumnInfo
		want    error
	}{
		"the same":               {[][]gocql.ColumnInfo{texts, texts, texts}, nil},
		"the same, told again":   {[][]gocql.ColumnInfo{texts, slices.Clone(texts), texts}, nil},
		"others from the first":  {[][]gocql.ColumnInfo{changed, changed, changed}, errStale},
		"others from the second": {[][]gocql.ColumnInfo{texts, changed, changed}, errStale},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTestReading(t, 2, 10, 100, true)
			rows := &fakeRows{cells: [][]rawCell{cells("k0", nil, []byte("a")), cells("k1", nil, []byte("b"))}}
			require.ErrorIs(t, newCollector(r, span{0, 2}).collect(&pages{fakeRows: rows, columns: test.columns}), test.want)
		})
	}
}

func BenchmarkCollect(b *testing.B) {
	for _, keys := range []int{1, 10, 50} {
		b.Run(fmt.Sprintf("%d keys", keys), func(b *testing.B) {
			r := newTestReading(b, keys, 10, math.MaxInt32, true)
			rows := make([][]rawCell, keys)
			for i := range rows {
				rows[i] = cells(fmt.Sprintf("k%d", i), []byte("0001"), make([]byte, 450))
			}
			b.ReportAllocs()
			for b.Loop() {
				r.left.Store(math.MaxInt32)
				c := newCollector(r, span{0, keys})
				c.owners, c.cells = make([]int, 0, keys), make([][]byte, 0, 2*keys)
				for _, row := range rows {
					if err := c.add(row); err != nil {
						b.Fatal(err)
					}
				}
				c.store()
			}
		})
	}
}

func BenchmarkStatement(b *testing.B) {
	q := ask(testTable([]string{"id"}, nil, []string{"name", "price", "stock", "description"}), "name", "price", "stock")
	b.ReportAllocs()
	for b.Loop() {
		s := newSelection(q)
		s.vary(0)
		_ = s.in(len(s.table.PartitionKey))
	}
}
