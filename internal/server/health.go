package server

import (
	"context"
	"time"

	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
)

// healthInterval is how often watchers of the health service learn of a change.
const healthInterval = time.Second

// healthServer is health v1 in which "" and qosproxy.v1.QosProxy are SERVING
// exactly while the proxy is ready.
type healthServer struct {
	*health.Server
	unready func() string
}

func newHealthServer(unready func() string) *healthServer {
	h := &healthServer{Server: health.NewServer(), unready: unready}
	h.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
	h.SetServingStatus(qosproxyv1.QosProxy_ServiceDesc.ServiceName, healthpb.HealthCheckResponse_NOT_SERVING)
	return h
}

// refresh takes over the state of this moment. After Shutdown it has no effect.
func (h *healthServer) refresh() {
	state := healthpb.HealthCheckResponse_SERVING
	if h.unready() != "" {
		state = healthpb.HealthCheckResponse_NOT_SERVING
	}
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
