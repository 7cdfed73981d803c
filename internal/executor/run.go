package executor

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/planner"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// run is one lookup on its way. All of it belongs to the goroutine that called
// Execute: readers only send it messages, so a reader that comes back after the
// lookup has ended finds nothing to write to.
type run struct {
	executor *Executor
	view     *view
	req      *Request
	sink     func(int, partition.Result)
	stats    Stats

	ctx      context.Context
	cancel   context.CancelCauseFunc
	begin    int64
	deadline int64
	// pressing is when half of the time is gone, and urgent when three quarters are; both
	// unset without a deadline.
	pressing, urgent int64

	keys    []keyState
	left    int
	pending []*attempt
	landed  chan landed
	timer   *time.Timer
	alarmAt int64
	// hopelessAt is when keys that too few replicas can be reached for are given up;
	// unset when all hosts can be.
	hopelessAt int64
}

// keyState is what the run knows of one key.
type keyState struct {
	// tried marks the replicas that were asked, by position in
	// Request.Replicas. A replica beyond 64 is never asked again.
	tried uint64
	// flying is how many pending attempts ask the key.
	flying int8
	// reread is set once a replica has failed to read this key alone.
	done, hedged, reread bool
	// last is why the last attempt failed; lastErr what its reader said, of this
	// key alone.
	last    Reason
	lastErr error
}

// Execute asks the hosts of a plan, and others when they are late or fail. It
// calls sink exactly once for each key of the request, one call at a time and
// from this goroutine, as soon as a replica has answered; and it returns when
// every key has a result, which is by the deadline of ctx at the latest.
//
// # Selection
//
// The first success of a key wins. The attempts of a key go to distinct hosts. A
// group that is late is planned again over the other replicas of its unanswered
// keys, and so is a hedge after four times the delay; one that failed is planned again at once, as long as a key
// has replicas left. A key ends without an answer when none are left and no
// attempt is on its way, with the status of the last reason; see verdict.
//
// # Contexts
//
// Each attempt has a context of its own, derived from ctx, that is cancelled with
// ErrAnswered once all its keys are answered elsewhere and with ErrEnded when
// Execute returns. Execute does not wait for readers that ignore it.
func (e *Executor) Execute(ctx context.Context, req *Request, plan planner.Plan, sink func(key int, res partition.Result)) Stats {
	r := e.newRun(ctx, req, plan, sink)
	defer r.end()
	for _, k := range plan.Unplaced {
		r.finish(k, partition.Result{Status: partition.Unavailable, Err: errNoReplica})
	}
	if ctx.Err() == nil {
		r.first(plan.Groups)
		e.probe(r.view, req)
	}
	for r.left > 0 && r.wait() {
	}
	r.expire()
	return r.stats
}

func (e *Executor) newRun(ctx context.Context, req *Request, plan planner.Plan, sink func(int, partition.Result)) *run {
	r := &run{
		executor: e,
		view:     e.view(req.Ring),
		req:      req,
		sink:     sink,
		stats:    Stats{Groups: len(plan.Groups)},
		begin:    e.now(),
		deadline: unset,
		keys:     make([]keyState, len(req.Keys)),
		left:     len(req.Keys),
		pending:  make([]*attempt, 0, len(plan.Groups)+2),
		// Room for every first answer, so that one which is there when the
		// deadline passes is not lost.
		landed: make(chan landed, len(plan.Groups)+2),
	}
	r.hopelessAt, r.pressing, r.urgent = unset, unset, unset
	if d, ok := ctx.Deadline(); ok {
		r.deadline = int64(d.Sub(e.begin))
		r.pressing, r.urgent = r.begin+(r.deadline-r.begin)/2, r.begin+(r.deadline-r.begin)/4*3
		if needed(req.Query.Consistency, 2) > 1 && r.view.anyGone() {
			r.hopelessAt = r.pressing
		}
	}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	return r
}

// first sends the groups of the plan.
func (r *run) first(groups []planner.Group) {
	r.executor.lookups.Add(1)
	r.req.Table.hedges.Deposit(len(r.req.Keys), len(groups))
	r.req.Table.retries.Deposit(len(r.req.Keys))
	var refused []int32
	for _, g := range groups {
		if !r.send(g.Host, g.Keys, KindFirst) {
			refused = append(refused, g.Keys...)
		}
	}
	if len(refused) > 0 {
		r.failover(refused, reasonFull)
	}
	if r.req.Policy.Always() {
		r.hedgeDue()
	}
}

// wait takes the next event, and reports whether the lookup may go on.
func (r *run) wait() bool {
	select {
	case l := <-r.landed:
		r.land(l)
	case <-r.alarm():
		r.hedgeDue()
		if r.hopelessAt <= r.executor.now() {
			r.hopelessAt = unset
			r.giveUp()
		}
	case <-r.ctx.Done():
		return false
	}
	return true
}

// alarm fires when the next attempt is late or keys are to be given up; nil, for
// ever, when neither will be.
func (r *run) alarm() <-chan time.Time {
	at := r.hopelessAt
	for _, a := range r.pending {
		at = min(at, a.hedgeAt)
	}
	if at >= r.deadline {
		return nil
	}
	switch wait := time.Duration(at - r.executor.now()); {
	case r.timer == nil:
		r.timer = time.NewTimer(wait)
	case at != r.alarmAt:
		r.timer.Reset(wait)
	}
	r.alarmAt = at
	return r.timer.C
}

// finish gives a key its result.
func (r *run) finish(k int32, res partition.Result) {
	ks := &r.keys[k]
	if ks.done {
		return
	}
	ks.done = true
	r.left--
	r.sink(int(k), res)
	if ks.flying == 0 {
		return
	}
	for _, a := range r.pending {
		if !slices.Contains(a.keys, k) {
			continue
		}
		if a.open--; a.open == 0 && !a.awaited && !r.executor.without.cancel {
			a.cancel(ErrAnswered)
		}
	}
}

// expire ends the keys that are still waited for. What has landed by now counts.
func (r *run) expire() {
	for r.left > 0 {
		select {
		case l := <-r.landed:
			if l.how == answered {
				r.land(l)
			}
			continue
		default:
		}
		break
	}
	if r.left == 0 {
		return
	}
	if errors.Is(r.ctx.Err(), context.DeadlineExceeded) {
		r.giveUp()
	}
	res := Late(r.ctx, time.Duration(min(r.deadline, r.executor.now())-r.begin))
	r.unanswered(func(int32) bool { return true }, res)
}

// giveUp ends the keys that too few replicas can be reached for.
func (r *run) giveUp() { r.unanswered(r.tooFew, verdict(ReasonUnavailable)) }

// unanswered ends the keys that are still waited for and that a function is true of.
func (r *run) unanswered(which func(int32) bool, res partition.Result) {
	var keys []int32
	for k := range int32(len(r.keys)) {
		if !r.keys[k].done && which(k) {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return
	}
	for _, a := range r.pending {
		a.awaited = a.awaited || slices.ContainsFunc(a.keys, func(k int32) bool { return !r.keys[k].done && which(k) })
	}
	for _, k := range keys {
		r.finish(k, res)
	}
}

// end lets go of what is still on its way.
func (r *run) end() {
	r.cancel(ErrEnded)
	if r.timer != nil {
		r.timer.Stop()
	}
	for _, a := range r.pending {
		outcome := OutcomeCancelled
		if a.awaited || a.open > 0 {
			outcome = OutcomePending
		}
		r.close(a, outcome, "")
	}
}

// untried returns the replicas of a key that were not asked yet and are not
// full, and whether any of those not asked are.
func (r *run) untried(k int32, into []ring.HostIndex) (open []ring.HostIndex, full bool) {
	for i, h := range r.req.Replicas[k] {
		if i >= 64 || r.keys[k].tried&(1<<i) != 0 {
			continue
		}
		if r.view.hosts[h].full(1) {
			full = true
			continue
		}
		into = append(into, h)
	}
	return into, full
}

// mark records that a host is asked for a key.
func (r *run) mark(k int32, host ring.HostIndex) {
	if i := slices.Index(r.req.Replicas[k], host); i >= 0 && i < 64 {
		r.keys[k].tried |= 1 << i
	}
}
