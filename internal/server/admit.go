package server

import (
	"context"
	"errors"
	"time"

	"github.com/qosproxy/qosproxy/internal/admission"
	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// admit asks whether a lookup may start. The permit must be released. If it may
// not, c.refused says why and c.resp answers every key with SHED: a lookup that
// is refused has the body of one that was not, so that a client which deals with
// partial answers deals with this one. A lookup without keys is left to the
// service to refuse.
func (c *call) admit(ctx context.Context, req *lookup.Request) *admission.Permit {
	if c.server.deps.Admission == nil || len(req.Keys) == 0 {
		return nil
	}
	deadline := deadlineOf(ctx, req)
	permit, err := c.server.deps.Admission.Admit(admission.Ask{
		Client:   identity.FromContext(ctx),
		Table:    c.table,
		Keys:     len(req.Keys),
		Deadline: deadline,

		MostBytes: req.Table.Settings.MaxResponseBytes,
	})
	if err == nil {
		begin := time.Now()
		err = permit.Wait(ctx)
		if time.Since(begin) > time.Millisecond && !deadline.IsZero() {
			req.Timeout = max(time.Until(deadline), time.Nanosecond) // what is left
		}
	}
	if err != nil {
		permit.Release(admission.Outcome{})
		if !errors.As(err, &c.refused) {
			c.refused = &admission.Refusal{RetryAfter: shed.retry, Message: err.Error()}
		}
		c.resp = &lookup.Response{
			Results: make([]partition.Result, len(req.Keys)),
			Stats:   lookup.Stats{Keys: len(req.Keys), Refused: len(req.Keys), Elapsed: time.Since(c.start)},
		}
		for i := range c.resp.Results {
			c.resp.Results[i] = partition.Result{Status: partition.Shed, Err: c.refused}
		}
		return nil
	}
	req.FewHedges, req.ShedOptional = permit.FewHedges(), permit.ShedOptional()
	return permit
}

// judge sets the outcome of a lookup from what became of its keys.
func (c *call) judge(ctx context.Context, results []partition.Result) {
	c.outcome = verdict(ctx, results)
	if c.refused != nil && c.outcome.retry > 0 {
		c.outcome.retry = c.refused.RetryAfter
	}
}

// deadlineOf returns when a lookup ends at the latest, as the service has it.
func deadlineOf(ctx context.Context, req *lookup.Request) time.Time {
	deadline, ok := ctx.Deadline()
	timeout := req.Timeout
	if timeout <= 0 && !ok {
		timeout = req.Table.Settings.Timeout
	}
	if own := time.Now().Add(timeout); timeout > 0 && (!ok || own.Before(deadline)) {
		return own
	}
	return deadline
}

// ended tells admission how a lookup ended. Keys that the caller did without say
// nothing about the hosts. Once a key is too large, the answer would have exceeded the
// most bytes it may have.
func ended(results []partition.Result, most int) admission.Outcome {
	var o admission.Outcome
	for i := range results {
		o.Bytes += results[i].Bytes
		if results[i].Status == partition.TooLarge {
			o.Bytes = max(o.Bytes, most)
		}
		switch s := results[i].Status; {
		case s.Answered():
			o.Answered++
		case lookup.Agreed(&results[i]):
		case s == partition.TimedOut || s == partition.Shed:
			o.Late++
		}
	}
	return o
}
