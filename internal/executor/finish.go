package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/reasons"
)

// finish gives a key its result, unless it has one.
func (r *run) finish(k int32, res partition.Result) {
	ks := &r.keys[k]
	if ks.done {
		return
	}
	ks.done = true
	r.left--
	r.sink(int(k), res)
	if ks.inFlight == 0 {
		return
	}
	for _, a := range r.pending {
		if !slices.Contains(a.keys, k) {
			continue
		}
		if a.open--; a.open == 0 && !a.awaited {
			r.executor.policies.abandon(a)
		}
	}
}

// expire ends the keys that are still waited for, after the results that have come by now.
func (r *run) expire() {
	for r.left > 0 && r.takeNext() {
	}
	if r.left == 0 {
		return
	}
	if errors.Is(r.ctx.Err(), context.DeadlineExceeded) {
		r.noHeadroom()
		r.giveUp()
		r.refuse()
	}
	res := TimedOut(r.ctx, time.Duration(min(r.deadline, r.executor.now())-r.begin))
	r.unanswered(func(int32) bool { return true }, res)
}

// giveUp ends the keys of which too few replicas can be reached.
func (r *run) giveUp() { r.unanswered(r.tooFew, verdict(ReasonUnavailable)) }

// unanswered gives res to all keys that are still waited for and for which which is true.
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

// end abandons what is still in flight.
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

// tooFew reports whether too few replicas of a key can be reached for its consistency
// level. It decides the status of a key that nobody has answered, not whether to ask:
// replicas may reach each other although the proxy cannot. Until they notice that one is
// gone, they wait for it longer than any lookup lasts.
func (r *run) tooFew(k int32) bool {
	if r.keys[k].away || r.keys[k].refused {
		return false // there are others elsewhere
	}
	replicas := r.req.Replicas[k]
	alive := 0
	for _, h := range replicas {
		if r.executor.policies.reachable(r.view.hosts[h]) {
			alive++
		}
	}
	return alive < r.req.Query.Consistency.Required(len(replicas))
}

// TimedOut returns the result of a key that had none when ctx, the context of its lookup,
// ended; waited is how long that was.
func TimedOut(ctx context.Context, waited time.Duration) partition.Result {
	if errors.Is(ctx.Err(), context.Canceled) {
		return partition.Unanswered(reasons.Cancelled, fmt.Errorf("the lookup was cancelled after %s, before a replica answered", round(waited)))
	}
	return partition.Unanswered(reasons.Deadline, fmt.Errorf("no replica answered within %s", round(waited)))
}

// round leaves about three digits, for people to read.
func round(d time.Duration) time.Duration {
	switch {
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond)
	case d >= 100*time.Microsecond:
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Microsecond)
}
