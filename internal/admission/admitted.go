package admission

import (
	"context"
	"errors"

	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// Lookups answers lookups. *lookup.Service does.
type Lookups interface {
	Get(ctx context.Context, req *lookup.Request) (*lookup.Response, error)
	Stream(ctx context.Context, req *lookup.Request, emit func(i int, r partition.Result) error) (lookup.Stats, error)
}

// Admitted decorates Lookups: each lookup needs a permit of a Controller, which it
// holds until the hosts have answered. It sets FewHedges and ShedOptional of a
// request. It is safe for concurrent use.
type Admitted struct {
	next       Lookups
	controller *Controller
}

// NewAdmitted returns next behind the controller; neither is nil.
func NewAdmitted(next Lookups, controller *Controller) *Admitted {
	return &Admitted{next, controller}
}

// Get is that of the next Lookups. The error is a *Refusal if the lookup may not
// begin; then no host is asked.
func (a *Admitted) Get(ctx context.Context, req *lookup.Request) (*lookup.Response, error) {
	permit, err := a.admit(ctx, req)
	if err != nil {
		return nil, err
	}
	defer permit.Release(Outcome{}) // for an error or a panic
	resp, err := a.next.Get(ctx, req)
	if err != nil {
		return nil, err
	}
	outcome := Outcome{Cancelled: errors.Is(ctx.Err(), context.Canceled)}
	for i := range resp.Results {
		outcome.add(&resp.Results[i], req.Table.Settings.MaxResponseBytes)
	}
	permit.Release(outcome)
	return resp, nil
}

// Stream is that of the next Lookups. The error is a *Refusal if the lookup may not
// begin; then no host is asked, and emit is not called.
func (a *Admitted) Stream(ctx context.Context, req *lookup.Request, emit func(i int, r partition.Result) error) (lookup.Stats, error) {
	permit, err := a.admit(ctx, req)
	if err != nil {
		return lookup.Stats{}, err
	}
	defer permit.Release(Outcome{}) // for an error or a panic
	var outcome Outcome
	stats, err := a.next.Stream(ctx, req, func(i int, r partition.Result) error {
		outcome.add(&r, req.Table.Settings.MaxResponseBytes)
		return emit(i, r)
	})
	if err != nil {
		return lookup.Stats{}, err
	}
	outcome.Cancelled = errors.Is(ctx.Err(), context.Canceled)
	permit.Release(outcome)
	return stats, nil
}

// admit returns the permit of a lookup, or the *Refusal. A lookup without keys needs
// no permit: the next Lookups refuse it.
func (a *Admitted) admit(ctx context.Context, req *lookup.Request) (permit *Permit, err error) {
	if len(req.Keys) == 0 {
		return permit, nil
	}
	answers := 1
	if req.ReadsReplicas() {
		answers = 2
	}
	permit, err = a.controller.Admit(Ask{
		Client:    identity.FromContext(ctx),
		Table:     req.Table.Schema.String(),
		Keys:      len(req.Keys),
		Deadline:  req.End(ctx),
		MostBytes: req.Table.Settings.MaxResponseBytes,
		Answers:   answers,
	})
	if err != nil {
		return nil, err
	}
	if err := permit.Wait(ctx); err != nil {
		permit.Release(Outcome{})
		return nil, err
	}
	req.FewHedges, req.ShedOptional = permit.FewHedges(), permit.ShedOptional()
	return permit, nil
}

// add counts the result of one key. Keys that the caller agreed to do without say
// nothing about the hosts. A key that is too large counts as the most bytes that the
// answer may have.
func (o *Outcome) add(r *partition.Result, most int) {
	o.Bytes += r.Bytes
	if r.Status == partition.TooLarge {
		o.Bytes = max(o.Bytes, most)
	}
	switch s := r.Status; {
	case s.Answered():
		o.Answered++
	case lookup.Agreed(r):
	case s == partition.TimedOut || s == partition.Shed:
		o.Late++
	}
}
