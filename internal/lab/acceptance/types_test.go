package acceptance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/lab/devcluster"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// typeColumns returns the types of a wide table in a fixed order, and their generators. A column is
// named after its position.
func typeColumns() ([]string, map[string]generator) {
	all := nested()
	maps.Copy(all, natives)
	return slices.Sorted(maps.Keys(all)), all
}

// createTypes creates types.wide, with a column of each type, and fills it.
func createTypes(t *testing.T, client *cassandra.Client, rows int) {
	t.Helper()
	types, generators := typeColumns()
	columns := make([]string, len(types))
	for i, name := range types {
		columns[i] = fmt.Sprintf("c%d %s", i, name)
	}
	define(t, client,
		"CREATE KEYSPACE types WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3}",
		`CREATE TYPE types.address (street text, "Number" int, tags frozen<list<text>>)`,
		"CREATE TABLE types.wide (id int PRIMARY KEY, \"Mixed Case\" text, "+strings.ReplaceAll(strings.Join(columns, ", "), "address", "types.address")+")",
		"CREATE TABLE types.counts (id text PRIMARY KEY, n counter)",
	)
	r := rand.New(rand.NewPCG(3, 4))
	load(t, client, "INSERT INTO types.wide JSON ?", rows, func(id int) []any {
		var b strings.Builder
		fmt.Fprintf(&b, `{"id": %d, "\"Mixed Case\"": %s`, id, orNull(natives["text"])(r))
		for i, name := range types {
			fmt.Fprintf(&b, `, "c%d": %s`, i, orNull(generators[name])(r))
		}
		b.WriteString("}")
		return []any{b.String()}
	})
	execute(t, client,
		"UPDATE types.counts SET n = n + 9007199254740993 WHERE id = 'a'",
		"UPDATE types.counts SET n = n - 1 WHERE id = 'b'",
	)
}

// testRowsAreSelectJSON compares every row that the HTTP listener returns with its SELECT JSON.
func testRowsAreSelectJSON(t *testing.T, p *proxy, client *cassandra.Client, rows int) {
	for table, keys := range map[string][]string{
		"types.wide":   ids(rows),
		"types.counts": {`"a"`, `"b"`},
	} {
		status, got, err := p.post(t.Context(), table, `{"keys": [`+strings.Join(keys, ",")+`]}`)
		require.NoError(t, err)
		require.Equal(t, 200, status)
		require.Len(t, got.Results, len(keys))
		for i, k := range keys {
			want, err := client.Query(t.Context(), "SELECT JSON * FROM "+table+" WHERE id = "+strings.ReplaceAll(k, `"`, "'"))
			require.NoError(t, err)
			require.Len(t, want, 1)
			require.Equal(t, "FOUND", got.Results[i].Status, got.Results[i].Error)
			assertSameMembers(t, compact(t, want[0]["[json]"].(string)), compact(t, string(got.Results[i].Rows[0])))
		}
	}
}

// assertSameMembers compares two JSON objects member by member, as text, so that
// a difference shows the column.
func assertSameMembers(t *testing.T, want, got string) {
	t.Helper()
	var w, g map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(want), &w))
	require.NoError(t, json.Unmarshal([]byte(got), &g), got)
	for name := range w {
		assert.Equal(t, string(w[name]), string(g[name]), name)
	}
	assert.Len(t, g, len(w))
}

func ids(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = strconv.Itoa(i)
	}
	return out
}

// compact removes the spaces between the tokens of JSON.
func compact(t *testing.T, s string) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, json.Compact(&b, []byte(s)), s)
	return b.String()
}

// ofTheVersion removes the types that the nodes do not have: vectors came with 5.0.
func ofTheVersion(types map[string]generator) map[string]generator {
	if !devcluster.AtLeast(5, 0) {
		maps.DeleteFunc(types, func(name string, _ generator) bool { return strings.HasPrefix(name, "vector<") })
	}
	return types
}

// keyTypes returns the types whose tokens are compared: all that a partition key may have.
func keyTypes() map[string]generator {
	types := maps.Clone(natives)
	n := natives
	types["frozen<list<text>>"] = listOf(n["text"], 3)
	types["frozen<set<int>>"] = listOf(n["int"], 3)
	types["frozen<map<text, int>>"] = mapOf(n["text"], n["int"], 3)
	types["frozen<set<frozen<tuple<int, text>>>>"] = listOf(tupleOf(n["int"], n["text"]), 3)
	types["vector<float, 2>"] = tupleOf(n["float"], n["float"])
	return ofTheVersion(types)
}

// testTokensAreCassandras writes keys of every type as JSON, reads them back as bytes with
// Cassandra's token, and compares both with ours.
func testTokensAreCassandras(t *testing.T, client *cassandra.Client, keys int) {
	types := keyTypes()
	names := slices.Sorted(maps.Keys(types))
	statements := []string{"CREATE KEYSPACE tokens WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"}
	tableOf := func(number int) string { return fmt.Sprintf("tokens.k%d", number) }
	for number, name := range names {
		statements = append(statements, fmt.Sprintf("CREATE TABLE %s (k %s PRIMARY KEY)", tableOf(number), name))
	}
	define(t, client, statements...)
	for number, name := range names {
		table, generate := tableOf(number), types[name]
		typ, err := cqltype.Parse(name, nil, "tokens")
		require.NoError(t, err)

		r := rand.New(rand.NewPCG(5, uint64(number)))
		written := map[string]bool{}
		rows := func(yield func([]any) bool) {
			for range keys {
				document := generate(r)
				encoded, err := typ.EncodeJSON([]byte(document))
				if err != nil || len(encoded) == 0 {
					require.NoError(t, err, "%s %s", name, document)
					continue
				}
				written[string(encoded)] = true
				if !yield([]any{`{"k": ` + document + `}`}) {
					return
				}
			}
		}
		require.NoError(t, client.Load(t.Context(), "INSERT INTO "+table+" JSON ?", rows, 64))
		checkTokens(t, client, table, name, written)
	}
}

// checkTokens compares the token of each row of a table with ours, and the set of keys with those
// written.
func checkTokens(t *testing.T, client *cassandra.Client, table, name string, written map[string]bool) {
	t.Helper()
	cells, err := client.QueryRaw(t.Context(), "SELECT k, token(k) FROM "+table)
	require.NoError(t, err)
	require.Len(t, cells, len(written), "%s: as many keys as were encoded", name)
	for _, row := range cells {
		require.True(t, written[string(row[0])], "%s: the server holds %x, which we did not encode", name, row[0])
		k, err := partition.NewKey(row[0])
		require.NoError(t, err)
		require.Equal(t, bigint(row[1]), ring.Token(k.Routing()), "%s %x", name, row[0])
	}
}

// bigint decodes a CQL bigint.
func bigint(cell []byte) int64 {
	var v int64
	for _, b := range cell {
		v = v<<8 | int64(b)
	}
	return v
}

// testCompositeTokens is testTokensAreCassandras for composite keys with empty components, and for
// the longest key.
func testCompositeTokens(t *testing.T, client *cassandra.Client, keys int) {
	define(t, client, "CREATE TABLE tokens.pair (a blob, b text, c int, PRIMARY KEY ((a, b, c)))",
		"CREATE TABLE tokens.long (k blob PRIMARY KEY)")
	r := rand.New(rand.NewPCG(7, 8))
	rows := func(yield func([]any) bool) {
		for range keys {
			if !yield([]any{randomBytes(r, r.IntN(20)), oneOf(r, append(oddTexts, "")), int(int32(r.Uint32()))}) {
				return
			}
		}
	}
	require.NoError(t, client.Load(t.Context(), "INSERT INTO tokens.pair (a, b, c) VALUES (?, ?, ?)", rows, 64))
	cells, err := client.QueryRaw(t.Context(), "SELECT token(a, b, c), a, b, c FROM tokens.pair")
	require.NoError(t, err)
	require.NotEmpty(t, cells)
	for _, row := range cells {
		k, err := partition.NewKey(row[1:]...)
		require.NoError(t, err)
		require.Equal(t, bigint(row[0]), ring.Token(k.Routing()), "%x", row[1:])
	}
	for _, n := range []int{1, 15, 16, 17, 4096, 65534, partition.MaxKeyBytes} {
		require.NoError(t, client.Exec(t.Context(), "INSERT INTO tokens.long (k) VALUES (?)", randomBytes(r, n)))
	}
	cells, err = client.QueryRaw(t.Context(), "SELECT token(k), k FROM tokens.long")
	require.NoError(t, err)
	require.Len(t, cells, 7)
	for _, row := range cells {
		k, err := partition.NewKey(row[1])
		require.NoError(t, err)
		require.Equal(t, bigint(row[0]), ring.Token(k.Routing()), "%d bytes", len(row[1]))
	}
}
