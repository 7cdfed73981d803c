package server

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/memory"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// TestElementsOfARequestAreBounded sends more elements of each kind than a request may have. As
// many as it may have pass that check.
func TestElementsOfARequestAreBounded(t *testing.T) {
	s := start(t, both(Limits{}), Deps{Lookup: &fake{tables: []*lookup.Table{products(t), clustered(t)}}})
	rpc := qosproxyv1.NewQosProxyClient(dial(t, s.Addr("grpc").String()))
	many := func(n int) []*qosproxyv1.Value {
		values := make([]*qosproxyv1.Value, n)
		for i := range values {
			values[i] = &qosproxyv1.Value{}
		}
		return values
	}
	one := []*qosproxyv1.Key{key(text("a"))}
	for name, ask := range map[string]func(n int) *qosproxyv1.BatchGetRequest{
		"columns": func(n int) *qosproxyv1.BatchGetRequest {
			return &qosproxyv1.BatchGetRequest{Keys: one, Columns: make([]string, n)}
		},
		"page tokens": func(n int) *qosproxyv1.BatchGetRequest {
			return &qosproxyv1.BatchGetRequest{Keys: one, PageTokens: make([]string, n), Columns: []string{"no"}}
		},
		"optional keys": func(n int) *qosproxyv1.BatchGetRequest {
			return &qosproxyv1.BatchGetRequest{Keys: one, OptionalKeys: make([]int32, 32*n), Columns: []string{"no"}}
		},
		"values": func(n int) *qosproxyv1.BatchGetRequest {
			return &qosproxyv1.BatchGetRequest{Keys: one, Where: []*qosproxyv1.Condition{{Column: "no", Values: many(n)}}}
		},
		"components": func(n int) *qosproxyv1.BatchGetRequest {
			return &qosproxyv1.BatchGetRequest{Keys: []*qosproxyv1.Key{key(many(n)...)}}
		},
		"elements of one": func(n int) *qosproxyv1.BatchGetRequest {
			return &qosproxyv1.BatchGetRequest{Keys: []*qosproxyv1.Key{key(&qosproxyv1.Value{Kind: &qosproxyv1.Value_List{List: &qosproxyv1.ListValue{Elements: many(n)}}})}}
		},
	} {
		for n, bounded := range map[int]bool{maxElements / 2: false, maxElements: true} {
			in := ask(n)
			in.Keyspace, in.Table = "ks", "products"
			_, err := rpc.BatchGet(t.Context(), in)
			got := rpcProblem(err)
			assert.Equal(t, "INVALID_ARGUMENT", got.code, "%s: %v", name, err)
			assert.Equal(t, bounded, strings.Contains(got.message, "more than 65536 values"), "%s: %s", name, got.message)
		}
	}
	for name, body := range map[string]string{
		"columns":       `{"keys": ["a"], "columns": ["no"%s]}`,
		"page tokens":   `{"keys": ["a"], "columns": ["no"], "page_tokens": [""%s]}`,
		"optional keys": `{"keys": ["a"], "columns": ["no"], "optional_keys": [["a"%s]]}`,
		"values":        `{"keys": ["a"], "where": {"no": {"in": ["a"%s]}}}`,
		"components":    `{"keys": ["a", ["a"%s]]}`,
	} {
		for n, bounded := range map[int]bool{maxElements / 2: false, maxElements + 1: true} {
			code, got := post(t, s, "products", fmt.Sprintf(body, strings.Repeat(`,""`, n)))
			assert.Equal(t, http.StatusBadRequest, code)
			assert.Equal(t, bounded, strings.Contains(string(got), "more than 65536 values"), "%s: %.200s", name, got)
		}
	}
}

// TestKeysAreCountedBeforeTheyAreDecoded sends as many keys as fit into a request.
func TestKeysAreCountedBeforeTheyAreDecoded(t *testing.T) {
	s := start(t, both(Limits{}), Deps{Lookup: &fake{tables: []*lookup.Table{products(t)}}})
	rpc := qosproxyv1.NewQosProxyClient(dial(t, s.Addr("grpc").String()))
	keys := make([]*qosproxyv1.Key, 1<<20)
	for i := range keys {
		keys[i] = &qosproxyv1.Key{}
	}
	_, err := rpc.Explain(t.Context(), &qosproxyv1.ExplainRequest{Keyspace: "ks", Table: "products", Keys: keys})
	assert.Contains(t, rpcProblem(err).message, "1048576 keys are more than the 100 (max_keys)")
	_, err = rpc.BatchGet(t.Context(), &qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "products", Keys: keys})
	assert.Contains(t, rpcProblem(err).message, "1048576 keys are more than the 100 (max_keys)")
	_, got := post(t, s, "products", `{"keys": [1`+strings.Repeat(",1", len(keys)-1)+`]}`)
	assert.Contains(t, string(got), "1048576 keys are more than the 100 (max_keys)")
}

// TestMembersThatDoNotExistEndABody sends names that are all different. Comparing each with all
// earlier ones would take minutes.
func TestMembersThatDoNotExistEndABody(t *testing.T) {
	s := start(t, both(Limits{}), Deps{Lookup: &fake{tables: []*lookup.Table{products(t), clustered(t)}}})
	distinct := func(n int) string {
		var names strings.Builder
		for i := range n {
			fmt.Fprintf(&names, `"n%d":1,`, i)
		}
		return strings.TrimSuffix(names.String(), ",")
	}
	for body, field := range map[string]string{
		"{" + distinct(200_000) + "}":                                    `"n0"`,
		`{"keys":["a"],"where":{` + distinct(maxElements) + "}}":         `"where.n0"`,
		`{"keys":["a"],"where":{"day":{` + distinct(maxElements) + "}}}": `"where.day.n0"`,
	} {
		began := time.Now()
		code, got := post(t, s, "events", body)
		assert.Equal(t, http.StatusBadRequest, code)
		assert.Contains(t, string(got), `"field":`+field, "%.200s", got)
		assert.Less(t, time.Since(began), patience)
	}
}

// TestRowsOfNullsTakeMemory answers keys with rows whose cells have no bytes.
func TestRowsOfNullsTakeMemory(t *testing.T) {
	rows := make([]partition.Row, 100)
	for i := range rows {
		rows[i] = make(partition.Row, 30)
	}
	const headers = 100 * 31 * 24
	budget := memory.New(mebibyte)
	s := New(Config{}, Deps{Memory: budget, Lookup: &fake{get: respond(partition.Result{Status: partition.Found, Rows: rows})}})
	k, err := partition.NewKey([]byte("a"))
	require.NoError(t, err)
	req := &lookup.Request{Table: products(t), Keys: []partition.Key{k}}
	for copies, ask := range map[int64]func(context.Context) error{
		answerCopies: func(ctx context.Context) error {
			_, err := s.begin().get(ctx, req)
			return err
		},
		1: func(ctx context.Context) error {
			stream := &keyStream{call: s.begin(), req: req, answers: make(chan keyAnswer, 1), ended: make(chan streamEnd, 1)}
			stream.read(ctx)
			return (<-stream.ended).err
		},
	} {
		peer := budget.Peer(nil, 0)
		holding, err := peer.Begin(nil)
		require.NoError(t, err)
		require.NoError(t, holding.Complete(0, 0))
		require.NoError(t, ask(context.WithValue(t.Context(), callKey{}, holding)))
		assert.Equal(t, memory.CallBytes+copies*headers, budget.Usage().Used)
		peer.Close()
	}
}

// post sends the body of a batchGet and returns the answer.
func post(t *testing.T, s *Server, table, body string) (int, []byte) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Post("http://"+s.Addr("http").String()+"/v1/ks/"+table+":batchGet", "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer resp.Body.Close()
	var got bytes.Buffer
	_, err = got.ReadFrom(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, got.Bytes()
}
