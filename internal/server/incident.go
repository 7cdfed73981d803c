package server

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	"github.com/qosproxy/qosproxy/internal/incident"
)

// incidentError returns the status of a call that a panic has ended.
func incidentError(e *incident.Error) error {
	return withDetails(status.New(internal.grpc, e.Error()),
		&errdetails.ErrorInfo{Reason: internal.reason, Domain: errorDomain, Metadata: map[string]string{"incident": e.ID, reasonKey: e.ClientReason().String()}})
}

// access logs one request at debug level, without its keys.
func (s *Server) access(ctx context.Context, method, code string, start time.Time) {
	if s.log.Enabled(ctx, slog.LevelDebug) {
		s.log.DebugContext(ctx, "request", "method", method, "code", code, "duration", time.Since(start))
	}
}

// recorder records the status of a response.
type recorder struct {
	http.ResponseWriter
	status int
	// timeout is how long the client may take to receive the response.
	timeout time.Duration
}

// writeTimeout returns how long a client may take to receive a response.
func writeTimeout(w http.ResponseWriter) time.Duration {
	if r, ok := w.(*recorder); ok {
		return r.timeout
	}
	return DefaultLimits().WriteTimeout
}

// WriteHeader records the status.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write records the implied status.
func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// guardHTTP answers a panic with 500 and logs the access. It does not log the
// path, which may contain a key.
func (s *Server) guardHTTP(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, start := r.Context(), time.Now()
		rec := &recorder{ResponseWriter: w, timeout: s.cfg.Limits.WriteTimeout}
		defer func() {
			if recovered := recover(); recovered != nil {
				failed := s.deps.Incidents.Record(ctx, "HTTP "+r.Method, recovered)
				if rec.status == 0 {
					writeError(rec, httpError{status: internal.http, code: internal.code, why: internal.why, message: failed.Error()})
				}
			}
			s.access(ctx, "HTTP "+r.Method, http.StatusText(rec.status), start)
		}()
		next.ServeHTTP(rec, r)
	})
}
