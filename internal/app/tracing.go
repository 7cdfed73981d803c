package app

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qosproxy/qosproxy/internal/tracing"
)

// trace starts to record lookups if the environment asks for it. An error is only
// logged: a proxy without traces is of more use than none.
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
