package tracing

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// sender passes ended spans to the batch processor of the SDK while there is room,
// so that ending a span never waits. It counts the waiting spans itself, because
// the SDK drops spans silently.
type sender struct {
	batches  sdktrace.SpanProcessor
	exporter sdktrace.SpanExporter
	metrics  *metrics
	trouble  *occasional
	// waiting is how many spans are not sent yet, at most room.
	waiting atomic.Int64
	room    int64
	// aborted is cancelled when sending has no more time.
	aborted context.Context
	abort   context.CancelFunc
}

func newSender(exporter sdktrace.SpanExporter, room int, to prometheus.Registerer, log *slog.Logger) (*sender, error) {
	m, err := newMetrics(to)
	if err != nil {
		return nil, err
	}
	s := &sender{exporter: exporter, metrics: m, room: int64(room)}
	s.trouble = &occasional{say: func(err error, spans int) {
		log.Warn("traces cannot be sent; lookups are not affected", "error", err, "spans", spans)
	}}
	s.aborted, s.abort = context.WithCancel(context.Background())
	// The rest of OTEL_BSP_* is read by the SDK.
	s.batches = sdktrace.NewBatchSpanProcessor(exports{s}, sdktrace.WithMaxQueueSize(room))
	return s, nil
}

// OnStart implements sdktrace.SpanProcessor.
func (s *sender) OnStart(ctx context.Context, span sdktrace.ReadWriteSpan) {
	s.batches.OnStart(ctx, span)
}

// OnEnd implements sdktrace.SpanProcessor. It never waits.
func (s *sender) OnEnd(span sdktrace.ReadOnlySpan) {
	if s.waiting.Add(1) > s.room {
		s.waiting.Add(-1)
		s.metrics.dropped.Inc()
		return
	}
	s.batches.OnEnd(span)
}

// ForceFlush implements sdktrace.SpanProcessor.
func (s *sender) ForceFlush(ctx context.Context) error { return s.batches.ForceFlush(ctx) }

// Shutdown implements sdktrace.SpanProcessor.
func (s *sender) Shutdown(ctx context.Context) error {
	defer s.abort()
	return s.batches.Shutdown(ctx)
}

// exports is the exporter of a sender.
type exports struct{ sender *sender }

// ExportSpans implements sdktrace.SpanExporter. It swallows errors, each of which
// the SDK would print.
func (e exports) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.sender.aborted, cancel)()
	err := e.sender.exporter.ExportSpans(ctx, spans)
	n := len(spans)
	e.sender.waiting.Add(int64(-n))
	if err != nil {
		e.sender.metrics.failed.Add(float64(n))
		e.sender.trouble.note(err, n)
		return nil
	}
	e.sender.metrics.exported.Add(float64(n))
	return nil
}

// Shutdown implements sdktrace.SpanExporter.
func (e exports) Shutdown(ctx context.Context) error { return e.sender.exporter.Shutdown(ctx) }

// quiet is the least time between two messages of an occasional.
const quiet = time.Minute

// occasional logs at most once a minute: the first error at once, and later ones
// only as spans in the next message.
type occasional struct {
	// say logs err.
	say func(err error, spans int)

	mu    sync.Mutex
	last  time.Time
	spans int
}

func (o *occasional) note(err error, spans int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.spans += spans
	if now := time.Now(); o.last.IsZero() || now.Sub(o.last) >= quiet {
		o.say(err, o.spans)
		o.last, o.spans = now, 0
	}
}

// adopt makes the OpenTelemetry library, which has one logger for the process,
// write to log instead of stderr.
func adopt(log *slog.Logger) {
	trouble := &occasional{say: func(err error, _ int) { log.Warn("OpenTelemetry reports an error", "error", err) }}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { trouble.note(err, 0) }))
	otel.SetLogger(logr.FromSlogHandler(log.Handler()))
}
