package tracing_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// collector receives OTLP by gRPC or HTTP.
type collector struct {
	coltracepb.UnimplementedTraceServiceServer
	mu  sync.Mutex
	got []*coltracepb.ExportTraceServiceRequest
}

// Export implements coltracepb.TraceServiceServer.
func (c *collector) Export(_ context.Context, in *coltracepb.ExportTraceServiceRequest) (*coltracepb.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, in)
	return &coltracepb.ExportTraceServiceResponse{}, nil
}

// ServeHTTP serves POST /v1/traces.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	in := &coltracepb.ExportTraceServiceRequest{}
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, in) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	out, _ := c.Export(r.Context(), in)
	body, _ = proto.Marshal(out)
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(body)
}

// collect starts a collector and points the environment at it.
func collect(t testing.TB, protocol string) *collector {
	t.Helper()
	c := &collector{}
	if protocol == "grpc" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		s := grpc.NewServer()
		coltracepb.RegisterTraceServiceServer(s, c)
		done := make(chan struct{})
		go func() { defer close(done); _ = s.Serve(l) }()
		t.Cleanup(func() { s.Stop(); <-done })
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+l.Addr().String())
	} else {
		s := httptest.NewServer(c)
		t.Cleanup(s.Close)
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", s.URL)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
	return c
}

// bytes returns everything that has been received.
func (c *collector) bytes(t testing.TB) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []byte
	for _, in := range c.got {
		b, err := proto.Marshal(in)
		require.NoError(t, err)
		all = append(all, b...)
	}
	return all
}

// span is a received span with its attributes by name.
type span struct {
	*tracepb.Span
	attrs map[string]any
}

// received returns the spans in the order they came, and the attributes of their
// resource.
func (c *collector) received() (spans []span, resource map[string]any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, in := range c.got {
		for _, of := range in.GetResourceSpans() {
			resource = attributesOf(of.GetResource().GetAttributes())
			for _, scope := range of.GetScopeSpans() {
				for _, s := range scope.GetSpans() {
					spans = append(spans, span{s, attributesOf(s.GetAttributes())})
				}
			}
		}
	}
	return spans, resource
}

func attributesOf(from []*commonpb.KeyValue) map[string]any {
	out := make(map[string]any, len(from))
	for _, a := range from {
		switch v := a.GetValue().GetValue().(type) {
		case *commonpb.AnyValue_StringValue:
			out[a.GetKey()] = v.StringValue
		case *commonpb.AnyValue_IntValue:
			out[a.GetKey()] = v.IntValue
		case *commonpb.AnyValue_DoubleValue:
			out[a.GetKey()] = v.DoubleValue
		case *commonpb.AnyValue_BoolValue:
			out[a.GetKey()] = v.BoolValue
		}
	}
	return out
}

// tree is spans by their kind.
type tree struct{ lookup, groups, attempts, coalesced []span }

func sorted(spans []span) (t tree) {
	for _, s := range spans {
		switch {
		case s.GetKind() == tracepb.Span_SPAN_KIND_SERVER:
			t.lookup = append(t.lookup, s)
		case s.GetKind() == tracepb.Span_SPAN_KIND_CLIENT:
			t.attempts = append(t.attempts, s)
		case s.GetName() == "coalesced shop.products":
			t.coalesced = append(t.coalesced, s)
		default:
			t.groups = append(t.groups, s)
		}
	}
	return t
}
