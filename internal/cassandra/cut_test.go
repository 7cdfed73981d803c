package cassandra

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// workload is lookups of a clustered table, with a number of rows for each key.
type workload struct {
	rows    func(rng *rand.Rand, lookup int) int
	keys    int
	limit   int
	lookups int
}

// counts are the results of a workload: statements per lookup, the share of keys that were asked
// more than once, and the share of lookups with such keys.
type counts struct{ statements, again, cut float64 }

func (w workload) run(t *testing.T) counts {
	t.Helper()
	table := keyed(true, cqltype.Text)
	q := ask(table, "v")
	q.Limit, q.Strict = w.limit, true
	rng := rand.New(rand.NewPCG(1, 2))
	var v volume
	var total counts
	for n := range w.lookups {
		h := &fakeHost{table: table, rows: map[string]int{}}
		var keys []partition.Key
		for i := range w.keys {
			keys = append(keys, textKey(t, fmt.Sprint("k", n, "-", i)))
			h.rows[string(keys[i].Routing())] = w.rows(rng, n)
		}
		results, err := h.reading(q, &v, &inLimits{}, nil, keys...).run(t.Context())
		require.NoError(t, err)
		for i, k := range keys {
			status, rows := h.want(q, k)
			require.Equal(t, status, results[i].Status)
			require.Len(t, results[i].Rows, rows)
		}
		asked := 0
		for _, keys := range h.statements {
			asked += keys
		}
		total.statements += float64(len(h.statements)) / float64(w.lookups)
		total.again += float64(asked-w.keys) / float64(w.keys*w.lookups)
		if asked > w.keys {
			total.cut += 1 / float64(w.lookups)
		}
	}
	return total
}

func TestFewKeysOfAClusteredTableAreReadAgain(t *testing.T) {
	always := func(n int) func(*rand.Rand, int) int { return func(*rand.Rand, int) int { return n } }
	wide := func(one, rows int) func(*rand.Rand, int) int {
		return func(rng *rand.Rand, _ int) int {
			if rng.IntN(one) == 0 {
				return rows
			}
			return 4
		}
	}
	for _, test := range []struct {
		name                  string
		rows                  func(*rand.Rand, int) int
		keys                  int
		statements, readAgain float64
	}{
		{"4 rows a key", always(4), 50, 1.3, 0.02},
		{"100 rows a key", always(100), 50, 3, 0.05},
		{"1000 rows a key", always(1000), 20, 6, 0.08},
		{"1 of 20 has 1000 rows", wide(20, 1000), 50, 2.5, 0.08},
		{"1 of 20 has 1000 rows, small groups", wide(20, 1000), 10, 1.3, 0.05},
		{"1 of 100 has 1000 rows", wide(100, 1000), 50, 1.4, 0.04},
		{"1 of 200 has too many rows", wide(200, 5000), 50, 1.4, 0.04},
		{"wide and narrow lookups in turns", func(_ *rand.Rand, n int) int { return []int{4, 1000}[n%2] }, 20, 7, 0.25},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := workload{rows: test.rows, keys: test.keys, limit: 1000, lookups: 40}.run(t)
			t.Logf("%.2f statements a lookup, %.3f of the keys read again, in %.3f of the lookups", c.statements, c.again, c.cut)
			assert.LessOrEqual(t, c.statements, test.statements)
			assert.LessOrEqual(t, c.again, test.readAgain)
		})
	}
}

// TestWhatALimitHasCutOffIsFound reads keys of which the first or the last has many more rows than
// expected.
func TestWhatALimitHasCutOffIsFound(t *testing.T) {
	table := keyed(true, cqltype.Text)
	read := func(t *testing.T, limitLess int, rows ...int) (found, missing int) {
		t.Helper()
		h := &fakeHost{table: table, rows: map[string]int{}, limitLess: limitLess}
		q := ask(table, "v")
		q.Limit, q.Strict = 1000, true
		v := &volume{}
		v.observe(100, 100, 100*(pageBytes/100), false) // a statement returns at most 100 rows
		var keys []partition.Key
		for i, n := range rows {
			keys = append(keys, textKey(t, fmt.Sprintf("%02d", i)))
			h.rows[string(keys[i].Routing())] = n
		}
		results, err := h.reading(q, v, &inLimits{}, nil, keys...).run(t.Context())
		require.NoError(t, err)
		for i, r := range results {
			switch {
			case r.Status == partition.Found && len(r.Rows) == rows[i]:
				found++
			case r.Status == partition.NotFound && rows[i] > 0:
				missing++
			}
		}
		return found, missing
	}
	for name, rows := range map[string][]int{
		"all are wide":                  {70, 70, 70, 70, 70, 70, 70, 70},
		"the first is wide":             {300, 1, 1, 1, 1, 1, 1, 1},
		"the last is wide":              {1, 1, 1, 1, 1, 1, 1, 300},
		"exactly as many as the limit":  {50, 20, 30, 1, 1},
		"the last ends with the limit":  {50, 50},
		"one more than the limit":       {50, 51},
		"as wide as a statement, twice": {100, 100},
	} {
		t.Run(name, func(t *testing.T) {
			found, missing := read(t, 0, rows...)
			assert.Equal(t, len(rows), found)
			assert.Zero(t, missing)
			if name == "the last is wide" || name == "the last ends with the limit" {
				return
			}
			found, missing = read(t, 1, rows...)
			assert.Less(t, found, len(rows), "control: nobody sees that the answer was cut off")
			if name != "one more than the limit" {
				assert.Positive(t, missing, "and keys with rows are not found")
			}
		})
	}
}
