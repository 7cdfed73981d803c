package cassandra

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/schema"
)

func textKey(tb interface{ Fatal(...any) }, parts ...string) partition.Key {
	components := make([][]byte, len(parts))
	for i, p := range parts {
		components[i] = []byte(p)
	}
	k, err := partition.NewKey(components...)
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

// keyed returns a table whose partition key has columns a, b, … of these kinds.
func keyed(clustered bool, kinds ...cqltype.Kind) *schema.Table {
	var columns []schema.Column
	for i, k := range kinds {
		columns = append(columns, schema.Column{Name: string(rune('a' + i)), Type: &cqltype.Type{Kind: k}})
	}
	if clustered {
		columns = append(columns, schema.Column{Name: "seq", Type: textType, Kind: schema.Clustering})
	}
	return schema.NewTable("ks", "t", "id", append(columns, schema.Column{Name: "v", Type: textType, Kind: schema.Regular}))
}

func TestKeysThatDifferInOneColumnShareAStatement(t *testing.T) {
	key := func(parts ...string) partition.Key { return textKey(t, parts...) }
	text, decimal := cqltype.Text, cqltype.Decimal
	for name, test := range map[string]struct {
		kinds []cqltype.Kind
		keys  []partition.Key
		want  []string // argument by argument, of each statement
	}{
		"one column":                     {[]cqltype.Kind{text}, []partition.Key{key("1"), key("2")}, []string{"1|2"}},
		"the second column varies":       {[]cqltype.Kind{text, text}, []partition.Key{key("a", "1"), key("a", "2")}, []string{"a 1|2"}},
		"the first column varies":        {[]cqltype.Kind{text, text}, []partition.Key{key("a", "1"), key("b", "1")}, []string{"a|b 1"}},
		"the column that shares more":    {[]cqltype.Kind{text, text}, []partition.Key{key("a", "1"), key("b", "1"), key("c", "1"), key("c", "2")}, []string{"a|b|c 1", "c 2"}},
		"two tenants, taking turns":      {[]cqltype.Kind{text, text}, []partition.Key{key("a", "1"), key("b", "1"), key("a", "2"), key("b", "3")}, []string{"a 1|2", "b 1|3"}},
		"nothing shared":                 {[]cqltype.Kind{text, text}, []partition.Key{key("a", "1"), key("b", "2")}, []string{"a 1", "b 2"}},
		"the middle of three":            {[]cqltype.Kind{text, text, text}, []partition.Key{key("a", "1", "x"), key("a", "2", "x"), key("a", "3", "y")}, []string{"a 1|2 x", "a 3 y"}},
		"parts that only look alike":     {[]cqltype.Kind{text, text, text}, []partition.Key{key("ab", "c", "x"), key("a", "bc", "y")}, []string{"ab c x", "a bc y"}},
		"equal values of other bytes":    {[]cqltype.Kind{decimal}, []partition.Key{key("1"), key("2")}, []string{"1", "2"}},
		"such a column stays the same":   {[]cqltype.Kind{decimal, text}, []partition.Key{key("1", "a"), key("1", "b")}, []string{"1 a|b"}},
		"such a column does not vary":    {[]cqltype.Kind{decimal, text}, []partition.Key{key("1", "a"), key("2", "a")}, []string{"1 a", "2 a"}},
		"a single key":                   {[]cqltype.Kind{text, text}, []partition.Key{key("a", "1")}, []string{"a 1"}},
		"an empty value is one like any": {[]cqltype.Kind{text, text}, []partition.Key{key("a", ""), key("a", "2")}, []string{"a |2"}},
	} {
		t.Run(name, func(t *testing.T) {
			table := keyed(false, test.kinds...)
			h := &fakeHost{table: table}
			r := h.reading(ask(table, "v"), &volume{}, &inLimits{}, nil, test.keys...)
			var got []string
			for _, p := range r.arrange() {
				var values []string
				for i, arg := range r.arguments(p, 0) {
					if p.len() > 1 && i == r.varying {
						values = append(values, joined(arg.(rawValue)))
					} else {
						values = append(values, string(arg.(rawValue)))
					}
				}
				got = append(got, strings.Join(values, " "))
			}
			assert.ElementsMatch(t, test.want, got)
		})
	}
}

// joined formats a CQL list.
func joined(list rawValue) string {
	n, list := binary.BigEndian.Uint32(list), list[4:]
	var out [][]byte
	for range n {
		size := binary.BigEndian.Uint32(list)
		out = append(out, list[4:4+size])
		list = list[4+size:]
	}
	return string(bytes.Join(out, []byte("|")))
}

// TestEveryKeyIsAnsweredAsIfAlone reads random keys of tables of all shapes, with and without
// knowledge of their rows, from hosts that refuse large INs and partitions that cannot be read.
func TestEveryKeyIsAnsweredAsIfAlone(t *testing.T) {
	kinds := [][]cqltype.Kind{
		{cqltype.Text}, {cqltype.Decimal}, {cqltype.Text, cqltype.Text}, {cqltype.Decimal, cqltype.Text}, {cqltype.Text, cqltype.Text, cqltype.Text},
	}
	rapid.Check(t, func(t *rapid.T) {
		of := rapid.SampledFrom(kinds).Draw(t, "key")
		table := keyed(rapid.Bool().Draw(t, "clustered"), of...)
		h := &fakeHost{table: table, rows: map[string]int{}, bad: map[string]bool{}, most: rapid.SampledFrom([]int{0, 3}).Draw(t, "guardrail")}
		q := ask(table, rapid.SampledFrom([][]string{{"v"}, {"v", "a"}, {"b", "v"}}[:min(len(of)+1, 3)]).Draw(t, "columns")...)
		q.Limit, q.Strict = rapid.SampledFrom([]int{1, 20, 1000}).Draw(t, "limit"), rapid.Bool().Draw(t, "strict")
		var keys []partition.Key
		for range rapid.IntRange(1, 40).Draw(t, "keys") {
			var parts []string
			for range of {
				parts = append(parts, string(rune('0'+rapid.IntRange(0, 5).Draw(t, "value"))))
			}
			k := textKey(t, parts...)
			id := string(k.Routing())
			if _, known := h.rows[id]; known {
				continue
			}
			h.rows[id] = rapid.SampledFrom([]int{0, 1, 3, 20, 30, 1500}).Draw(t, "rows")
			if len(table.Clustering) == 0 {
				h.rows[id] = min(h.rows[id], 1)
			}
			h.bad[id] = rapid.IntRange(0, 20).Draw(t, "bad") == 0
			keys = append(keys, k)
		}
		v := &volume{}
		if rapid.Bool().Draw(t, "known") {
			v.observe(1, rapid.SampledFrom([]int{1, 5, 100}).Draw(t, "expected"), rapid.SampledFrom([]int{10, 1000, 100_000}).Draw(t, "bytes"), false)
		}
		early := &handedOn{begin: time.Now(), at: map[int]time.Duration{}, got: map[int]partition.Result{}}
		results, err := h.reading(q, v, &inLimits{}, early, keys...).run(t.Context())
		require.NoError(t, err)
		for i, k := range keys {
			status, n := h.want(q, k)
			require.Equal(t, status, results[i].Status, "%q: %v", k.Routing(), results[i].Err)
			require.Len(t, results[i].Rows, n)
			for at, row := range results[i].Rows {
				for c, cell := range row {
					want := fmt.Appendf(nil, "%c", k.Components()[0][0])
					switch q.Columns[c].Name {
					case "v":
						want = binary.BigEndian.AppendUint32(nil, uint32(at))
					case "b":
						want = k.Components()[1]
					}
					require.Equal(t, want, cell)
				}
			}
			if res, ok := early.got[i]; ok {
				require.Equal(t, results[i], res)
			}
		}
		require.LessOrEqual(t, len(h.texts), 2, "one for one key and one for several")
	})
}

// TestStatementsOfCompositeKeys counts the statements of a group: keys that differ in one column
// share one.
func TestStatementsOfCompositeKeys(t *testing.T) {
	table := keyed(false, cqltype.Text, cqltype.Text)
	for tenants, want := range map[int]int{1: 1, 5: 5, 25: 25} {
		rng := rand.New(rand.NewPCG(1, uint64(tenants)))
		var keys []partition.Key
		h := &fakeHost{table: table, rows: map[string]int{}}
		for i := range 50 {
			keys = append(keys, textKey(t, fmt.Sprint("tenant", i%tenants), fmt.Sprint("id", rng.Int())))
			h.rows[string(keys[i].Routing())] = 1
		}
		results, err := h.reading(ask(table, "v"), &volume{}, &inLimits{}, nil, keys...).run(t.Context())
		require.NoError(t, err)
		for _, r := range results {
			require.Equal(t, partition.Found, r.Status)
		}
		assert.Len(t, h.statements, want, "%d tenants", tenants)
	}
}
