package tracing

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"strings"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// sampler decides which lookups are recorded. The SDK could decide, too, but only
// when a span begins, and it allocates even when the answer is no.
type sampler struct {
	// parentBased leaves the decision to the caller where there is one.
	parentBased bool
	// ratio decides by the id of the trace.
	ratio sdktrace.Sampler
}

func newSampler(parentBased bool, ratio float64) sampler {
	return sampler{parentBased, sdktrace.TraceIDRatioBased(ratio)}
}

// String names the sampler as the SDK would.
func (s sampler) String() string {
	if s.parentBased {
		return "ParentBased{root:" + s.ratio.Description() + "}"
	}
	return s.ratio.Description()
}

// decide returns the trace of a lookup, and whether the lookup is recorded.
func (s sampler) decide(p Parent) (trace.TraceID, bool) {
	id := p.trace
	switch {
	case !p.Valid():
		id = newTraceID()
	case s.parentBased:
		return id, p.Sampled()
	}
	return id, s.ratio.ShouldSample(sdktrace.SamplingParameters{
		ParentContext: context.Background(), TraceID: id,
	}).Decision == sdktrace.RecordAndSample
}

func newTraceID() (id trace.TraceID) {
	for !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:8], rand.Uint64())
		binary.NativeEndian.PutUint64(id[8:], rand.Uint64())
	}
	return id
}

func newSpanID() (id trace.SpanID) {
	for !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:], rand.Uint64())
	}
	return id
}

// Parent is the span of the caller of a lookup. The zero Parent is none.
type Parent struct {
	trace trace.TraceID
	span  trace.SpanID
	flags trace.TraceFlags
}

// ParseParent parses a traceparent of W3C Trace Context. It returns the zero
// Parent for an empty or invalid header.
func ParseParent(traceparent string) Parent {
	const version, flags, length = 2, 53, 55
	h := traceparent
	if len(h) < length || h[version] != '-' || h[35] != '-' || h[52] != '-' {
		return Parent{}
	}
	var p Parent
	var v, f [1]byte
	if !unhex(v[:], h[:version]) || !unhex(p.trace[:], h[3:35]) || !unhex(p.span[:], h[36:52]) || !unhex(f[:], h[flags:length]) {
		return Parent{}
	}
	switch {
	case v[0] == 0xff, !p.Valid():
		return Parent{}
	case v[0] == 0 && (len(h) != length || f[0] > 3), len(h) > length && h[length] != '-':
		return Parent{}
	}
	p.flags = trace.TraceFlags(f[0]) & (trace.FlagsSampled | trace.FlagsRandom)
	return p
}

// unhex decodes lower-case hexadecimal digits. It reports whether all were.
func unhex(dst []byte, digits string) bool {
	for i := range dst {
		high, low := nibble(digits[2*i]), nibble(digits[2*i+1])
		if high|low > 0xf {
			return false
		}
		dst[i] = high<<4 | low
	}
	return true
}

func nibble(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	}
	return 0xff
}

// Valid reports whether the caller has named its trace.
func (p Parent) Valid() bool { return p.trace.IsValid() && p.span.IsValid() }

// Sampled reports whether the caller records its trace.
func (p Parent) Sampled() bool { return p.Valid() && p.flags.IsSampled() }

// TraceID returns the trace of the caller as 32 hexadecimal digits if the caller
// records it, so that it can be looked up; empty otherwise.
func (p Parent) TraceID() string {
	if !p.Sampled() {
		return ""
	}
	return p.trace.String()
}

// context returns a context whose span is that of the caller. An invalid state is
// dropped, as the specification requires.
func (p Parent) context(state string) context.Context {
	cfg := trace.SpanContextConfig{TraceID: p.trace, SpanID: p.span, TraceFlags: p.flags, Remote: true}
	if strings.TrimSpace(state) != "" {
		cfg.TraceState, _ = trace.ParseTraceState(state)
	}
	return trace.ContextWithRemoteSpanContext(context.Background(), trace.NewSpanContext(cfg))
}
