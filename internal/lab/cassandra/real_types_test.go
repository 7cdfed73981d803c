//go:build lab

package cassandra_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/lab/devcluster"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// A table that was dropped and created again is read with the old definition, as by lookups that
// have begun. A column whose type has changed is refused at every host, whoever prepared the
// statement again; a column of the same type is read.
func TestRealReadNeverReadsAnotherType(t *testing.T) {
	_, admin := shared.get(t)
	ctx := t.Context()
	exec := func(cql string) { require.NoError(t, admin.Exec(ctx, cql)) }
	const name = "retyped"
	type change struct{ column, before, after, valueBefore, valueAfter string }
	changed := []change{
		{"list", "list<int>", "list<float>", "[1065353216]", "[1]"},
		{"dimension", "vector<float, 3>", "vector<float, 4>", "[1, 2, 3]", "[1, 2, 3, 4]"},
		{"element", "vector<float, 3>", "vector<int, 3>", "[1, 2, 3]", "[1, 2, 3]"},
		{"pair", "tuple<int, text>", "tuple<int, blob>", "(1, 'a')", "(1, 0x61)"},
		{"nested", "map<int, frozen<map<int, frozen<list<int>>>>>", "map<int, frozen<map<int, frozen<list<float>>>>>", "{1: {2: [3]}}", "{1: {2: [3]}}"},
		{"udt", "frozen<retype>", "frozen<retype>", "{x: 1}", "{x: 1}"},
		{"udts", "vector<frozen<retype>, 2>", "vector<frozen<retype>, 2>", "[{x: 1}, {x: 2}]", "[{x: 1}, {x: 2}]"},
	}
	changed = slices.DeleteFunc(changed, func(c change) bool {
		return strings.HasPrefix(c.before, "vector<") && !devcluster.AtLeast(5, 0)
	})
	create := func(after bool) {
		field := "int"
		var columns, names, values strings.Builder
		if after {
			field = "float"
		}
		for _, c := range changed {
			typ, value := c.before, c.valueBefore
			if after {
				typ, value = c.after, c.valueAfter
			}
			fmt.Fprintf(&columns, ", %s %s", c.column, typ)
			names.WriteString(", " + c.column)
			values.WriteString(", " + value)
		}
		exec("CREATE TYPE test.retype (x " + field + ")")
		exec("CREATE TABLE test." + name + " (id text PRIMARY KEY, same list<int>" + columns.String() + ")")
		exec("INSERT INTO test." + name + " (id, same" + names.String() + ") VALUES ('k', [7]" + values.String() + ")")
	}
	create(false)
	c, other := open(t, config(shared.cluster)), open(t, config(shared.cluster))
	before := definition(t, c, name)
	hosts := c.Ring().Hosts()
	ask := func(column string) executor.Query {
		return executor.Query{Table: before, Columns: columns(t, before, column)}
	}
	for _, h := range hosts {
		for _, column := range before.Columns {
			res, err := read(t, c, ask(column.Name), h, textKey(t, "k"))
			require.NoError(t, err)
			require.Equal(t, partition.Found, res[0].Status)
		}
	}
	exec("DROP TABLE test." + name)
	exec("DROP TYPE test.retype")
	create(true)
	require.Eventually(t, func() bool {
		table, ok := other.Schema().Table("test", name)
		return ok && table.ID != before.ID
	}, patience, 10*time.Millisecond, "the new definition comes by itself")
	after := definition(t, other, name)

	for i, h := range hosts {
		for _, column := range changed {
			if i > 0 { // somebody else has prepared the statement anew
				_, err := read(t, other, executor.Query{Table: after, Columns: columns(t, after, column.column)}, h, textKey(t, "k"))
				require.NoError(t, err)
			}
			res, err := read(t, c, ask(column.column), h, textKey(t, "k"))
			assert.Equal(t, executor.ReasonInvalid, reason(err), "%s at %s: %v %v", column.column, h.Addr, res, err)
		}
		res, err := read(t, c, ask("same"), h, textKey(t, "k"))
		require.NoError(t, err, "a new table with the same type has the same bytes")
		assert.Equal(t, []byte{0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 7}, res[0].Rows[0][0])
	}
	exec("DROP TABLE test." + name)
	exec("DROP TYPE test.retype")
}
