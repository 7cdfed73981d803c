package tracing_test

import (
	"bufio"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/tracing"
)

// spansBy returns qosproxy_trace_spans_total by outcome.
func spansBy(t testing.TB, from prometheus.Gatherer) map[string]int {
	t.Helper()
	families, err := from.Gather()
	require.NoError(t, err)
	out := make(map[string]int)
	for _, f := range families {
		if f.GetName() != "qosproxy_trace_spans_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			out[m.GetLabel()[0].GetValue()] = int(m.GetCounter().GetValue())
		}
	}
	return out
}

// nobody is an address where nobody listens.
func nobody(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	return "http://" + l.Addr().String()
}

// deaf is an address where connections are accepted and nothing is answered.
func deaf(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return "http://" + l.Addr().String()
}

func TestACollectorThatIsGoneCostsLookupsNothing(t *testing.T) {
	for name, endpoint := range map[string]func(testing.TB) string{"refused": nobody, "never answers": deaf} {
		for _, protocol := range []string{"grpc", "http/protobuf"} {
			t.Run(protocol+" "+name, func(t *testing.T) {
				const queue, lookups, each = 60, 100, 3
				t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint(t))
				t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
				t.Setenv("OTEL_TRACES_SAMPLER", "always_on")
				t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "60")
				p := startHedging(t, found, nil, never)
				for range lookups {
					out, err := p.rpc.BatchGet(t.Context(), batch("sku-1", "sku-2"))
					require.NoError(t, err)
					require.Len(t, out.GetResults(), 2)
				}
				begin := time.Now()
				closing := p.tracer.Close(t.Context())
				// Two seconds, plus the scheduling of a busy machine.
				assert.Less(t, time.Since(begin), 30*time.Second)
				if name == "never answers" {
					assert.ErrorContains(t, closing, "the collector took none")
				}
				by := spansBy(t, p.registry)
				assert.Zero(t, by["exported"])
				assert.NotZero(t, by["failed"])
				if name == "never answers" { // a refusal is fast, and may leave room for all that follow
					assert.NotZero(t, by["dropped"])
				}
				assert.Equal(t, lookups*each, by["failed"]+by["dropped"], "each span is counted once")
				assert.Equal(t, 1, strings.Count(p.log.String(), "traces cannot be sent"), p.log.String())
			})
		}
	}
}

func TestSpansThatAreTakenAreCounted(t *testing.T) {
	collect(t, "grpc")
	p := startHedging(t, found, nil, never)
	p.post(t, map[string]any{"keys": []string{"a"}}, "traceparent", recorded)
	assert.Equal(t, map[string]int{"exported": 0, "failed": 0, "dropped": 0}, spansBy(t, p.registry))
	p.flush(t)
	assert.Equal(t, map[string]int{"exported": 3, "failed": 0, "dropped": 0}, spansBy(t, p.registry))
}

func TestACollectorThatRefusesIsCountedAsFailed(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer s.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", s.URL+"/elsewhere")
	p := startHedging(t, found, nil, never)
	p.post(t, map[string]any{"keys": []string{"a"}}, "traceparent", recorded)
	p.flush(t)
	assert.Equal(t, map[string]int{"exported": 0, "failed": 3, "dropped": 0}, spansBy(t, p.registry))
}

func TestWithoutAnEndpointNothingIsTraced(t *testing.T) {
	for name, env := range map[string]map[string]string{
		"nothing is set":       {},
		"the exporter is none": {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4317", "OTEL_TRACES_EXPORTER": "none"},
		"the SDK is disabled":  {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4317", "OTEL_SDK_DISABLED": "TRUE"},
		"another exporter":     {"OTEL_TRACES_EXPORTER": "zipkin"},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range env {
				t.Setenv(k, v)
			}
			tracer, err := tracing.New(t.Context(), tracing.Config{})
			require.NoError(t, err)
			assert.Nil(t, tracer)
			assert.NoError(t, tracer.Close(t.Context()))
			p := startHedging(t, found, nil, never)
			resp := p.post(t, map[string]any{"keys": []string{"a"}}, "traceparent", recorded)
			assert.Equal(t, http.StatusOK, resp.StatusCode)
			assert.Empty(t, resp.Header.Get("traceresponse"))
		})
	}
}

// scrape returns /metrics as OpenMetrics.
func (p *proxy) scrape(t testing.TB) []string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.Addr("admin").String()+"/metrics", http.NoBody)
	require.NoError(t, err)
	r.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	require.Contains(t, resp.Header.Get("Content-Type"), "openmetrics")
	var out []string
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		out = append(out, lines.Text())
	}
	return out
}

// exemplars returns the traces that the buckets of a histogram link to.
func exemplars(lines []string, histogram string) (traces []string) {
	for _, l := range lines {
		if _, exemplar, ok := strings.Cut(l, `# {trace_id="`); ok && strings.HasPrefix(l, histogram+"_bucket{") {
			trace, _, _ := strings.Cut(exemplar, `"`)
			traces = append(traces, trace)
		}
	}
	return traces
}

func TestHistogramsLinkToTracesThatAreRecorded(t *testing.T) {
	for name, c := range map[string]struct {
		header string
		on     bool
		lookup bool
		sub    bool
	}{
		"recorded by the caller and the proxy": {recorded, true, true, true},
		"recorded by the caller alone":         {recorded, false, true, false},
		"control: recorded by nobody":          {unrecorded, true, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			if c.on {
				collect(t, "grpc")
			}
			p := start(t, stuckAt("10.0.0.1:9042"), nil)
			for range 5 { // some ask the host that is stuck first
				p.post(t, map[string]any{"keys": []string{"a", "b", "c"}}, "traceparent", c.header)
			}
			lines := p.scrape(t)
			for histogram, want := range map[string]bool{"qosproxy_lookup_duration_seconds": c.lookup, "qosproxy_subquery_duration_seconds": c.sub} {
				got := exemplars(lines, histogram)
				assert.Equal(t, want, len(got) > 0, histogram)
				for _, trace := range got {
					assert.Equal(t, callerTrace, trace)
				}
				assert.Equal(t, want, nativeExemplars(t, p.registry, histogram) > 0, "native buckets of "+histogram)
			}
		})
	}
}

func nativeExemplars(t testing.TB, from prometheus.Gatherer, histogram string) (n int) {
	families, err := from.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == histogram {
			for _, m := range f.GetMetric() {
				n += len(m.GetHistogram().GetExemplars())
			}
		}
	}
	return n
}
