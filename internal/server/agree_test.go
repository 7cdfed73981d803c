package server

import (
	"context"
	"encoding/json"
	"hash/fnv"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// oracle answers a lookup from the bytes of its keys alone, so that both listeners
// see the same cluster.
func oracle(_ context.Context, req *lookup.Request) (*lookup.Response, error) {
	resp := &lookup.Response{Stats: lookup.Stats{Keys: len(req.Keys)}}
	for _, k := range req.Keys {
		h := fnv.New64a()
		_, _ = h.Write(k.Routing())
		sum := h.Sum64()
		r := partition.Result{Status: partition.Statuses[sum%uint64(len(partition.Statuses))]}
		if r.Status == partition.Found {
			for n := range sum%3 + 1 {
				row := make(partition.Row, len(req.Columns))
				for c, column := range req.Columns {
					if (sum>>c)%4 != 0 {
						row[c], _ = column.Type.EncodeJSON([]byte(`"` + strconv.FormatUint(sum%100+n, 10) + `"`))
					}
				}
				r.Rows = append(r.Rows, row)
			}
		}
		resp.Results = append(resp.Results, r)
	}
	return resp, nil
}

// drawnKey is one key in the form of each listener.
type drawnKey struct {
	json  string
	value *qosproxyv1.Key
}

// drawComponent draws a text or an int, sometimes of the wrong type or null. A
// text for a number has a letter: JSON's "7" and "" are numbers by the rules of
// INSERT JSON, but not in a Value.
func drawComponent(t *rapid.T, number bool) (string, *qosproxyv1.Value) {
	// The rare kinds are in the middle, since rapid draws the ends more often.
	kind := rapid.IntRange(0, 49).Draw(t, "kind")
	switch {
	case kind == 24:
		return "null", &qosproxyv1.Value{Kind: null}
	case (kind == 25) != number:
		n := rapid.OneOf(rapid.Int32Range(-3, 3), rapid.Int32()).Draw(t, "int")
		return strconv.Itoa(int(n)), integerValue(n)
	default:
		s := rapid.OneOf(rapid.SampledFrom([]string{"a", "b", "é\n\"\\"}), rapid.StringN(0, 20, -1)).Draw(t, "text")
		s = strings.ToValidUTF8(s, "?")
		if number {
			s = "x" + s
		}
		quoted, _ := json.Marshal(s)
		return string(quoted), text(s)
	}
}

func drawKey(t *rapid.T, tbl string) drawnKey {
	n, single := 1, tbl != "wide"
	if !single {
		n = rapid.SampledFrom([]int{2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 3}).Draw(t, "components")
	}
	var parts []string
	k := &qosproxyv1.Key{}
	for i := range n {
		j, v := drawComponent(t, tbl == "ints" || i == 1)
		parts, k.Components = append(parts, j), append(k.Components, v)
	}
	if single {
		return drawnKey{parts[0], k}
	}
	return drawnKey{"[" + strings.Join(parts, ",") + "]", k}
}

// answer is what a client learns, whichever listener it asks.
type answer struct {
	code, field string
	statuses    []string
	// rows are the cells of each key, as JSON.
	rows    []string
	left    []int
	partial bool
}

func askGRPC(t require.TestingT, d *served, in *qosproxyv1.BatchGetRequest, tbl *lookup.Table) answer {
	resp, err := d.rpc.BatchGet(context.Background(), in)
	var a answer
	if err != nil {
		p := rpcProblem(err)
		a.code, a.field = p.code, p.field
		if resp = detail[*qosproxyv1.BatchGetResponse](err); resp == nil {
			return a
		}
	}
	for _, r := range resp.GetResults() {
		a.statuses = append(a.statuses, strings.TrimPrefix(r.GetStatus().String(), "KEY_STATUS_"))
		var rows []string
		for _, row := range r.GetRows() {
			var cells []string
			for c, v := range row.GetValues() {
				column, _ := tbl.Schema.Column(resp.GetColumns()[c].GetName())
				var raw []byte
				if _, isCQL := v.GetKind().(*qosproxyv1.Value_Cql); isCQL {
					raw = append([]byte{}, v.GetCql()...)
				}
				j, err := column.Type.AppendJSON(nil, raw)
				require.NoError(t, err)
				cells = append(cells, strconv.Quote(column.Name)+":"+string(j))
			}
			rows = append(rows, "{"+strings.Join(cells, ",")+"}")
		}
		a.rows = append(a.rows, strings.Join(rows, ","))
	}
	for _, i := range resp.GetUnprocessedKeys() {
		a.left = append(a.left, int(i))
	}
	a.partial = resp.GetPartial()
	return a
}

func askHTTP(t require.TestingT, d *served, target, body string, keys []drawnKey) answer {
	w := do(d.http.Handler, http.MethodPost, target, body)
	var out struct {
		Error   struct{ Code, Field string }
		Results []struct {
			Key    json.RawMessage
			Status string
			Rows   []json.RawMessage
		}
		Partial     bool
		Unprocessed []json.RawMessage `json:"unprocessed_keys"`
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &out), "%s", w.Body)
	a := answer{code: out.Error.Code, field: out.Error.Field, partial: out.Partial}
	if w.Code != http.StatusOK && a.code == "" {
		a.code = d.observed.last()
	}
	for i, r := range out.Results {
		require.Equal(t, keys[i].json, string(r.Key))
		a.statuses = append(a.statuses, r.Status)
		var rows []string
		for _, row := range r.Rows {
			rows = append(rows, string(row))
		}
		a.rows = append(a.rows, strings.Join(rows, ","))
		if r.Status == "TIMED_OUT" || r.Status == "UNAVAILABLE" || r.Status == "SHED" {
			require.Equal(t, string(r.Key), string(out.Unprocessed[len(a.left)]))
			a.left = append(a.left, i)
		}
	}
	require.Len(t, out.Unprocessed, len(a.left))
	return a
}

func TestBothListenersAnswerAlike(t *testing.T) {
	tables := map[string]*lookup.Table{
		"texts": table(t, "texts", 1, "id text", "a text", "b int", "c bigint"),
		"ints":  table(t, "ints", 1, "id int", "a varint", "b double"),
		"wide":  table(t, "wide", 2, "x text", "y bigint", "a text", "b float"),
	}
	d := open(t, Deps{Lookup: &fake{tables: []*lookup.Table{tables["texts"], tables["ints"], tables["wide"]}, get: oracle}})
	codes := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"texts", "ints", "wide", "texts", "ints", "wide", "texts", "ints", "wide", "nope", "secret"}).Draw(t, "table")
		keys := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) drawnKey { return drawKey(t, name) }), 0, 8).Draw(t, "keys")
		columns := rapid.SampledFrom([][]string{nil, {"a"}, {"b"}, {"b", "a"}, {"a", "b"}, {"a"}, {"b"}, nil, {"c"}, {"a", "a"}}).Draw(t, "columns")
		limit := rapid.SampledFrom([]int{0, 0, 0, 1, 2, 3, 4, 5, -1}).Draw(t, "limit")

		in := &qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: name, Columns: columns, LimitPerKey: int32(limit), Encoding: qosproxyv1.Encoding_ENCODING_CQL}
		spelled := make([]string, len(keys))
		for i, k := range keys {
			in.Keys, spelled[i] = append(in.Keys, k.value), k.json
		}
		names, _ := json.Marshal(columns)
		body := `{"keys":[` + strings.Join(spelled, ",") + `],"columns":` + string(names) + `,"limit_per_key":` + strconv.Itoa(limit) + `}`

		overHTTP := askHTTP(t, d, "/v1/ks/"+name+":batchGet", body, keys)
		overGRPC := askGRPC(t, d, in, tables[name])
		require.Equal(t, overGRPC, overHTTP, "%s", body)
		codes[overHTTP.code]++
	})
	if !testing.Short() { // a short run draws a fifth of the requests, of which none may be answered
		require.Greater(t, codes[""], 5, "too few requests were answered: %v", codes)
	}
}

func FuzzJSONRequest(f *testing.F) {
	for _, seed := range []string{
		`{"keys":["a"]}`, `{"keys":[["a",7],{"x":"a","y":7}],"columns":["a"],"limit_per_key":1,"timeout":"5ms","explain":true}`,
		`{"keys":[1e400,-0,"\ud800",null,[],{}]}`, `{"keys":[]}x`, `[`, `{"keys":["a"],"keys":[]}`, "{\"keys\":[\"\xff\"]}", `{"keys" : [ "a b\" c" ] }`,
	} {
		f.Add([]byte(seed), uint8(0))
		f.Add([]byte(seed), uint8(1))
	}
	tables := []*lookup.Table{table(f, "texts", 1, "id text", "a text"), table(f, "wide", 2, "x text", "y bigint", "a int"),
		table(f, "deep", 1, "id frozen<map<text, frozen<list<int>>>>", "a int"), clustered(f)}
	for _, seed := range []string{
		`{"keys":[["a",7],"a",{"user":"a"}]}`, `{"keys":["a"],"where":{"day":{"gte":1,"lt":7}},"order":"reverse","consistency":"LOCAL_QUORUM"}`,
		`{"keys":[["a",7]],"where":{"\"Kind\"":{"in":["x"]},"tags":{"eq":{"a":1}}}}`,
	} {
		f.Add([]byte(seed), uint8(3))
	}
	s := New(Config{}, Deps{Lookup: &fake{tables: tables, get: oracle}})
	f.Fuzz(func(t *testing.T, body []byte, which uint8) {
		w := do(s.http.Handler, http.MethodPost, "/v1/ks/"+tables[int(which)%len(tables)].Schema.Name+":batchGet", string(body))
		require.True(t, json.Valid(w.Body.Bytes()), "%s", w.Body)
		require.NotEqual(t, http.StatusInternalServerError, w.Code, "%s", w.Body)
		in, err := decodeBatchGet(body)
		if err != nil {
			require.Equal(t, http.StatusBadRequest, w.Code)
			return
		}
		var want struct {
			Keys []json.RawMessage `json:"keys"`
		}
		require.NoError(t, json.Unmarshal(body, &want))
		keys := splitArray(in.array)
		require.Len(t, keys, len(want.Keys))
		for i, raw := range keys {
			require.Equal(t, string(want.Keys[i]), string(raw))
			compact := appendCompact(nil, raw)
			require.True(t, json.Valid(compact))
			var a, b any
			if json.Unmarshal(raw, &a) == nil {
				require.NoError(t, json.Unmarshal(compact, &b))
				require.Equal(t, a, b)
			}
		}
	})
}

func FuzzValueToKey(f *testing.F) {
	types := []string{"int", "text", "varint", "decimal", "uuid", "inet", "date", "time", "duration", "frozen<set<decimal>>",
		"frozen<map<text, frozen<list<int>>>>", "tuple<int, text>", "frozen<address>", "vector<float, 2>", "vector<text, 2>", "timestamp", "blob", "boolean"}
	tables := make([]*lookup.Table, len(types))
	for i, cql := range types {
		tables[i] = table(f, "t", 1, "id "+cql)
	}
	for i := range types {
		for _, v := range []*qosproxyv1.Value{integerValue(-1), text("é"), {Kind: null}, {Kind: empty}, {Kind: &qosproxyv1.Value_Cql{Cql: []byte{0, 0, 0, 1}}},
			{Kind: &qosproxyv1.Value_Set{Set: &qosproxyv1.ListValue{Elements: []*qosproxyv1.Value{{Kind: &qosproxyv1.Value_Decimal{Decimal: &qosproxyv1.DecimalValue{Unscaled: []byte{5}, Scale: 1}}}}}}},
			{Kind: &qosproxyv1.Value_Map{Map: &qosproxyv1.MapValue{Entries: []*qosproxyv1.MapEntry{{Key: text("a"), Value: integerValue(1)}}}}}} {
			f.Add(marshal(f, v), uint8(i))
		}
	}
	f.Fuzz(func(t *testing.T, message []byte, which uint8) {
		v := &qosproxyv1.Value{}
		if unmarshal(message, v) != nil {
			return
		}
		tbl := tables[int(which)%len(tables)]
		k, err := valueKeys(tbl.Schema, []*qosproxyv1.Key{key(v)})(0)
		same, sameErr := wireKeys(tbl.Schema, [][]byte{appendBytes(nil, keyComponents, message)})(0)
		require.Equal(t, err, sameErr)
		require.Equal(t, k, same)
		if err != nil {
			require.NotEmpty(t, status.Convert(err).Message())
			return
		}
		typ := tbl.Schema.Columns[0].Type
		require.NoError(t, typ.Validate(k.Components()[0]))
		// The returned value must encode to the same key.
		var back qosproxyv1.Value
		e := &encoder{}
		require.NoError(t, e.value(typ, k.Components()[0]))
		require.NoError(t, unmarshal(e.buf, &back))
		if typ.Kind.String() == "duration" {
			return
		}
		again, err := valueKeys(tbl.Schema, []*qosproxyv1.Key{key(&back)})(0)
		if _, given := v.GetKind().(*qosproxyv1.Value_Cql); given && err != nil {
			return // CQL allows these bytes, but no Value has them
		}
		require.NoError(t, err)
		if _, given := v.GetKind().(*qosproxyv1.Value_Cql); !given {
			require.Equal(t, k.Routing(), again.Routing())
		}
	})
}
