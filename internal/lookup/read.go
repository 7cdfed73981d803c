package lookup

import (
	"context"
	"errors"
	"time"

	"github.com/qosproxy/qosproxy/internal/coalesce"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/incident"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/planner"
)

// reading is what was done to read the keys of a lookup.
type reading struct {
	executor.Stats
	// began is the time to which the times of attempts are relative.
	began time.Time
	// groups are the groups of all first attempts, and survey is what the first plan took
	// into account; both only with executor.Request.Trace.
	groups []planner.Group
	survey *executor.Survey
	// coalesced is how many keys were answered by reads of other lookups.
	coalesced int
}

// read reads the distinct keys of a request, or waits for other lookups that are reading
// them. It gives the merge one result per key, all from this goroutine, by the deadline
// of ctx.
func (s *Service) read(ctx context.Context, r *resolved, to *merge) reading {
	priority := identity.FromContext(ctx).Priority
	r.read.Batch = priority == identity.Batch
	if r.Table.Settings.Coalesce.Shares(r.query.Consistency) {
		deadline, _ := ctx.Deadline()
		call := s.shared.Begin(&r.query, r.read.Keys, deadline, patience(&r.read), priority)
		defer call.Close()
		if call.Waiting() > 0 {
			return s.readWithOthers(ctx, &r.read, call, to.add)
		}
		to.shared = &sharing{ctx: ctx, call: call}
	}
	plan := s.cfg.Executor.Plan(&r.read)
	began := time.Now()
	stats := s.cfg.Executor.Execute(ctx, plan, to.add)
	return reading{Stats: stats, began: began, groups: plan.Groups, survey: plan.Survey}
}

// usualGroup is the number of keys in a group of a large lookup.
const usualGroup = 10

// patience returns how long a lookup waits for the read of another: as long as it would
// wait for a host before it hedged.
func patience(req *executor.Request) time.Duration {
	if delay, ok := req.Table.HedgeDelay(req.Policy, usualGroup); ok && delay > 0 {
		return delay
	}
	return hedge.Fallback
}

// sharing passes the results of a lookup to others that wait for its reads.
type sharing struct {
	ctx  context.Context //nolint:containedctx // of one call of read, for each of its results
	call *coalesce.Call
}

// share passes a result to the lookups that wait for it, unless the result is peculiar to
// this lookup: to its end, or to the other keys that it asks for.
func (s *sharing) share(k int, res partition.Result) {
	_, broken := errors.AsType[*incident.Error](res.Err)
	switch {
	case broken:
		// A panic of this lookup is not for others: they read the key themselves.
		s.call.Withhold(k)
	case res.Status.Answered():
		s.call.Share(k, res)
	case res.Status == partition.TooLarge && errors.Is(res.Err, executor.ErrCrowded):
		s.call.Withhold(k)
	case res.Status == partition.TooLarge, s.ctx.Err() == nil:
		s.call.Share(k, res)
	default:
		// The lookup is ending. Closing its call releases all such keys at once, so that
		// a lookup that waits for several plans them together.
	}
}
