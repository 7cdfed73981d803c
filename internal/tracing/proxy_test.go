package tracing_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/admin"
	"github.com/qosproxy/qosproxy/internal/admission"
	"github.com/qosproxy/qosproxy/internal/coalesce"
	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
	"github.com/qosproxy/qosproxy/internal/server"
	"github.com/qosproxy/qosproxy/internal/sla"
	"github.com/qosproxy/qosproxy/internal/tracing"
)

// proxy is all of the proxy but the driver.
type proxy struct {
	*server.Server
	tracer   *tracing.Tracer
	registry *prometheus.Registry
	rpc      qosproxyv1.QosProxyClient
	log      *lines
}

// lines is a log.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

const (
	// hedgeDelay is long enough for a hedge to be answered on a busy machine
	// before it is hedged itself, after four times as long.
	hedgeDelay = 100 * time.Millisecond
	// never is a hedge delay that is never reached.
	never = time.Minute
)

// start starts a proxy over three hosts that all have every key; reader answers
// for them.
func start(t testing.TB, reader executor.ReaderFunc, admitted *admission.Controller) *proxy {
	t.Helper()
	return startHedging(t, reader, admitted, hedgeDelay)
}

// startHedging is start with another hedge delay.
func startHedging(t testing.TB, reader executor.ReaderFunc, admitted *admission.Controller, delay time.Duration) *proxy {
	t.Helper()
	p := &proxy{registry: prometheus.NewRegistry(), log: &lines{}}
	log := slog.New(slog.NewJSONHandler(p.log, nil))
	var err error
	p.tracer, err = tracing.New(t.Context(), tracing.Config{Version: "1.2.3", Registerer: p.registry, Log: log})
	require.NoError(t, err)

	topology := ring.Topology{LocalDC: "dc1", Keyspaces: map[string]ring.Replication{
		"shop": {Strategy: ring.NetworkTopologyStrategy, Factors: map[string]int{"dc1": 3}},
	}}
	for i := range 3 {
		topology.Hosts = append(topology.Hosts, ring.Host{ID: fmt.Sprint("id-", i), Addr: fmt.Sprintf("10.0.0.%d:9042", i+1), DC: "dc1",
			Rack: fmt.Sprint("r", i), Tokens: []int64{int64(i-1) * (1 << 62)}})
	}
	snapshot, err := ring.New(topology)
	require.NoError(t, err)
	products := schema.NewTable("shop", "products", "1", []schema.Column{
		{Name: "id", Type: &cqltype.Type{Kind: cqltype.Text}, Kind: schema.PartitionKey},
		{Name: "name", Type: &cqltype.Type{Kind: cqltype.Text}, Kind: schema.Regular},
	})
	tables := schema.New([]*schema.Table{products})
	e := executor.New(executor.Config{Ring: func() *ring.Ring { return snapshot }, Registerer: p.registry, Reader: reader})
	lookups := lookup.New(lookup.Config{
		Tables: []lookup.Settings{{
			Keyspace: "shop", Table: "products", Consistency: "LOCAL_ONE", Timeout: 30 * time.Second,
			SpeculativeRetry: hedge.Fixed(delay), HedgeBudget: 0.5, Coalesce: coalesce.Always,
			MaxKeys: 100, MaxRowsPerKey: 10, MaxResponseBytes: 1 << 20,
		}},
		Ring: func() *ring.Ring { return snapshot }, Schema: func() *schema.Schema { return tables }, Executor: e,
	})
	recorder, err := sla.New(p.registry, map[string]sla.Target{"shop.products": {Percentile: 95, Target: 125 * time.Millisecond}})
	require.NoError(t, err)
	anywhere := server.Listener{Address: "127.0.0.1:0"}
	p.Server = server.New(server.Config{GRPC: anywhere, HTTP: anywhere, Admin: anywhere}, server.Deps{
		Lookup: lookups, Tracer: p.tracer, Pages: admin.New(admin.Config{}, admin.Deps{Gatherer: p.registry}), Admission: admitted,
		Observer: server.ObserverFunc(func(ctx context.Context, table string, keys int, code lookup.Code, d time.Duration, _ *lookup.Response) {
			recorder.Observe(&sla.Lookup{Table: table, Keys: keys, Code: code, Duration: d, TraceID: server.TraceID(ctx)})
		}),
	})
	require.NoError(t, p.Start(context.Background()))
	conn, err := grpc.NewClient(p.Addr("grpc").String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	p.rpc = qosproxyv1.NewQosProxyClient(conn)
	t.Cleanup(func() {
		_ = conn.Close()
		_ = p.Shutdown(context.Background())
		e.Close()
		_ = p.tracer.Close(context.Background())
		http.DefaultClient.CloseIdleConnections()
	})
	return p
}

// flush sends the traces; nothing is recorded afterwards.
func (p *proxy) flush(t testing.TB) {
	t.Helper()
	require.NoError(t, p.tracer.Close(t.Context()))
}

// found answers every key at once.
func found(_ context.Context, q *executor.SubQuery) ([]partition.Result, error) {
	defer q.Settled()
	out := make([]partition.Result, len(q.Keys))
	for i := range out {
		out[i] = partition.Result{Status: partition.Found, Rows: []partition.Row{{q.Keys[i].Routing(), []byte("kettle")}}}
	}
	return out, nil
}

// stuckAt returns a reader with one host that never answers.
func stuckAt(host string) executor.ReaderFunc {
	return func(ctx context.Context, q *executor.SubQuery) ([]partition.Result, error) {
		if q.Host.Addr != host {
			return found(ctx, q)
		}
		<-ctx.Done()
		q.Settled()
		return nil, ctx.Err()
	}
}

// firstStuck returns a reader whose first sub-query is never answered, at any
// host.
func firstStuck() executor.ReaderFunc {
	var once sync.Once
	return func(ctx context.Context, q *executor.SubQuery) ([]partition.Result, error) {
		stuck := false
		once.Do(func() { stuck = true })
		if stuck {
			return stuckAt(q.Host.Addr)(ctx, q)
		}
		return found(ctx, q)
	}
}

func batch(keys ...string) *qosproxyv1.BatchGetRequest {
	in := &qosproxyv1.BatchGetRequest{Keyspace: "shop", Table: "products"}
	for _, k := range keys {
		in.Keys = append(in.Keys, &qosproxyv1.Key{Components: []*qosproxyv1.Value{{Kind: &qosproxyv1.Value_Text{Text: k}}}})
	}
	return in
}

// reply is an answer by HTTP without its body.
type reply struct {
	StatusCode int
	Header     http.Header
}

// post asks by HTTP.
func (p *proxy) post(t testing.TB, body any, headers ...string) reply {
	t.Helper()
	text, err := json.Marshal(body)
	require.NoError(t, err)
	return p.send(t, http.MethodPost, "/v1/shop/products:batchGet", string(text), headers...)
}

func (p *proxy) send(t testing.TB, method, path, body string, headers ...string) reply {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, "http://"+p.Addr("http").String()+path, bytes.NewBufferString(body))
	require.NoError(t, err)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return reply{resp.StatusCode, resp.Header}
}
