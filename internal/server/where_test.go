package server

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// clustered returns a table of one partition key column and three clustering columns.
func clustered(t testing.TB) *lookup.Table {
	of := table(t, "events", 1, "user text", "day int", "Kind text", "tags frozen<map<text, int>>", "v text")
	columns := of.Columns
	for i := 1; i <= 3; i++ {
		columns[i].Kind = schema.Clustering
	}
	of.Schema = schema.NewTable("ks", "events", "", columns)
	of.Settings.Consistencies = []partition.Level{"LOCAL_QUORUM"}
	return of
}

func condition(column string, o qosproxyv1.Operator, values ...*qosproxyv1.Value) *qosproxyv1.Condition {
	return &qosproxyv1.Condition{Column: column, Operator: o, Values: values}
}

const (
	equal    = qosproxyv1.Operator_OPERATOR_EQUAL
	in       = qosproxyv1.Operator_OPERATOR_IN
	atLeast  = qosproxyv1.Operator_OPERATOR_GREATER_OR_EQUAL
	lessThan = qosproxyv1.Operator_OPERATOR_LESS
)

// TestAClientIsShownThePrimaryKeyItMayNotRead makes a key only from what the client is shown.
func TestAClientIsShownThePrimaryKeyItMayNotRead(t *testing.T) {
	clients := identity.NewRegistry(nil, nil)
	require.NoError(t, clients.Replace([]identity.Member{{SocketHeader: "reader", Client: identity.Client{Name: "reader",
		Access: identity.NewAccess([]identity.Grant{{Keyspace: "ks", Table: "events", Columns: []string{"v"}}})}}}))
	registry := prometheus.NewRegistry()
	d := open(t, Deps{Lookup: &fake{tables: []*lookup.Table{clustered(t)}}, Clients: clients, Audit: identity.NewAudit(registry, slog.New(slog.DiscardHandler))})
	ask := func(method, target, body string) (int, string) {
		r := httptest.NewRequest(method, target, strings.NewReader(body))
		r.Header.Set(identity.SocketHeader, "reader")
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.UnixAddr{Net: "unix"}))
		w := httptest.NewRecorder()
		d.http.Handler.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	code, body := ask(http.MethodGet, "/v1/tables", "")
	assert.Equal(t, http.StatusOK, code)
	assert.Contains(t, body, `"partition_key":[{"name":"user","type":"text"}],"clustering":[{"name":"day","type":"int"},`)
	assert.Contains(t, body, `"columns":[{"name":"v","type":"text"}]`)
	for body, want := range map[string]int{
		`{"keys": [{"user": "a", "day": 7}]}`:            http.StatusOK,
		`{"keys": ["a"], "columns": ["day"]}`:            http.StatusForbidden,
		`{"keys": ["a"], "where": {"day": {"gte": 7}}}`:  http.StatusForbidden,
		`{"keys": ["a"], "where": {"none": {"gte": 7}}}`: http.StatusForbidden,
	} {
		code, answer := ask(http.MethodPost, "/v1/ks/events:batchGet", body)
		assert.Equal(t, want, code, "%s: %s", body, answer)
	}
	families, err := registry.Gather()
	require.NoError(t, err)
	refused := map[string]float64{}
	for _, m := range families[0].GetMetric() {
		refused[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
	}
	assert.InDelta(t, 3, refused["column"], 0)
	assert.Zero(t, refused["table"])
}

// TestBothListenersAskForTheSameRows has keys with clustering values, conditions, orders and
// levels: the service must get the same request, or the client the same refusal.
func TestBothListenersAskForTheSameRows(t *testing.T) {
	var asked *lookup.Request
	events := clustered(t)
	d := open(t, Deps{Lookup: &fake{tables: []*lookup.Table{events, products(t)}, get: func(_ context.Context, req *lookup.Request) (*lookup.Response, error) {
		asked = req
		return &lookup.Response{Results: make([]partition.Result, len(req.Keys))}, nil
	}}})
	a, seven := text("a"), integerValue(7)
	for name, c := range map[string]struct {
		body  string
		rpc   *qosproxyv1.BatchGetRequest
		field string // at fault; empty if it is answered
	}{
		"a row and a partition": {`{"keys": [["a", 7], "a", {"user": "a", "day": 7}]}`,
			&qosproxyv1.BatchGetRequest{Keys: []*qosproxyv1.Key{key(a, seven), key(a), key(a, seven)}}, ""},
		"a range, in reverse": {`{"keys": ["a"], "where": {"day": {"gte": 1, "lt": 7}}, "order": "reverse"}`,
			&qosproxyv1.BatchGetRequest{Keys: []*qosproxyv1.Key{key(a)}, Order: qosproxyv1.Order_ORDER_REVERSE,
				Where: []*qosproxyv1.Condition{condition("day", atLeast, integerValue(1)), condition("day", lessThan, seven)}}, ""},
		"a value and a list": {`{"keys": [["a"]], "where": {"day": 7, "\"Kind\"": {"in": ["x", "y"]}}}`,
			&qosproxyv1.BatchGetRequest{Keys: []*qosproxyv1.Key{key(a)},
				Where: []*qosproxyv1.Condition{condition("day", equal, seven), condition("Kind", in, text("x"), text("y"))}}, ""},
		"a level": {`{"keys": ["a"], "consistency": "local_quorum"}`,
			&qosproxyv1.BatchGetRequest{Keys: []*qosproxyv1.Key{key(a)}, Consistency: "local_quorum"}, ""},
		"a level that is not allowed": {`{"keys": ["a"], "consistency": "ALL"}`,
			&qosproxyv1.BatchGetRequest{Keys: []*qosproxyv1.Key{key(a)}, Consistency: "ALL"}, "consistency"},
		"too many values": {`{"keys": [["a", 7, "x", {}, 1]]}`,
			&qosproxyv1.BatchGetRequest{Keys: []*qosproxyv1.Key{key(a, seven, a, a, a)}}, "keys[0]"},
		"a null": {`{"keys": [["a", null]]}`,
			&qosproxyv1.BatchGetRequest{Keys: []*qosproxyv1.Key{key(a, &qosproxyv1.Value{Kind: null})}}, "keys[0]"},
		"pages": {`{"keys": ["a", "b"], "paging": true, "page_tokens": ["", "x"], "limit_per_key": 3}`,
			&qosproxyv1.BatchGetRequest{Keys: []*qosproxyv1.Key{key(a), key(text("b"))}, Paging: true, PageTokens: []string{"", "x"}, LimitPerKey: 3}, ""},
		"an unknown column": {`{"keys": ["a"], "where": {"x": 1}}`,
			&qosproxyv1.BatchGetRequest{Keys: []*qosproxyv1.Key{key(a)}, Where: []*qosproxyv1.Condition{condition("x", equal, seven)}}, "where.x"},
		"a regular column": {`{"keys": ["a"], "where": {"v": "1"}}`,
			&qosproxyv1.BatchGetRequest{Keys: []*qosproxyv1.Key{key(a)}, Where: []*qosproxyv1.Condition{condition("v", equal, a)}}, "where.v"},
		"a wrong type": {`{"keys": ["a"], "where": {"day": "x"}}`,
			&qosproxyv1.BatchGetRequest{Keys: []*qosproxyv1.Key{key(a)}, Where: []*qosproxyv1.Condition{condition("day", equal, a)}}, "where.day"},
		"a null value": {`{"keys": ["a"], "where": {"day": null}}`,
			&qosproxyv1.BatchGetRequest{Keys: []*qosproxyv1.Key{key(a)}, Where: []*qosproxyv1.Condition{condition("day", equal, &qosproxyv1.Value{Kind: null})}}, "where.day"},
	} {
		t.Run(name, func(t *testing.T) {
			asked = nil
			w := do(d.http.Handler, http.MethodPost, "/v1/ks/events:batchGet", c.body)
			byHTTP := asked
			c.rpc.Keyspace, c.rpc.Table = "ks", "events"
			asked = nil
			_, err := d.rpc.BatchGet(t.Context(), c.rpc)
			if c.field != "" {
				assert.Nil(t, byHTTP)
				got := httpProblem(t, w.Body.Bytes())
				assert.Equal(t, c.field, got.field, "%s", w.Body)
				byRPC := rpcProblem(err)
				if c.field != "consistency" { // not compared for this field
					assert.Equal(t, c.field, byRPC.field, "%v", err)
				}
				assert.Equal(t, got.code, byRPC.code)
				return
			}
			require.NotNil(t, byHTTP, "%s", w.Body)
			require.NotNil(t, asked, "%v", err)
			assert.Equal(t, byHTTP.Keys, asked.Keys)
			assert.True(t, byHTTP.Slice.Same(asked.Slice), "%+v and %+v", byHTTP.Slice, asked.Slice)
			assert.Equal(t, byHTTP.Slice == nil, len(c.rpc.GetWhere()) == 0 && !byHTTP.Slice.Reversed())
			assert.Equal(t, byHTTP.Consistency, asked.Consistency)
			assert.Equal(t, byHTTP.Paging, asked.Paging)
			assert.Equal(t, name == "pages", asked.Paging)
			assert.Equal(t, byHTTP.PageTokens, asked.PageTokens)
			assert.Equal(t, c.rpc.GetPageTokens(), asked.PageTokens)
		})
	}
}

func TestWhereThatIsRefused(t *testing.T) {
	d := open(t, Deps{Lookup: &fake{tables: []*lookup.Table{clustered(t), products(t)}}})
	for body, want := range map[string]problem{
		`"where": 7`:                            {field: "where", message: "expected an object"},
		`"where": {"day": {}}`:                  {field: "where.day", message: "no operator; there are eq, in, gt, gte, lt, lte"},
		`"where": {"day": {"above": 1}}`:        {field: "where.day.above", message: "no such operator"},
		`"where": {"day": {"gt": 1, "gt": 2}}`:  {field: "where.day.gt", message: "given twice"},
		`"where": {"day": 1, "day": 2}`:         {field: "where.day", message: "given twice"},
		`"where": {"day": {"in": 1}}`:           {field: "where.day.in", message: "array"},
		`"where": {"day": {"in": []}}`:          {field: "where.day.in", message: "at least one"},
		`"where": {"day": {"in": [1, null]}}`:   {field: "where.day", message: "never null"},
		`"order": "descending"`:                 {field: "order", message: `"reverse"`},
		`"order": 1`:                            {field: "order", message: `"reverse"`},
		`"paging": 1`:                           {field: "paging", message: "true or false"},
		`"page_tokens": "x"`:                    {field: "page_tokens", message: "array"},
		`"page_tokens": [null]`:                 {field: "page_tokens[0]", message: "a token"},
		`"consistency": 1`:                      {field: "consistency", message: "in quotes"},
		`"where": {"tags": {"a": 1}, "day": 1}`: {field: "where.tags.a", message: "no such operator"},
		`"where": {"day": {"eq": 1, "lt": 2}}`:  {field: "where.day", message: "contradict"},
	} {
		w := do(d.http.Handler, http.MethodPost, "/v1/ks/events:batchGet", `{"keys": ["a"], `+body+`}`)
		assert.Equal(t, http.StatusBadRequest, w.Code, body)
		got := httpProblem(t, w.Body.Bytes())
		assert.Equal(t, want.field, got.field, body)
		assert.Contains(t, got.message, want.message, body)
	}
	w := do(d.http.Handler, http.MethodPost, "/v1/ks/events:batchGet",
		`{"keys": [["a", 1, "x"]], "where": {"tags": {"eq": {"in": 1}}}, "order": null, "consistency": null}`)
	assert.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
	w = do(d.http.Handler, http.MethodPost, "/v1/ks/products:batchGet", `{"keys": ["a"], "where": {"id": "a"}}`)
	assert.Contains(t, w.Body.String(), "ks.products has no clustering columns")
}

// TestAPageTellsOfTheNext checks the three ways to answer a key with more rows.
func TestAPageTellsOfTheNext(t *testing.T) {
	events := clustered(t)
	events.Columns = events.Columns[:1]
	page := partition.Result{Status: partition.Found, Rows: []partition.Row{{[]byte("a")}}, Bytes: 1, More: true, NextPageToken: "x-_1"}
	d := open(t, Deps{Lookup: &fake{tables: []*lookup.Table{events}, get: respond(page, absent)}})
	w := do(d.http.Handler, http.MethodPost, "/v1/ks/events:batchGet", `{"keys": ["a", "b"], "paging": true}`)
	assert.Contains(t, w.Body.String(), `{"key":"a","status":"FOUND","rows":[{"user":"a"}],"next_page_token":"x-_1"},{"key":"b","status":"NOT_FOUND"}`)
	keys := []*qosproxyv1.Key{key(text("a")), key(text("b"))}
	resp, err := d.rpc.BatchGet(t.Context(), &qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "events", Keys: keys, Paging: true})
	require.NoError(t, err)
	assert.Equal(t, "x-_1", resp.GetResults()[0].GetNextPageToken())
	assert.Empty(t, resp.GetResults()[1].GetNextPageToken())
	stream, err := d.rpc.StreamBatchGet(t.Context(), &qosproxyv1.StreamBatchGetRequest{Keyspace: "ks", Table: "events", Keys: keys, Paging: true})
	require.NoError(t, err)
	tokens := map[int32]string{}
	for {
		part, err := stream.Recv()
		if err != nil {
			break
		}
		if r := part.GetResult(); r != nil {
			tokens[r.GetIndex()] = r.GetResult().GetNextPageToken()
		}
	}
	assert.Equal(t, map[int32]string{0: "x-_1", 1: ""}, tokens)
}
