//go:build lab

package cassandra_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// mostStatements counts the statements of 32 sets of columns and of all columns, each for one key
// and for many.
const mostStatements = 2 * 33

// Nodes prepare a bounded number of statements, whatever sets of columns clients ask for, and the
// answers are the same.
func TestRealStatementsStayFew(t *testing.T) {
	_, admin := shared.get(t)
	name := shared.table(t, `CREATE TABLE %s (id text, seq int, s text static, s2 text static,
		c0 text, c1 text, c2 text, c3 list<int>, c4 text, PRIMARY KEY (id, seq))`)
	for _, cql := range []string{
		"INSERT INTO test.%s (id, seq, s, c0, c1, c2, c3, c4) VALUES ('a', 1, 'static', 'v0', 'v1', '', [1, 2], 'v4')",
		"INSERT INTO test.%s (id, seq, c1) VALUES ('a', 2, 'second')",
		"INSERT INTO test.%s (id, s) VALUES ('b', 'no row')",
		"INSERT INTO test.%s (id, seq) VALUES ('c', 1)",
	} {
		require.NoError(t, admin.Exec(t.Context(), fmt.Sprintf(cql, name)))
	}
	keys := []partition.Key{textKey(t, "a"), textKey(t, "b"), textKey(t, "c"), textKey(t, "none")}
	c := open(t, config(shared.cluster))
	table := definition(t, c, name)
	all := []string{"c0", "c1", "c2", "c3", "c4", "s", "s2", "seq"}
	set := func(n int) executor.Query {
		var names []string
		for i, column := range all {
			if n&(1<<i) != 0 {
				names = append(names, column)
			}
		}
		return executor.Query{Table: table, Columns: columns(t, table, names...)}
	}
	host := c.Ring().Host(0)
	before, err := c.Prepared(t.Context(), host, name)
	require.NoError(t, err)
	require.Zero(t, before)
	answers := map[int][]partition.Result{}
	for n := 1; n <= 200; n++ {
		if answers[n], err = read(t, c, set(n), host, keys...); err != nil {
			require.NoError(t, err)
		}
		one, err := read(t, c, set(n), host, keys[0])
		require.NoError(t, err)
		assert.Equal(t, answers[n][0], one[0])
	}
	assert.EqualValues(t, 2*(200-32), c.WholeReads())
	after, err := c.Prepared(t.Context(), host, name)
	require.NoError(t, err)
	assert.LessOrEqual(t, after, mostStatements)
	assert.GreaterOrEqual(t, after, 2*32, "the count counts")

	// Each of these clients has few enough sets to ask for exactly their columns.
	for from := 1; from <= 200; from += 32 {
		exact := open(t, config(shared.cluster))
		for n := from; n < from+32 && n <= 200; n++ {
			res, err := read(t, exact, set(n), host, keys...)
			require.NoError(t, err)
			assert.Equal(t, answers[n], res, "columns %v", set(n).Columns)
		}
		assert.Zero(t, exact.WholeReads())
	}
	after, err = c.Prepared(t.Context(), host, name)
	require.NoError(t, err)
	assert.Greater(t, after, mostStatements, "control: without the bound there are more")
}

// TestRealCompactTables reads all columns of tables whose schema lists some that CQL does not show.
func TestRealCompactTables(t *testing.T) {
	_, admin := shared.get(t)
	names := shared.define(t,
		"CREATE TABLE %s (id text PRIMARY KEY, v text) WITH COMPACT STORAGE",
		"CREATE TABLE %s (id text, seq int, PRIMARY KEY (id, seq)) WITH COMPACT STORAGE",
		"CREATE TABLE %s (id text, seq int, v text, PRIMARY KEY (id, seq)) WITH COMPACT STORAGE")
	shown := [][]string{{"id", "v"}, {"id", "seq"}, {"id", "seq", "v"}}
	literals := map[string]string{"id": "'a'", "seq": "7", "v": "'x'"}
	c := open(t, config(shared.cluster))
	for i, name := range names {
		var values []string
		for _, column := range shown[i] {
			values = append(values, literals[column])
		}
		require.NoError(t, admin.Exec(t.Context(), fmt.Sprintf("INSERT INTO test.%s (%s) VALUES (%s)", name, strings.Join(shown[i], ", "), strings.Join(values, ", "))))
		table := definition(t, c, name)
		var got []string
		for _, column := range table.Columns {
			got = append(got, column.Name)
		}
		require.Equal(t, shown[i], got)
		res, err := read(t, c, executor.Query{Table: table, Columns: table.Columns}, c.Ring().Host(0), textKey(t, "a"))
		require.NoError(t, err)
		require.Equal(t, partition.Found, res[0].Status, "%v", res[0].Err)
		require.Len(t, res[0].Rows, 1)
		require.Len(t, res[0].Rows[0], len(shown[i]))
	}
}
