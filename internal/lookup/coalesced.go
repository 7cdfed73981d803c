package lookup

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/qosproxy/qosproxy/internal/coalesce"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/incident"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/planner"
	"github.com/qosproxy/qosproxy/internal/quorum"
)

// waiting is a lookup that waits for other lookups to read some of its keys.
type waiting struct {
	executor  *executor.Executor
	incidents *incident.Log
	req       *executor.Request
	call      *coalesce.Call
	sink      func(int, partition.Result)
	begin     time.Time
	left      int
	// abort cancels the lookup after a panic in one of its own reads.
	abort context.CancelFunc

	// own counts the running reads of this lookup itself.
	own sync.WaitGroup
	mu  sync.Mutex
	// mu guards done, except began and survey.
	done reading
}

// readWithOthers reads the keys that nobody else is reading, and waits for the
// rest.
func (s *Service) readWithOthers(ctx context.Context, req *executor.Request, call *coalesce.Call, sink func(int, partition.Result)) reading {
	w := &waiting{executor: s.cfg.Executor, incidents: s.cfg.Incidents, req: req, call: call, sink: sink, begin: time.Now(), left: len(req.Keys)}
	w.done.began = w.begin
	return w.run(ctx)
}

// run hands on answers as they arrive, whoever reads them.
func (w *waiting) run(ctx context.Context) reading {
	ctx, w.abort = context.WithCancel(ctx)
	defer w.abort()
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

// sort orders the attempts by start.
func (w *waiting) sort() {
	slices.SortStableFunc(w.done.Attempts, func(a, b executor.Attempt) int { return cmp.Compare(a.Start, b.Start) })
}

// take hands on what has arrived, and returns the keys to read now.
func (w *waiting) take() []int32 {
	answers, read := w.call.Next()
	shared := executor.Attempt{Kind: executor.KindCoalesced, HedgeAfter: -1, End: time.Since(w.begin), Outcome: executor.OutcomeWon}
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

// start plans keys and reads them in a goroutine.
func (w *waiting) start(ctx context.Context, keys []int32) {
	first := w.req.Trace && w.done.survey == nil
	if len(keys) == 0 && !first {
		return
	}
	plan := w.executor.Plan(w.req.Subset(keys))
	if first {
		w.done.survey = plan.Survey
	}
	if len(keys) == 0 {
		return
	}
	offset, shared := time.Since(w.begin), sharing{ctx: ctx, call: w.call}
	w.own.Go(func() {
		err := w.incidents.Run(ctx, "read of a lookup", func() {
			done := w.executor.Execute(ctx, plan, func(k int, res partition.Result) {
				shared.share(int(keys[k]), res)
				w.call.Report(int(keys[k]), res)
			})
			w.add(done, plan.Groups, keys, offset)
		})
		if err != nil {
			w.add(executor.Stats{Err: err}, nil, nil, 0)
		}
	})
}

// add records a read of keys by this lookup, which began at offset.
func (w *waiting) add(done executor.Stats, groups []planner.Group, keys []int32, offset time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if done.Err != nil {
		w.done.Err = done.Err
		w.abort()
	}
	w.done.Groups += done.Groups
	w.done.SubQueries += done.SubQueries
	w.done.Hedges += done.Hedges
	w.done.Failovers += done.Failovers
	if !w.req.Trace {
		return
	}
	for i, outcome := range done.Compared {
		if w.done.Compared == nil {
			w.done.Compared = make([]quorum.Outcome, len(w.req.Keys))
		}
		w.done.Compared[keys[i]] = outcome
	}
	for _, g := range groups {
		g.Keys = pick(keys, g.Keys)
		w.done.groups = append(w.done.groups, g)
	}
	for _, a := range done.Attempts {
		a.Keys = pick(keys, a.Keys)
		a.Start += offset
		a.End += offset
		w.done.Attempts = append(w.done.Attempts, a)
	}
}

// expire hands on what has arrived, and ends the other keys.
func (w *waiting) expire(ctx context.Context) {
	w.take()
	if w.left == 0 {
		return
	}
	waited := time.Since(w.begin)
	late := executor.TimedOut(ctx, waited)
	var keys []int32
	for _, a := range w.call.Unanswered() {
		keys = append(keys, int32(a.Key))
		if s := a.Result.Status; s == partition.Pending || s == partition.TimedOut {
			a.Result = late
		}
		w.sink(a.Key, a.Result)
	}
	if w.req.Trace {
		w.done.Attempts = append(w.done.Attempts, executor.Attempt{
			Kind: executor.KindCoalesced, HedgeAfter: -1, Keys: keys, End: waited, Outcome: executor.OutcomePending})
	}
}

// pick returns the keys at the given indices.
func pick(keys, at []int32) []int32 {
	out := make([]int32, len(at))
	for i, k := range at {
		out[i] = keys[k]
	}
	return out
}
