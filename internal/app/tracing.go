package app

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qosproxy/qosproxy/internal/tracing"
)

// trace begins to record lookups if the environment asks for it. A proxy whose
// traces cannot be sent is of more use than none, so that what is wrong is logged.
func (a *App) trace(ctx context.Context, registry prometheus.Registerer) *tracing.Tracer {
	tracer, err := tracing.New(ctx, tracing.Config{Version: a.options.Version, Registerer: registry, Log: a.log})
	if err != nil {
		a.log.Error("no lookup is traced; correct the OTEL_ variables and restart", "error", err)
		return nil
	}
	a.onStop(func(ctx context.Context) error {
		if err := tracer.Close(ctx); err != nil {
			a.log.Warn("some traces are lost", "error", err)
		}
		return nil
	})
	return tracer
}
