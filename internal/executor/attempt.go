package executor

import (
	"context"
	"time"

	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// attempt is one sub-query of a run.
type attempt struct {
	kind string
	// keys are indices into Request.Keys; open is how many have no result.
	keys []int32
	open int
	// hedgeAt is when the attempt is late, after delay; late is set when it was.
	hedgeAt int64
	delay   int64
	late    bool
	won     bool
	// awaited is set when the lookup ended while some key of it had no result.
	awaited bool
	denied  bool
	cancel  context.CancelCauseFunc
	query   SubQuery
	flight  *flight
	trace   int
}

// landed is how an attempt came back.
type landed struct {
	attempt *attempt
	how     landing
	reason  Reason
	results []partition.Result
}

// send asks a host for keys. It reports false, and sends nothing, when the host
// is full; either way the host counts as tried.
func (r *run) send(host ring.HostIndex, keys []int32, kind string) bool {
	h := r.view.hosts[host]
	for _, k := range keys {
		r.mark(k, host)
	}
	if h.full(len(keys)) {
		return false
	}
	a := r.prepare(h, keys, kind)
	for _, k := range keys {
		r.keys[k].flying++
	}
	r.pending = append(r.pending, a)
	r.count(a)
	h.sent.add(len(keys), r.executor.lookups.Load())
	h.counts.sent(kind)
	h.launch(a.flight)

	ctx, cancel := context.WithCancelCause(r.ctx)
	a.cancel = cancel
	go r.executor.fly(ctx, r.ctx, a, r.landed)
	return true
}

// secondHedge is how many delays a hedge may take until its keys, too, are asked of
// a further replica.
const secondHedge = 4

func (r *run) prepare(h *host, keys []int32, kind string) *attempt {
	now := r.executor.now()
	a := &attempt{kind: kind, keys: keys, open: len(keys), hedgeAt: unset, trace: -1}
	delay, ok := r.req.Table.delayOf(r.req.Policy, len(keys))
	switch {
	case ok && kind != KindHedge:
		a.delay = int64(delay)
		a.hedgeAt = now + a.delay
	case ok && delay > 0: // after ALWAYS, two attempts are what was wished for
		a.delay = secondHedge * int64(delay)
		a.hedgeAt = now + a.delay
	}
	a.flight = &flight{
		host: h, view: r.view, table: r.req.Table, kind: kind, keys: len(keys),
		sent: now, allowance: int64(r.req.Table.suspectAfter(delay, len(keys))), traceID: r.req.TraceID,
	}
	a.query = SubQuery{
		Query: r.req.Query, Host: h.Host, Ring: r.req.Ring, Keys: make([]partition.Key, len(keys)), Settled: a.flight.settle,
	}
	for i, k := range keys {
		a.query.Keys[i] = r.req.Keys[k]
	}
	return a
}

// count takes a sub-query into the statistics of the lookup.
func (r *run) count(a *attempt) {
	r.stats.SubQueries++
	switch a.kind {
	case KindHedge:
		r.stats.Hedges++
	case KindFailover:
		r.stats.Failovers++
	}
	r.executor.metrics.subQuery(a.kind).Inc()
	if r.req.Trace {
		a.trace = len(r.stats.Attempts)
		hedgeAfter := time.Duration(-1)
		if a.hedgeAt != unset {
			hedgeAfter = time.Duration(a.delay)
		}
		r.stats.Attempts = append(r.stats.Attempts, Attempt{
			Host: a.query.Host.Addr, Kind: a.kind, Keys: a.keys, Start: time.Duration(a.flight.sent - r.begin), HedgeAfter: hedgeAfter,
		})
	}
}

// fly reads, and tells the run unless it has ended.
func (e *Executor) fly(ctx, run context.Context, a *attempt, to chan<- landed) {
	results, err := e.reader.Read(ctx, &a.query)
	if err == nil && len(results) != len(a.query.Keys) {
		err = &ReadError{Reason: ReasonOther, Err: errMute}
	}
	how, reason := landingOf(ctx, err)
	a.flight.land(how, reason)
	select {
	case to <- landed{attempt: a, how: how, reason: reason, results: results}:
	case <-run.Done():
	}
}

// land takes an attempt that came back.
func (r *run) land(l landed) {
	a := l.attempt
	r.drop(a)
	if a.kind == KindFirst && !a.late && l.how == answered && a.delay > 0 {
		r.req.Table.noteLate(false)
	}
	switch l.how {
	case answered:
		r.take(a, l.results)
	case failed:
		r.lose(a, l.reason)
	case abandoned, inAir:
		r.close(a, OutcomeCancelled, "")
	}
}

// drop takes an attempt out of the pending ones.
func (r *run) drop(a *attempt) {
	for i, p := range r.pending {
		if p == a {
			r.pending[i] = r.pending[len(r.pending)-1]
			r.pending = r.pending[:len(r.pending)-1]
			break
		}
	}
	for _, k := range a.keys {
		r.keys[k].flying--
	}
	a.cancel(nil)
}

// take hands on the results of an attempt. Keys that it could not read are asked
// of one other replica, which may have fewer tombstones.
func (r *run) take(a *attempt, results []partition.Result) {
	var reread []int32
	for i, k := range a.keys {
		ks := &r.keys[k]
		if ks.done {
			continue
		}
		res := results[i]
		if res.Status.Answered() || res.Status == partition.TooLarge {
			a.won = true
			r.finish(k, res)
			continue
		}
		ks.last, ks.lastErr = ReasonReadFailure, res.Err
		if ks.reread {
			r.exhaust(k)
			continue
		}
		ks.reread, ks.hedged = true, true
		reread = append(reread, k)
	}
	if a.won {
		r.close(a, OutcomeWon, "")
	} else if len(reread) == 0 {
		r.close(a, OutcomeLost, "")
	} else {
		r.close(a, OutcomeFailed, ReasonReadFailure)
	}
	if len(reread) > 0 {
		r.failover(reread, ReasonReadFailure)
	}
}

// close ends the account of an attempt.
func (r *run) close(a *attempt, outcome string, reason Reason) {
	if a.kind == KindHedge {
		label := hedgeLost
		if a.won {
			label = hedgeWon
		}
		r.executor.metrics.hedges.WithLabelValues(label).Inc()
	}
	if a.trace >= 0 {
		t := &r.stats.Attempts[a.trace]
		t.End = time.Duration(r.executor.now() - r.begin)
		t.Outcome, t.Err = outcome, string(reason)
	}
}
