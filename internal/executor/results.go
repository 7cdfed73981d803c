package executor

import (
	"cmp"
	"slices"

	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/quorum"
)

// take handles an event of an attempt: its end, or early results. Keys that were lost are
// asked again by failoverLost.
func (r *run) take(ev event) {
	a := ev.attempt
	if ev.phase == inFlight {
		r.accept(a, ev.from, ev.results)
		if a.open == 0 && len(a.keys) > 0 && !a.awaited {
			r.executor.policies.abandon(a)
		}
		return
	}
	r.drop(a)
	if a.trace >= 0 {
		r.stats.Attempts[a.trace].StatementKeys = ev.shared
	}
	if ev.broken != nil {
		r.release(a, a.keys)
		r.close(a, OutcomeFailed, ReasonOther)
		r.abort(ev.broken)
		return
	}
	if a.kind == KindFirst && !a.late && ev.phase == answered && a.delay > 0 && a.sent.host.dc == nil {
		r.req.lateness().noteLate(false)
	}
	outcome := OutcomeLost
	if ev.phase == abandoned {
		outcome = OutcomeCancelled
	}
	switch {
	case ev.results != nil:
		r.accept(a, 0, ev.results)
		if a.won && a.sent.host.dc != nil {
			r.loseSilent(a.asked)
		}
	case ev.phase == failed:
		r.lose(a, ev.reason)
	default:
		r.release(a, a.keys)
	}
	r.close(a, outcome, ev.reason)
}

// drop removes an attempt from the pending ones.
func (r *run) drop(a *attempt) {
	if i := slices.Index(r.pending, a); i >= 0 {
		r.pending[i] = r.pending[len(r.pending)-1]
		r.pending = r.pending[:len(r.pending)-1]
	}
	a.cancel(nil)
}

// accept handles the results of an attempt from position from on, except those of keys that
// it does not ask for any more.
func (r *run) accept(a *attempt, from int, results []partition.Result) {
	asked := a.asked[from : from+len(results)]
	keys := a.within(from, len(results))
	r.release(a, keys)
	for i, k := range asked {
		if len(keys) == 0 || keys[0] != k {
			continue
		}
		keys = keys[1:]
		if r.keys[k].done {
			continue
		}
		if res := results[i]; final(res) {
			a.won = true
			r.answer(k, res)
		} else {
			r.miss(a, k, lostBy(res), &res)
		}
	}
}

// lose handles the failure of all keys that an attempt still asks for.
func (r *run) lose(a *attempt, reason Reason) {
	keys := a.keys
	r.release(a, keys)
	for _, k := range keys {
		if !r.keys[k].done {
			r.miss(a, k, reason, nil)
		}
	}
}

// miss records that an attempt has lost a key, which is to be asked again. A key that its
// replica could not read, as its own result says, is asked of one other replica, which may
// have fewer tombstones, and is not hedged. res is nil if all keys were lost.
func (r *run) miss(a *attempt, k int32, reason Reason, res *partition.Result) {
	ks := &r.keys[k]
	a.lost = cmp.Or(a.lost, reason)
	ks.last, ks.lastErr = reason, nil
	alone := res != nil && res.Err != nil
	if why := telltale(reason, alone); ks.need > 0 && why != quorum.None {
		r.reread(k, why)
		return
	}
	if reason == ReasonReadFailure && alone {
		ks.lastErr, ks.lastReason = res.Err, res.Reason
		if ks.reread {
			if !ks.missed {
				r.exhaust(k)
			}
			return
		}
		ks.reread, ks.hedged = true, true
	}
	if !ks.missed {
		ks.missed = true
		r.lost = append(r.lost, k)
	}
}

// within returns the keys that the attempt still asks for among the n keys of its query
// from position from on. They are adjacent in a.keys.
func (a *attempt) within(from, n int) []int32 {
	begin := 0
	for _, k := range a.asked[:from] {
		if begin < len(a.keys) && a.keys[begin] == k {
			begin++
		}
	}
	end := begin
	for _, k := range a.asked[from : from+n] {
		if end < len(a.keys) && a.keys[end] == k {
			end++
		}
	}
	return a.keys[begin:end]
}

// release removes keys, which are adjacent in a.keys, from those that the attempt still
// asks for.
func (r *run) release(a *attempt, keys []int32) {
	for _, k := range keys {
		r.keys[k].inFlight--
		if !r.keys[k].done {
			a.open--
		}
	}
	if len(keys) == len(a.keys) {
		a.keys = nil
		return
	}
	if len(keys) > 0 {
		at := slices.Index(a.keys, keys[0])
		a.keys = slices.Concat(a.keys[:at], a.keys[at+len(keys):])
	}
}
