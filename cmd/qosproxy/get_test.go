package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
)

// scripted is a proxy with one table, t of keyspace k, whose answer is scripted.
type scripted struct {
	qosproxyv1.UnimplementedQosProxyServer
	asked *qosproxyv1.BatchGetRequest
	resp  *qosproxyv1.BatchGetResponse
	// limited is set if the headers of the lookup had a deadline; if hang is set, no lookup
	// gets an answer.
	limited, hang bool
}

func (s *scripted) ListTables(context.Context, *qosproxyv1.ListTablesRequest) (*qosproxyv1.ListTablesResponse, error) {
	text := &qosproxyv1.Type{Kind: qosproxyv1.TypeKind_TYPE_KIND_TEXT, Name: "text"}
	return &qosproxyv1.ListTablesResponse{Tables: []*qosproxyv1.Table{{Keyspace: "k", Name: "t",
		PartitionKey: []*qosproxyv1.Column{{Name: "id", Type: text}}, Columns: []*qosproxyv1.Column{{Name: "id", Type: text}}},
		{Keyspace: "k", Name: "rows", PartitionKey: []*qosproxyv1.Column{{Name: "id", Type: text}}, Columns: []*qosproxyv1.Column{{Name: "id", Type: text}},
			Clustering: []*qosproxyv1.Column{{Name: "day", Type: &qosproxyv1.Type{Kind: qosproxyv1.TypeKind_TYPE_KIND_INT, Name: "int"}}, {Name: "kind", Type: text}}}}}, nil
}

func (s *scripted) BatchGet(ctx context.Context, in *qosproxyv1.BatchGetRequest) (*qosproxyv1.BatchGetResponse, error) {
	s.asked = in
	_, s.limited = ctx.Deadline()
	if s.hang {
		<-ctx.Done()
	}
	return s.resp, nil
}

func (s *scripted) serve(t *testing.T) (addr string) { return serveScripted(t, s) }

func serveScripted(t *testing.T, s qosproxyv1.QosProxyServer) (addr string) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g := grpc.NewServer()
	qosproxyv1.RegisterQosProxyServer(g, s)
	go func() { _ = g.Serve(l) }()
	t.Cleanup(g.Stop)
	return l.Addr().String()
}

func explained() *qosproxyv1.BatchGetResponse {
	ms := func(n int) *durationpb.Duration { return durationpb.New(time.Duration(n) * time.Millisecond) }
	host := &qosproxyv1.Host{Address: "10.0.0.1:9042", Datacenter: "dc1", Rack: "r1"}
	return &qosproxyv1.BatchGetResponse{
		Results: []*qosproxyv1.KeyResult{{Status: qosproxyv1.KeyStatus_KEY_STATUS_NOT_FOUND},
			{Status: qosproxyv1.KeyStatus_KEY_STATUS_TIMED_OUT, Error: "the lookup ended at its soft deadline of 20ms with 1 of 2 keys"}},
		Partial: true, UnprocessedKeys: []int32{1}, Stats: &qosproxyv1.Stats{Keys: 2, Groups: 1, SubQueries: 1, Elapsed: ms(20)},
		Explanation: &qosproxyv1.Explanation{
			Plan: &qosproxyv1.Plan{
				Keys:   []*qosproxyv1.PlannedKey{{Token: 1<<62 + 1, Replicas: []string{"10.0.0.1:9042"}, Group: new(int32)}, {Token: 5}},
				Groups: []*qosproxyv1.PlannedGroup{{Host: host, Keys: []int32{0}}},
				Hosts:  []*qosproxyv1.PlannedHost{{Host: host, Avoided: "probing"}},
			},
			Attempts: []*qosproxyv1.Attempt{{Host: "10.0.0.1:9042", Kind: qosproxyv1.AttemptKind_ATTEMPT_KIND_FIRST, Keys: []int32{0}, Start: ms(0), End: ms(20),
				Outcome: qosproxyv1.AttemptOutcome_ATTEMPT_OUTCOME_PENDING, HedgeAfter: ms(15), NotHedged: "load", StatementKeys: 120}},
			Deadline: ms(125), SoftDeadline: ms(20),
		},
	}
}

// TestTheDeadlineIsTheTables checks that get sends no deadline, with or without --timeout.
func TestTheDeadlineIsTheTables(t *testing.T) {
	s := &scripted{resp: explained()}
	addr := s.serve(t)
	_, _ = execute(t, "get", "k.t", "a", "b", "--addr", addr)
	assert.False(t, s.limited)
	assert.Nil(t, s.asked.GetTimeout())
	_, _ = execute(t, "get", "k.t", "a", "b", "--addr", addr, "--timeout", "40ms")
	assert.False(t, s.limited)
	assert.Equal(t, 40*time.Millisecond, s.asked.GetTimeout().AsDuration())

	usual := answerTimeout
	t.Cleanup(func() { answerTimeout = usual })
	answerTimeout, s.hang = 50*time.Millisecond, true
	_, err := execute(t, "get", "k.t", "a", "b", "--addr", addr)
	assert.EqualError(t, err, "no answer from "+addr+" within 50ms")
}

func TestGetDrawsHowALookupWasAsked(t *testing.T) {
	s := &scripted{resp: explained()}
	out, err := execute(t, "get", "k.t", "a", "b", "--addr", s.serve(t), "--explain", "--soft-deadline", "20ms", "--min-keys", "1")
	require.ErrorContains(t, err, "1 of 2 keys were not answered")
	for _, says := range []string{"A  10.0.0.1:9042  rack r1  avoided: probing", "4611686018427387905", "1 key asked of nobody", "A first", "pending",
		"not hedged: too much is late", "in a shared statement of 120 keys", "soft deadline 20 ms", "ended at its soft deadline"} {
		assert.Contains(t, out, says)
	}
	assert.NotContains(t, out, "\x1b", "no colour in a pipe")
	assert.EqualValues(t, 1, s.asked.GetMinKeys())
	assert.Equal(t, 20*time.Millisecond, s.asked.GetSoftDeadline().AsDuration())
	assert.True(t, s.asked.GetExplain())
}

func TestGetExplainsInJSONAsTheHTTPDoorDoes(t *testing.T) {
	s := &scripted{resp: explained()}
	out, err := execute(t, "get", "k.t", "a", "b", "--addr", s.serve(t), "--explain", "-o", "json")
	require.Error(t, err)
	var got struct {
		Explain     json.RawMessage
		Unprocessed []string `json:"unprocessed_keys"`
	}
	require.NoError(t, json.NewDecoder(bytes.NewReader([]byte(out))).Decode(&got))
	assert.Equal(t, []string{"b"}, got.Unprocessed)
	assert.JSONEq(t, `{"keys":[{"token":"4611686018427387905","replicas":["10.0.0.1:9042"],"group":0},{"token":"5","replicas":[],"group":null}],
		"groups":[{"host":"10.0.0.1:9042","dc":"dc1","rack":"r1","keys":[0]}],
		"hosts":[{"host":"10.0.0.1:9042","dc":"dc1","rack":"r1","avoided":"probing"}],"stressed":false,
		"attempts":[{"host":"10.0.0.1:9042","kind":"first","keys":[0],"start_ms":0,"end_ms":20,"outcome":"pending","hedge_after_ms":15,"not_hedged":"load","statement_keys":120}],
		"deadline_ms":125,"soft_deadline_ms":20}`, string(got.Explain))

	s.resp.Explanation = nil
	out, err = execute(t, "get", "k.t", "a", "b", "--addr", s.serve(t), "-o", "json")
	require.Error(t, err)
	assert.NotContains(t, out, "explain")
	assert.Nil(t, s.asked.GetSoftDeadline())
}

func TestGetAsksForRows(t *testing.T) {
	s := &scripted{resp: explained()}
	addr := s.serve(t)
	components := func() (out [][]string) {
		for _, k := range s.asked.GetKeys() {
			var values []string
			for _, v := range k.GetComponents() {
				values = append(values, string(v.GetCql()))
			}
			out = append(out, values)
		}
		return out
	}
	const seven = "\x00\x00\x00\x07"
	_, _ = execute(t, "get", "k.rows", "a/7", `["a",7,"x/y"]`, "--addr", addr, "--reverse", "--consistency", "local_quorum",
		"--where", `kind in ["p","q"]`)
	assert.Equal(t, [][]string{{"a", seven}, {"a", seven, "x/y"}}, components())
	assert.Equal(t, qosproxyv1.Order_ORDER_REVERSE, s.asked.GetOrder())
	assert.Equal(t, "local_quorum", s.asked.GetConsistency())
	require.Len(t, s.asked.GetWhere(), 1)
	assert.Equal(t, "kind", s.asked.GetWhere()[0].GetColumn())
	assert.Equal(t, qosproxyv1.Operator_OPERATOR_IN, s.asked.GetWhere()[0].GetOperator())
	assert.Len(t, s.asked.GetWhere()[0].GetValues(), 2)

	_, _ = execute(t, "get", "k.t", "a/7", "b", "--addr", addr)
	assert.Equal(t, [][]string{{"a/7"}, {"b"}}, components(), "without clustering columns a slash is part of the key")

	_, _ = execute(t, "get", "k.rows", "a", "b", "--addr", addr, "--where", "day >= 7", "--where", "day<8")
	require.Len(t, s.asked.GetWhere(), 2)
	assert.Equal(t, qosproxyv1.Operator_OPERATOR_GREATER_OR_EQUAL, s.asked.GetWhere()[0].GetOperator())
	assert.Equal(t, seven, string(s.asked.GetWhere()[0].GetValues()[0].GetCql()))
	assert.Equal(t, qosproxyv1.Operator_OPERATOR_LESS, s.asked.GetWhere()[1].GetOperator())

	for where, want := range map[string]string{
		"id=a": `"id" is no clustering column of k.rows`, "day": "no operator", "day=x": "day=x", "kind in a": "expected a JSON array",
	} {
		_, err := execute(t, "get", "k.rows", "a", "--addr", addr, "--where", where)
		require.ErrorContains(t, err, want, where)
	}
}

// pagedProxy answers each lookup with one row per key and, for its first pages, with a token.
type pagedProxy struct {
	scripted
	tokens [][]string
	needed []int32
}

func (s *pagedProxy) BatchGet(_ context.Context, in *qosproxyv1.BatchGetRequest) (*qosproxyv1.BatchGetResponse, error) {
	s.tokens, s.needed = append(s.tokens, in.GetPageTokens()), append(s.needed, in.GetMinKeys())
	text := &qosproxyv1.Type{Kind: qosproxyv1.TypeKind_TYPE_KIND_TEXT, Name: "text"}
	resp := &qosproxyv1.BatchGetResponse{Columns: []*qosproxyv1.Column{{Name: "id", Type: text}}, Stats: &qosproxyv1.Stats{}}
	for i, k := range in.GetKeys() {
		res := &qosproxyv1.KeyResult{Status: qosproxyv1.KeyStatus_KEY_STATUS_FOUND, Rows: []*qosproxyv1.Row{{Values: k.GetComponents()[:1]}}}
		if len(s.tokens) <= 2-i && in.GetPaging() {
			res.NextPageToken = string(k.GetComponents()[0].GetCql()) + "+"
		}
		resp.Results = append(resp.Results, res)
	}
	return resp, nil
}

func TestGetReadsAllPages(t *testing.T) {
	s := &pagedProxy{}
	addr := serveScripted(t, s)
	out, err := execute(t, "get", "k.rows", "a", "b", "--limit", "1", "--all", "--soft-deadline", "1s", "--min-keys", "2", "--addr", addr)
	require.NoError(t, err)
	assert.Equal(t, [][]string{nil, {"a+", "b+"}, {"a+"}}, s.tokens)
	assert.Equal(t, []int32{2, 2, 1}, s.needed, "no more keys than are asked for")
	assert.Equal(t, 1, strings.Count(out, "STATUS"), "one header:\n%s", out)
	assert.Equal(t, 5, strings.Count(out, "FOUND"))
	assert.Contains(t, out, "5 rows in 3 pages")
	s.tokens = nil
	out, err = execute(t, "get", "k.rows", "a", "--all", "--addr", addr, "-o", "json")
	require.NoError(t, err)
	documents, decoder := 0, json.NewDecoder(strings.NewReader(out))
	for ; decoder.More(); documents++ {
		var page struct {
			Results []struct{ Rows []json.RawMessage }
		}
		require.NoError(t, decoder.Decode(&page))
		assert.Len(t, page.Results[0].Rows, 1)
	}
	assert.Equal(t, 3, documents)
	s.tokens = nil
	_, err = execute(t, "get", "k.rows", "a", "--limit-per-key", "1", "--addr", addr)
	require.NoError(t, err)
	assert.Equal(t, [][]string{nil}, s.tokens, "one page unless all are asked for")
}
