package cassandra

import (
	"context"
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// TestAProductOfOneColumnIsALimitOfKeys covers nodes whose in_select_cartesian_product refuses an
// IN of one column, whichever column varies.
func TestAProductOfOneColumnIsALimitOfKeys(t *testing.T) {
	const most = 25
	read := func(t *testing.T, q *executor.Query, column int, kind string, answer func(s statement, values [][]byte) rows, keys []partition.Key) {
		t.Helper()
		var limits inLimits
		r := (&fakeHost{table: q.Table}).reading(q, &volume{}, &limits, nil, keys...)
		r.sender = senderFunc(func(_ context.Context, s statement) rows {
			values := listOf(s.args[column].(rawValue))
			if len(values) > most {
				return &fakeRows{err: cartesian(kind, len(values), most)}
			}
			return answer(s, values)
		})
		results, err := r.run(t.Context())
		require.NoError(t, err)
		for i, res := range results {
			require.Equal(t, partition.Found, res.Status, "key %d: %v", i, res.Err)
		}
		assert.LessOrEqual(t, limits.get(""), most)
	}
	t.Run("partition keys", func(t *testing.T) {
		table := keyed(false, cqltype.Text)
		h := &fakeHost{table: table, rows: map[string]int{}}
		var keys []partition.Key
		for i := range 50 {
			keys = append(keys, textKey(t, strconv.Itoa(i)))
			h.rows[strconv.Itoa(i)] = 1
		}
		read(t, ask(table, "v"), 0, "partition", func(s statement, _ [][]byte) rows { return h.send(t.Context(), s) }, keys)
	})
	t.Run("rows of one partition", func(t *testing.T) {
		table := testTable([]string{"id"}, []string{"seq"}, []string{"v"})
		var keys []partition.Key
		for i := range 50 {
			k, err := partition.NewRowKey(1, []byte("p"), []byte(strconv.Itoa(i)))
			require.NoError(t, err)
			keys = append(keys, k)
		}
		read(t, ask(table, "v"), 1, "clustering", func(_ statement, values [][]byte) rows {
			out := &fakeRows{}
			for _, v := range values {
				out.cells = append(out.cells, []rawCell{rawCell("p"), rawCell("x"), v})
			}
			return out
		}, keys)
	})
}

// TestAProductOfASliceIsNoLimitOfKeys covers a `where … in` that exceeds the product with any
// number of keys.
func TestAProductOfASliceIsNoLimitOfKeys(t *testing.T) {
	table := testTable([]string{"id"}, []string{"seq"}, []string{"v"})
	q := ask(table, "v")
	values := make([][]byte, 30)
	for i := range values {
		values[i] = []byte(strconv.Itoa(i))
	}
	q.Slice = &partition.Slice{Restrictions: []partition.Restriction{{Operator: partition.In, Values: values}}}
	var limits inLimits
	keys := []partition.Key{textKey(t, "a"), textKey(t, "b"), textKey(t, "c"), textKey(t, "d")}
	r := (&fakeHost{table: table}).reading(q, &volume{}, &limits, nil, keys...)
	statements := 0
	r.sender = senderFunc(func(context.Context, statement) rows {
		statements++
		return &fakeRows{err: cartesian("clustering", len(values), 25)}
	})
	_, err := r.run(t.Context())
	assert.Equal(t, executor.ReasonInvalid, reasonOf(err))
	assert.Equal(t, 1, statements)
	assert.Equal(t, math.MaxInt, limits.get(""))

	limits.lower("", 3)
	assert.Equal(t, 3, r.perStatement(), "a limit of keys counts no values of the slice")
}
