package server

import "context"

// observedReason is the key of the reason in the context of an observer.
type observedReason struct{}

// withReason returns the context of the observer: with the reason, if the lookup ended by one.
func (c *call) withReason(ctx context.Context) context.Context {
	reason := c.outcome.reason
	if c.refusal != nil {
		reason += " " + string(c.refusal.Reason)
	}
	if reason == "" {
		return ctx
	}
	return context.WithValue(ctx, observedReason{}, reason)
}

// Reason returns why the lookup that an Observer is told of was refused or not answered, in
// one word of the API, such as FORBIDDEN, and for SHED the limit that did it; empty when it
// was answered, at least in part.
func Reason(ctx context.Context) string {
	reason, _ := ctx.Value(observedReason{}).(string)
	return reason
}
