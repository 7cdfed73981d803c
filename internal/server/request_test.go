package server

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/reasons"
)

// problem is an error as both listeners report it.
type problem struct{ code, field, message string }

// rpcProblem extracts code, field and message from a gRPC error.
func rpcProblem(err error) problem {
	s := status.Convert(err)
	p := problem{code: strings.ToUpper(toSnake(s.Code().String())), message: s.Message()}
	for _, d := range s.Details() {
		if bad, ok := d.(*errdetails.BadRequest); ok {
			p.field, p.message = bad.GetFieldViolations()[0].GetField(), bad.GetFieldViolations()[0].GetDescription()
		}
	}
	return p
}

func toSnake(s string) string {
	var b strings.Builder
	for i, r := range s {
		if i > 0 && r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// httpProblem extracts the same from an HTTP body.
func httpProblem(t testing.TB, body []byte) problem {
	t.Helper()
	var e struct {
		Error struct{ Code, Field, Message string } `json:"error"`
	}
	require.NoError(t, json.Unmarshal(body, &e), "%s", body)
	return problem{e.Error.Code, e.Error.Field, e.Error.Message}
}

func TestBothListenersRefuseAlike(t *testing.T) {
	wide := table(t, "wide", 2, "a text", "b int", "v text")
	long := strings.Repeat("x", partition.MaxKeyBytes+1)
	d := open(t, Deps{Lookup: &fake{tables: []*lookup.Table{products(t), wide, table(t, "n", 1, "id int", "v text")}}})
	many, manyKeys := strings.TrimSuffix(strings.Repeat(`"x",`, 101), ","), make([]*qosproxyv1.Key, 101)
	for i := range manyKeys {
		manyKeys[i] = key(text("x"))
	}
	for name, c := range map[string]struct {
		table string
		body  string
		rpc   *qosproxyv1.BatchGetRequest
		code  string
		http  int
		field string
		says  string
	}{
		"no key": {"products", `{"keys":[]}`, &qosproxyv1.BatchGetRequest{}, "INVALID_ARGUMENT", 400, "keys", "at least one key"},
		"too many keys": {"products", `{"keys":[` + many + `]}`, &qosproxyv1.BatchGetRequest{Keys: manyKeys},
			"INVALID_ARGUMENT", 400, "keys", "max_keys"},
		"a key of the wrong type": {"n", `{"keys":[1,"x"]}`, &qosproxyv1.BatchGetRequest{Keys: []*qosproxyv1.Key{key(integerValue(1)), key(text("x"))}},
			"INVALID_ARGUMENT", 400, "keys[1]", "int"},
		"a null key": {"products", `{"keys":["a",null]}`, &qosproxyv1.BatchGetRequest{Keys: []*qosproxyv1.Key{key(text("a")),
			key(&qosproxyv1.Value{Kind: null})}}, "INVALID_ARGUMENT", 400, "keys[1]", "null"},
		"an empty key": {"products", `{"keys":[""]}`, &qosproxyv1.BatchGetRequest{Keys: []*qosproxyv1.Key{key(text(""))}},
			"INVALID_ARGUMENT", 400, "keys[0]", "empty"},
		"an oversized key": {"products", `{"keys":["a","` + long + `"]}`,
			&qosproxyv1.BatchGetRequest{Keys: []*qosproxyv1.Key{key(text("a")), key(text(long))}}, "INVALID_ARGUMENT", 400, "keys[1]", "65535"},
		"too few components": {"wide", `{"keys":[["a"]]}`, &qosproxyv1.BatchGetRequest{Keys: []*qosproxyv1.Key{key(text("a"))}},
			"INVALID_ARGUMENT", 400, "keys[0]", ""},
		"too many components": {"wide", `{"keys":[["a",1,2]]}`, &qosproxyv1.BatchGetRequest{Keys: []*qosproxyv1.Key{key(text("a"), integerValue(1), integerValue(2))}},
			"INVALID_ARGUMENT", 400, "keys[0]", ""},
		"a component of the wrong type": {"wide", `{"keys":[["a","b"]]}`, &qosproxyv1.BatchGetRequest{Keys: []*qosproxyv1.Key{key(text("a"), text("b"))}},
			"INVALID_ARGUMENT", 400, "keys[0]", `b`},
		"an unknown table":    {"nope", `{"keys":["a"]}`, &qosproxyv1.BatchGetRequest{}, "NOT_FOUND", 404, "table", "no such table"},
		"a forbidden table":   {"secret", `{"keys":["a"]}`, &qosproxyv1.BatchGetRequest{}, "PERMISSION_DENIED", 403, "table", "not listed"},
		"an unknown column":   {"products", `{"keys":["a"],"columns":["name","nope"]}`, &qosproxyv1.BatchGetRequest{Columns: []string{"name", "nope"}}, "INVALID_ARGUMENT", 400, "columns[1]", "nope"},
		"a negative limit":    {"products", `{"keys":["a"],"limit_per_key":-1}`, &qosproxyv1.BatchGetRequest{Keys: []*qosproxyv1.Key{key(text("a"))}, LimitPerKey: -1}, "INVALID_ARGUMENT", 400, "limit_per_key", "negative"},
		"a timeout of zero":   {"products", `{"keys":["a"],"timeout":"0s"}`, &qosproxyv1.BatchGetRequest{Timeout: durationpb.New(0)}, "INVALID_ARGUMENT", 400, "timeout", "above zero"},
		"a negative timeout":  {"products", `{"keys":["a"],"timeout":"-5ms"}`, &qosproxyv1.BatchGetRequest{Timeout: durationpb.New(-5)}, "INVALID_ARGUMENT", 400, "timeout", "above zero"},
		"an integer too wide": {"n", `{"keys":[2147483648]}`, &qosproxyv1.BatchGetRequest{Keys: []*qosproxyv1.Key{key(&qosproxyv1.Value{Kind: &qosproxyv1.Value_Bigint{Bigint: 1 << 31}})}}, "INVALID_ARGUMENT", 400, "keys[0]", "int"},
	} {
		t.Run(name, func(t *testing.T) {
			w := do(d.http.Handler, http.MethodPost, "/v1/ks/"+c.table+":batchGet", c.body)
			assert.Equal(t, c.http, w.Code, "%s", w.Body)
			got := httpProblem(t, w.Body.Bytes())
			assert.Equal(t, c.code, got.code)
			assert.Equal(t, c.field, got.field)
			assert.Contains(t, got.message, c.says)
			assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
			assert.Equal(t, c.code, d.observed.last())

			c.rpc.Keyspace, c.rpc.Table = "ks", c.table
			_, err := d.rpc.BatchGet(t.Context(), c.rpc)
			got = rpcProblem(err)
			assert.Equal(t, c.code, got.code, "%v", err)
			assert.Equal(t, c.field, got.field)
			assert.Contains(t, got.message, c.says)
			assert.Equal(t, c.code, d.observed.last())
		})
	}
}

func TestBodiesThatAreRefused(t *testing.T) {
	d := open(t, Deps{Lookup: &fake{tables: []*lookup.Table{products(t)}}})
	for name, c := range map[string]struct {
		body  string
		field string
		says  string
	}{
		"nothing":                      {``, "body", "ends early"},
		"no JSON":                      {`nope`, "body", "not valid JSON at byte"},
		"an array":                     {`["a"]`, "body", "expected a JSON object"},
		"null":                         {`null`, "body", "expected a JSON object"},
		"cut off":                      {`{"keys":["a"`, "body", "ends early"},
		"cut off after the members":    {`{"keys":["a"]`, "body", "ends early"},
		"trailing garbage":             {`{"keys":["a"]} x`, "body", "follows"},
		"a second object":              {`{"keys":["a"]}{}`, "body", "follows"},
		"an unknown field":             {`{"keys":["a"],"timout":"5ms"}`, "timout", "no such field"},
		"a field in capitals":          {`{"Keys":["a"]}`, "Keys", "no such field"},
		"a field twice":                {`{"keys":["a"],"keys":["b"]}`, "keys", "given twice"},
		"a field twice, once escaped":  {`{"keys":["a"],"k\u0065ys":["b"]}`, "keys", "given twice"},
		"keys that are a string":       {`{"keys":"a"}`, "keys", "array"},
		"keys that are an object":      {`{"keys":{"a":1}}`, "keys", "array"},
		"keys that are null":           {`{"keys":null}`, "keys", "array"},
		"no keys":                      {`{}`, "keys", "at least one"},
		"columns that are a string":    {`{"keys":["a"],"columns":"name"}`, "columns", "array"},
		"a column that is a number":    {`{"keys":["a"],"columns":[1]}`, "columns", "array"},
		"a column that is null":        {`{"keys":["a"],"columns":["name",null]}`, "columns[1]", "null"},
		"a limit that is a string":     {`{"keys":["a"],"limit_per_key":"1"}`, "limit_per_key", "integer"},
		"a limit that is a fraction":   {`{"keys":["a"],"limit_per_key":1.5}`, "limit_per_key", "integer"},
		"a limit beyond every integer": {`{"keys":["a"],"limit_per_key":1e400}`, "limit_per_key", "integer"},
		"a timeout that is a number":   {`{"keys":["a"],"timeout":50}`, "timeout", "50ms"},
		"a timeout without unit":       {`{"keys":["a"],"timeout":"50"}`, "timeout", "50ms"},
		"explain that is a string":     {`{"keys":["a"],"explain":"yes"}`, "explain", "true or false"},
		"bytes that are not UTF-8":     {"{\"keys\":[\"\xff\"]}", "body", "UTF-8"},
		"a very long field":            {`{"` + strings.Repeat("x", 1000) + `":1}`, strings.Repeat("x", 40) + "…", "no such field"},
	} {
		t.Run(name, func(t *testing.T) {
			w := do(d.http.Handler, http.MethodPost, "/v1/ks/products:batchGet", c.body)
			assert.Equal(t, http.StatusBadRequest, w.Code)
			got := httpProblem(t, w.Body.Bytes())
			assert.Equal(t, "INVALID_ARGUMENT", got.code)
			assert.Equal(t, c.field, got.field)
			assert.Contains(t, got.message, c.says)
		})
	}
}

func TestNullLeavesAnOptionalMemberOut(t *testing.T) {
	d := open(t, Deps{Lookup: &fake{tables: []*lookup.Table{products(t)}}})
	w := do(d.http.Handler, http.MethodPost, "/v1/ks/products:batchGet",
		`{"keys":["a"],"columns":null,"limit_per_key":null,"timeout":null,"explain":null}`)
	assert.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
}

func TestPathsMethodsAndMediaTypes(t *testing.T) {
	d := open(t, Deps{Lookup: &fake{tables: []*lookup.Table{products(t), table(t, "wide", 2, "a text", "b int")}}})
	good := `{"keys":["a"]}`
	for name, c := range map[string]struct {
		method, target, body, media string
		status                      int
		field                       string
	}{
		"no such path":               {"GET", "/nope", "", "", 404, ""},
		"the root":                   {"GET", "/", "", "", 404, ""},
		"GET of batchGet":            {"GET", "/v1/ks/products:batchGet", "", "", 405, "method"},
		"POST of a key":              {"POST", "/v1/ks/products/a", good, "", 405, "method"},
		"DELETE of tables":           {"DELETE", "/v1/tables", "", "", 405, "method"},
		"a body of text":             {"POST", "/v1/ks/products:batchGet", good, "text/plain", 415, "Content-Type"},
		"a media type out of order":  {"POST", "/v1/ks/products:batchGet", good, "a/b/c;;", 415, "Content-Type"},
		"JSON with a charset":        {"POST", "/v1/ks/products:batchGet", good, "application/json; charset=utf-8", 200, ""},
		"what curl -d sends":         {"POST", "/v1/ks/products:batchGet", good, "application/x-www-form-urlencoded", 200, ""},
		"a body beyond the limit":    {"POST", "/v1/ks/products:batchGet", `{"keys":["` + strings.Repeat("a", 140_000) + `"]}`, "", 413, "body"},
		"an unknown parameter":       {"GET", "/v1/ks/products/a?limit=5", "", "", 400, "limit"},
		"a parameter twice":          {"GET", "/v1/ks/products/a?timeout=5ms&timeout=6ms", "", "", 400, "timeout"},
		"a limit that is no integer": {"GET", "/v1/ks/products/a?limit_per_key=x", "", "", 400, "limit_per_key"},
		"a timeout that is none":     {"GET", "/v1/ks/products/a?timeout=x", "", "", 400, "timeout"},
		"explain that is no boolean": {"GET", "/v1/ks/products/a?explain=x", "", "", 400, "explain"},
		"a query that is broken":     {"GET", "/v1/ks/products/a?columns=%zz", "", "", 400, "query"},
		"an unknown column":          {"GET", "/v1/ks/products/a?columns=name,nope", "", "", 400, "columns[1]"},
		"a composite key":            {"GET", "/v1/ks/wide/a", "", "", 400, "key"},
		"an empty key":               {"GET", "/v1/ks/products/", "", "", 400, "key"},
		"an unknown table":           {"GET", "/v1/ks/nope/a", "", "", 404, "table"},
	} {
		t.Run(name, func(t *testing.T) {
			w := do(d.http.Handler, c.method, c.target, c.body, "Content-Type", c.media)
			assert.Equal(t, c.status, w.Code, "%s", w.Body)
			assert.Equal(t, "application/json", w.Header().Get("Content-Type"))
			if c.status != http.StatusOK {
				assert.Equal(t, c.field, httpProblem(t, w.Body.Bytes()).field)
			}
			if c.status == http.StatusMethodNotAllowed {
				assert.NotEmpty(t, w.Header().Get("Allow"))
			}
		})
	}
}

func TestAnEncodingThatDoesNotExistIsRefused(t *testing.T) {
	d := open(t, Deps{Lookup: &fake{tables: []*lookup.Table{products(t)}}})
	_, err := d.rpc.BatchGet(t.Context(), &qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "products", Encoding: 9})
	assert.Equal(t, "encoding", rpcProblem(err).field)
}

func TestARefusalOfTheServiceReachesBothListeners(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		code  codes.Code
		http  int
		retry bool
	}{
		"not ready":  {&lookup.Error{Reason: reasons.NotReady, Message: "no cluster yet"}, codes.Unavailable, 503, true},
		"a surprise": {context.DeadlineExceeded, codes.Internal, 500, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, Deps{Lookup: &fake{refuse: c.err}})
			w := do(d.http.Handler, http.MethodPost, "/v1/ks/products:batchGet", `{"keys":["a"]}`)
			assert.Equal(t, c.http, w.Code)
			assert.Equal(t, c.retry, w.Header().Get("Retry-After") != "")
			_, err := d.rpc.BatchGet(t.Context(), &qosproxyv1.BatchGetRequest{})
			assert.Equal(t, c.code, status.Code(err))
			assert.Equal(t, c.retry, detail[*errdetails.RetryInfo](err) != nil)
			assert.NotNil(t, detail[*errdetails.ErrorInfo](err))
		})
	}
}

// detail returns the detail of that type, or its zero value.
func detail[T any](err error) (found T) {
	for _, d := range status.Convert(err).Details() {
		if v, ok := d.(T); ok {
			return v
		}
	}
	return found
}
