// Package openapi_test compares the HTTP listener with the OpenAPI document that it serves.
package openapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/reasons"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
	"github.com/qosproxy/qosproxy/internal/server"
)

// fake is a service of one table, ks.products, that gives every lookup the same answer or refuses
// it.
type fake struct {
	results []partition.Result
	refuse  error
}

// products is the table of fake.
func products() *lookup.Table {
	text := &cqltype.Type{Kind: cqltype.Text}
	s := schema.NewTable("ks", "products", "", []schema.Column{
		{Name: "id", Type: text, Kind: schema.PartitionKey},
		{Name: "name", Type: text, Kind: schema.Regular},
		{Name: "price", Type: &cqltype.Type{Kind: cqltype.Double}, Kind: schema.Regular},
	})
	return &lookup.Table{Schema: s, Columns: s.Columns, Settings: &lookup.Settings{
		Keyspace: "ks", Table: "products", MaxKeys: 100, MaxRowsPerKey: 1000, MaxResponseBytes: 4 << 20,
		Timeout: 125 * time.Millisecond, Consistency: "LOCAL_ONE",
	}}
}

func (f fake) Table(string, string) (*lookup.Table, error) {
	if f.refuse != nil {
		return nil, f.refuse
	}
	return products(), nil
}

func (f fake) Tables() []*lookup.Table { return []*lookup.Table{products()} }

func (f fake) Get(context.Context, *lookup.Request) (*lookup.Response, error) {
	return &lookup.Response{Results: f.results, Stats: lookup.Stats{
		Keys: len(f.results), Groups: 2, SubQueries: 3, Hedges: 1, Elapsed: 50*time.Millisecond + 200*time.Microsecond}}, nil
}

func (f fake) Stream(context.Context, *lookup.Request, func(int, partition.Result) error) (lookup.Stats, error) {
	return lookup.Stats{}, errors.New("nobody streams over HTTP")
}

func (f fake) Explain(context.Context, *lookup.Request) (*lookup.Plan, error) {
	return &lookup.Plan{}, nil
}

func (f fake) Ring() *ring.Ring { return nil }

// serve runs the HTTP listener until the test ends and returns its URL.
func serve(t *testing.T, deps server.Deps) string {
	t.Helper()
	s := server.New(server.Config{HTTP: server.Listener{Address: "127.0.0.1:0"}, MaxRequestBytes: 128 << 10}, deps)
	require.NoError(t, s.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, s.Shutdown(context.Background())) })
	return "http://" + s.Addr("http").String()
}

// ask sends a request and returns status, headers and body of the answer.
func ask(t *testing.T, method, url, body string) (int, http.Header, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, resp.Header, text
}

// document returns the document that the listener serves.
func document(t *testing.T) *openapi3.T {
	t.Helper()
	_, _, text := ask(t, http.MethodGet, serve(t, server.Deps{Lookup: fake{}})+"/openapi.json", "")
	doc, err := openapi3.NewLoader().LoadFromData(text)
	require.NoError(t, err)
	return doc
}

// strangers returns a registry of clients none of which sends requests.
func strangers(t *testing.T) *identity.Registry {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(file, []byte("0123456789abcdef"), 0o600))
	r := identity.NewRegistry(nil, nil)
	require.NoError(t, r.Replace([]identity.Member{{Client: identity.Client{Name: "by-token"}, TokenFile: file}}))
	return r
}

// TestOpenAPIIsValid also validates every example by its schema.
func TestOpenAPIIsValid(t *testing.T) {
	require.NoError(t, document(t).Validate(t.Context(), openapi3.EnableExamplesValidation()))
}

func TestOpenAPINamesEveryStatus(t *testing.T) {
	var names []any
	for _, s := range partition.Statuses {
		names = append(names, s.String())
	}
	assert.Equal(t, names, document(t).Components.Schemas["Status"].Value.Enum)
}

func TestAnswersAreAsOpenAPISays(t *testing.T) {
	doc := document(t)
	kettle := partition.Result{Status: partition.Found, Rows: []partition.Row{{cell(t, 1, `"Kettle"`), cell(t, 2, `19.5`)}}}
	absent := partition.Result{Status: partition.NotFound}
	late := partition.Unanswered(reasons.Deadline, errors.New("no replica answered within 50ms"))
	lookups := map[string]fake{
		"partial":   {results: []partition.Result{kettle, absent, late}},
		"none":      {results: []partition.Result{late, late, late}},
		"shed":      {results: []partition.Result{partition.Unanswered(reasons.Overload, errors.New("no"))}},
		"absent":    {results: []partition.Result{absent}},
		"not ready": {refuse: &lookup.Error{Reason: reasons.NotReady, Message: "no"}},
		"unknown":   {refuse: &lookup.Error{Reason: reasons.UnknownTable, Field: "table", Message: "no such table"}},
	}
	for name, c := range map[string]struct{ method, target, path, body, of string }{
		"partial":               {"POST", "/v1/ks/products:batchGet", "/v1/{keyspace}/{table}:batchGet", `{"keys":["a","b","c"],"columns":["name","price"],"explain":true}`, "partial"},
		"none answered":         {"POST", "/v1/ks/products:batchGet", "/v1/{keyspace}/{table}:batchGet", `{"keys":["a","b","c"]}`, "none"},
		"shed":                  {"POST", "/v1/ks/products:batchGet", "/v1/{keyspace}/{table}:batchGet", `{"keys":["a"]}`, "shed"},
		"bad":                   {"POST", "/v1/ks/products:batchGet", "/v1/{keyspace}/{table}:batchGet", `{"keys":["a"],"x":1}`, "absent"},
		"wrong method":          {"GET", "/v1/ks/products:batchGet", "/v1/{keyspace}/{table}:batchGet", ``, "absent"},
		"not ready":             {"POST", "/v1/ks/products:batchGet", "/v1/{keyspace}/{table}:batchGet", `{"keys":["a"]}`, "not ready"},
		"unknown table":         {"POST", "/v1/ks/products:batchGet", "/v1/{keyspace}/{table}:batchGet", `{"keys":["a"]}`, "unknown"},
		"one key that is not":   {"GET", "/v1/ks/products/a", "/v1/{keyspace}/{table}/{key}", ``, "absent"},
		"one key of no table":   {"GET", "/v1/ks/products/a", "/v1/{keyspace}/{table}/{key}", ``, "unknown"},
		"one key that is there": {"GET", "/v1/ks/products/a?columns=name,price", "/v1/{keyspace}/{table}/{key}", ``, "partial"},
		"a plan":                {"POST", "/v1/ks/products:explain", "/v1/{keyspace}/{table}:explain", `{"keys":["a"]}`, "partial"},
		"a plan of no table":    {"POST", "/v1/ks/products:explain", "/v1/{keyspace}/{table}:explain", `{"keys":["a"]}`, "unknown"},
		"a plan not ready":      {"POST", "/v1/ks/products:explain", "/v1/{keyspace}/{table}:explain", `{"keys":["a"]}`, "not ready"},
		"tables":                {"GET", "/v1/tables", "/v1/tables", ``, "partial"},
		"an unknown client":     {"GET", "/v1/tables", "/v1/tables", ``, "unauthenticated"},
		"a key of its":          {"GET", "/v1/ks/products/a", "/v1/{keyspace}/{table}/{key}", ``, "unauthenticated"},
		"keys of its":           {"POST", "/v1/ks/products:batchGet", "/v1/{keyspace}/{table}:batchGet", `{"keys":["a"]}`, "unauthenticated"},
		"the document":          {"GET", "/openapi.json", "/openapi.json", ``, "partial"},
	} {
		t.Run(name, func(t *testing.T) {
			deps := server.Deps{Lookup: lookups[c.of]}
			if c.of == "unauthenticated" {
				deps = server.Deps{Clients: strangers(t)}
			}
			status, header, text := ask(t, c.method, serve(t, deps)+c.target, c.body)
			op := doc.Paths.Find(c.path).Post
			if op == nil {
				op = doc.Paths.Find(c.path).Get
			}
			described := op.Responses.Status(status)
			require.NotNil(t, described, "status %d is not in the document", status)
			var body any
			require.NoError(t, json.Unmarshal(text, &body))
			assert.NoError(t, described.Value.Content["application/json"].Schema.Value.VisitJSON(body), "%s", text)
			if status != http.StatusOK {
				assert.Equal(t, "no-store", header.Get("Cache-Control"))
			}
		})
	}
}

// cell returns the bytes of a cell of products whose value is given as JSON.
func cell(t *testing.T, column int, json string) []byte {
	t.Helper()
	b, err := products().Columns[column].Type.EncodeJSON([]byte(json))
	require.NoError(t, err)
	return b
}
