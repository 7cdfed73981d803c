package lookup

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/qosproxy/qosproxy/internal/coalesce"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/planner"
)

// reading is what it took to read the keys of a lookup.
type reading struct {
	executor.Stats
	// began is what the times of attempts are relative to.
	began time.Time
	// plan has the groups of all first attempts.
	plan planner.Plan
	// coalesced is how many keys the reads of other lookups have answered.
	coalesced int
}

// read reads the keys of a request, or waits for other lookups that are reading
// them. It calls sink once for each, one call at a time and from this goroutine, and
// returns by the deadline of ctx.
func (s *Service) read(ctx context.Context, req *executor.Request, mode coalesce.Mode, sink func(int, partition.Result)) reading {
	if !mode.Shares(req.Query.Consistency) {
		plan := s.cfg.Executor.Plan(req)
		began := time.Now()
		return reading{Stats: s.cfg.Executor.Execute(ctx, req, plan, sink), began: began, plan: plan}
	}
	deadline, _ := ctx.Deadline()
	call := s.shared.Begin(sharedQuery(req.Query), req.Keys, deadline, patience(req))
	defer call.Close()
	if call.Waiting() > 0 {
		w := &waiting{executor: s.cfg.Executor, req: req, call: call, sink: sink, begin: time.Now(), left: len(req.Keys)}
		w.done.began = w.begin
		return w.run(ctx)
	}
	plan := s.cfg.Executor.Plan(req)
	began := time.Now()
	done := s.cfg.Executor.Execute(ctx, req, plan, func(k int, res partition.Result) {
		share(ctx, call, k, res)
		sink(k, res)
	})
	return reading{Stats: done, began: began, plan: plan}
}

// sharedQuery is what of a query decides the answer to a key.
func sharedQuery(q *executor.Query) *coalesce.Query {
	return &coalesce.Query{
		Table: q.Table, Columns: q.Columns, Consistency: q.Consistency, Limit: q.Limit, Strict: q.Strict, MaxBytes: q.MaxBytes,
	}
}

// usualGroup is the size of the groups into which the planner cuts lookups of many
// keys.
const usualGroup = 10

// patience is how long a lookup waits for the read of another: as long as it would
// wait for a host before it hedged.
func patience(req *executor.Request) time.Duration {
	if delay, ok := req.Table.HedgeDelay(req.Policy, usualGroup); ok && delay > 0 {
		return delay
	}
	return hedge.Fallback
}

// share hands a result of this lookup to those that wait for it, unless it is due to
// this lookup: to its end, or to the other keys that it asks for.
func share(ctx context.Context, call *coalesce.Call, k int, res partition.Result) {
	switch {
	case res.Status.Answered():
		call.Share(k, res)
	case res.Status == partition.TooLarge && errors.Is(res.Err, executor.ErrCrowded):
		call.Withhold(k)
	case res.Status == partition.TooLarge, ctx.Err() == nil:
		call.Share(k, res)
	default:
		// The lookup is ending. Its call is closed when it has, with all such keys
		// at once, so that who waits for them plans them together.
	}
}

// waiting is a lookup some of whose keys another one reads.
type waiting struct {
	executor *executor.Executor
	req      *executor.Request
	call     *coalesce.Call
	sink     func(int, partition.Result)
	begin    time.Time
	left     int

	// own are the reads by this lookup: what did not come from others.
	own sync.WaitGroup
	mu  sync.Mutex
	// done is guarded by mu.
	done reading
}

// run takes answers as they come, whoever reads them.
func (w *waiting) run(ctx context.Context) reading {
	inner, cancel := context.WithCancel(ctx)
	defer w.own.Wait()
	defer cancel()
	w.start(inner, w.call.Own())

	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for w.left > 0 {
		if due, ok := w.call.Due(); ok {
			timer.Reset(due)
		} else {
			timer.Stop()
		}
		select {
		case <-w.call.Wake():
		case <-timer.C:
		case <-ctx.Done():
			w.own.Wait()
			w.expire(ctx)
			w.sort()
			return w.done
		}
		w.start(inner, w.take())
	}
	cancel()
	w.own.Wait()
	w.sort()
	return w.done
}

// sort brings the attempts into the order in which they were sent.
func (w *waiting) sort() {
	slices.SortStableFunc(w.done.Attempts, func(a, b executor.Attempt) int { return cmp.Compare(a.Start, b.Start) })
}

// take hands on what has come, and returns the keys to read.
func (w *waiting) take() []int32 {
	answers, read := w.call.Next()
	shared := executor.Attempt{Kind: KindCoalesced, HedgeAfter: -1, End: time.Since(w.begin), Outcome: executor.OutcomeWon}
	for _, a := range answers {
		w.left--
		if a.Shared {
			shared.Keys = append(shared.Keys, int32(a.Key))
		}
		w.sink(a.Key, a.Result)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done.coalesced += len(shared.Keys)
	if w.req.Trace && len(shared.Keys) > 0 {
		w.done.Attempts = append(w.done.Attempts, shared)
	}
	return read
}

// start begins to read keys.
func (w *waiting) start(ctx context.Context, keys []int32) {
	if len(keys) == 0 {
		return
	}
	req := subset(w.req, keys)
	plan := w.executor.Plan(req)
	offset := time.Since(w.begin)
	w.own.Go(func() {
		done := w.executor.Execute(ctx, req, plan, func(k int, res partition.Result) {
			share(ctx, w.call, int(keys[k]), res)
			w.call.Report(int(keys[k]), res)
		})
		w.add(done, plan, keys, offset)
	})
}

// add takes a read by this lookup, of those keys, into its account.
func (w *waiting) add(done executor.Stats, plan planner.Plan, keys []int32, offset time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done.Groups += done.Groups
	w.done.SubQueries += done.SubQueries
	w.done.Hedges += done.Hedges
	w.done.Failovers += done.Failovers
	if !w.req.Trace {
		return
	}
	for _, g := range plan.Groups {
		g.Keys = pick(keys, g.Keys)
		w.done.plan.Groups = append(w.done.plan.Groups, g)
	}
	for _, a := range done.Attempts {
		a.Keys = pick(keys, a.Keys)
		a.Start += offset
		a.End += offset
		w.done.Attempts = append(w.done.Attempts, a)
	}
}

// expire ends the keys that are still waited for. What has come by now counts.
func (w *waiting) expire(ctx context.Context) {
	w.take()
	if w.left == 0 {
		return
	}
	waited := time.Since(w.begin)
	res := executor.Late(ctx, waited)
	keys := w.call.Unanswered()
	for _, k := range keys {
		w.sink(int(k), res)
	}
	if w.req.Trace {
		w.done.Attempts = append(w.done.Attempts, executor.Attempt{
			Kind: KindCoalesced, HedgeAfter: -1, Keys: keys, End: waited, Outcome: executor.OutcomePending})
	}
}

// subset is the request for some of its keys.
func subset(req *executor.Request, keys []int32) *executor.Request {
	out := *req
	out.Keys, out.Replicas, out.Ranges = pick(req.Keys, keys), pick(req.Replicas, keys), pick(req.Ranges, keys)
	return &out
}

// pick returns the elements of a slice at indices.
func pick[T any](of []T, at []int32) []T {
	out := make([]T, len(at))
	for i, k := range at {
		out[i] = of[k]
	}
	return out
}
