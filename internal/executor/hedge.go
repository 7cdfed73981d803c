package executor

import (
	"slices"
	"time"

	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/planner"
)

// leastLeft is the least time until the deadline in which a hedge can be of use.
const leastLeft = time.Millisecond

// hedgeDue hedges the attempts that are late now.
func (r *run) hedgeDue() {
	now := r.executor.now()
	for i := range len(r.pending) {
		if a := r.pending[i]; a.hedgeAt <= now {
			a.hedgeAt = unset
			if len(a.keys) == 0 {
				continue // early results have ended all its keys
			}
			if a.kind == KindFirst && !a.late && a.delay > 0 && a.sent.host.dc == nil {
				r.req.lateness().noteLate(true)
			}
			if a.kind == KindHedge && !a.late {
				for _, k := range a.keys {
					r.keys[k].hedged = r.keys[k].reread
				}
			}
			a.late = true
			r.leave(a)
			r.hedge(a, now)
		}
	}
}

// hedge plans the unanswered keys of a late attempt again over their other replicas. ALWAYS
// asks for two attempts of every key, whether the first is slow or not, so it asks no
// budget. Keys whose other replicas are all full are tried again later.
func (r *run) hedge(a *attempt, now int64) {
	var keys []int32
	for _, k := range a.keys {
		if ks := &r.keys[k]; !ks.done && r.hedgeable(k) {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return
	}
	if !r.worthwhile(a, len(keys), now) {
		r.traceHedge(a, NotHedgedDeadline)
		return
	}
	groups, unplaced, stressed := r.place(keys, anywhere)
	full := slices.ContainsFunc(unplaced, func(k int32) bool { return r.keys[k].full })
	if len(groups) == 0 {
		r.traceHedge(a, NotHedgedReplicas)
		if full {
			r.deny(a, now)
		}
		return
	}
	if why := r.executor.policies.mayHedge(r, a, groups, stressed, now); why != "" {
		for _, g := range groups {
			r.view.hosts[g.Host].unreserve(len(g.Keys))
		}
		r.traceHedge(a, why)
		r.deny(a, now)
		return
	}
	r.sendHedges(a, groups)
	r.traceHedge(a, "")
	if full {
		r.later(a, now)
	}
}

// sendHedges sends the groups of a hedge of an attempt.
func (r *run) sendHedges(a *attempt, groups []planner.Group) {
	for _, g := range groups {
		for _, k := range g.Keys {
			r.keys[k].hedged = true
		}
		r.send(g.Host, g.Keys, KindHedge)
	}
	if len(groups) > 0 {
		a.sent.host.counts.hedgedAway.Add(1)
	}
}

// traceHedge records why an attempt was not hedged, or that it was.
func (r *run) traceHedge(a *attempt, why NotHedged) {
	if a.trace >= 0 {
		r.stats.Attempts[a.trace].NotHedged = why
	}
}

// worthwhile reports whether a hedge of an attempt could still be answered in time.
func (r *run) worthwhile(a *attempt, keys int, now int64) bool {
	if r.deadline == unset {
		return true
	}
	usual, _ := a.sent.latencies.Usual(0.5, keys)
	return time.Duration(r.deadline-now) >= max(usual, leastLeft)
}

// hedgeDenied takes a hedge from the budget, or returns why it would add too much to what
// the hosts do anyway.
func (r *run) hedgeDenied(a *attempt, groups []planner.Group, stressed bool, now int64) NotHedged {
	if r.req.Policy.Always() {
		return ""
	}
	p := &r.executor.policies
	keys := 0
	for _, g := range groups {
		keys += len(g.Keys)
	}
	stalled := r.executor.stalledFor(r.view, a.sent.host)
	if stalled < p.hedgeStalledAfter {
		stalled = 0
	}
	wanted := hedge.Wanted{
		Keys: keys, SubQueries: len(groups),
		Quiet:   stalled > 0 || a.sent.host.silentFor(time.Duration(p.quietAfter*float64(a.delay))),
		Load:    r.req.lateness().lateShare() > p.manyLate,
		Stalled: stalled > 0,
		Urgent:  r.urgentAt <= now,
	}
	why := r.withdrawHedge(wanted, stalled, stressed)
	if why != "" && r.rescued(wanted, why, now) {
		return ""
	}
	return why
}

// withdrawHedge takes a hedge from the budget, or returns why it must not be made. stalled
// is for how long the host has stalled. A budget of 0 means no hedges, so the budget of
// fail-over must not pay for them either.
func (r *run) withdrawHedge(wanted hedge.Wanted, stalled time.Duration, stressed bool) NotHedged {
	p, table := &r.executor.policies, r.req.Table
	if table.budget <= 0 {
		return NotHedgedBudget
	}
	if stalled == 0 && (stressed || r.req.lateness().lateShare() > p.mostlyLate) {
		return NotHedgedLoad
	}
	if r.req.FewHedges && !wanted.Quiet {
		return NotHedgedLoad
	}
	if table.hedges.Withdraw(wanted) || stalled >= p.replaceAfter && table.retries.Withdraw(wanted.Keys) {
		return ""
	}
	return NotHedgedBudget
}

// rescued reports whether a denied hedge is made as a rescue, since time runs out. Only the
// budget can have denied it: load remains a reason to the end.
func (r *run) rescued(wanted hedge.Wanted, why NotHedged, now int64) bool {
	return r.rescueAt <= now && why != NotHedgedLoad && r.req.Table.hedges.Rescue(wanted)
}

// stalledFor returns for how long a host has stalled; 0 if it has not. A stall is never
// load: a host under load goes on answering something.
func (e *Executor) stalledFor(v *view, h *host) time.Duration {
	if now := e.now(); e.stalled(v, h, now) {
		return time.Duration(now - h.settledAt.Load())
	}
	return 0
}

// deny counts a hedge that was not made, once per attempt, and tries again when the attempt
// is twice as late, and twice when time runs out. By then the budget may have filled, or
// the host may have stalled.
func (r *run) deny(a *attempt, now int64) {
	if !a.denied {
		a.denied = true
		r.executor.metrics.hedges.WithLabelValues(hedgeDenied).Inc()
	}
	r.later(a, now)
}

// later schedules another hedge for when the attempt is twice as late or, if that is
// sooner, half or three quarters of the time are gone.
func (r *run) later(a *attempt, now int64) {
	if a.delay <= 0 { // of ALWAYS
		a.delay = int64(hedge.Fallback)
	}
	a.hedgeAt = now + a.delay
	for _, at := range []int64{r.urgentAt, r.rescueAt} {
		if now < at {
			a.hedgeAt = min(a.hedgeAt, at)
		}
	}
	a.delay *= 2
}
