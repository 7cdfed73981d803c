package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// everyType has, for each CQL type, a value as JSON and the JSON form of its
// proto Value.
var everyType = []struct{ cql, json, value string }{
	{"ascii", `"abc"`, `{"text":"abc"}`},
	{"text", `"é"`, `{"text":"é"}`},
	{"text", `""`, `{"text":""}`},
	{"bigint", `-9223372036854775808`, `{"bigint":"-9223372036854775808"}`},
	{"counter", `7`, `{"bigint":"7"}`},
	{"blob", `"0x00ff"`, `{"blob":"AP8="}`},
	{"blob", `"0x"`, `{"blob":""}`},
	{"boolean", `true`, `{"boolean":true}`},
	{"boolean", `false`, `{"boolean":false}`},
	{"date", `"1969-12-31"`, `{"date":-1}`},
	{"decimal", `"-1.50"`, `{"decimal":{"unscaled":"/2o=","scale":2}}`},
	{"double", `1.5`, `{"double":1.5}`},
	{"duration", `"1mo2d3ns"`, `{"duration":{"months":1,"days":2,"nanoseconds":"3"}}`},
	{"float", `0.5`, `{"float":0.5}`},
	{"inet", `"127.0.0.1"`, `{"inet":"fwAAAQ=="}`},
	{"inet", `"::1"`, `{"inet":"AAAAAAAAAAAAAAAAAAAAAQ=="}`},
	{"int", `-7`, `{"int":-7}`},
	{"smallint", `-32768`, `{"int":-32768}`},
	{"tinyint", `-128`, `{"int":-128}`},
	{"time", `"00:00:00.000000001"`, `{"time":"1"}`},
	{"timestamp", `"1970-01-01 00:00:01.500Z"`, `{"timestamp":"1500"}`},
	{"uuid", `"550e8400-e29b-41d4-a716-446655440000"`, `{"uuid":"VQ6EAOKbQdSnFkRmVUQAAA=="}`},
	{"timeuuid", `"00000000-0000-1000-8080-808080808080"`, `{"uuid":"AAAAAAAAEACAgICAgICAgA=="}`},
	{"varint", `-129`, `{"varint":"/38="}`},
	{"list<int>", `[1,2]`, `{"list":{"elements":[{"int":1},{"int":2}]}}`},
	{"list<int>", `[]`, `{"list":{}}`},
	{"set<text>", `["a","b"]`, `{"set":{"elements":[{"text":"a"},{"text":"b"}]}}`},
	{"map<int, text>", `{"1":"a"}`, `{"map":{"entries":[{"key":{"int":1},"value":{"text":"a"}}]}}`},
	{"map<text, frozen<list<int>>>", `{"a":[1]}`, `{"map":{"entries":[{"key":{"text":"a"},"value":{"list":{"elements":[{"int":1}]}}}]}}`},
	{"map<frozen<list<text>>, int>", `{"[\"x\"]":1}`, `{"map":{"entries":[{"key":{"list":{"elements":[{"text":"x"}]}},"value":{"int":1}}]}}`},
	{"tuple<int, text>", `[1,null]`, `{"tuple":{"elements":[{"int":1},{"null":null}]}}`},
	{"frozen<address>", `{"street":"x","\"Zip\"":7}`, `{"udt":{"fields":[{"text":"x"},{"int":7}]}}`},
	{"vector<float, 2>", `[0.5,-1]`, `{"floatVector":{"elements":[0.5,-1]}}`},
	{"vector<text, 2>", `["a",""]`, `{"vector":{"elements":[{"text":"a"},{"text":""}]}}`},
	{"vector<int, 1>", `[3]`, `{"vector":{"elements":[{"int":3}]}}`},
	{"set<decimal>", `["1.50"]`, `{"set":{"elements":[{"decimal":{"unscaled":"AJY=","scale":2}}]}}`},
	{"map<decimal, decimal>", `{"1.50":"1.50"}`, `{"map":{"entries":[{"key":{"decimal":{"unscaled":"AJY=","scale":2}},"value":{"decimal":{"unscaled":"AJY=","scale":2}}}]}}`},
	{"frozen<list<frozen<tuple<int, frozen<set<int>>>>>>", `[[1,[1,2]]]`,
		`{"list":{"elements":[{"tuple":{"elements":[{"int":1},{"set":{"elements":[{"int":1},{"int":2}]}}]}}]}}`},
}

func TestEveryTypeInRows(t *testing.T) {
	for _, c := range everyType {
		t.Run(c.cql+" "+c.json, func(t *testing.T) {
			tbl := table(t, "t", 1, "id int", "v "+c.cql)
			typ := tbl.Schema.Columns[1].Type
			given := typ
			if c.cql == "counter" {
				given = parse(t, "bigint") // a counter cannot be given
			}
			row := []partition.Row{{cell(t, given, c.json)}, {nil}}
			found := partition.Result{Status: partition.Found, Rows: row}
			d := open(t, Deps{Lookup: &fake{tables: []*lookup.Table{tbl}, get: respond(found)}})
			in := &qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "t", Keys: []*qosproxyv1.Key{key(integerValue(1))}, Columns: []string{"v"}}

			resp, err := d.rpc.BatchGet(t.Context(), in)
			require.NoError(t, err)
			got, err := protojson.Marshal(resp.GetResults()[0].GetRows()[0].GetValues()[0])
			require.NoError(t, err)
			assert.JSONEq(t, c.value, string(got))
			assert.IsType(t, null, resp.GetResults()[0].GetRows()[1].GetValues()[0].GetKind())
			assert.Equal(t, typ.String(), resp.GetColumns()[0].GetType().GetName())

			in.Encoding = qosproxyv1.Encoding_ENCODING_CQL
			resp, err = d.rpc.BatchGet(t.Context(), in)
			require.NoError(t, err)
			raw := resp.GetResults()[0].GetRows()[0].GetValues()[0]
			assert.IsType(t, &qosproxyv1.Value_Cql{}, raw.GetKind())
			assert.Equal(t, string(row[0][0]), string(raw.GetCql()))
			assert.IsType(t, null, resp.GetResults()[0].GetRows()[1].GetValues()[0].GetKind())

			want, err := typ.AppendJSON(nil, row[0][0])
			require.NoError(t, err)
			w := do(d.http.Handler, http.MethodPost, "/v1/ks/t:batchGet", `{"keys":[1],"columns":["v"]}`)
			assert.Contains(t, w.Body.String(), `"rows":[{"v":`+string(want)+`},{"v":null}]`)
		})
	}
}

func TestEveryTypeInKeys(t *testing.T) {
	for _, c := range everyType {
		if c.cql == "duration" || c.cql == "counter" {
			continue // cannot be part of a key
		}
		t.Run(c.cql+" "+c.json, func(t *testing.T) {
			// In a composite key, a component may be empty.
			tbl := table(t, "t", 2, "a "+c.cql, "b int")
			types, names := tbl.Schema.KeyTypes()
			var v qosproxyv1.Value
			require.NoError(t, protojson.Unmarshal([]byte(c.value), &v))
			want, err := cqltype.KeyFromJSON(types, names, len(types), []byte(`[`+c.json+`,1]`))
			require.NoError(t, err)

			encode := valueKeys(tbl.Schema, []*qosproxyv1.Key{key(&v, integerValue(1)),
				key(&qosproxyv1.Value{Kind: &qosproxyv1.Value_Cql{Cql: want[0]}}, integerValue(1)), key(integerValue(1), &v)})
			for i := range 2 {
				k, err := encode(i)
				require.NoError(t, err)
				assert.Equal(t, want, k.Components())
			}
		})
	}
}

func TestValuesThatAreNoKeys(t *testing.T) {
	elements := func(values ...*qosproxyv1.Value) *qosproxyv1.ListValue {
		return &qosproxyv1.ListValue{Elements: values}
	}
	for name, c := range map[string]struct {
		cql  string
		v    *qosproxyv1.Value
		says string
	}{
		"unset":                      {"text", &qosproxyv1.Value{}, "unset"},
		"a missing value":            {"text", nil, "unset"},
		"null":                       {"text", &qosproxyv1.Value{Kind: null}, "null"},
		"another kind":               {"text", integerValue(1), "expected text, got int"},
		"an int out of range":        {"tinyint", integerValue(128), "-128 to 127"},
		"an int below the range":     {"smallint", integerValue(-32769), "-32768 to 32767"},
		"a varint for an int":        {"int", &qosproxyv1.Value{Kind: &qosproxyv1.Value_Varint{Varint: []byte{1}}}, "expected int, got varint"},
		"a varint of no bytes":       {"varint", &qosproxyv1.Value{Kind: &qosproxyv1.Value_Varint{}}, "varint"},
		"a decimal of no bytes":      {"decimal", &qosproxyv1.Value{Kind: &qosproxyv1.Value_Decimal{Decimal: &qosproxyv1.DecimalValue{}}}, "unscaled"},
		"a uuid of 15 bytes":         {"uuid", &qosproxyv1.Value{Kind: &qosproxyv1.Value_Uuid{Uuid: make([]byte, 15)}}, "15"},
		"an inet of no bytes":        {"inet", &qosproxyv1.Value{Kind: &qosproxyv1.Value_Inet{}}, "[4 16]"},
		"text beyond ascii":          {"ascii", text("é"), "ascii"},
		"cql bytes of another size":  {"int", &qosproxyv1.Value{Kind: &qosproxyv1.Value_Cql{Cql: []byte{1}}}, "int"},
		"an empty smallint":          {"smallint", &qosproxyv1.Value{Kind: empty}, "empty"},
		"a list for a set":           {"frozen<set<int>>", &qosproxyv1.Value{Kind: &qosproxyv1.Value_List{List: elements()}}, "got list"},
		"cql within a list":          {"frozen<list<int>>", &qosproxyv1.Value{Kind: &qosproxyv1.Value_List{List: elements(&qosproxyv1.Value{Kind: &qosproxyv1.Value_Cql{Cql: make([]byte, 4)}})}}, "whole component"},
		"a null in a list":           {"frozen<list<int>>", &qosproxyv1.Value{Kind: &qosproxyv1.Value_List{List: elements(&qosproxyv1.Value{Kind: null})}}, "null"},
		"an unset in a list":         {"frozen<list<int>>", &qosproxyv1.Value{Kind: &qosproxyv1.Value_List{List: elements(nil)}}, "unset"},
		"text in a list of ints":     {"frozen<list<int>>", &qosproxyv1.Value{Kind: &qosproxyv1.Value_List{List: elements(text("x"))}}, "expected int"},
		"a tuple with one too few":   {"tuple<int, int>", &qosproxyv1.Value{Kind: &qosproxyv1.Value_Tuple{Tuple: elements(integerValue(1))}}, "2 elements"},
		"a udt with one too many":    {"frozen<address>", &qosproxyv1.Value{Kind: &qosproxyv1.Value_Udt{Udt: &qosproxyv1.UdtValue{Fields: make([]*qosproxyv1.Value, 3)}}}, "at most 2"},
		"a list for a map":           {"frozen<map<int, int>>", &qosproxyv1.Value{Kind: &qosproxyv1.Value_List{}}, "got list"},
		"a map without a value":      {"frozen<map<int, int>>", &qosproxyv1.Value{Kind: &qosproxyv1.Value_Map{Map: &qosproxyv1.MapValue{Entries: []*qosproxyv1.MapEntry{{Key: integerValue(1)}}}}}, "unset"},
		"a vector of too few":        {"vector<float, 2>", &qosproxyv1.Value{Kind: &qosproxyv1.Value_FloatVector{FloatVector: &qosproxyv1.FloatVector{Elements: []float32{1}}}}, "vector"},
		"floats for a vector of int": {"vector<int, 1>", &qosproxyv1.Value{Kind: &qosproxyv1.Value_FloatVector{FloatVector: &qosproxyv1.FloatVector{Elements: []float32{1}}}}, "float_vector"},
	} {
		t.Run(name, func(t *testing.T) {
			tbl := table(t, "t", 1, "id "+c.cql)
			_, err := valueKeys(tbl.Schema, []*qosproxyv1.Key{key(c.v)})(0)
			require.ErrorContains(t, err, c.says)
		})
	}
}

func TestKeysHaveOneSpelling(t *testing.T) {
	set := func(a, b int32) *qosproxyv1.Value {
		return &qosproxyv1.Value{Kind: &qosproxyv1.Value_Set{Set: &qosproxyv1.ListValue{Elements: []*qosproxyv1.Value{integerValue(a), integerValue(b)}}}}
	}
	for name, c := range map[string]struct {
		cql  string
		a, b *qosproxyv1.Value
	}{
		"a set in any order":          {"frozen<set<int>>", set(2, -1), set(-1, 2)},
		"a varint with leading zeros": {"varint", &qosproxyv1.Value{Kind: &qosproxyv1.Value_Varint{Varint: []byte{0, 0, 5}}}, integerValue(5)},
		"a varint with leading ones":  {"varint", &qosproxyv1.Value{Kind: &qosproxyv1.Value_Varint{Varint: []byte{0xff, 0xff, 0x80}}}, integerValue(-128)},
		"a bigint as an int":          {"bigint", integerValue(-3), &qosproxyv1.Value{Kind: &qosproxyv1.Value_Bigint{Bigint: -3}}},
		"an int as a bigint":          {"int", integerValue(-3), &qosproxyv1.Value{Kind: &qosproxyv1.Value_Bigint{Bigint: -3}}},
	} {
		t.Run(name, func(t *testing.T) {
			encode := valueKeys(table(t, "t", 1, "id "+c.cql).Schema, []*qosproxyv1.Key{key(c.a), key(c.b)})
			a, err := encode(0)
			require.NoError(t, err)
			b, err := encode(1)
			require.NoError(t, err)
			assert.Equal(t, a.Routing(), b.Routing())
		})
	}
}

func TestColumnNamesAreThoseOfSelectJSON(t *testing.T) {
	tbl := table(t, "t", 1, "id int", "Upper int")
	found := partition.Result{Status: partition.Found, Rows: []partition.Row{{cell(t, tbl.Schema.Columns[1].Type, `1`), cell(t, tbl.Schema.Columns[0].Type, `2`)}}}
	d := open(t, Deps{Lookup: &fake{tables: []*lookup.Table{tbl}, get: respond(found)}})
	w := do(d.http.Handler, http.MethodPost, "/v1/ks/t:batchGet", `{"keys":[1],"columns":["Upper","id"]}`)
	assert.Contains(t, w.Body.String(), `"rows":[{"\"Upper\"":1,"id":2}]`)
	assert.True(t, json.Valid(w.Body.Bytes()))
}

// TestEveryLengthInRows covers the lengths at which the length prefix of a
// message grows by a byte, at every depth.
func TestEveryLengthInRows(t *testing.T) {
	tbl := table(t, "t", 1, "id int", "v map<text, frozen<list<text>>>")
	typ := tbl.Schema.Columns[1].Type
	for _, base := range []int{1 << 7, 1 << 14, 1 << 21} {
		for size := base - 30; size < base+2; size++ {
			long := strings.Repeat("x", size)
			row := partition.Row{cell(t, typ, `{"`+long+`":["`+long+`","a"]}`)}
			found := partition.Result{Status: partition.Found, Rows: []partition.Row{row, row}}
			var resp qosproxyv1.BatchGetResponse
			require.NoError(t, unmarshal((&encoder{}).results(tbl.Schema.Columns[1:], []partition.Result{found}), &resp))
			require.Len(t, resp.GetResults()[0].GetRows(), 2)
			for _, r := range resp.GetResults()[0].GetRows() {
				entry := r.GetValues()[0].GetMap().GetEntries()[0]
				require.Equal(t, long, entry.GetKey().GetText(), size)
				require.Equal(t, long, entry.GetValue().GetList().GetElements()[0].GetText(), size)
				require.Equal(t, "a", entry.GetValue().GetList().GetElements()[1].GetText())
			}
		}
	}
}

// TestEveryKindHasItsNumberOnTheWire reserves UNSPECIFIED for what is never
// sent.
func TestEveryKindHasItsNumberOnTheWire(t *testing.T) {
	for k := cqltype.Unknown + 1; int(k) < len(kindsOf); k++ {
		assert.NotZero(t, kindsOf[k], k)
	}
	assert.Len(t, kindsOf, len(qosproxyv1.TypeKind_name), "UNSPECIFIED is that of types unknown to the proxy")
	for _, k := range []schema.ColumnKind{schema.PartitionKey, schema.Clustering, schema.Static, schema.Regular} {
		assert.NotZero(t, columnKindsOf[k])
	}
	for _, s := range partition.Statuses {
		assert.NotZero(t, statusesOf[s], s)
	}
}

func TestAnAttemptOfAnUnknownKindIsAnError(t *testing.T) {
	for name, a := range map[string]lookup.Attempt{
		"kind":    {Kind: "probe", Outcome: "won"},
		"outcome": {Kind: "first", Outcome: "drawn"},
	} {
		_, err := explanationOf(&lookup.Response{Attempts: []lookup.Attempt{a}})
		assert.Error(t, err, name)
	}
	_, err := explanationOf(&lookup.Response{Attempts: []lookup.Attempt{{Kind: "first", Outcome: "won"}}})
	assert.NoError(t, err, "control")
}
