package server

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
)

// healthInterval is how often it is looked whether watchers of the health service are
// to learn of a change. Who replaces proxies in turn goes on when one is ready, and
// clients that balance by health must know that one by then.
const healthInterval = 50 * time.Millisecond

// healthServer is health v1 in which "" and qosproxy.v1.QosProxy are SERVING
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

// refresh takes over the state of this moment. After Shutdown it has no effect.
func (h *healthServer) refresh() {
	if h.unready() == "" {
		h.set(healthpb.HealthCheckResponse_SERVING)
	} else {
		h.set(healthpb.HealthCheckResponse_NOT_SERVING)
	}
}

// set wakes watchers, who may be many, for a change only.
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

// Check answers with the state of this moment.
func (h *healthServer) Check(ctx context.Context, in *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	h.refresh()
	return h.Server.Check(ctx, in)
}
