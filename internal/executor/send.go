package executor

import (
	"cmp"
	"context"
	"time"

	"github.com/qosproxy/qosproxy/internal/incident"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// attempt is one sub-query of a run.
type attempt struct {
	kind Kind
	// asked are indices into Request.Keys, in the order of the query; keys are those
	// of them that it still asks, in the same order, and open is how many of these
	// have no result.
	asked, keys []int32
	open        int
	// hedgeAt is when the attempt is late, after delay; late is set when it was.
	hedgeAt int64
	delay   int64
	late    bool
	// won is set once it has answered some key first, and lost is the reason of the
	// first key that it lost while the key was waited for.
	won  bool
	lost Reason
	// awaited is set when the lookup ended while some key of it had no result.
	awaited bool
	denied  bool
	cancel  context.CancelCauseFunc
	query   SubQuery
	// sent is the sub-query as its host has it.
	sent  *outstanding
	trace int
	// ctx is of its reader, over of the run, and to takes the run's events.
	ctx, over context.Context //nolint:containedctx // for Receive, as the arguments of perform are
	to        chan<- event
}

// event is what a reader tells a run: that an attempt has ended, or, while it is in flight,
// early results of the keys from position from on.
type event struct {
	attempt *attempt
	phase   phase
	from    int
	reason  Reason
	results []partition.Result
	// shared is SubQuery.Shared, of an attempt that has ended.
	shared int
	// broken is the panic that the attempt ended with; nil otherwise.
	broken *incident.Error
}

// secondHedge is how many delays a hedge may take until its keys, too, are asked of
// a further replica, and so may an attempt at another datacenter, which is farther away.
const secondHedge = 4

// patience is how long a host may take for what is hedged after a delay.
func (h *host) patience(delay time.Duration) time.Duration {
	if h.dc != nil {
		return secondHedge * delay
	}
	return delay
}

// send asks a host for keys that are reserved at it.
func (r *run) send(host ring.HostIndex, keys []int32, kind Kind) {
	h, now := r.view.hosts[host], r.executor.now()
	a := &attempt{kind: kind, asked: keys, keys: keys, open: len(keys), hedgeAt: unset, trace: -1, over: r.ctx, to: r.events}
	query := r.query(keys[0])
	table := r.req.Table.at(h, query)
	delay, ok := table.HedgeDelay(r.req.Policy, len(keys))
	switch {
	case ok && kind != KindHedge && h.dc == nil:
		a.delay = int64(delay)
		a.hedgeAt = now + a.delay
	case ok && delay > 0: // after ALWAYS, two attempts are what was wished for
		a.delay = secondHedge * int64(delay)
		a.hedgeAt = now + a.delay
	}
	a.sent = &outstanding{
		host: h, view: r.view, table: table, kind: kind, keys: len(keys),
		sentAt: now, within: int64(table.overdueAfter(h.patience(delay), len(keys))), traceID: r.req.TraceID,
	}
	a.query = SubQuery{
		Query: query, Host: h.Host, Ring: r.req.Ring, Keys: make([]partition.Key, len(keys)), Settled: a.sent.settle,
		Lost: a.sent.lose, Early: a,
	}
	for i, k := range keys {
		a.query.Keys[i] = r.req.Keys[k]
		r.mark(k, host)
		r.keys[k].inFlight++
		r.keys[k].asked = true
		r.keys[k].away = r.keys[k].away || h.dc != nil
	}
	h.dc.count(len(keys))
	r.pending = append(r.pending, a)
	r.count(a)
	h.share.add(len(keys), r.executor.lookups.Load())
	h.counts.sent(kind)
	h.add(a.sent)
	a.ctx, a.cancel = context.WithCancelCause(r.ctx)
	go r.executor.perform(a)
}

// count takes a sub-query into the statistics of the lookup.
func (r *run) count(a *attempt) {
	r.stats.SubQueries++
	switch a.kind {
	case KindHedge:
		r.stats.Hedges++
	case KindFailover:
		r.stats.Failovers++
	case KindFirst, KindReread, KindProbe, KindCoalesced:
	}
	r.executor.metrics.sent[a.kind].Inc()
	if !r.req.Trace {
		return
	}
	a.trace = len(r.stats.Attempts)
	hedgeAfter := time.Duration(-1)
	if a.hedgeAt != unset {
		hedgeAfter = time.Duration(a.delay)
	}
	r.stats.Attempts = append(r.stats.Attempts, Attempt{
		Host: a.query.Host.Addr, Kind: a.kind, Keys: a.keys, Start: time.Duration(a.sent.sentAt - r.begin), HedgeAfter: hedgeAfter,
		OwnData: a.query.Consistency == partition.OwnData,
	})
}

// perform reads, and tells the run unless that has ended.
func (e *Executor) perform(a *attempt) {
	defer func() {
		if r := recover(); r != nil {
			a.tell(event{attempt: a, phase: abandoned, broken: e.incidents.Record(a.ctx, "attempt", r)})
		}
	}()
	results, err := e.read(a.ctx, &a.query)
	if err == nil && len(results) != len(a.query.Keys) {
		err = &ReadError{Reason: ReasonOther, Err: errMute}
	}
	if err != nil {
		results = nil
	}
	end, reason := phaseOf(a.ctx, results, err)
	a.sent.returned(err, end, reason, anyAnswered(results))
	a.tell(event{attempt: a, phase: end, reason: reason, results: results, broken: brokenBy(err), shared: a.query.Shared})
}

// Receive implements Early.
func (a *attempt) Receive(from int, results []partition.Result) {
	how, reason := phaseOf(a.ctx, results, nil)
	a.sent.partial(how, reason, anyAnswered(results))
	a.tell(event{attempt: a, phase: inFlight, from: from, results: results})
}

// tell hands an event to the run, unless that has ended.
func (a *attempt) tell(ev event) {
	select {
	case a.to <- ev:
	case <-a.over.Done():
	}
}

// close ends the account of an attempt, by what became of its keys and else by an
// outcome and a reason.
func (r *run) close(a *attempt, outcome Outcome, reason Reason) {
	if a.kind == KindHedge {
		label := hedgeLost
		if a.won {
			label = hedgeWon
		}
		r.executor.metrics.hedges.WithLabelValues(label).Inc()
	}
	if a.trace < 0 {
		return
	}
	switch {
	case outcome == OutcomePending:
	case a.won:
		outcome = OutcomeWon
	case a.lost != "":
		outcome = OutcomeFailed
	}
	t := &r.stats.Attempts[a.trace]
	t.End = time.Duration(r.executor.now() - r.begin)
	t.Outcome, t.Err = outcome, cmp.Or(a.lost, reason)
}
