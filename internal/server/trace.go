package server

import (
	"context"
	"net/http"

	"google.golang.org/grpc/metadata"
)

// traceparent is the header of W3C Trace Context in which a caller names its
// trace, in HTTP as in gRPC.
const traceparent = "traceparent"

// traceKey is the context key of the traceparent of an HTTP request.
type traceKey struct{}

// traced keeps the traceparent of each request in its context.
func traced(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if header := r.Header.Get(traceparent); header != "" {
			r = r.WithContext(context.WithValue(r.Context(), traceKey{}, header))
		}
		next.ServeHTTP(w, r)
	})
}

// TraceID returns the trace that the caller of a request names, as 32 hexadecimal
// digits; empty when it names none, or not in the form of W3C Trace Context.
func TraceID(ctx context.Context) string {
	header, _ := ctx.Value(traceKey{}).(string)
	if header == "" {
		if values := metadata.ValueFromIncomingContext(ctx, traceparent); len(values) > 0 {
			header = values[0]
		}
	}
	return traceID(header)
}

// traceID takes the trace out of version-trace-parent-flags.
func traceID(header string) string {
	const from, to, least = 3, 35, 55
	if len(header) < least || header[2] != '-' || header[to] != '-' {
		return ""
	}
	id, zero := header[from:to], true
	for _, c := range []byte(id) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return ""
		}
		zero = zero && c == '0'
	}
	if zero {
		return ""
	}
	return id
}
