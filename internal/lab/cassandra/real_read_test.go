//go:build lab

package cassandra_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/lab/devcluster"
	"github.com/qosproxy/qosproxy/internal/partition"
)

func TestRealReadMapsRowsToKeys(t *testing.T) {
	_, admin := shared.get(t)
	name := shared.table(t, `CREATE TABLE %s (id text PRIMARY KEY, "Name" text, price double, note text, stock int)`)
	const n = 300
	err := admin.Load(t.Context(), `INSERT INTO test.`+name+` (id, "Name", price, note) VALUES (?, ?, ?, ?)`, func(yield func([]any) bool) {
		for i := range n {
			if !yield([]any{fmt.Sprintf("k%d", i), fmt.Sprintf("name %d", i), float64(i), ""}) {
				return
			}
		}
	}, 32)
	require.NoError(t, err)
	c := open(t, config(shared.cluster))
	table := definition(t, c, name)
	require.Len(t, c.Ring().Hosts(), 3)
	for _, asked := range [][]string{{"Name"}, {"stock", "note", "Name", "id"}, {"id"}} {
		for _, size := range []int{1, 2, 16, 17, 120} {
			for _, host := range c.Ring().Hosts() {
				t.Run(fmt.Sprintf("%v of %d keys", asked, size), func(t *testing.T) {
					var keys []partition.Key
					for i := range size {
						// Every third key does not exist; the order is not that of tokens.
						name := fmt.Sprintf("k%d", (i*37)%n)
						if i%3 == 2 {
							name = "missing" + name
						}
						keys = append(keys, textKey(t, name))
					}
					res, err := read(t, c, executor.Query{Table: table, Columns: columns(t, table, asked...)}, host, keys...)
					require.NoError(t, err)
					require.Len(t, res, size)
					for i, r := range res {
						id := string(keys[i].Routing())
						if strings.HasPrefix(id, "missing") {
							require.Equal(t, partition.Result{Status: partition.NotFound}, r, id)
							continue
						}
						require.Equal(t, partition.Found, r.Status, id)
						require.Len(t, r.Rows, 1)
						row := r.Rows[0]
						require.Len(t, row, len(asked))
						if at := slices.Index(asked, "Name"); at >= 0 {
							require.Equal(t, "name "+id[1:], string(row[at]))
						}
						if at := slices.Index(asked, "id"); at >= 0 {
							require.Equal(t, id, string(row[at]))
						}
						if at := slices.Index(asked, "note"); at >= 0 {
							require.NotNil(t, row[at], "an empty text is not null")
							require.Empty(t, row[at])
						}
						if at := slices.Index(asked, "stock"); at >= 0 {
							require.Nil(t, row[at], "a column never written is null")
						}
					}
				})
			}
		}
	}
}

func TestRealReadTellsANullTupleFromATupleOfNulls(t *testing.T) {
	if !devcluster.AtLeast(5, 0) {
		t.Skip("vectors came with 5.0")
	}
	_, admin := shared.get(t)
	name := shared.table(t, `CREATE TABLE %s (id text PRIMARY KEY, pair tuple<int, text>, list list<int>, v vector<float, 2>, d duration)`)
	require.NoError(t, admin.Exec(t.Context(), "INSERT INTO test."+name+" (id, pair, list, v, d) VALUES ('full', (1, 'a'), [1], [1, 2], 1h)"))
	require.NoError(t, admin.Exec(t.Context(), "INSERT INTO test."+name+" (id, pair) VALUES ('nulls', (null, null))"))
	require.NoError(t, admin.Exec(t.Context(), "INSERT INTO test."+name+" (id) VALUES ('none')"))
	c := open(t, config(shared.cluster))
	table := definition(t, c, name)
	res, err := read(t, c, executor.Query{Table: table, Columns: columns(t, table, "pair", "list", "v", "d")}, c.Ring().Host(0),
		textKey(t, "full"), textKey(t, "nulls"), textKey(t, "none"))
	require.NoError(t, err)
	full := res[0].Rows[0]
	assert.Equal(t, []byte{0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 1, 'a'}, full[0])
	assert.Equal(t, []byte{0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 1}, full[1])
	assert.Equal(t, []byte{0x3f, 0x80, 0, 0, 0x40, 0, 0, 0}, full[2])
	assert.NotEmpty(t, full[3])
	assert.Equal(t, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, res[1].Rows[0][0])
	assert.Nil(t, res[2].Rows[0][0])
}

func TestRealReadCompositeKeys(t *testing.T) {
	_, admin := shared.get(t)
	name := shared.table(t, `CREATE TABLE %s (a text, b text, v text, PRIMARY KEY ((a, b)))`)
	for i := range 40 {
		require.NoError(t, admin.Exec(t.Context(), "INSERT INTO test."+name+" (a, b, v) VALUES (?, ?, ?)", "a", strconv.Itoa(i), strconv.Itoa(i)))
	}
	c := open(t, config(shared.cluster))
	table := definition(t, c, name)
	var keys []partition.Key
	for i := range 50 {
		keys = append(keys, textKey(t, "a", strconv.Itoa(i)))
	}
	for _, host := range c.Ring().Hosts() {
		res, err := read(t, c, executor.Query{Table: table, Columns: columns(t, table, "v")}, host, keys...)
		require.NoError(t, err)
		for i, r := range res {
			if i >= 40 {
				require.Equal(t, partition.NotFound, r.Status)
				continue
			}
			require.Equal(t, partition.Found, r.Status)
			require.Equal(t, strconv.Itoa(i), string(r.Rows[0][0]))
		}
	}
}

func TestRealReadKeepsKeysApartThatAnInWouldMerge(t *testing.T) {
	_, admin := shared.get(t)
	name := shared.table(t, `CREATE TABLE %s (id decimal PRIMARY KEY, v text)`)
	require.NoError(t, admin.Exec(t.Context(), "INSERT INTO test."+name+" (id, v) VALUES (1.0, 'one digit')"))
	require.NoError(t, admin.Exec(t.Context(), "INSERT INTO test."+name+" (id, v) VALUES (1.00, 'two digits')"))
	c := open(t, config(shared.cluster))
	table := definition(t, c, name)
	var keys []partition.Key
	for _, value := range [][]byte{{0, 0, 0, 1, 10}, {0, 0, 0, 2, 100}} {
		k, err := partition.NewKey(value)
		require.NoError(t, err)
		keys = append(keys, k)
	}
	res, err := read(t, c, executor.Query{Table: table, Columns: columns(t, table, "v")}, c.Ring().Host(0), keys...)
	require.NoError(t, err)
	require.Equal(t, partition.Found, res[0].Status)
	require.Equal(t, "one digit", string(res[0].Rows[0][0]))
	require.Equal(t, partition.Found, res[1].Status, "Cassandra's IN keeps one of two decimals that compare as equal")
	require.Equal(t, "two digits", string(res[1].Rows[0][0]))
}

func TestRealReadLimitsRowsAndBytes(t *testing.T) {
	_, admin := shared.get(t)
	name := shared.table(t, `CREATE TABLE %s (id text, seq int, v text, s text static, PRIMARY KEY (id, seq))`)
	insert := "INSERT INTO test." + name + " (id, seq, v) VALUES (?, ?, ?)"
	counts := map[string]int{"empty": 0, "one": 1, "three": 3, "ten": 10, "huge": 6100}
	for id, n := range counts {
		require.NoError(t, admin.Load(t.Context(), insert, func(yield func([]any) bool) {
			for i := range n {
				if !yield([]any{id, i, "0123456789"}) {
					return
				}
			}
		}, 64))
	}
	require.NoError(t, admin.Exec(t.Context(), "INSERT INTO test."+name+" (id, s) VALUES ('static', 'x')"))
	c := open(t, config(shared.cluster))
	table := definition(t, c, name)
	host := c.Ring().Host(1)
	ids := []string{"ten", "empty", "three", "huge", "one", "static"}
	var keys []partition.Key
	for _, id := range ids {
		keys = append(keys, textKey(t, id))
	}
	F, N, L := partition.Found, partition.NotFound, partition.TooLarge
	for name, test := range map[string]struct {
		limit, bytes int
		strict       bool
		status       []partition.Status
		rows         []int
	}{
		"at most three rows, the rest is left out": {limit: 3, status: []partition.Status{F, N, F, F, F, F}, rows: []int{3, 0, 3, 3, 1, 1}},
		"more than three rows are too many":        {limit: 3, strict: true, status: []partition.Status{L, N, F, L, F, F}, rows: []int{0, 0, 3, 0, 1, 1}},
		"several statements of a few keys":         {limit: 2000, status: []partition.Status{F, N, F, F, F, F}, rows: []int{10, 0, 3, 2000, 1, 1}},
		"pages of single keys":                     {limit: 6000, status: []partition.Status{F, N, F, F, F, F}, rows: []int{10, 0, 3, 6000, 1, 1}},
		"pages, more rows than allowed":            {limit: 6000, strict: true, status: []partition.Status{F, N, F, L, F, F}, rows: []int{10, 0, 3, 0, 1, 1}},
		"pages, all rows":                          {limit: 7000, strict: true, status: []partition.Status{F, N, F, F, F, F}, rows: []int{10, 0, 3, 6100, 1, 1}},
		"one key exceeds the bytes alone":          {limit: 7000, bytes: 500, strict: true, status: []partition.Status{F, N, F, L, F, F}, rows: []int{10, 0, 3, 0, 1, 1}},
		"one of a group exceeds the bytes alone":   {limit: 500, bytes: 500, status: []partition.Status{F, N, F, L, F, F}, rows: []int{10, 0, 3, 0, 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			res, err := read(t, c, executor.Query{
				Table: table, Columns: columns(t, table, "seq", "v"), Limit: test.limit, Strict: test.strict, MaxBytes: test.bytes,
			}, host, keys...)
			require.NoError(t, err)
			for i, r := range res {
				require.Equal(t, test.status[i], r.Status, ids[i])
				require.Len(t, r.Rows, test.rows[i], ids[i])
				total := 0
				for n, row := range r.Rows {
					if ids[i] == "static" {
						require.Nil(t, row[0])
						continue
					}
					require.Equal(t, []byte{0, 0, byte(n >> 8), byte(n)}, row[0], "rows are in clustering order")
					total += len(row[0]) + len(row[1])
				}
				require.Equal(t, total, r.Bytes)
				if r.Status == L {
					require.Error(t, r.Err)
				}
			}
		})
	}
}

func TestRealReadTombstonesFailOneKeyAlone(t *testing.T) {
	_, admin := shared.get(t)
	name := shared.table(t, `CREATE TABLE %s (id text, seq int, v text, PRIMARY KEY (id, seq)) WITH speculative_retry = 'NONE'`)
	for i := range 12 {
		require.NoError(t, admin.Exec(t.Context(), "INSERT INTO test."+name+" (id, seq, v) VALUES (?, 1, 'x')", strconv.Itoa(i)))
	}
	require.NoError(t, admin.Load(t.Context(), "DELETE FROM test."+name+" WHERE id = 'bad' AND seq = ?", func(yield func([]any) bool) {
		for i := range 2 * tombstoneLimit {
			if !yield([]any{i}) {
				return
			}
		}
	}, 64))
	c := open(t, config(shared.cluster))
	table := definition(t, c, name)
	keys := []partition.Key{}
	for i := range 12 {
		keys = append(keys, textKey(t, strconv.Itoa(i)))
	}
	keys = slices.Insert(keys, 5, textKey(t, "bad"))
	res, err := read(t, c, executor.Query{Table: table, Columns: columns(t, table, "v"), Limit: 10}, c.Ring().Host(2), keys...)
	require.NoError(t, err)
	for i, r := range res {
		if i == 5 {
			assert.Equal(t, partition.Failed, r.Status)
			require.EqualError(t, r.Err, "a replica met too many tombstones in the partition")
			assert.Equal(t, executor.ReasonReadFailure, reason(r.Err))
			continue
		}
		assert.Equal(t, partition.Found, r.Status, "key %d", i)
	}
	res, err = read(t, c, executor.Query{Table: table, Columns: columns(t, table, "v"), Limit: 10}, c.Ring().Host(2), textKey(t, "bad"))
	require.NoError(t, err, "a key that fails alone is a result, so that it ejects nobody")
	assert.Equal(t, partition.Failed, res[0].Status)
}
