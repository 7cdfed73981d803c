package tracing_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/schema"
	"github.com/qosproxy/qosproxy/internal/tracing"
)

// drain is a collector that only reads what it is sent, so that its own work does
// not count.
func drain(b *testing.B) {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	b.Cleanup(s.Close)
	b.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", s.URL)
}

// BenchmarkBatchGet measures a lookup of 50 keys by gRPC through all of the proxy
// but the driver, by the share of recorded lookups. The CPU time is that of both
// ends of the call and of sending the traces.
func BenchmarkBatchGet(b *testing.B) {
	for _, share := range []string{"off", "0", "0.01", "1"} {
		b.Run("sampled="+share, func(b *testing.B) {
			if share != "off" {
				drain(b)
				b.Setenv("OTEL_TRACES_SAMPLER_ARG", share)
				b.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "100000")
			}
			p := startHedging(b, found, nil, never)
			keys := make([]string, 50)
			for i := range keys {
				keys[i] = fmt.Sprintf("sku-%08d", i*7919)
			}
			in := batch(keys...)
			b.ReportAllocs()
			begin := spent(b)
			for b.Loop() {
				if _, err := p.rpc.BatchGet(b.Context(), in); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(spent(b)-begin)/float64(b.N), "cpu-ns/op")
		})
	}
}

// spent returns the CPU time of this process, which other processes disturb less
// than wall time.
func spent(b *testing.B) int64 {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return u.Utime.Nano() + u.Stime.Nano()
}

// BenchmarkRecord measures tracing alone for a lookup of five groups and a hedge:
// the decision, and the spans when it is recorded.
func BenchmarkRecord(b *testing.B) {
	outcome := recordOfSix()
	endpoint := tracing.GRPC("/qosproxy.v1.QosProxy/BatchGet")
	state := func() string { return "vendor=a" }
	for name, c := range map[string]struct{ share, header string }{
		"root-dropped": {"0", ""}, "caller-dropped": {"1", unrecorded}, "root-1-percent": {"0.01", ""},
		"root-recorded": {"1", ""}, "caller-recorded": {"0", recorded},
	} {
		b.Run(name, func(b *testing.B) {
			drain(b)
			b.Setenv("OTEL_TRACES_SAMPLER_ARG", c.share)
			tracer, err := tracing.New(b.Context(), tracing.Config{})
			require.NoError(b, err)
			defer func() { _ = tracer.Close(b.Context()) }()
			b.ReportAllocs()
			for b.Loop() {
				l := tracer.Begin(tracing.ParseParent(c.header), state, endpoint, outcome.Record.Start)
				l.End(outcome)
			}
		})
	}
}

func recordOfSix() *tracing.Outcome {
	begin := time.Now()
	o := &tracing.Outcome{
		Table: &lookup.Table{Schema: schema.NewTable("shop", "products", "1", nil), Settings: &lookup.Settings{Consistency: "LOCAL_ONE"}},
		Keys:  50, Code: "OK", Client: "anonymous", End: begin.Add(3 * time.Millisecond),
		Response: &lookup.Response{Results: make([]partition.Result, 50)},
		Record:   &lookup.Record{Start: begin},
	}
	for i := range 6 {
		a := lookup.Attempt{Host: fmt.Sprintf("10.0.0.%d:9042", i), Kind: executor.KindFirst, End: time.Millisecond,
			Outcome: executor.OutcomeWon, HedgeAfter: 15 * time.Millisecond}
		for k := range 10 {
			a.Keys = append(a.Keys, i*10+k)
		}
		if i == 5 {
			a.Kind, a.Keys = executor.KindHedge, a.Keys[:5]
			for k := range a.Keys {
				a.Keys[k] = k
			}
		}
		o.Record.Attempts = append(o.Record.Attempts, a)
	}
	return o
}
