package cassandra

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// subsets calls f with every subset of ten columns c0 to c9 of a table, each as a
// query.
func subsets(f func(set int, q *executor.Query)) {
	var names []string
	for i := range 10 {
		names = append(names, fmt.Sprintf("c%d", i))
	}
	table := testTable([]string{"id"}, nil, names)
	for set := range 1 << len(names) {
		var asked []string
		for i, n := range names {
			if set&(1<<i) != 0 {
				asked = append(asked, n)
			}
		}
		q := ask(table, asked...)
		q.Limit, q.MaxBytes = 1, math.MaxInt32
		f(set, q)
	}
}

// rowOf returns the row k0 of the table of subsets as a selection reads it.
func rowOf(s selection) []rawCell {
	var row []rawCell
	for _, c := range s.columns {
		switch c.Name {
		case "id":
			row = append(row, rawCell("k0"))
		case "c3":
			row = append(row, nil)
		case "c4":
			row = append(row, rawCell{})
		default:
			row = append(row, rawCell("value of "+c.Name))
		}
	}
	return row
}

func collected(t *testing.T, q *executor.Query, s selection) partition.Result {
	t.Helper()
	r := newTestReading(t, 2, 10, math.MaxInt32, false)
	r.Query, r.selection = q, s
	r.vary(0)
	c := newCollector(r, span{0, 2})
	row := rowOf(s)
	require.NoError(t, c.add(row))
	for _, cell := range row {
		if s.whole {
			copy(cell, "################") // the driver reuses the frame
		}
	}
	c.store()
	return r.results[0]
}

func TestStatementsOfATableAreFewWhateverColumnsAreAsked(t *testing.T) {
	var sets columnSets
	now := time.Now()
	texts := map[string]bool{}
	for range 2 { // in any order, and again
		subsets(func(_ int, q *executor.Query) {
			s := sets.selection(q, now)
			s.vary(0)
			texts[s.in(len(s.table.PartitionKey))], texts[s.one(len(s.table.PartitionKey))] = true, true
			assert.Equal(t, collected(t, q, newSelection(q)), collected(t, q, s), "%v", q.Columns)
		})
	}
	assert.Len(t, texts, 2*(maxColumnSets+1), "those of the sets that have a place, and of all columns")
	assert.EqualValues(t, 2*(1<<10-maxColumnSets-1), sets.whole.Load())
	known, _ := sets.byTable.Load([2]string{"ks", "t"})
	assert.Len(t, known.(*tableSets).used, maxColumnSets, "what is known does not grow by what is asked")
}

func TestSetsOfColumnsThatNobodyAsksForLoseTheirPlace(t *testing.T) {
	used := tableSets{used: map[uint64]time.Time{}}
	now := time.Now()
	for set := range uint64(maxColumnSets) {
		require.True(t, used.admit(set, now))
	}
	assert.False(t, used.admit(100, now), "no place is free")
	now = now.Add(columnSetMemory - 1)
	assert.True(t, used.admit(7, now))
	assert.False(t, used.admit(100, now), "none has been idle for long enough")
	now = now.Add(1)
	for set := range uint64(2 * maxColumnSets) {
		assert.Equal(t, set < maxColumnSets-1, used.admit(100+set, now), set)
	}
	assert.True(t, used.admit(7, now), "what was asked for meanwhile kept its place")
}

func TestOnlyColumnsThatMayBeReadAreReadInPlaceOfThoseAsked(t *testing.T) {
	table := testTable([]string{"id"}, nil, []string{"a", "b", "secret"})
	q := ask(table, "b")
	q.Readable = ask(table, "b", "a").Columns
	s := wholeSelection(q, q.Readable)
	s.vary(0)
	assert.Equal(t, `SELECT "id", "a", "b" FROM "ks"."t" WHERE "id" IN ?`, s.in(len(s.table.PartitionKey)))
	assert.Equal(t, []int{2}, s.asked)
}

// Columns nobody asked for do not make a key too large, but count for pages.
func TestBytesNobodyAskedForDoNotMakeAKeyTooLarge(t *testing.T) {
	table := testTable([]string{"id"}, nil, []string{"large", "small"})
	q := ask(table, "small")
	q.Limit, q.MaxBytes = 1, 10
	r := newTestReading(t, 1, 1, 10, false)
	r.Query, r.selection, r.volume = q, wholeSelection(q, table.Columns), &volume{}
	c := newCollector(r, span{0, 1})
	require.NoError(t, c.add([]rawCell{rawCell("k0"), make(rawCell, 1<<20), rawCell("ten bytes!")}))
	c.observe()
	c.store()
	assert.Equal(t, partition.Result{Status: partition.Found, Rows: []partition.Row{{[]byte("ten bytes!")}}, Bytes: 10}, r.results[0])
	assert.Equal(t, 1, r.volume.page(8, 8), "eight such rows come one by one")
}
