package fake_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/fake"
)

func TestRowsAreReadAsFromCassandra(t *testing.T) {
	f := serveExample(t)
	const orders = "shop/orders"
	for name, tc := range map[string]struct {
		table, body string
		rows        []string
	}{
		"a partition, in clustering order": {orders, `{"keys": [["north", 2026]], "columns": ["number", "total"]}`,
			[]string{`{"number":3,"total":8.00}`, `{"number":2,"total":12.50}`, `{"number":1,"total":10.00}`}},
		"static values are of every row": {orders, `{"keys": [["north", 2026]], "columns": ["currency", "number"], "limit_per_key": 1}`,
			[]string{`{"currency":"EUR","number":3}`}},
		"a clustering prefix": {orders, `{"keys": [["north", 2026, 2]], "columns": ["number", "sent_to"]}`,
			[]string{`{"number":2,"sent_to":{"street": "High St", "zip": 10115}}`}},
		"a prefix without row":     {orders, `{"keys": [["north", 2026, 9]]}`, []string{}},
		"a range":                  {orders, `{"keys": [["north", 2026]], "columns": ["number"], "where": {"number": {"gte": 2}}}`, []string{`{"number":3}`, `{"number":2}`}},
		"a list":                   {orders, `{"keys": [["north", 2026]], "columns": ["number"], "where": {"number": {"in": [1, 3]}}}`, []string{`{"number":3}`, `{"number":1}`}},
		"in reverse, limited":      {orders, `{"keys": [["north", 2026]], "columns": ["number"], "order": "reverse", "limit_per_key": 2}`, []string{`{"number":1}`, `{"number":2}`}},
		"at another level":         {orders, `{"keys": [["north", 2026, 1]], "columns": ["number"], "consistency": "LOCAL_QUORUM"}`, []string{`{"number":1}`}},
		"when it was written":      {"shop/products", `{"keys": ["sku-3"], "columns": ["writetime(name)", "ttl(name)"]}`, []string{`{"writetime(name)":1767225600000000,"ttl(name)":3600}`}},
		"of a null there is none":  {"shop/products", `{"keys": ["sku-3"], "columns": ["writetime(stock)", "ttl(price)"]}`, []string{`{"writetime(stock)":null,"ttl(price)":null}`}},
		"a set in Cassandra's way": {"shop/products", `{"keys": ["sku-1"], "columns": ["tags", "price", "stock"]}`, []string{`{"tags":["kitchen", "steel"],"price":19.50,"stock":7}`}},
	} {
		t.Run(name, func(t *testing.T) {
			a := f.ask(t, tc.table, tc.body)
			assert.Equal(t, tc.rows, a.rows(), "%+v", a)
		})
	}
}

func TestPagesEndWithTheLastRow(t *testing.T) {
	var rows strings.Builder
	for i := range 25 {
		fmt.Fprintf(&rows, "      - {id: a, n: %d, pad: %s}\n", i, strings.Repeat("x", 20))
	}
	f := serve(t, "tables:\n  - name: t.rows\n    columns: {id: text, n: int, pad: text}\n    clustering: [n]\n    max_response_bytes: 200\n    rows:\n"+rows.String())
	// A row counts as 24 bytes, so 200 bytes hold 8.
	for name, tc := range map[string]struct {
		limit string
		pages int
	}{"by rows": {`, "limit_per_key": 5`, 5}, "by bytes": {"", 4}} {
		t.Run(name, func(t *testing.T) {
			token, seen, pages := "", 0, 0
			for more := true; more; pages++ {
				a := f.ask(t, "t/rows", fmt.Sprintf(`{"keys": ["a"], "columns": ["n", "pad"], "paging": true, "page_tokens": [%q]%s}`, token, tc.limit))
				require.Equal(t, "FOUND", a.statuses(), "%+v", a)
				for _, row := range a.rows() {
					require.Contains(t, row, fmt.Sprintf(`{"n":%d,`, seen))
					seen++
				}
				token = a.Results[0].NextPageToken
				more = token != ""
			}
			assert.Equal(t, 25, seen)
			assert.Equal(t, tc.pages, pages)
		})
	}
}

func TestLimitsAreThoseOfTheProxy(t *testing.T) {
	f := serve(t, `
tables:
  - name: t.rows
    columns: {id: text, n: int}
    clustering: [n]
    max_keys: 2
    max_rows_per_key: 2
    max_response_bytes: 40
    rows: [{id: a, n: 1}, {id: a, n: 2}, {id: a, n: 3}, {id: b, n: 1}]
  - name: t.blobs
    columns: {id: text, v: text}
    max_response_bytes: 10
    rows: [{id: a, v: more than ten bytes}, {id: b, v: less}]
`)
	assert.Equal(t, "TOO_LARGE FOUND", f.ask(t, "t/rows", `{"keys": ["a", "b"]}`).statuses())
	assert.Equal(t, "FOUND FOUND", f.ask(t, "t/rows", `{"keys": ["a", "b"], "limit_per_key": 2}`).statuses())
	assert.Equal(t, "TOO_LARGE FOUND", f.ask(t, "t/blobs", `{"keys": ["a", "b"], "columns": ["v"]}`).statuses())
	tooMany := f.ask(t, "t/rows", `{"keys": ["a", "b", "c"]}`)
	assert.Equal(t, 400, tooMany.status)
	assert.Contains(t, tooMany.Error.Message, "max_keys")
	assert.Equal(t, 404, f.ask(t, "t/none", `{"keys": ["a"]}`).status)
	assert.Equal(t, 400, f.ask(t, "t/rows", `{"keys": ["a"], "columns": ["none"]}`).status)
}

func TestAPartitionOfStaticValuesAloneIsOneRow(t *testing.T) {
	f := serve(t, `
tables:
  - name: t.rows
    columns: {id: text, n: int, s: text, v: text}
    clustering: [n]
    static: [s]
    rows: [{id: a, s: only, writetime(s): 5}]
`)
	assert.Equal(t, []string{`{"id":"a","n":null,"s":"only","v":null}`}, f.ask(t, "t/rows", `{"keys": ["a"]}`).rows())
	assert.Equal(t, []string{`{"writetime(s)":5}`}, f.ask(t, "t/rows", `{"keys": ["a"], "columns": ["writetime(s)"]}`).rows())
	assert.Equal(t, "NOT_FOUND", f.ask(t, "t/rows", `{"keys": [["a", 1]]}`).statuses(), "a row of it does not exist")
	assert.Equal(t, "NOT_FOUND", f.ask(t, "t/rows", `{"keys": ["a"], "where": {"n": {"gt": 0}}}`).statuses())
}

// Requests that are not lookups are answered as by the proxy, and no fault applies to
// them.
func TestTheOtherMethods(t *testing.T) {
	f := serveExample(t)
	post := func(path, body string) string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.http+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set(fake.Header, "refuse")
		return do(t, req)
	}
	assert.Contains(t, post("/v1/shop/products:explain", `{"keys": ["sku-flaky", "sku-2"]}`), `"replicas":["192.0.2.1:9042"]`)
	assert.Equal(t, "TIMED_OUT", f.ask(t, "shop/products", `{"keys": ["sku-flaky"]}`).statuses(), "explaining is no lookup that counts")
	for path, says := range map[string]string{
		"/v1/tables":              `"clustering":[{"name":"number","type":"int"}]`,
		"/v1/shop/products/sku-2": `"name":"Lamp"`,
		"/openapi.json":           `"openapi"`,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.http+path, nil)
		require.NoError(t, err)
		assert.Contains(t, do(t, req), says, path)
	}
	tables, err := f.grpc.ListTables(t.Context(), &qosproxyv1.ListTablesRequest{})
	require.NoError(t, err)
	assert.Len(t, tables.GetTables(), 2)
	ring, err := f.grpc.DescribeRing(t.Context(), &qosproxyv1.DescribeRingRequest{Keyspace: "shop"})
	require.NoError(t, err)
	assert.Len(t, ring.GetHosts(), 1)
}

// do returns the body of a response.
func do(t *testing.T, req *http.Request) string {
	t.Helper()
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(body)
}
