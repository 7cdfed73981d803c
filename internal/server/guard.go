package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// incident logs a recovered panic and returns the id under which a client's
// report finds it. The value of the panic is logged only when it is the
// runtime's own, since another could hold a key.
func (s *Server) incident(ctx context.Context, method string, recovered any) string {
	id := rand.Text()[:12]
	what := fmt.Sprintf("%T", recovered)
	var fault runtime.Error
	if err, ok := recovered.(error); ok && errors.As(err, &fault) {
		what = fault.Error()
	}
	s.log.ErrorContext(ctx, "panic in a request", "incident", id, "method", method, "panic", what, "stack", string(debug.Stack()))
	return id
}

func incidentMessage(id string) string {
	return "the proxy failed on this request; its log has the cause under incident " + id
}

func incidentError(id string) error {
	return withDetails(status.New(internal.grpc, incidentMessage(id)),
		&errdetails.ErrorInfo{Reason: internal.reason, Domain: errorDomain, Metadata: map[string]string{"incident": id}})
}

// atOnce is how soon after its handler has begun a call is reset at once. Who has a use
// for the answer waits for longer.
const atOnce = time.Millisecond

// connOf returns the connection of a call; nil when it does not count calls.
func (s *Server) connOf(ctx context.Context) *conn {
	p, ok := peer.FromContext(ctx)
	if !ok || s.cfg.without.resets {
		return nil
	}
	a, _ := p.Addr.(connAddr)
	return a.conn
}

// tap sees a call before gRPC makes anything of it, by the goroutine that reads the
// connection: most calls that are reset at once get no further.
func (s *Server) tap(ctx context.Context, _ *tap.Info) (context.Context, error) {
	if c := s.connOf(ctx); c != nil && !c.begin() {
		return ctx, errResets
	}
	return ctx, nil
}

var errResets = status.Error(codes.ResourceExhausted, "most calls of this connection were reset as soon as they were begun")

// waited tells the connection of a call, at its end, that its peer did not reset it at once.
func (s *Server) waited(ctx context.Context, start time.Time) {
	if c := s.connOf(ctx); c != nil && (ctx.Err() != context.Canceled || time.Since(start) >= atOnce) {
		c.want()
	}
}

// guardUnary answers a panic with INTERNAL and logs the access.
func (s *Server) guardUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	start := time.Now()
	defer func() {
		if r := recover(); r != nil {
			resp, err = nil, incidentError(s.incident(ctx, info.FullMethod, r))
		}
		s.waited(ctx, start)
		s.access(ctx, info.FullMethod, status.Code(err).String(), start)
	}()
	return handler(ctx, req)
}

// guardStream does the same for streams.
func (s *Server) guardStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	start := time.Now()
	defer func() {
		if r := recover(); r != nil {
			err = incidentError(s.incident(stream.Context(), info.FullMethod, r))
		}
		s.waited(stream.Context(), start)
		s.access(stream.Context(), info.FullMethod, status.Code(err).String(), start)
	}()
	return handler(srv, stream)
}

// access logs one request at debug level, without its keys.
func (s *Server) access(ctx context.Context, method, code string, start time.Time) {
	if s.log.Enabled(ctx, slog.LevelDebug) {
		s.log.DebugContext(ctx, "request", "method", method, "code", code, "duration", time.Since(start))
	}
}

// recorder remembers the status of a response.
type recorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader records the status.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write records the status that it implies.
func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// guardHTTP answers a panic with 500 and logs the access. The path is not logged:
// it may hold a key.
func (s *Server) guardHTTP(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, start := r.Context(), time.Now()
		rec := &recorder{ResponseWriter: w}
		defer func() {
			if recovered := recover(); recovered != nil {
				id := s.incident(ctx, r.Method, recovered)
				if rec.status == 0 {
					writeError(rec, httpError{status: internal.http, code: internal.label, message: incidentMessage(id)})
				}
			}
			s.access(ctx, "HTTP "+r.Method, http.StatusText(rec.status), start)
		}()
		next.ServeHTTP(rec, r)
	})
}
