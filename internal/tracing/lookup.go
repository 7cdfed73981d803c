package tracing

import (
	"context"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// Endpoint is a method or route that receives lookups. Make one for each, once.
type Endpoint struct {
	name  string
	http  bool
	begin trace.SpanStartEventOption
}

// GRPC returns the endpoint of a method by its full name, such as
// /qosproxy.v1.QosProxy/BatchGet.
func GRPC(method string) *Endpoint {
	method = strings.TrimPrefix(method, "/")
	return &Endpoint{name: method, begin: trace.WithAttributes(semconv.RPCSystemNameGRPC, semconv.RPCMethod(method))}
}

// HTTP returns the endpoint of a route, such as POST /v1/{keyspace}/{table}:batchGet. A
// path itself is never an attribute, since it may hold a key.
func HTTP(method, route string) *Endpoint {
	return &Endpoint{name: method + " " + route, http: true, begin: trace.WithAttributes(
		semconv.HTTPRequestMethodKey.String(method), semconv.HTTPRoute(route))}
}

// Lookup is the span of a recorded lookup. A nil Lookup stands for one that is not
// recorded, and does nothing.
type Lookup struct {
	tracer   *Tracer
	endpoint *Endpoint
	ctx      context.Context
	span     trace.Span
}

// Begin begins the span of a lookup that an endpoint has received. It returns nil, and
// allocates nothing, if the lookup is not recorded. state returns the tracestate that
// came with p; it is called only for a recorded lookup with a valid parent.
func (t *Tracer) Begin(p Parent, state func() string, endpoint *Endpoint, start time.Time) *Lookup {
	if t == nil {
		return nil
	}
	id, recorded := t.sampler.decide(p)
	if !recorded {
		return nil
	}
	ctx := context.WithValue(context.Background(), traceKey{}, id)
	if p.Valid() {
		ctx = p.context(state())
	}
	l := &Lookup{tracer: t, endpoint: endpoint}
	l.ctx, l.span = t.tracer.Start(ctx, endpoint.name, trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(start), endpoint.begin)
	return l
}

// TraceID returns the trace as 32 hexadecimal digits; empty for a nil Lookup.
func (l *Lookup) TraceID() string {
	if l == nil {
		return ""
	}
	return l.span.SpanContext().TraceID().String()
}

// Traceresponse returns the trace and span of the lookup for its caller, in the form of
// a traceparent; empty for a nil Lookup.
func (l *Lookup) Traceresponse() string {
	if l == nil {
		return ""
	}
	sc := l.span.SpanContext()
	id, span, flags := sc.TraceID(), sc.SpanID(), sc.TraceFlags()
	out := make([]byte, 0, 55)
	out = hex.AppendEncode(append(out, "00-"...), id[:])
	out = hex.AppendEncode(append(out, '-'), span[:])
	return string(hex.AppendEncode(append(out, '-'), []byte{byte(flags)}))
}

// Outcome is how a lookup has ended.
type Outcome struct {
	// Table is the table; nil when the request named none that may be read.
	Table *lookup.Table
	// Client is the caller's name in the configuration.
	Client string
	// Keys are the keys asked, duplicates included.
	Keys int
	// Code is the outcome as in metrics; Reason is one word for it where Code is an
	// error.
	Code   lookup.Code
	Reason string
	// Status is the HTTP status, for an endpoint of HTTP.
	Status int
	// Failed is set when the proxy could not serve a valid request.
	Failed bool
	// Refused is why admission refused the lookup, in one word; empty when it did
	// not.
	Refused string
	// Response is nil when the request was refused. Its rows are not looked at.
	Response *lookup.Response
	// Record is what was sent; nil when nothing was.
	Record *lookup.Record
	// End is when the lookup was answered.
	End time.Time
}

// End ends the span, and makes those of the groups and attempts of the lookup. It makes
// them only now, from the record, so that they do not delay the lookup.
func (l *Lookup) End(o *Outcome) {
	if l == nil {
		return
	}
	if o.Record != nil && o.Table != nil {
		l.groups(o)
	}
	l.span.SetAttributes(l.attributes(o)...)
	if o.Failed {
		l.span.SetAttributes(semconv.ErrorTypeKey.String(string(o.Code)))
		l.span.SetStatus(codes.Error, o.Reason)
	}
	l.span.End(trace.WithTimestamp(o.End))
}

func (l *Lookup) attributes(o *Outcome) []attribute.KeyValue {
	attrs := make([]attribute.KeyValue, 0, 24)
	attrs = append(attrs, codeKey.String(string(o.Code)), keysKey.Int(o.Keys), clientKey.String(o.Client))
	if l.endpoint.http {
		attrs = append(attrs, semconv.HTTPResponseStatusCode(o.Status))
	} else {
		attrs = append(attrs, semconv.RPCResponseStatusCode(grpcCode(o.Code)))
	}
	if o.Table != nil {
		attrs = append(attrs, semconv.DBNamespace(o.Table.Schema.Keyspace), semconv.DBCollectionName(o.Table.Schema.Name))
	}
	if o.Refused != "" {
		attrs = append(attrs, admissionKey.String(o.Refused))
	}
	if o.Response == nil {
		return attrs
	}
	for _, count := range []struct {
		key attribute.Key
		n   int
	}{
		{groupsKey, o.Response.Stats.Groups}, {subQueriesKey, o.Response.Stats.SubQueries},
		{hedgesKey, o.Response.Stats.Hedges}, {failoversKey, o.Response.Stats.Failovers},
		{coalescedKey, o.Response.Stats.Coalesced}, {refusedKey, o.Response.Stats.Refused},
	} {
		attrs = append(attrs, count.key.Int(count.n))
	}
	return appendStatuses(attrs, o.Response.Results)
}

// grpcCode is the code of the call: a lookup with keys left unanswered is OK.
func grpcCode(code lookup.Code) string {
	if code == lookup.CodePartial || code == lookup.CodePartialOK {
		code = lookup.CodeOK
	}
	return string(code)
}

// statusKeys are the attributes with the number of keys of each status.
var statusKeys = func() (keys [partition.Failed + 1]attribute.Key) {
	for _, s := range partition.Statuses {
		keys[s] = attribute.Key("qosproxy.keys." + strings.ToLower(s.String()))
	}
	return keys
}()

// appendStatuses counts the keys of each status that occurs.
func appendStatuses(attrs []attribute.KeyValue, results []partition.Result) []attribute.KeyValue {
	var counts [partition.Failed + 1]int
	for i := range results {
		if s := results[i].Status; s <= partition.Failed {
			counts[s]++
		}
	}
	for _, s := range partition.Statuses {
		if counts[s] > 0 {
			attrs = append(attrs, statusKeys[s].Int(counts[s]))
		}
	}
	return attrs
}

// address splits host:port; the port is 0 when there is none.
func address(hostPort string) (host string, port int) {
	i := strings.LastIndexByte(hostPort, ':')
	if i < 0 {
		return hostPort, 0
	}
	port, err := strconv.Atoi(hostPort[i+1:])
	if err != nil {
		return hostPort, 0
	}
	return strings.Trim(hostPort[:i], "[]"), port
}
