//go:build lab

package cassandra_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// rawKeys returns the partition keys of a table, made of these columns, and the value of column v
// of each.
func rawKeys(t *testing.T, admin *cassandra.Client, name string, columns ...string) (keys []partition.Key, values [][]byte) {
	t.Helper()
	rows, err := admin.QueryRaw(t.Context(), "SELECT "+strings.Join(columns, ", ")+", v FROM test."+name)
	require.NoError(t, err)
	for _, row := range rows {
		k, err := partition.NewKey(row[:len(columns)]...)
		require.NoError(t, err)
		keys, values = append(keys, k), append(values, row[len(columns)])
	}
	return keys, values
}

// Keys that share all columns but one are read by one statement, with the same result as if each
// were read alone, whichever column varies and whatever its type.
func TestRealSharedStatements(t *testing.T) {
	_, admin := shared.get(t)
	cfg := config(shared.cluster)
	cfg.NodeLocal = true
	c := open(t, cfg)
	hosts := c.Ring().Hosts()
	compare := func(t *testing.T, name string, key ...string) {
		t.Helper()
		table := definition(t, c, name)
		keys, values := rawKeys(t, admin, name, key...)
		require.NotEmpty(t, keys)
		for _, level := range []partition.Level{"LOCAL_ONE", "LOCAL_QUORUM"} {
			q := executor.Query{Table: table, Columns: columns(t, table, "v"), Consistency: level}
			for _, h := range hosts {
				res, err := read(t, c, q, h, keys...)
				require.NoError(t, err)
				for i, r := range res {
					require.Equal(t, partition.Found, r.Status, "%s at %s: %x", name, level, keys[i].Components())
					require.Len(t, r.Rows, 1)
					require.Equal(t, values[i], r.Rows[0][0], "%s at %s: %x", name, level, keys[i].Components())
				}
			}
		}
	}
	types := map[string][]string{
		"text": {"'a'", "'b'", "''", "'é'"}, "ascii": {"'a'", "''"}, "blob": {"0x00", "0x0001", "0x", "0xff"},
		"int": {"1", "-1", "0", "blob_as_int(0x)"}, "bigint": {"1", "-1", "0"}, "smallint": {"1", "-1"}, "tinyint": {"1", "-1"},
		"uuid":     {"00000000-0000-4000-8000-000000000001", "f0000000-0000-4000-8000-000000000001", "50554d6e-29bb-11e5-b345-feff819cdc9f"},
		"timeuuid": {"50554d6e-29bb-11e5-b345-feff819cdc9f", "60554d6e-29bb-11e5-b345-feff819cdc9f"},
		"inet":     {"'127.0.0.1'", "'::1'", "'::ffff:7f00:1'"}, "date": {"'2026-01-01'", "'1969-01-01'"}, "time": {"'10:00:00'", "'11:00:00'"},
		"timestamp":         {"0", "-1", "1767225600000"},
		"frozen<list<int>>": {"[1]", "[1, 2]", "[]"}, "decimal": {"1.0", "1.00", "1"}, "varint": {"1", "blob_as_varint(0x0001)", "-1"},
		"double": {"0.0", "-0.0", "NaN"}, "float": {"0.0", "-0.0"}, "boolean": {"true", "false"},
	}
	kinds := slices.Sorted(maps.Keys(types))
	var definitions []string
	for _, typ := range kinds {
		definitions = append(definitions,
			"CREATE TABLE %s (a text, b "+typ+", v int, PRIMARY KEY ((a, b)))",
			"CREATE TABLE %s (b "+typ+", a text, v int, PRIMARY KEY ((b, a)))")
	}
	names := shared.define(t, definitions...)
	for i, typ := range kinds {
		t.Run(typ, func(t *testing.T) {
			for j, key := range [][]string{{"a", "b"}, {"b", "a"}} {
				name, n := names[2*i+j], 0
				for _, literal := range types[typ] {
					for _, a := range []string{"x", "y"} {
						n++
						require.NoError(t, admin.Exec(t.Context(), fmt.Sprintf("INSERT INTO test.%s (a, b, v) VALUES ('%s', %s, %d)", name, a, literal, n)))
					}
				}
				compare(t, name, key...)
			}
		})
	}
	t.Run("three columns, and few statements", func(t *testing.T) {
		name := shared.table(t, "CREATE TABLE %s (a text, b int, c text, v int, PRIMARY KEY ((a, b, c)))")
		n := 0
		for _, a := range []string{"", "a", "ab"} {
			for b := range 3 {
				for _, third := range []string{"", "c", "bc"} {
					n++
					require.NoError(t, admin.Exec(t.Context(), "INSERT INTO test."+name+" (a, b, c, v) VALUES (?, ?, ?, ?)", a, b, third, n))
				}
			}
		}
		compare(t, name, "a", "b", "c")
		keys, _ := rawKeys(t, admin, name, "a", "b", "c")
		q := executor.Query{Table: definition(t, c, name), Columns: columns(t, definition(t, c, name), "v")}
		for column := range 3 { // what shares the other columns with the first key
			var some []partition.Key
			for _, k := range keys {
				same := 0
				for i := range 3 {
					if i != column && string(k.Components()[i]) == string(keys[0].Components()[i]) {
						same++
					}
				}
				if same == 2 {
					some = append(some, k)
				}
			}
			require.Len(t, some, 3)
			res, err := read(t, c, q, c.Ring().Host(0), some...)
			require.NoError(t, err)
			assert.NotContains(t, statuses(res), partition.NotFound)
		}
		prepared, err := c.Prepared(t.Context(), c.Ring().Host(0), name)
		require.NoError(t, err)
		assert.LessOrEqual(t, prepared, 1+3, "one key, and one for each column that varies")
		assert.GreaterOrEqual(t, prepared, 3, "control: the count counts")
	})
	t.Run("clustered, with keys that do not exist", func(t *testing.T) {
		name := shared.table(t, "CREATE TABLE %s (a text, b text, seq int, v int, PRIMARY KEY ((a, b), seq))")
		var keys []partition.Key
		var want []int
		for i := range 60 {
			a, b := string(rune('a'+i%3)), strconv.Itoa(i)
			keys, want = append(keys, textKey(t, a, b)), append(want, i%5)
			for seq := range i % 5 {
				require.NoError(t, admin.Exec(t.Context(), "INSERT INTO test."+name+" (a, b, seq, v) VALUES (?, ?, ?, ?)", a, b, seq, i))
			}
		}
		q := executor.Query{Table: definition(t, c, name), Columns: columns(t, definition(t, c, name), "v", "seq"), Limit: 3}
		for range 3 {
			for _, h := range hosts {
				res, err := read(t, c, q, h, keys...)
				require.NoError(t, err)
				for i, r := range res {
					require.Equal(t, want[i] > 0, r.Status == partition.Found)
					require.Len(t, r.Rows, min(want[i], 3))
				}
			}
		}
	})
}

// Rows beyond the limit of a statement are read again, at every level.
func TestRealWhatALimitCutsOffIsRead(t *testing.T) {
	_, admin := shared.get(t)
	name := shared.table(t, "CREATE TABLE %s (id text, seq int, v text, s text static, PRIMARY KEY (id, seq))")
	wide := map[string]int{}
	for i := range 40 {
		wide[fmt.Sprintf("wide%d", i)] = 300
	}
	wide["huge"], wide["too large"], wide["none"] = 6000, 7500, 0
	for i := range 40 {
		wide[fmt.Sprintf("narrow%d", i)] = i % 5
	}
	require.NoError(t, admin.Load(t.Context(), "INSERT INTO test."+name+" (id, seq, v) VALUES (?, ?, '0123456789')", func(yield func([]any) bool) {
		for id, n := range wide {
			for i := range n {
				if !yield([]any{id, i}) {
					return
				}
			}
		}
	}, 64))
	require.NoError(t, admin.Exec(t.Context(), "INSERT INTO test."+name+" (id, s) VALUES ('static', 'x')"))
	wide["static"] = 1
	// Deleted rows do not count for a limit.
	for i := range 100 {
		require.NoError(t, admin.Exec(t.Context(), "DELETE FROM test."+name+" WHERE id = 'wide7' AND seq = ?", 2*i))
	}
	wide["wide7"] = 200

	var ids []string
	for id := range wide {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	var keys, narrow []partition.Key
	for _, id := range ids {
		keys = append(keys, textKey(t, id))
		if strings.HasPrefix(id, "narrow") {
			narrow = append(narrow, textKey(t, id))
		}
	}
	for _, level := range []partition.Level{"LOCAL_ONE", "LOCAL_QUORUM", "ALL", "NODE_LOCAL"} {
		t.Run(string(level), func(t *testing.T) {
			cfg := config(shared.cluster)
			cfg.NodeLocal = true
			c := open(t, cfg)
			t.Cleanup(c.NodeLocalUnsafe(false))
			table := definition(t, c, name)
			q := executor.Query{Table: table, Columns: columns(t, table, "seq", "v"), Consistency: level, Limit: 7000, Strict: true}
			for h := range 2 {
				host := hostOf(t, c, shared.cluster.Nodes()[h])
				for range 20 { // until keys are expected to be narrow
					_, err := read(t, c, q, host, narrow...)
					require.NoError(t, err)
				}
				for _, some := range [][]partition.Key{keys, keys[len(keys)/2:], keys[:3]} {
					res, err := read(t, c, q, host, some...)
					require.NoError(t, err)
					for i, r := range res {
						id := string(some[i].Routing())
						switch n := wide[id]; {
						case n == 0:
							require.Equal(t, partition.NotFound, r.Status, id)
						case n > q.Limit:
							require.Equal(t, partition.TooLarge, r.Status, id)
						default:
							require.Equal(t, partition.Found, r.Status, id)
							require.Len(t, r.Rows, n, id)
						}
					}
				}
			}
		})
	}
	t.Run("control: one such statement lacks keys, and its rows come partition by partition", func(t *testing.T) {
		for _, limit := range []int{100, 1000, 5000} {
			rows, err := admin.QueryRaw(t.Context(), fmt.Sprintf("SELECT id FROM test.%s WHERE id IN ('%s') PER PARTITION LIMIT 150 LIMIT %d",
				name, strings.Join(ids, "', '"), limit))
			require.NoError(t, err)
			require.Len(t, rows, limit, "a limit is reached exactly")
			var came []string
			counts := map[string]int{}
			for _, row := range rows {
				id := string(row[0])
				if counts[id]++; counts[id] == 1 {
					came = append(came, id)
				} else {
					require.Equal(t, came[len(came)-1], id, "partition by partition")
				}
			}
			require.Less(t, len(came), len(ids)-2)
			for _, id := range came[:len(came)-1] {
				require.Equal(t, min(wide[id], 150), counts[id], "all but the last are complete")
			}
		}
	})
}

// TestRealRowsOfATypeThatGotAField reads rows whose clustering value was written before its type got
// a further field: Cassandra returns the bytes that were written, and not those that were asked for.
func TestRealRowsOfATypeThatGotAField(t *testing.T) {
	_, admin := shared.get(t)
	require.NoError(t, admin.Exec(t.Context(), "CREATE TYPE test.grown (a int)"))
	name := shared.table(t, "CREATE TABLE %s (id text, at frozen<grown>, v int, PRIMARY KEY (id, at))")
	var keys []partition.Key
	for i := range 3 {
		require.NoError(t, admin.Exec(t.Context(), fmt.Sprintf("INSERT INTO test.%s (id, at, v) VALUES ('p', {a: %d}, %d)", name, i, i)))
		k, err := partition.NewRowKey(1, []byte("p"), []byte{0, 0, 0, 4, 0, 0, 0, byte(i), 0xff, 0xff, 0xff, 0xff})
		require.NoError(t, err)
		keys = append(keys, k)
	}
	require.NoError(t, admin.Exec(t.Context(), "ALTER TYPE test.grown ADD b int"))
	c := open(t, config(shared.cluster))
	table := definition(t, c, name)
	res, err := read(t, c, executor.Query{Table: table, Columns: columns(t, table, "v")}, c.Ring().Host(0), keys...)
	require.NoError(t, err)
	for i, r := range res {
		require.Equal(t, partition.Found, r.Status, "%v", r.Err)
		require.Equal(t, []byte{0, 0, 0, byte(i)}, r.Rows[0][0])
	}
}
