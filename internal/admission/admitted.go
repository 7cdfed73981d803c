package admission

import (
	"context"
	"errors"

	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// Lookups answers lookups. *lookup.Service implements it.
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

// NewAdmitted returns next behind the controller; neither may be nil.
func NewAdmitted(next Lookups, controller *Controller) *Admitted {
	return &Admitted{next, controller}
}

// Get calls Get of the next Lookups. The error is a *Refusal if the lookup may not begin; then
// no host is asked.
func (a *Admitted) Get(ctx context.Context, req *lookup.Request) (resp *lookup.Response, err error) {
	err = a.admit(ctx, req, func(o *Outcome) error {
		if resp, err = a.next.Get(ctx, req); err != nil {
			return err
		}
		for i := range resp.Results {
			o.add(&resp.Results[i], req.Table.Settings.MaxResponseBytes)
		}
		return nil
	})
	return resp, err
}

// Stream calls Stream of the next Lookups. The error is a *Refusal if the lookup may not begin;
// then no host is asked, and emit is not called.
func (a *Admitted) Stream(ctx context.Context, req *lookup.Request, emit func(i int, r partition.Result) error) (stats lookup.Stats, err error) {
	err = a.admit(ctx, req, func(o *Outcome) error {
		stats, err = a.next.Stream(ctx, req, func(i int, r partition.Result) error {
			o.add(&r, req.Table.Settings.MaxResponseBytes)
			return emit(i, r)
		})
		return err
	})
	return stats, err
}

// admit calls do under a permit, or returns the *Refusal. A lookup without keys needs no
// permit: the next Lookups refuse it.
func (a *Admitted) admit(ctx context.Context, req *lookup.Request, do func(*Outcome) error) error {
	if len(req.Keys) == 0 {
		return do(&Outcome{})
	}
	ask := Ask{
		Client:    identity.FromContext(ctx),
		Table:     req.Table.Schema.String(),
		Keys:      len(req.Keys),
		Deadline:  req.End(ctx),
		MostBytes: req.Table.Settings.MaxResponseBytes,
		Answers:   req.Answers(),
	}
	permit, err := a.controller.Admit(ask)
	if err != nil {
		return err
	}
	defer permit.Release(Outcome{}) // for an error or a panic
	if err := permit.Wait(ctx); err != nil {
		return err
	}
	req.FewHedges, req.ShedOptional = permit.FewHedges(), permit.ShedOptional()
	var o Outcome
	if err := do(&o); err != nil {
		return err
	}
	o.Cancelled = errors.Is(ctx.Err(), context.Canceled)
	permit.Release(o)
	return nil
}

// add counts the result of one key. Keys that the caller agreed to do without say nothing about
// the hosts. With a key that is too large, Bytes is at least most, the limit of an answer.
func (o *Outcome) add(r *partition.Result, most int) {
	o.Bytes += r.Memory()
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
