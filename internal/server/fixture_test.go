package server

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/reasons"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// fake is a Lookup made of functions. A nil one behaves like a healthy service
// with empty tables.
type fake struct {
	tables  []*lookup.Table
	get     func(ctx context.Context, req *lookup.Request) (*lookup.Response, error)
	explain func(ctx context.Context, req *lookup.Request) (*lookup.Plan, error)
	ring    *ring.Ring
	refuse  error
}

func (f *fake) Table(keyspace, name string) (*lookup.Table, error) {
	if f.refuse != nil {
		return nil, f.refuse
	}
	for _, t := range f.tables {
		if t.Schema.Keyspace == keyspace && t.Schema.Name == name {
			return t, nil
		}
	}
	if name == "secret" {
		return nil, &lookup.Error{Reason: reasons.ForbiddenTable, Field: "table", Message: "not listed"}
	}
	return nil, &lookup.Error{Reason: reasons.UnknownTable, Field: "table", Message: "no such table"}
}

func (f *fake) Tables() []*lookup.Table { return f.tables }

func (f *fake) Get(ctx context.Context, req *lookup.Request) (*lookup.Response, error) {
	switch {
	case len(req.Keys) == 0:
		return nil, lookup.Invalid("keys", "a lookup needs at least one key")
	case req.LimitPerKey < 0:
		return nil, lookup.Invalid("limit_per_key", "negative")
	case f.get != nil:
		ctx, cancel := context.WithDeadline(ctx, req.End(ctx))
		defer cancel()
		return f.get(ctx, req)
	}
	results := make([]partition.Result, len(req.Keys))
	for i := range results {
		results[i].Status = partition.NotFound
	}
	return &lookup.Response{Results: results, Stats: lookup.Stats{Keys: len(results)}}, nil
}

// Stream emits the results of Get, last key first.
func (f *fake) Stream(ctx context.Context, req *lookup.Request, emit func(int, partition.Result) error) (lookup.Stats, error) {
	resp, err := f.Get(ctx, req)
	if err != nil {
		return lookup.Stats{}, err
	}
	for i, r := range slices.Backward(resp.Results) {
		if err := emit(i, r); err != nil {
			return lookup.Stats{}, err
		}
	}
	return resp.Stats, nil
}

func (f *fake) Explain(ctx context.Context, req *lookup.Request) (*lookup.Plan, error) {
	if f.explain != nil {
		return f.explain(ctx, req)
	}
	return &lookup.Plan{}, nil
}

func (f *fake) Ring() *ring.Ring { return f.ring }

// parse returns the type of that name; udt address has fields street and Zip.
func parse(t testing.TB, name string) *cqltype.Type {
	t.Helper()
	typ, err := cqltype.Parse(name, func(keyspace, name string) (*cqltype.Type, error) {
		return &cqltype.Type{Kind: cqltype.UDT, Keyspace: keyspace, Name: name, Fields: []string{"street", "Zip"},
			Elems: []*cqltype.Type{{Kind: cqltype.Text}, {Kind: cqltype.Int}}}, nil
	}, "ks")
	require.NoError(t, err)
	return typ
}

// table returns a table with columns written as "name type"; the first keys
// columns are the partition key.
func table(t testing.TB, name string, keys int, columns ...string) *lookup.Table {
	t.Helper()
	var cs []schema.Column
	for i, c := range columns {
		n, typ, _ := strings.Cut(c, " ")
		kind := schema.Regular
		if i < keys {
			kind = schema.PartitionKey
		}
		cs = append(cs, schema.Column{Name: n, Type: parse(t, typ), Kind: kind})
	}
	s := schema.NewTable("ks", name, "", cs)
	return &lookup.Table{Schema: s, Columns: s.Columns, Settings: &lookup.Settings{
		Keyspace: "ks", Table: name, MaxKeys: 100, MaxRowsPerKey: 1000, MaxResponseBytes: 4 << 20,
		Timeout: 125 * time.Millisecond, Consistency: "LOCAL_ONE",
	}}
}

// products returns a table with a single text key.
func products(t testing.TB) *lookup.Table {
	return table(t, "products", 1, "id text", "name text", "price double")
}

// cell returns the bytes of a value given as JSON.
func cell(t testing.TB, typ *cqltype.Type, json string) []byte {
	t.Helper()
	b, err := typ.EncodeJSON([]byte(json))
	require.NoError(t, err)
	return b
}

// observed collects what an observer is told.
type observed struct {
	mu    sync.Mutex
	codes []string
	table string
	keys  int
	resp  *lookup.Response
	why   reasons.Reason
}

func (o *observed) ObserveLookup(ctx context.Context, table string, keys int, code lookup.Code, _ time.Duration, resp *lookup.Response) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.codes, o.table, o.keys, o.resp, o.why = append(o.codes, string(code)), table, keys, resp, Reason(ctx)
}

func (o *observed) last() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.codes) == 0 {
		return ""
	}
	return o.codes[len(o.codes)-1]
}

// served is a server that is reached without a network.
type served struct {
	*Server
	rpc      qosproxyv1.QosProxyClient
	conn     *grpc.ClientConn
	observed *observed
}

func open(t testing.TB, deps Deps) *served {
	t.Helper()
	d := &served{observed: &observed{}}
	if deps.Observer == nil {
		deps.Observer = d.observed
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	d.Server = New(Config{MaxRequestBytes: 128 << 10}, deps)
	l := bufconn.Listen(1 << 20)
	go func() { _ = d.grpc.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:///buf", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = conn.Close()
		d.grpc.Stop()
	})
	d.conn, d.rpc = conn, qosproxyv1.NewQosProxyClient(conn)
	return d
}

// do sends a request to a handler.
func do(h http.Handler, method, target, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

var (
	null  = &qosproxyv1.Value_Null{}
	empty = &qosproxyv1.Value_Empty{Empty: true}
)

func text(s string) *qosproxyv1.Value {
	return &qosproxyv1.Value{Kind: &qosproxyv1.Value_Text{Text: s}}
}

func integerValue(n int32) *qosproxyv1.Value {
	return &qosproxyv1.Value{Kind: &qosproxyv1.Value_Int{Int: n}}
}

func key(components ...*qosproxyv1.Value) *qosproxyv1.Key {
	return &qosproxyv1.Key{Components: components}
}
