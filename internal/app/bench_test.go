//go:build unix

package app

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/admission"
	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
	"github.com/qosproxy/qosproxy/internal/server"
	"github.com/qosproxy/qosproxy/internal/sla"
	"github.com/qosproxy/qosproxy/internal/status"
)

// BenchmarkBatchGet measures a lookup of 50 keys through all of the proxy but the
// driver: a real connection on loopback, the server, the planner over 12 × 16 tokens,
// the executor and the SLA. Rows have some 450 bytes and are available at once. The
// clients send bytes prepared in advance and drop the bytes of the answer, so that the
// proxy and the transport are measured. cpu-ns/op is the CPU of both ends.
func BenchmarkBatchGet(b *testing.B) {
	for _, c := range []struct {
		name string
		ask  func(b *testing.B, s *server.Server) (lookup func())
		// full makes admission refuse everything.
		full bool
	}{
		{"grpc-typed", func(b *testing.B, s *server.Server) func() {
			return askGRPC(b, s, qosproxyv1.Encoding_ENCODING_VALUES, codes.OK)
		}, false},
		{"grpc-cql", func(b *testing.B, s *server.Server) func() {
			return askGRPC(b, s, qosproxyv1.Encoding_ENCODING_CQL, codes.OK)
		}, false},
		{"grpc-refused", func(b *testing.B, s *server.Server) func() {
			return askGRPC(b, s, qosproxyv1.Encoding_ENCODING_VALUES, codes.ResourceExhausted)
		}, true},
		{"http", func(b *testing.B, s *server.Server) func() { return askHTTP(b, s, http.StatusOK, 50*400) }, false},
		{"http-refused", func(b *testing.B, s *server.Server) func() { return askHTTP(b, s, http.StatusTooManyRequests, 50) }, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			ask := c.ask(b, serve(b, c.full))
			b.ReportAllocs()
			begin := spent(b)
			for b.Loop() {
				ask()
			}
			b.ReportMetric(float64(spent(b)-begin)/float64(b.N), "cpu-ns/op")
		})
	}
}

// spent returns the CPU time of this process. Other processes on the machine disturb it
// less than elapsed time.
func spent(b *testing.B) int64 {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return u.Utime.Nano() + u.Stime.Nano()
}

// benchKeys are the keys of a lookup.
func benchKeys() []string {
	keys := make([]string, 50)
	for i := range keys {
		keys[i] = fmt.Sprintf("sku-%08d", i*7919)
	}
	return keys
}

// serve starts the parts of a proxy whose rows come from memory. With full, admission
// has no permit left.
func serve(b *testing.B, full bool) *server.Server {
	snapshot := benchRing(b)
	products, row := benchTable()
	tables := schema.New([]*schema.Table{products})
	size := 0
	for _, cell := range row {
		size += len(cell)
	}
	registry := prometheus.NewRegistry()
	e := executor.New(executor.Config{
		Ring:       func() *ring.Ring { return snapshot },
		Registerer: registry,
		Reader: executor.ReaderFunc(func(_ context.Context, q *executor.SubQuery) ([]partition.Result, error) {
			results := make([]partition.Result, len(q.Keys))
			for i := range results {
				results[i] = partition.Result{Status: partition.Found, Rows: []partition.Row{row}, Bytes: size}
			}
			q.Settled()
			return results, nil
		}),
	})
	b.Cleanup(e.Close)
	lookups := lookup.New(lookup.Config{
		Tables: []lookup.Settings{{
			Keyspace: "shop", Table: "products", Consistency: "LOCAL_ONE", Timeout: 10 * time.Second,
			SpeculativeRetry: hedge.Fixed(5 * time.Second), HedgeBudget: 0.02,
			MaxKeys: 100, MaxRowsPerKey: 10, MaxResponseBytes: 1 << 20,
		}},
		Ring:     func() *ring.Ring { return snapshot },
		Schema:   func() *schema.Schema { return tables },
		Executor: e,
	})
	a := &App{board: status.New(nil)}
	var err error
	a.recorder, err = sla.New(registry, map[string]sla.Target{"shop.products": {Percentile: 95, Target: 125 * time.Millisecond}})
	require.NoError(b, err)
	limits := admission.DefaultLimits()
	limits.Enabled = full
	if full {
		limits.MinConcurrency, limits.MaxConcurrency = 1, 1
	}
	control, err := admission.New(admission.Config{Limits: limits})
	require.NoError(b, err)
	if full {
		_, err = control.Admit(admission.Ask{Table: "shop.products", Keys: 50})
		require.NoError(b, err)
	}
	anywhere := server.Listener{Address: "127.0.0.1:0"}
	s := server.New(server.Config{GRPC: anywhere, HTTP: anywhere},
		server.Deps{Lookup: lookups, Admission: control, Observer: server.ObserverFunc(a.observe)})
	require.NoError(b, s.Start(b.Context()))
	b.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	return s
}

func benchRing(b testing.TB) *ring.Ring {
	random := rand.New(rand.NewPCG(1, 2))
	t := ring.Topology{LocalDC: "dc1", Keyspaces: map[string]ring.Replication{
		"shop": {Strategy: ring.NetworkTopologyStrategy, Factors: map[string]int{"dc1": 3}},
	}}
	for i := range 12 {
		h := ring.Host{ID: fmt.Sprint("id-", i), Addr: fmt.Sprintf("10.0.0.%d:9042", i), DC: "dc1", Rack: fmt.Sprint("r", i%3)}
		for range 16 {
			h.Tokens = append(h.Tokens, int64(random.Uint64()))
		}
		t.Hosts = append(t.Hosts, h)
	}
	snapshot, err := ring.New(t)
	require.NoError(b, err)
	return snapshot
}

// benchTable returns a table and a row of it.
func benchTable() (*schema.Table, partition.Row) {
	column := func(name string, kind cqltype.Kind) schema.Column {
		return schema.Column{Name: name, Type: &cqltype.Type{Kind: kind}, Kind: schema.Regular}
	}
	columns := []schema.Column{
		column("id", cqltype.Text), column("description", cqltype.Text), column("name", cqltype.Text),
		column("price", cqltype.Double), column("stock", cqltype.Int), column("updated", cqltype.Timestamp),
	}
	columns[0].Kind = schema.PartitionKey
	updated := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixMilli()
	row := partition.Row{
		[]byte("sku-00000000"),
		[]byte(strings.Repeat("A kettle of stainless steel. ", 13)),
		[]byte("Stainless kettle, 1.7 litres"),
		binary.BigEndian.AppendUint64(nil, math.Float64bits(19.5)),
		binary.BigEndian.AppendUint32(nil, 7),
		binary.BigEndian.AppendUint64(nil, uint64(updated)),
	}
	return schema.NewTable("shop", "products", "id", columns), row
}

// askGRPC returns a lookup over gRPC.
func askGRPC(b *testing.B, s *server.Server, encoding qosproxyv1.Encoding, want codes.Code) func() {
	in := &qosproxyv1.BatchGetRequest{Keyspace: "shop", Table: "products", Encoding: encoding}
	for _, k := range benchKeys() {
		in.Keys = append(in.Keys, &qosproxyv1.Key{Components: []*qosproxyv1.Value{{Kind: &qosproxyv1.Value_Text{Text: k}}}})
	}
	body, err := proto.Marshal(in)
	require.NoError(b, err)
	conn, err := grpc.NewClient(s.Addr("grpc").String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(opaque{})),
		// As in the Go client: a ping for each answer would be a cost of the client.
		grpc.WithStaticStreamWindowSize(1<<20), grpc.WithStaticConnWindowSize(4<<20))
	require.NoError(b, err)
	b.Cleanup(func() { _ = conn.Close() })
	received := 0
	ask := func() {
		if err := conn.Invoke(context.Background(), qosproxyv1.QosProxy_BatchGet_FullMethodName, body, &received); grpcstatus.Code(err) != want {
			b.Fatal(err)
		}
	}
	ask()
	if want == codes.OK {
		require.Greater(b, received, 50*400)
	}
	return ask
}

// opaque is a codec that sends bytes unchanged and counts those received.
type opaque struct{}

var _ encoding.CodecV2 = opaque{}

func (opaque) Name() string { return "proto" }

func (opaque) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (opaque) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*int) = data.Len()
	return nil
}

// askHTTP returns a lookup over HTTP.
func askHTTP(b *testing.B, s *server.Server, want int, least int64) func() {
	body := `{"keys":["` + strings.Join(benchKeys(), `","`) + `"]}`
	request := fmt.Appendf(nil, "POST /v1/shop/products:batchGet HTTP/1.1\r\nHost: localhost\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	conn, err := net.Dial("tcp", s.Addr("http").String())
	require.NoError(b, err)
	b.Cleanup(func() { _ = conn.Close() })
	answers := bufio.NewReaderSize(conn, 64<<10)
	ask := func() {
		if _, err := conn.Write(request); err != nil {
			b.Fatal(err)
		}
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			b.Fatal(err)
		}
		n, err := io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != want || n < least {
			b.Fatal(resp.Status, n, err)
		}
	}
	ask()
	return ask
}
