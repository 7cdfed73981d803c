package tracing_test

import (
	"context"
	"encoding/hex"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/admission"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/partition"
)

const (
	callerTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	callerSpan  = "00f067aa0ba902b7"
	recorded    = "00-" + callerTrace + "-" + callerSpan + "-01"
	unrecorded  = "00-" + callerTrace + "-" + callerSpan + "-00"
)

func traceOf(s span) string  { return hex.EncodeToString(s.GetTraceId()) }
func idOf(s span) string     { return hex.EncodeToString(s.GetSpanId()) }
func parentOf(s span) string { return hex.EncodeToString(s.GetParentSpanId()) }

// within asserts that the inner span neither begins before the outer one nor
// ends after it.
func within(t *testing.T, inner, outer span) {
	t.Helper()
	assert.GreaterOrEqual(t, inner.GetStartTimeUnixNano(), outer.GetStartTimeUnixNano(), inner.GetName())
	assert.LessOrEqual(t, inner.GetEndTimeUnixNano(), outer.GetEndTimeUnixNano(), inner.GetName())
	assert.GreaterOrEqual(t, inner.GetEndTimeUnixNano(), inner.GetStartTimeUnixNano(), inner.GetName())
}

func TestAHedgedLookupIsATraceOfLookupGroupAndAttempts(t *testing.T) {
	asks := map[string]struct {
		ask  func(t *testing.T, p *proxy) (traceresponse string)
		name string
		want map[string]any
	}{
		"BatchGet": {func(t *testing.T, p *proxy) string {
			var header metadata.MD
			ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", recorded, "tracestate", "vendor=a", "tracestate", "other=b")
			_, err := p.rpc.BatchGet(ctx, batch("sku-1"), grpc.Header(&header))
			require.NoError(t, err)
			return strings.Join(header.Get("traceresponse"), "")
		}, "qosproxy.v1.QosProxy/BatchGet", map[string]any{
			"rpc.system.name": "grpc", "rpc.method": "qosproxy.v1.QosProxy/BatchGet", "rpc.response.status_code": "OK"}},
		"StreamBatchGet": {func(t *testing.T, p *proxy) string {
			ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", recorded, "tracestate", "vendor=a,other=b")
			stream, err := p.rpc.StreamBatchGet(ctx, &qosproxyv1.StreamBatchGetRequest{Keyspace: "shop", Table: "products", Keys: batch("sku-1").GetKeys()})
			require.NoError(t, err)
			header, err := stream.Header()
			require.NoError(t, err)
			for err == nil {
				_, err = stream.Recv()
			}
			return strings.Join(header.Get("traceresponse"), "")
		}, "qosproxy.v1.QosProxy/StreamBatchGet", map[string]any{
			"rpc.system.name": "grpc", "rpc.method": "qosproxy.v1.QosProxy/StreamBatchGet", "rpc.response.status_code": "OK"}},
		"POST": {func(t *testing.T, p *proxy) string {
			resp := p.post(t, map[string]any{"keys": []string{"sku-1"}}, "traceparent", recorded, "tracestate", "vendor=a", "tracestate", "other=b")
			return resp.Header.Get("traceresponse")
		}, "POST /v1/{keyspace}/{table}:batchGet", map[string]any{
			"http.request.method": "POST", "http.route": "/v1/{keyspace}/{table}:batchGet", "http.response.status_code": int64(http.StatusOK)}},
		"GET": {func(t *testing.T, p *proxy) string {
			resp := p.send(t, http.MethodGet, "/v1/shop/products/sku-1", "", "traceparent", recorded, "tracestate", "vendor=a,other=b")
			return resp.Header.Get("traceresponse")
		}, "GET /v1/{keyspace}/{table}/{key}", map[string]any{
			"http.request.method": "GET", "http.route": "/v1/{keyspace}/{table}/{key}", "http.response.status_code": int64(http.StatusOK)}},
		"HEAD": {func(t *testing.T, p *proxy) string {
			resp := p.send(t, http.MethodHead, "/v1/shop/products/sku-1", "", "traceparent", recorded, "tracestate", "vendor=a,other=b")
			return resp.Header.Get("traceresponse")
		}, "HEAD /v1/{keyspace}/{table}/{key}", map[string]any{
			"http.request.method": "HEAD", "http.route": "/v1/{keyspace}/{table}/{key}", "http.response.status_code": int64(http.StatusOK)}},
	}
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		for endpoint, d := range asks {
			t.Run(protocol+" "+endpoint, func(t *testing.T) {
				c := collect(t, protocol)
				t.Setenv("OTEL_SERVICE_NAME", "shop-proxy")
				t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
				p := start(t, firstStuck(), nil)
				traceresponse := d.ask(t, p)
				p.flush(t)

				spans, resource := c.received()
				assert.Equal(t, "shop-proxy", resource["service.name"])
				assert.Equal(t, "1.2.3", resource["service.version"])
				assert.Equal(t, "test", resource["deployment.environment.name"])
				got := sorted(spans)
				require.Len(t, got.lookup, 1)
				require.Len(t, got.groups, 1)
				require.Len(t, got.attempts, 2)
				lookup, group, first, hedge := got.lookup[0], got.groups[0], got.attempts[0], got.attempts[1]
				if first.attrs["qosproxy.attempt"] != "first" {
					first, hedge = hedge, first
				}

				assert.Equal(t, d.name, lookup.GetName())
				assert.Equal(t, callerTrace, traceOf(lookup))
				assert.Equal(t, callerSpan, parentOf(lookup))
				assert.Equal(t, "vendor=a,other=b", lookup.GetTraceState())
				assert.Equal(t, "00-"+callerTrace+"-"+idOf(lookup)+"-01", traceresponse)
				assert.Equal(t, idOf(lookup), parentOf(group))
				assert.Equal(t, idOf(group), parentOf(first))
				assert.Equal(t, idOf(group), parentOf(hedge))
				within(t, group, lookup)
				within(t, first, group)
				within(t, hedge, group)
				assert.GreaterOrEqual(t, hedge.GetStartTimeUnixNano()-first.GetStartTimeUnixNano(), uint64(hedgeDelay))

				want := map[string]any{
					"qosproxy.code": "OK", "qosproxy.key_count": int64(1), "qosproxy.client": "anonymous",
					"db.namespace": "shop", "db.collection.name": "products",
					"qosproxy.groups": int64(1), "qosproxy.sub_queries": int64(2), "qosproxy.hedges": int64(1), "qosproxy.failovers": int64(0),
					"qosproxy.keys.coalesced": int64(0), "qosproxy.keys.refused": int64(0), "qosproxy.keys.found": int64(1),
				}
				maps.Copy(want, d.want)
				assert.Equal(t, want, lookup.attrs)
				host := first.attrs["qosproxy.host"].(string)
				assert.Equal(t, "group shop.products", group.GetName())
				assert.Equal(t, map[string]any{"qosproxy.host": host, "qosproxy.key_count": int64(1)}, group.attrs)
				assert.Equal(t, attempt(host, "first", "cancelled", hedgeDelay), first.attrs)
				assert.NotEqual(t, host, hedge.attrs["qosproxy.host"])
				assert.Equal(t, attempt(hedge.attrs["qosproxy.host"].(string), "hedge", "won", 4*hedgeDelay), hedge.attrs)
				for _, s := range spans {
					assert.Equal(t, tracepb.Status_STATUS_CODE_UNSET, s.GetStatus().GetCode(), s.GetName())
				}
				for _, a := range got.attempts {
					assert.Equal(t, "SELECT shop.products", a.GetName())
				}
			})
		}
	}
}

// attempt returns the attributes of an attempt at one key.
func attempt(host, kind, outcome string, hedgeAfter time.Duration) map[string]any {
	return map[string]any{
		"db.system.name": "cassandra", "db.namespace": "shop", "db.collection.name": "products", "db.operation.name": "SELECT",
		"db.query.summary": "SELECT shop.products", "cassandra.consistency.level": "local_one",
		"server.address": strings.TrimSuffix(host, ":9042"), "server.port": int64(9042), "qosproxy.host": host,
		"qosproxy.attempt": kind, "qosproxy.outcome": outcome, "qosproxy.key_count": int64(1), "qosproxy.hedge_after": hedgeAfter.Seconds(),
	}
}

func TestAFailedAttemptSaysWhyAndItsFailoverIsOfTheSameGroup(t *testing.T) {
	c := collect(t, "grpc")
	failed := false
	p := startHedging(t, func(ctx context.Context, q *executor.SubQuery) ([]partition.Result, error) {
		if failed {
			return found(ctx, q)
		}
		failed = true
		q.Settled()
		return nil, &executor.ReadError{Reason: executor.ReasonOverloaded, Err: context.Canceled}
	}, nil, never)
	p.post(t, map[string]any{"keys": []string{"sku-1"}}, "traceparent", recorded)
	p.flush(t)
	spans, _ := c.received()
	got := sorted(spans)
	require.Len(t, got.groups, 1)
	require.Len(t, got.attempts, 2)
	slices.SortFunc(got.attempts, func(a, b span) int { return int(int64(a.GetStartTimeUnixNano()) - int64(b.GetStartTimeUnixNano())) })
	lost, won := got.attempts[0], got.attempts[1]
	assert.Equal(t, []any{"first", "failed", "overloaded"}, []any{lost.attrs["qosproxy.attempt"], lost.attrs["qosproxy.outcome"], lost.attrs["error.type"]})
	assert.Equal(t, tracepb.Status_STATUS_CODE_ERROR, lost.GetStatus().GetCode())
	assert.Equal(t, []any{"failover", "won", nil}, []any{won.attrs["qosproxy.attempt"], won.attrs["qosproxy.outcome"], won.attrs["error.type"]})
	assert.Equal(t, tracepb.Status_STATUS_CODE_UNSET, got.lookup[0].GetStatus().GetCode())
}

func TestWhoRecordsDecidesTheCaller(t *testing.T) {
	for name, c := range map[string]struct {
		sampler, header string
		want            int
	}{
		"the caller does not record":                     {"", unrecorded, 0},
		"control: the caller records":                    {"", recorded, 3},
		"the caller does not record, but is not asked":   {"always_on", unrecorded, 3},
		"the caller records, but is not asked":           {"always_off", recorded, 0},
		"there is no caller, and all roots are recorded": {"parentbased_always_on", "", 3},
		"there is no caller, and no root is recorded":    {"parentbased_always_off", "", 0},
		"a caller that is not valid is none":             {"parentbased_always_on", strings.ToUpper(unrecorded), 3},
	} {
		t.Run(name, func(t *testing.T) {
			to := collect(t, "http/protobuf")
			t.Setenv("OTEL_TRACES_SAMPLER", c.sampler)
			p := startHedging(t, found, nil, never)
			resp := p.post(t, map[string]any{"keys": []string{"sku-1"}}, "traceparent", c.header)
			assert.Equal(t, c.want > 0, resp.Header.Get("traceresponse") != "")
			p.flush(t)
			spans, _ := to.received()
			assert.Len(t, spans, c.want)
		})
	}
}

func TestALookupThatIsRefusedIsASpanWithAStatus(t *testing.T) {
	c := collect(t, "grpc")
	admitted, err := admission.New(admission.Config{Limits: admission.DefaultLimits()})
	require.NoError(t, err)
	full, err := admitted.Admit(admission.Ask{Client: identity.Anonymous, Table: "shop.products", Keys: 1 << 20})
	require.NoError(t, err)
	defer full.Release(admission.Outcome{})
	p := startHedging(t, found, admitted, never)
	resp := p.post(t, map[string]any{"keys": []string{"sku-1", "sku-2"}}, "traceparent", recorded)
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	p.send(t, http.MethodPost, "/v1/shop/products:batchGet", "{", "traceparent", recorded)
	p.send(t, http.MethodPost, "/v1/shop/products:batchGet", "{}", "traceparent", recorded, "Content-Type", "text/csv")
	p.send(t, http.MethodGet, "/v1/shop/nosuch/key", "", "traceparent", recorded)
	p.flush(t)
	spans, _ := c.received()
	require.Len(t, spans, 4, "nothing was sent for any of them")
	shed := spans[0]
	assert.Equal(t, tracepb.Status_STATUS_CODE_ERROR, shed.GetStatus().GetCode())
	assert.Equal(t, "SHED", shed.GetStatus().GetMessage())
	assert.Equal(t, "overload", shed.attrs["qosproxy.admission"])
	assert.Equal(t, "RESOURCE_EXHAUSTED", shed.attrs["error.type"])
	assert.Equal(t, int64(2), shed.attrs["qosproxy.keys.shed"])
	assert.Equal(t, int64(2), shed.attrs["qosproxy.keys.refused"])
	for i, want := range []int64{http.StatusBadRequest, http.StatusUnsupportedMediaType, http.StatusNotFound} {
		s := spans[i+1]
		assert.Equal(t, want, s.attrs["http.response.status_code"])
		assert.Equal(t, tracepb.Status_STATUS_CODE_UNSET, s.GetStatus().GetCode(), "what the caller got wrong is no failure of the proxy")
		assert.NotContains(t, s.attrs, "db.collection.name")
	}
}

func TestKeysThatAnotherLookupReadsAreASpan(t *testing.T) {
	c := collect(t, "grpc")
	reading, let := make(chan struct{}), make(chan struct{})
	p := startHedging(t, func(ctx context.Context, q *executor.SubQuery) ([]partition.Result, error) {
		reading <- struct{}{}
		<-let
		return found(ctx, q)
	}, nil, never)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", recorded)
	// Whether the second already waits for the first cannot be seen here.
	for wait, met := time.Millisecond, false; !met; wait *= 2 {
		require.Less(t, wait, time.Minute, "the lookups never met")
		first, second := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(first)
			_, _ = p.rpc.BatchGet(context.Background(), batch("hot"))
		}()
		<-reading
		go func() {
			defer close(second)
			out, err := p.rpc.BatchGet(ctx, batch("hot"))
			assert.NoError(t, err)
			met = out.GetStats().GetCoalesced() > 0
		}()
		time.Sleep(wait)
		let <- struct{}{}
		<-first
		select {
		case <-second:
		case <-reading: // too late: it reads by itself
			let <- struct{}{}
			<-second
		}
	}
	p.flush(t)
	spans, _ := c.received()
	got := sorted(spans)
	require.Len(t, got.coalesced, 1)
	lookup := got.lookup[len(got.lookup)-1]
	assert.Equal(t, int64(1), lookup.attrs["qosproxy.keys.coalesced"])
	assert.Equal(t, map[string]any{"qosproxy.key_count": int64(1), "qosproxy.outcome": "won"}, got.coalesced[0].attrs)
	assert.Equal(t, idOf(lookup), parentOf(got.coalesced[0]))
	within(t, got.coalesced[0], lookup)
}
