package acceptance

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/cqltype"
)

// request is one request in the form of both listeners.
type request struct {
	table string
	body  string
	grpc  *qosproxyv1.BatchGetRequest
}

// outcome is the answer of a listener to a request, in a form that both share.
type outcome struct {
	Code    string // of a refused request
	Field   string
	Results []string // status and rows of each key
}

// randomRequest draws a request for one of the tables, good or bad.
func randomRequest(r *rand.Rand, d *dataset) *request {
	q := &request{table: oneOf(r, []string{"data.plain", "data.plain", "data.pair", "data.features", "data.guarded", "data.hidden", "data.nothing"})}
	keyspace, name, _ := strings.Cut(q.table, ".")
	q.grpc = &qosproxyv1.BatchGetRequest{Keyspace: keyspace, Table: name, Encoding: qosproxyv1.Encoding_ENCODING_CQL}
	body := map[string]any{}
	var keys []any
	for range r.IntN(30) {
		k := randomKeys(r, d, 1)[0]
		if q.table == "data.pair" {
			k = plainKey(r.IntN(pairKeys + pairKeys/5)) // some do not exist
			b := r.IntN(pairRows + 1)
			keys = append(keys, oneOf(r, []any{[]any{k, b}, map[string]any{"a": k, "b": b}}))
			key := textKey(k)
			key.Components = append(key.Components, &qosproxyv1.Value{Kind: &qosproxyv1.Value_Int{Int: int32(b)}})
			q.grpc.Keys = append(q.grpc.Keys, key)
			continue
		}
		if q.table == "data.features" {
			k = plainKey(r.IntN(users + users/5))
		}
		keys = append(keys, k)
		q.grpc.Keys = append(q.grpc.Keys, textKey(k))
	}
	if r.IntN(15) == 0 { // a key of the wrong type or arity
		keys = append(keys, 7)
		q.grpc.Keys = append(q.grpc.Keys, &qosproxyv1.Key{Components: []*qosproxyv1.Value{{Kind: &qosproxyv1.Value_Int{Int: 7}}}})
	}
	if len(keys) > 0 || r.IntN(2) == 0 {
		body["keys"] = append([]any{}, keys...)
	}
	if r.IntN(2) == 0 {
		q.grpc.Columns = []string{oneOf(r, []string{"v", "v", "v", "id", "open", "hidden", "nothing"})}
		body["columns"] = q.grpc.Columns
	}
	if r.IntN(3) == 0 {
		q.grpc.LimitPerKey = int32(r.IntN(8) - 1)
		body["limit_per_key"] = q.grpc.LimitPerKey
	}
	data, err := json.Marshal(body)
	if err != nil {
		panic(err) // A map of strings and numbers always marshals.
	}
	q.body = string(data)
	return q
}

// testListenersAgree sends random requests, good and bad, to both listeners.
func testListenersAgree(t *testing.T, p *proxy, d *dataset, requests int) {
	r := rand.New(rand.NewPCG(11, 12))
	kinds := map[string]int{}
	for i := range requests {
		q := randomRequest(r, d)
		byGRPC, byHTTP := p.outcomeGRPC(t, q), p.outcomeHTTP(t, q)
		require.Equal(t, byGRPC, byHTTP, "request %d to %s: %s", i, q.table, q.body)
		kinds[byHTTP.Code+" "+strings.TrimRight(byHTTP.Field, "0123456789]")]++
	}
	t.Logf("%d requests: %v", requests, kinds)
	assert.Greater(t, len(kinds), 4, "good requests and several kinds of bad ones")
}

func (p *proxy) outcomeGRPC(t *testing.T, q *request) outcome {
	t.Helper()
	resp, err := p.grpc.BatchGet(t.Context(), q.grpc)
	if err != nil {
		o := outcome{Code: codeName(status.Code(err).String())}
		for _, detail := range status.Convert(err).Details() {
			switch detail := detail.(type) {
			case *errdetails.BadRequest:
				o.Field = detail.GetFieldViolations()[0].GetField()
			case *qosproxyv1.BatchGetResponse:
				resp = detail
			}
		}
		if resp == nil {
			return o
		}
	}
	o := outcome{}
	for _, r := range resp.GetResults() {
		text := strings.TrimPrefix(r.GetStatus().String(), "KEY_STATUS_")
		var rows strings.Builder
		for _, row := range r.GetRows() {
			rows.WriteString(" " + rowText(t, resp.GetColumns(), row))
		}
		text += rows.String()
		o.Results = append(o.Results, text)
	}
	return o
}

// codeName turns InvalidArgument into INVALID_ARGUMENT.
func codeName(s string) string {
	var b strings.Builder
	for i, c := range s {
		if i > 0 && c >= 'A' && c <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteRune(c)
	}
	return strings.ToUpper(b.String())
}

// rowText writes a row of CQL cells as JSON.
func rowText(t *testing.T, columns []*qosproxyv1.Column, row *qosproxyv1.Row) string {
	t.Helper()
	members := make([]string, len(columns))
	for i, c := range columns {
		typ, err := cqltype.Parse(c.GetType().GetName(), nil, "")
		require.NoError(t, err)
		var cell []byte
		if v, ok := row.GetValues()[i].GetKind().(*qosproxyv1.Value_Cql); ok {
			cell = append([]byte{}, v.Cql...)
		}
		text, err := typ.AppendJSON(nil, cell)
		require.NoError(t, err)
		members[i] = fmt.Sprintf("%q:%s", c.GetName(), text)
	}
	return "{" + strings.Join(members, ",") + "}"
}

func (p *proxy) outcomeHTTP(t *testing.T, q *request) outcome {
	t.Helper()
	_, a, err := p.post(t.Context(), q.table, q.body)
	require.NoError(t, err)
	if a.Error != nil {
		return outcome{Code: a.Error.Code, Field: a.Error.Field}
	}
	o := outcome{}
	for _, r := range a.Results {
		text := r.Status
		var rows strings.Builder
		for _, row := range r.Rows {
			rows.WriteString(" " + compact(t, string(row)))
		}
		text += rows.String()
		o.Results = append(o.Results, text)
	}
	return o
}

// testBadRequests checks the HTTP listener's answers to bad requests.
func testBadRequests(t *testing.T, p *proxy) {
	many := `"a"` + strings.Repeat(`,"a"`, 1000)
	for name, tc := range map[string]struct {
		table, body string
		code        int
		error       string
		field       string
	}{
		"no key":               {"data.plain", `{"keys": []}`, 400, "INVALID_ARGUMENT", "keys"},
		"keys missing":         {"data.plain", `{}`, 400, "INVALID_ARGUMENT", "keys"},
		"too many keys":        {"data.plain", `{"keys": [` + many + `]}`, 400, "INVALID_ARGUMENT", "keys"},
		"wrong type":           {"data.plain", `{"keys": ["a", 7]}`, 400, "INVALID_ARGUMENT", "keys[1]"},
		"wrong arity":          {"data.pair", `{"keys": [["a"]]}`, 400, "INVALID_ARGUMENT", "keys[0]"},
		"wrong component":      {"data.pair", `{"keys": [["a", "b"]]}`, 400, "INVALID_ARGUMENT", "keys[0]"},
		"empty key":            {"data.plain", `{"keys": [""]}`, 400, "INVALID_ARGUMENT", "keys[0]"},
		"null key":             {"data.plain", `{"keys": [null]}`, 400, "INVALID_ARGUMENT", "keys[0]"},
		"oversized key":        {"data.plain", `{"keys": ["` + strings.Repeat("x", 65536) + `"]}`, 400, "INVALID_ARGUMENT", "keys[0]"},
		"unknown table":        {"data.nothing", `{"keys": ["a"]}`, 404, "NOT_FOUND", "table"},
		"forbidden table":      {"data.hidden", `{"keys": ["a"]}`, 403, "PERMISSION_DENIED", "table"},
		"unknown column":       {"data.plain", `{"keys": ["a"], "columns": ["v", "w"]}`, 400, "INVALID_ARGUMENT", "columns[1]"},
		"forbidden column":     {"data.guarded", `{"keys": ["a"], "columns": ["hidden"]}`, 403, "PERMISSION_DENIED", "columns[0]"},
		"unknown field":        {"data.plain", `{"keys": ["a"], "colums": ["v"]}`, 400, "INVALID_ARGUMENT", "colums"},
		"bad JSON":             {"data.plain", `{"keys": ["a"`, 400, "INVALID_ARGUMENT", "body"},
		"bad timeout":          {"data.plain", `{"keys": ["a"], "timeout": "soon"}`, 400, "INVALID_ARGUMENT", "timeout"},
		"limit beyond allowed": {"data.features", `{"keys": ["a"], "limit_per_key": 1001}`, 400, "INVALID_ARGUMENT", "limit_per_key"},
	} {
		t.Run(name, func(t *testing.T) {
			code, a, err := p.post(t.Context(), tc.table, tc.body)
			require.NoError(t, err)
			require.NotNil(t, a.Error)
			assert.Equal(t, tc.code, code)
			assert.Equal(t, tc.error, a.Error.Code)
			assert.Equal(t, tc.field, a.Error.Field)
			assert.NotEmpty(t, a.Error.Message)
		})
	}
	code, a, err := p.post(t.Context(), "data.guarded", `{"keys": ["a"]}`)
	require.NoError(t, err)
	assert.Equal(t, 200, code)
	assert.JSONEq(t, `{"id": "a", "open": "yes"}`, string(a.Results[0].Rows[0]), "all columns means all that may be read")
}
