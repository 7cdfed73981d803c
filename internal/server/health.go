package server

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
)

// healthInterval is how often watchers of the health service learn of a change. A rolling
// update continues as soon as one proxy is ready, and clients that balance by health must
// know of that proxy by then.
const healthInterval = 50 * time.Millisecond

// healthServer implements health v1. The services "" and qosproxy.v1.QosProxy are SERVING
// exactly while the proxy is ready.
type healthServer struct {
	*health.Server
	unready func() string

	mu    sync.Mutex
	state healthpb.HealthCheckResponse_ServingStatus // what was set last
}

func newHealthServer(unready func() string) *healthServer {
	h := &healthServer{Server: health.NewServer(), unready: unready}
	h.set(healthpb.HealthCheckResponse_NOT_SERVING)
	return h
}

// refresh sets the current state. After Shutdown it has no effect.
func (h *healthServer) refresh() {
	if h.unready() == "" {
		h.set(healthpb.HealthCheckResponse_SERVING)
	} else {
		h.set(healthpb.HealthCheckResponse_NOT_SERVING)
	}
}

// set wakes the watchers, who may be many, only for a change.
func (h *healthServer) set(state healthpb.HealthCheckResponse_ServingStatus) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == state {
		return
	}
	h.state = state
	h.SetServingStatus("", state)
	h.SetServingStatus(qosproxyv1.QosProxy_ServiceDesc.ServiceName, state)
}

// follow keeps the state current for watchers until ctx ends.
func (h *healthServer) follow(ctx context.Context) {
	tick := time.NewTicker(healthInterval)
	defer tick.Stop()
	for {
		h.refresh()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Check answers with the state at this moment.
func (h *healthServer) Check(ctx context.Context, in *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	h.refresh()
	return h.Server.Check(ctx, in)
}

// NotReady returns why the proxy accepts no lookups; empty if it does. It updates watchers
// of the gRPC health service first: whoever learns here that this proxy is ready may stop
// another one.
func (s *Server) NotReady() string {
	s.health.refresh()
	return s.unready()
}

// unready is NotReady without the update of the health service, which itself calls it.
func (s *Server) unready() string {
	if s.draining.Load() {
		return "draining: the proxy is shutting down"
	}
	if s.deps.Ready == nil {
		return ""
	}
	return s.deps.Ready()
}

// endAtShutdown makes a call of an open service end when Shutdown begins: anybody may
// watch the health forever, or begin a call and send no message. undo reverts that.
func (s *Server) endAtShutdown(ctx context.Context, method string) (undo func() bool) {
	if isOpen(method) {
		if abort := abortOf(ctx); abort != nil {
			return context.AfterFunc(s.taking, abort)
		}
	}
	return func() bool { return false }
}

// adminHandler serves the probes of the admin listener, and the operators' pages.
func (s *Server) adminHandler() http.Handler {
	mux := http.NewServeMux()
	for path, probe := range map[string]http.HandlerFunc{
		"/livez":  func(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "ok\n") },
		"/readyz": s.serveReady,
	} {
		mux.HandleFunc("GET "+path, probe)
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { // not left to the pages
			w.Header().Set("Allow", "GET, HEAD")
			writeText(w, http.StatusMethodNotAllowed, "use GET\n")
		})
	}
	if s.deps.Pages != nil {
		mux.Handle("/", s.deps.Pages)
	}
	return mux
}

// serveReady says whether the proxy accepts lookups, and why not. Kubernetes then sends it
// none; it does not restart the process, as it would after a failed /livez.
func (s *Server) serveReady(w http.ResponseWriter, _ *http.Request) {
	if reason := s.NotReady(); reason != "" {
		writeText(w, http.StatusServiceUnavailable, "not ready: "+reason+"\n")
		return
	}
	writeText(w, http.StatusOK, "ok\n")
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}
