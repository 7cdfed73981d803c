package tracing

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"pgregory.net/rapid"
)

func TestEnvironment(t *testing.T) {
	on := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317"}
	with := func(pairs ...string) map[string]string {
		out := maps.Clone(on)
		for i := 0; i < len(pairs); i += 2 {
			out[pairs[i]] = pairs[i+1]
		}
		return out
	}
	const usual = "ParentBased{root:TraceIDRatioBased{0.01}}"
	for name, c := range map[string]struct {
		env      map[string]string
		protocol string
		sampler  string
		ignored  string
	}{
		"an endpoint alone":            {on, protocolHTTP, usual, ""},
		"an endpoint for traces alone": {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, protocolHTTP, usual, ""},
		"an exporter alone":            {map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, protocolHTTP, usual, ""},
		"two exporters":                {map[string]string{"OTEL_TRACES_EXPORTER": "console, otlp"}, protocolHTTP, usual, "OTEL_TRACES_EXPORTER"},
		"none":                         {with("OTEL_TRACES_EXPORTER", "none"), "", "", ""},
		"disabled":                     {with("OTEL_SDK_DISABLED", "true"), "", "", ""},
		"control: not disabled":        {with("OTEL_SDK_DISABLED", "1"), protocolHTTP, usual, ""},
		"grpc":                         {with("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), protocolGRPC, usual, ""},
		"grpc for traces": {with("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc"),
			protocolGRPC, usual, ""},
		"no such protocol":     {with("OTEL_EXPORTER_OTLP_PROTOCOL", "thrift"), protocolHTTP, usual, "OTEL_EXPORTER_OTLP_PROTOCOL"},
		"a share alone":        {with("OTEL_TRACES_SAMPLER_ARG", "0.25"), protocolHTTP, "ParentBased{root:TraceIDRatioBased{0.25}}", ""},
		"no share":             {with("OTEL_TRACES_SAMPLER_ARG", "25%"), protocolHTTP, usual, "OTEL_TRACES_SAMPLER_ARG"},
		"a share above 1":      {with("OTEL_TRACES_SAMPLER_ARG", "10"), protocolHTTP, usual, "OTEL_TRACES_SAMPLER_ARG"},
		"a share that is none": {with("OTEL_TRACES_SAMPLER_ARG", "NaN"), protocolHTTP, usual, "OTEL_TRACES_SAMPLER_ARG"},
		"a ratio by the book":  {with("OTEL_TRACES_SAMPLER", "traceidratio"), protocolHTTP, "TraceIDRatioBased{1}", ""},
		"all":                  {with("OTEL_TRACES_SAMPLER", "always_on"), protocolHTTP, "TraceIDRatioBased{1}", ""},
		"nothing":              {with("OTEL_TRACES_SAMPLER", "always_off"), protocolHTTP, "TraceIDRatioBased{0}", ""},
		"all by the caller":    {with("OTEL_TRACES_SAMPLER", "parentbased_always_on"), protocolHTTP, "ParentBased{root:TraceIDRatioBased{1}}", ""},
		"a share by the caller": {with("OTEL_TRACES_SAMPLER", "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG", "0.5"), protocolHTTP,
			"ParentBased{root:TraceIDRatioBased{0.5}}", ""},
		"no such sampler": {with("OTEL_TRACES_SAMPLER", "parentbased_jaeger_remote"), protocolHTTP, usual, "OTEL_TRACES_SAMPLER"},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			var log bytes.Buffer
			got := readEnvironment(slog.New(slog.NewTextHandler(&log, nil)))
			assert.Equal(t, c.protocol != "", got.on)
			assert.Equal(t, c.protocol, got.protocol)
			if got.on {
				assert.Equal(t, c.sampler, got.sampler.String())
				assert.Equal(t, defaultQueue, got.queue)
			}
			if c.ignored == "" {
				assert.Empty(t, log.String())
			} else {
				assert.Contains(t, log.String(), "variable="+c.ignored+" ")
			}
		})
	}
}

func TestOneOfAHundredRootsIsRecorded(t *testing.T) {
	s := newSampler(true, defaultRatio)
	const n = 200_000
	recorded := 0
	for range n {
		if _, yes := s.decide(Parent{}); yes {
			recorded++
		}
	}
	assert.InDelta(t, n*defaultRatio, recorded, 300) // more than six standard deviations
}

// oracle reads a traceparent as the OpenTelemetry library does.
func oracle(header string) Parent {
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": header})
	sc := trace.SpanContextFromContext(ctx)
	return Parent{sc.TraceID(), sc.SpanID(), sc.TraceFlags()}
}

func TestTraceparentIsReadAsOpenTelemetryDoes(t *testing.T) {
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	valid := 0
	rapid.Check(t, func(t *rapid.T) {
		header := []byte(good)
		copy(header[3:], strings.ToLower(newTraceID().String()))
		for range rapid.IntRange(0, 2).Draw(t, "changes") {
			at := rapid.IntRange(0, len(header)-1).Draw(t, "at")
			header[at] = rapid.SampledFrom([]byte("0123456789abcdefABCDEFg- ")).Draw(t, "to")
		}
		h := string(header)
		switch rapid.IntRange(0, 6).Draw(t, "shape") {
		case 0:
			h = h[:rapid.IntRange(0, len(h)).Draw(t, "cut")]
		case 1:
			h += rapid.SampledFrom([]string{"-", "-00", "0", "-what-ever", " "}).Draw(t, "tail")
		case 2:
			h = strings.Replace(h, "4bf92f3577b34da6a3ce929d0e0e4736", strings.Repeat("0", 32), 1)
		case 3:
			h = strings.Replace(h, "00f067aa0ba902b7", strings.Repeat("0", 16), 1)
		}
		got := ParseParent(h)
		if got.Valid() {
			valid++
		}
		if len(h) == 56 && strings.HasPrefix(h, "00-") && h[55] == '-' {
			// The library accepts it against the specification: version 00 ends there.
			if got.Valid() {
				t.Fatalf("%q is longer than version 00 may be", h)
			}
			return
		}
		if got != oracle(h) {
			t.Fatalf("%q: got %v, OpenTelemetry has %v", h, got, oracle(h))
		}
	})
	assert.NotZero(t, valid)
	assert.True(t, ParseParent(good).Sampled())
	assert.Equal(t, "4bf92f3577b34da6a3ce929d0e0e4736", ParseParent(good).TraceID())
	assert.Empty(t, ParseParent(good[:54]+"0").TraceID())
}

func noState() string { panic("asked for the state of a lookup that is not recorded") }

func TestALookupThatIsNotRecordedAllocatesNothing(t *testing.T) {
	t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
	t.Setenv("OTEL_TRACES_SAMPLER_ARG", "0")
	tracer, err := New(t.Context(), Config{})
	assert.NoError(t, err)
	defer func() { _ = tracer.Close(t.Context()) }()
	endpoint, now := GRPC("/a/b"), time.Now()
	for name, header := range map[string]string{"root": "", "caller": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"} {
		assert.Zero(t, testing.AllocsPerRun(1000, func() {
			l := tracer.Begin(ParseParent(header), noState, endpoint, now)
			_ = l.TraceID()
			l.End(nil)
		}), name)
	}
}
