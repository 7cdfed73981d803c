package server

import (
	"context"

	"github.com/qosproxy/qosproxy/internal/reasons"
)

// observedReason is the context key of the reason, for an Observer.
type observedReason struct{}

// withReason returns ctx, with the reason if the lookup ended by one.
func (c *call) withReason(ctx context.Context) context.Context {
	if c.outcome.why == reasons.None {
		return ctx
	}
	return context.WithValue(ctx, observedReason{}, c.outcome.why)
}

// Reason returns why the lookup that an Observer is told of was refused or not answered; None
// if it was answered at least in part. ctx is that of the Observer.
func Reason(ctx context.Context) reasons.Reason {
	why, _ := ctx.Value(observedReason{}).(reasons.Reason)
	return why
}
