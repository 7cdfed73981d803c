package executor

import (
	"slices"
	"time"

	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/planner"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// leastLeft is how much of the deadline must be left for a hedge to be of use.
const leastLeft = time.Millisecond

// hedgeDue hedges the attempts that are late now.
func (r *run) hedgeDue() {
	now := r.executor.now()
	for i := range len(r.pending) {
		if a := r.pending[i]; a.hedgeAt <= now {
			a.hedgeAt = unset
			if a.kind == KindFirst && !a.late && a.delay > 0 {
				r.req.Table.noteLate(true)
			}
			if a.kind == KindHedge && !a.late {
				for _, k := range a.keys {
					r.keys[k].hedged = r.keys[k].reread
				}
			}
			a.late = true
			r.hedge(a, now)
		}
	}
}

// hedge plans the unanswered keys of a late attempt again over their other
// replicas. ALWAYS is a wish for two attempts of every key, not a reaction to
// slowness: it asks no budget.
func (r *run) hedge(a *attempt, now int64) {
	var keys []int32
	for _, k := range a.keys {
		if ks := &r.keys[k]; !ks.done && !ks.hedged {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return
	}
	if !r.worthwhile(len(keys), now) {
		r.traceHedge(a, NotHedgedDeadline)
		return
	}
	plan, subset, stressed := r.replan(keys)
	if len(plan.Groups) == 0 {
		r.traceHedge(a, NotHedgedReplicas)
		return
	}
	if !r.req.Policy.Always() {
		if why := r.denied(a, len(subset)-len(plan.Unplaced), len(plan.Groups), stressed, now); why != "" {
			r.traceHedge(a, why)
			r.deny(a, now)
			return
		}
	}
	why := NotHedgedReplicas
	for _, g := range plan.Groups {
		for i, k := range g.Keys {
			g.Keys[i] = subset[k]
			r.keys[subset[k]].hedged = true
		}
		if r.send(g.Host, g.Keys, KindHedge) {
			why = ""
		}
	}
	if why == "" {
		a.flight.host.counts.hedgedAway.Add(1)
	}
	r.traceHedge(a, why)
}

// traceHedge records why an attempt was not hedged, or that it was.
func (r *run) traceHedge(a *attempt, why string) {
	if a.trace >= 0 {
		r.stats.Attempts[a.trace].NotHedged = why
	}
}

// worthwhile reports whether a hedge could still be answered in time.
func (r *run) worthwhile(keys int, now int64) bool {
	if r.deadline == unset {
		return true
	}
	usual, _ := r.req.Table.latencies.Usual(0.5, keys)
	return time.Duration(r.deadline-now) >= max(usual, leastLeft)
}

// denied returns why a hedge of an attempt would add too much to what the hosts do
// anyway, as in Attempt.NotHedged; empty when it would not.
func (r *run) denied(a *attempt, keys, groups int, stressed bool, now int64) string {
	if r.executor.without.budgets {
		return ""
	}
	stood := r.executor.stands(r.view, a.flight.host)
	wanted := hedge.Wanted{
		Keys: keys, SubQueries: groups,
		Still:   r.executor.without.reserve || stood > 0 || a.flight.host.still(time.Duration(a.delay)/2),
		Load:    r.req.Table.manyLate() && !r.executor.without.sparing,
		Stalled: stood > 0,
		Last:    r.urgent <= now,
	}
	why := r.burden(wanted, stood, stressed)
	if why != "" && r.rescued(wanted, why, now) {
		return ""
	}
	return why
}

// burden is denied as long as there is time; the host has stood for so long.
func (r *run) burden(wanted hedge.Wanted, stood time.Duration, stressed bool) string {
	if (stressed || r.req.Table.mostlyLate()) && stood == 0 {
		return NotHedgedLoad
	}
	if r.req.FewHedges && !wanted.Still {
		return NotHedgedLoad
	}
	if r.req.Table.hedges.Withdraw(wanted) || stood >= goneAfter && r.req.Table.retries.Withdraw(wanted.Keys) {
		return ""
	}
	return NotHedgedBudget
}

// rescued reports whether keys are asked again all the same, since their time runs out:
// from half of it on if only the budget was spent. Load is a reason to the end.
func (r *run) rescued(wanted hedge.Wanted, why string, now int64) bool {
	if r.executor.without.rescue || now < r.pressing || why == NotHedgedLoad {
		return false
	}
	return r.req.Table.hedges.Rescue(wanted)
}

// goneAfter is how long a host must have stalled to be as good as one that failed,
// so that its keys are asked again from the budget of fail-over when that of hedges
// is empty.
const goneAfter = 200 * time.Millisecond

// stands returns for how long a host has stalled; 0 for one that has not. That is
// never load: a host under load goes on answering something.
func (e *Executor) stands(v *view, h *host) time.Duration {
	if e.without.stalls || e.without.suspects || e.without.standing {
		return 0
	}
	if now := e.now(); e.stalled(v, h, now) {
		return time.Duration(now - h.settledAt.Load())
	}
	return 0
}

// deny counts a hedge that was not made, once per attempt, and tries again when
// the attempt is twice as late, and twice when time runs out: by then the budget may have
// been filled, or the host may have been shown to be a straggler.
func (r *run) deny(a *attempt, now int64) {
	if !a.denied {
		a.denied = true
		r.executor.metrics.hedges.WithLabelValues(hedgeDenied).Inc()
	}
	a.hedgeAt = now + a.delay
	for _, at := range []int64{r.urgent, r.pressing} {
		if now < at {
			a.hedgeAt = min(a.hedgeAt, at)
		}
	}
	a.delay *= 2
}

// lose takes the failure of an attempt as a whole.
func (r *run) lose(a *attempt, reason Reason) {
	var keys []int32
	for _, k := range a.keys {
		if !r.keys[k].done {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		r.close(a, OutcomeLost, reason)
		return
	}
	r.close(a, OutcomeFailed, reason)
	r.failover(keys, reason)
}

// failover asks other replicas at once for keys whose attempt failed. A key that
// another attempt is asking, which is not late yet, is left to that one; it takes
// the place of the first and may itself be hedged.
func (r *run) failover(keys []int32, reason Reason) {
	again := keys[:0:0]
	for _, k := range keys {
		ks := &r.keys[k]
		ks.last = reason
		if reason != ReasonReadFailure {
			ks.lastErr = nil
		}
		if ks.flying > 0 && r.awaited(k) {
			ks.hedged = ks.reread
			continue
		}
		again = append(again, k)
	}
	if r.executor.without.failover {
		r.exhaust(again...)
		return
	}
	plan, subset, _ := r.replan(again)
	for _, i := range plan.Unplaced {
		r.exhaust(subset[i])
	}
	for _, g := range plan.Groups {
		for i, k := range g.Keys {
			g.Keys[i] = subset[k]
		}
		r.retry(g, reason)
	}
}

// retry sends one group of a fail-over, or as much of it as the budget allows.
func (r *run) retry(g planner.Group, reason Reason) {
	if paid := r.pay(len(g.Keys), reason); paid < len(g.Keys) {
		r.exhaust(g.Keys[paid:]...)
		g.Keys = g.Keys[:paid]
	}
	if len(g.Keys) == 0 {
		return
	}
	if !r.send(g.Host, g.Keys, KindFailover) {
		r.failover(g.Keys, reasonFull)
		return
	}
	r.executor.metrics.failovers.WithLabelValues(string(reason)).Inc()
}

// pay returns how many of n keys may be asked again.
func (r *run) pay(n int, reason Reason) int {
	if reason.free() || r.executor.without.budgets || r.req.Table.retries.Withdraw(n) {
		return n
	}
	for paid := range n {
		if !r.req.Table.retries.Withdraw(1) {
			return paid
		}
	}
	return n
}

// awaited reports whether an attempt that is not late is asking the key.
func (r *run) awaited(k int32) bool {
	for _, a := range r.pending {
		if a.late {
			continue
		}
		if slices.Contains(a.keys, k) {
			return true
		}
	}
	return false
}

// exhaust ends keys that nobody else can be asked for, unless an attempt is still
// on its way.
func (r *run) exhaust(keys ...int32) {
	for _, k := range keys {
		ks := &r.keys[k]
		if ks.flying > 0 {
			continue
		}
		res := verdict(ks.last)
		if (ks.last == reasonFull || ks.last == ReasonTimeout) && r.tooFew(k) {
			res = verdict(ReasonUnavailable)
		}
		if ks.lastErr != nil {
			res.Err = ks.lastErr
		}
		r.finish(k, res)
	}
}

// tooFew reports whether so many replicas of a key cannot be reached that its
// consistency level cannot be had. It decides the word for a key that nobody has
// answered, not whether to ask: the replicas may see more of each other than the
// proxy does, and until they notice that one is gone they wait for it, each for
// longer than any lookup.
func (r *run) tooFew(k int32) bool {
	if r.executor.without.gone {
		return false
	}
	replicas := r.req.Replicas[k]
	alive := 0
	for _, h := range replicas {
		if !r.view.hosts[h].gone.Load() {
			alive++
		}
	}
	return alive < needed(r.req.Query.Consistency, len(replicas))
}

// replan groups keys by the replicas that were not asked yet, as things are at
// this moment. The groups index into subset. Keys whose other replicas are all
// full are unplaced, like those that have none left.
func (r *run) replan(keys []int32) (plan planner.Plan, subset []int32, stressed bool) {
	in := planner.Input{
		Replicas: make([][]ring.HostIndex, len(keys)),
		Hosts:    len(r.view.hosts),
		Grouping: r.req.Grouping,
		Cap:      r.req.Cap,
		Near:     r.req.Near,
		Seed:     r.executor.nextSeed(),
	}
	var block []ring.HostIndex
	for i, k := range keys {
		from := len(block)
		var full bool
		block, full = r.untried(k, block)
		in.Replicas[i] = block[from:len(block):len(block)]
		if full && from == len(block) {
			r.keys[k].last = reasonFull
		}
	}
	if r.req.Ranges != nil {
		in.Ranges = make([]int32, len(keys))
		for i, k := range keys {
			in.Ranges[i] = r.req.Ranges[k]
		}
	}
	s := r.executor.surveys.Get().(*survey)
	defer r.executor.surveys.Put(s)
	r.executor.look(r.view, r.req.Near, s)
	in.Price, in.Avoid = s.price, s.avoid
	return planner.Make(&in), keys, s.stressed
}
