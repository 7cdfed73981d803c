package executor

import (
	"cmp"
	"slices"

	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/planner"
)

// failoverLost asks other replicas at once for the keys that were lost, those of each
// reason and query together.
func (r *run) failoverLost() {
	for len(r.lost) > 0 {
		reason, query := r.keys[r.lost[0]].last, r.query(r.lost[0])
		var keys []int32
		rest := r.lost[:0]
		for _, k := range r.lost {
			if r.keys[k].last == reason && r.query(k) == query {
				keys = append(keys, k)
				r.keys[k].missed = false
			} else {
				rest = append(rest, k)
			}
		}
		r.lost = rest
		r.failover(keys, reason)
	}
}

// failover asks other replicas at once for keys that were lost for a reason. A key is left
// to the other attempts that ask for it if enough of them are not late yet, and would be hedged
// then. It may be hedged again either way.
func (r *run) failover(keys []int32, reason Reason) {
	retry := keys[:0:0]
	for _, k := range keys {
		ks := &r.keys[k]
		if ks.done {
			continue
		}
		ks.last = reason
		if reason != ReasonReadFailure {
			ks.lastErr = nil
		}
		ks.hedged = ks.reread
		if ks.inFlight > 0 && r.awaited(k) >= ks.lacks() {
			continue
		}
		retry = append(retry, k)
	}
	groups, unplaced, _ := r.place(retry, anywhere)
	for _, g := range groups { // reserved, so sent before anything that may panic
		r.retry(g, reason)
		r.complete(g.Keys)
	}
	for _, k := range unplaced {
		r.unplaced(k)
	}
}

// unplaced handles a key of which no replica can be asked now: it waits for headroom, or
// ends.
func (r *run) unplaced(k int32) {
	switch {
	case r.mayWait(k):
		r.waitForHeadroom(k)
		return
	case r.keys[k].full:
		r.keys[k].last = reasonFull
	}
	if !r.beyondReplicas(k) {
		r.exhaust(k)
	}
}

// retry sends as much of a fail-over group as the budget allows, and ends the other keys: of
// these no coordinator is asked either, which would cost more. The group is reserved at its host.
func (r *run) retry(g planner.Group, reason Reason) {
	paid := r.executor.policies.mayRetry(r.req.Table, len(g.Keys), reason)
	r.view.hosts[g.Host].unreserve(len(g.Keys) - paid)
	switch {
	case paid == 0:
	case reason == reasonReread:
		r.send(g.Host, g.Keys[:paid], KindReread)
	default:
		r.send(g.Host, g.Keys[:paid], KindFailover)
		r.executor.metrics.failovers.WithLabelValues(string(reason)).Inc()
	}
	r.exhaust(g.Keys[paid:]...)
}

// awaited returns how many attempts are asking the key that are not late, but will be if they are
// not answered. Those of NONE never are, nor is the second one of ALWAYS.
func (r *run) awaited(k int32) int {
	n := 0
	for _, a := range r.pending {
		if !a.late && a.hedgeAt != unset && slices.Contains(a.keys, k) {
			n++
		}
	}
	return n
}

// exhaust ends keys that nobody else can be asked for, unless enough attempts are in
// flight.
func (r *run) exhaust(keys ...int32) {
	for _, k := range keys {
		ks := &r.keys[k]
		if int(ks.inFlight) >= ks.lacks() {
			continue
		}
		res := verdict(ks.last)
		if (ks.last == reasonFull || ks.last == ReasonTimeout) && r.tooFew(k) {
			res = verdict(ReasonUnavailable)
		}
		if ks.refused && ks.last == reasonFull {
			res.Err = errElsewhereFull
		}
		if ks.lastErr != nil && res.Status == partition.Failed {
			res = partition.Unanswered(cmp.Or(ks.lastReason, res.Reason), ks.lastErr)
		}
		r.finish(k, res)
	}
}
