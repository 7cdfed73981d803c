// Package tracing decides which lookups are recorded as OpenTelemetry traces, and which of
// their data leaves the proxy: never a key. It sends them by OTLP to where the standard
// environment variables say.
package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// scope is the name under which spans are exported.
const scope = "github.com/qosproxy/qosproxy"

// Config is what a Tracer is given besides the environment.
type Config struct {
	// Version is the version of this build.
	Version string
	// Registerer receives the count of spans; nil for none.
	Registerer prometheus.Registerer
	// Log receives invalid variables and, at most once a minute, that traces cannot be sent;
	// nil discards it.
	Log *slog.Logger
}

// Tracer records lookups. A nil Tracer records none. Safe for concurrent use.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	sampler  sampler
	sender   *sender
}

// New returns the Tracer that the environment asks for, nil when it asks for none. See
// deploy/observability.md for the variables. An invalid one is logged and its default used:
// it may be set for a whole platform, and must not keep the proxy from starting. The error
// is that of an exporter that cannot be made or of the Registerer. New neither connects nor
// waits.
//
// From then on the OpenTelemetry library, which has one logger for the process, writes to
// Log.
func New(ctx context.Context, cfg Config) (*Tracer, error) {
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	env := readEnvironment(log)
	if !env.on {
		return nil, nil //nolint:nilnil // No tracing is a valid outcome, not an error.
	}
	adopt(log)
	exporter, err := newExporter(ctx, env.protocol)
	if err != nil {
		return nil, fmt.Errorf("make the exporter of traces (%s): %w", env.protocol, err)
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName("qosproxy"), semconv.ServiceVersion(cfg.Version)),
		resource.WithTelemetrySDK(), resource.WithHost(),
		resource.WithFromEnv(), // last, so that it overrides the others
	)
	if err != nil {
		log.Warn("the description of this process in traces is incomplete", "error", err)
	}
	send, err := newSender(exporter, env.queue, cfg.Registerer, log)
	if err != nil {
		return nil, err
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithResource(about),
		sdktrace.WithSpanProcessor(send),
		// Whether a lookup is recorded has been decided before its span begins.
		sdktrace.WithSampler(sdktrace.AlwaysSample()),
		sdktrace.WithIDGenerator(ids{}),
	)
	log.Info("traces are sent", "protocol", env.protocol, "sampler", env.sampler.String())
	return &Tracer{
		provider: provider,
		tracer:   provider.Tracer(scope, trace.WithInstrumentationVersion(cfg.Version), trace.WithSchemaURL(semconv.SchemaURL)),
		sampler:  env.sampler,
		sender:   send,
	}, nil
}

// newExporter returns the exporter of a protocol, which reads its other settings from the
// environment.
func newExporter(ctx context.Context, protocol string) (*otlptrace.Exporter, error) {
	if protocol == protocolGRPC {
		return otlptracegrpc.New(ctx)
	}
	return otlptracehttp.New(ctx)
}

// flushWait is how long Close waits for a collector.
const flushWait = 2 * time.Second

// Close sends the spans that still wait, and gives up after two seconds. Spans that end
// later are lost. The error says that some spans were not sent.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	// The lookups may have used up the time of ctx. The last traces show the end of the
	// process, and get time of their own.
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushWait)
	defer cancel()
	stop := context.AfterFunc(flush, t.sender.abort)
	defer stop()
	// Once the exports are aborted, Shutdown ends soon, and with it the goroutines of the
	// library. Its own timeout would leave them behind.
	end, cancelEnd := context.WithTimeout(context.WithoutCancel(ctx), 2*flushWait)
	defer cancelEnd()
	if err := t.provider.Shutdown(end); err != nil {
		return fmt.Errorf("send the last traces: %w", err)
	}
	if flush.Err() != nil {
		return fmt.Errorf("send the last traces: the collector took none within %s", flushWait)
	}
	return nil
}

// ids gives a root span the trace ID by which its lookup was sampled.
type ids struct{}

// traceKey is the context key of the trace ID of a root span.
type traceKey struct{}

// NewIDs implements sdktrace.IDGenerator.
func (i ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	id, ok := ctx.Value(traceKey{}).(trace.TraceID)
	if !ok {
		id = newTraceID()
	}
	return id, i.NewSpanID(ctx, id)
}

// NewSpanID implements sdktrace.IDGenerator.
func (ids) NewSpanID(context.Context, trace.TraceID) trace.SpanID { return newSpanID() }

// The names of attributes that the semantic conventions lack.
const (
	keysKey       = attribute.Key("qosproxy.key_count")
	hostKey       = attribute.Key("qosproxy.host")
	codeKey       = attribute.Key("qosproxy.code")
	clientKey     = attribute.Key("qosproxy.client")
	groupsKey     = attribute.Key("qosproxy.groups")
	subQueriesKey = attribute.Key("qosproxy.sub_queries")
	hedgesKey     = attribute.Key("qosproxy.hedges")
	failoversKey  = attribute.Key("qosproxy.failovers")
	coalescedKey  = attribute.Key("qosproxy.keys.coalesced")
	refusedKey    = attribute.Key("qosproxy.keys.refused")
	admissionKey  = attribute.Key("qosproxy.admission")
	attemptKey    = attribute.Key("qosproxy.attempt")
	outcomeKey    = attribute.Key("qosproxy.outcome")
	hedgeAfterKey = attribute.Key("qosproxy.hedge_after")
	notHedgedKey  = attribute.Key("qosproxy.not_hedged")
	// statementKeysKey is set on attempts that shared a statement with other lookups.
	statementKeysKey = attribute.Key("qosproxy.statement_keys")
)
