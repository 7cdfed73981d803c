package server

import (
	"context"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/tracing"
)

// The headers of W3C Trace Context, in HTTP and gRPC. A caller sends its span and
// the state of its trace; the answer names the span of its lookup, if that is
// recorded.
const (
	traceparent   = "traceparent"
	tracestate    = "tracestate"
	traceresponse = "traceresponse"
)

// The same in the canonical form of net/http.
var (
	traceparentHeader   = http.CanonicalHeaderKey(traceparent)
	tracestateHeader    = http.CanonicalHeaderKey(tracestate)
	traceresponseHeader = http.CanonicalHeaderKey(traceresponse)
)

// The endpoints that read.
var (
	endpointBatchGet       = tracing.GRPC(qosproxyv1.QosProxy_BatchGet_FullMethodName)
	endpointStreamBatchGet = tracing.GRPC(qosproxyv1.QosProxy_StreamBatchGet_FullMethodName)
	endpointHTTPBatchGet   = tracing.HTTP(http.MethodPost, "/v1/{keyspace}/{table}"+batchGetVerb)
	endpointHTTPKey        = tracing.HTTP(http.MethodGet, "/v1/{keyspace}/{table}/{key}")
	endpointHTTPKeyHead    = tracing.HTTP(http.MethodHead, "/v1/{keyspace}/{table}/{key}")
)

// traced is the part of a call for traces.
type traced struct {
	// parent is the span of the caller. span is that of the lookup; nil if it is not
	// recorded.
	parent tracing.Parent
	span   *tracing.Lookup
	// target is the table that the lookup reads, and record what it has sent; nil
	// before they are known.
	target *lookup.Table
	record *lookup.Record
	// status is that of the HTTP answer.
	status int
}

// traceGRPC begins the span of a gRPC call.
func (c *call) traceGRPC(ctx context.Context, endpoint *tracing.Endpoint) {
	if values := metadata.ValueFromIncomingContext(ctx, traceparent); len(values) > 0 {
		c.parent = tracing.ParseParent(values[0])
	}
	c.span = c.server.deps.Tracer.Begin(c.parent, func() string {
		return strings.Join(metadata.ValueFromIncomingContext(ctx, tracestate), ",")
	}, endpoint, c.start)
	if c.span != nil {
		// This fails only where no stream accepts the header.
		_ = grpc.SetHeader(ctx, metadata.Pairs(traceresponse, c.span.Traceresponse()))
	}
}

// traceHTTP begins the span of an HTTP request.
func (c *call) traceHTTP(w http.ResponseWriter, r *http.Request, endpoint *tracing.Endpoint) {
	if values := r.Header[traceparentHeader]; len(values) > 0 {
		c.parent = tracing.ParseParent(values[0])
	}
	c.span = c.server.deps.Tracer.Begin(c.parent, func() string {
		return strings.Join(r.Header[tracestateHeader], ",")
	}, endpoint, c.start)
	if c.span != nil {
		w.Header()[traceresponseHeader] = []string{c.span.Traceresponse()}
	}
}

// recordIn makes the service record a request if the span of its call is recorded.
func (c *call) recordIn(req *lookup.Request) {
	if c.span != nil {
		c.record = &lookup.Record{TraceID: c.span.TraceID()}
		req.Record = c.record
	}
}

// endTrace ends the span of a call.
func (c *call) endTrace(ctx context.Context, took time.Duration) {
	if c.span == nil {
		return
	}
	o := &tracing.Outcome{
		Table: c.target, Client: identity.FromContext(ctx).Name, Keys: c.keys,
		Code: c.outcome.code, Reason: c.outcome.reason, Status: c.status,
		Failed:   c.refusal != nil || c.outcome.http >= http.StatusInternalServerError,
		Response: c.resp, Record: c.record, End: c.start.Add(took),
	}
	if o.Status == 0 {
		o.Status = c.outcome.http
	}
	if c.refusal != nil {
		o.Refused = string(c.refusal.Reason)
	}
	c.span.End(o)
}

// traceKey is the context key of the trace of a call.
type traceKey struct{}

// withTrace returns ctx with the trace of the call, if the proxy or the caller
// records one.
func (c *call) withTrace(ctx context.Context) context.Context {
	id := c.span.TraceID()
	if id == "" {
		id = c.parent.TraceID()
	}
	if id == "" {
		return ctx
	}
	return context.WithValue(ctx, traceKey{}, id)
}

// TraceID returns the trace in which a lookup reported to an Observer is recorded,
// as 32 hexadecimal digits; empty if there is none. ctx is the context of the
// Observer.
func TraceID(ctx context.Context) string {
	id, _ := ctx.Value(traceKey{}).(string)
	return id
}
