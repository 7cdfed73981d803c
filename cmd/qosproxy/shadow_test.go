package main

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/command"
	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/schema"
	"github.com/qosproxy/qosproxy/internal/server"
	"github.com/qosproxy/qosproxy/internal/shadow"
	"github.com/qosproxy/qosproxy/internal/standin"
)

func TestShadowRefusesWhatItCannotDo(t *testing.T) {
	for name, args := range map[string][]string{
		"an output": {"-o", "yaml"}, "a baseline": {"--baseline", "both"}, "no lookup at a time": {"--concurrency", "0"},
		"a rate": {"--rate", "-1"}, "a list": {"--max-differences", "-1"}, "a table": {"--table", "products"},
		"no file": {"--keys", filepath.Join(t.TempDir(), "none")}, "an argument": {"shop.products"},
	} {
		assert.Equal(t, command.ExitUsage, run(t.Context(), append([]string{"shadow"}, args...)), name)
	}
}

func TestShadowSaysThatNobodyAnswers(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	closed := listener.Addr().String()
	require.NoError(t, listener.Close())
	file := filepath.Join(t.TempDir(), "q.yaml")
	require.NoError(t, os.WriteFile(file, []byte("cassandra: {contact_points: [\""+closed+"\"]}\ntables: [{name: a.b}]\n"), 0o600))
	before := connectTimeout
	defer func() { connectTimeout = before }()
	connectTimeout = 100 * time.Millisecond

	_, err = execute(t, "shadow", "--config", file, "--keys", os.DevNull)
	assert.ErrorContains(t, err, "connect to "+closed+": ")
}

func TestShadowNeedsNoTokensOfTheProxyItAsks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "q.yaml")
	require.NoError(t, os.WriteFile(file, []byte("cassandra: {contact_points: [\"127.0.0.1:1\"]}\ntables: [{name: a.b}]\nclients: [{name: shop, token_file: /none, tables: [{name: a.b}]}]\n"), 0o600))
	before := connectTimeout
	defer func() { connectTimeout = before }()
	connectTimeout = 100 * time.Millisecond

	_, err := execute(t, "shadow", "--addr", "127.0.0.1:1", "--config", file, "--keys", os.DevNull)
	assert.ErrorContains(t, err, "connect to 127.0.0.1:1: ")
}

func TestALookupGoesToTheProxyAsItIs(t *testing.T) {
	table := schema.NewTable("shop", "events", "", []schema.Column{
		{Name: "id", Type: &cqltype.Type{Kind: cqltype.Text}, Kind: schema.PartitionKey},
		{Name: "at", Type: &cqltype.Type{Kind: cqltype.Int}, Kind: schema.Clustering},
	})
	key, err := partition.NewKey([]byte("a"))
	require.NoError(t, err)
	req := batchGetOf(&lookup.Request{
		Table: &lookup.Table{Schema: table, Columns: table.Columns}, Keys: []partition.Key{key}, LimitPerKey: 3, Consistency: "LOCAL_QUORUM",
		Slice: &partition.Slice{Reverse: true, Restrictions: []partition.Restriction{{Operator: partition.LessOrEqual, Values: [][]byte{{0, 0, 0, 1}}}}},
	})
	assert.Equal(t, []string{"id", "at"}, req.GetColumns())
	assert.Equal(t, []byte("a"), req.GetKeys()[0].GetComponents()[0].GetCql())
	assert.Equal(t, int32(3), req.GetLimitPerKey())
	assert.Equal(t, qosproxyv1.Order_ORDER_REVERSE, req.GetOrder())
	assert.Equal(t, "LOCAL_QUORUM", req.GetConsistency())
	assert.Equal(t, qosproxyv1.Operator_OPERATOR_LESS_OR_EQUAL, req.GetWhere()[0].GetOperator())
	assert.Len(t, wireOperators, len(partition.Operators))
	assert.Len(t, statusOf, len(partition.Statuses))

	result := resultOf(&qosproxyv1.KeyResult{Status: qosproxyv1.KeyStatus_KEY_STATUS_FOUND, Rows: []*qosproxyv1.Row{{Values: []*qosproxyv1.Value{
		{Kind: &qosproxyv1.Value_Null{}}, {Kind: &qosproxyv1.Value_Cql{}}, {Kind: &qosproxyv1.Value_Cql{Cql: []byte("x")}},
	}}}})
	assert.Equal(t, partition.Row{nil, {}, []byte("x")}, result.Rows[0])
	assert.Equal(t, partition.Found, result.Status)
}

func TestTheProxysSideOfAComparison(t *testing.T) {
	proxy, stop, err := standin.Serve(t.Context(), server.Config{GRPC: server.Listener{Address: "127.0.0.1:0"}}, server.Deps{}, standin.Table{
		Name: "shop.events", Columns: []string{"id text", "at int", "v text"}, Key: 1, Clustering: 1,
		Rows: [][]string{{`"a"`, "1", `"x"`}, {`"a"`, "2", `null`}, {`"b"`, "1", `""`}},
	})
	require.NoError(t, err)
	defer stop()
	flags := proxyFlags{addr: proxy.Addr("grpc").String()}
	client, err := flags.dial()
	require.NoError(t, err)
	defer client.Close()
	definition := schema.NewTable("shop", "events", "", []schema.Column{
		{Name: "id", Type: &cqltype.Type{Kind: cqltype.Text}, Kind: schema.PartitionKey},
		{Name: "at", Type: &cqltype.Type{Kind: cqltype.Int}, Kind: schema.Clustering},
		{Name: "v", Type: &cqltype.Type{Kind: cqltype.Text}, Kind: schema.Regular},
	})
	table := &lookup.Table{Schema: definition, Columns: definition.Columns, Settings: &lookup.Settings{MaxRowsPerKey: 100}}
	req := &lookup.Request{Table: table}
	for _, text := range []string{"a", "b", "c"} {
		key, err := server.KeyFromText(definition, text)
		require.NoError(t, err)
		req.Keys = append(req.Keys, key)
	}
	path := &grpcPath{client.API(), flags}
	a, err := path.Read(t.Context(), req)
	require.NoError(t, err)
	require.Len(t, a.Results, 3)
	assert.Equal(t, []partition.Row{{[]byte("a"), {0, 0, 0, 1}, []byte("x")}, {[]byte("a"), {0, 0, 0, 2}, nil}}, a.Results[0].Rows)
	assert.Equal(t, []partition.Row{{[]byte("b"), {0, 0, 0, 1}, {}}}, a.Results[1].Rows)
	assert.Equal(t, partition.NotFound, a.Results[2].Status)
	assert.Positive(t, a.Sent)

	// The answer agrees with itself, including its columns.
	j := &shadow.Judge{Driver: path, Proxy: path, Pauses: shadow.DefaultPauses}
	v := j.Compare(t.Context(), req, a, a)
	assert.Zero(t, v.Different+v.Unsettled)
	assert.Equal(t, 3, v.Compared)

	definition.Keyspace = "other"
	_, err = path.Read(t.Context(), req)
	assert.ErrorContains(t, err, "other.events")
}
