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
	// asked holds the keys of the query in order, as indices into Request.Keys. keys are
	// those that it still asks for, in the same order; open is how many of these have no
	// result.
	asked, keys []int32
	open        int
	// hedgeAt is when the attempt becomes late, or its denied hedge is tried again; delay
	// is the time until then. late is set once it was late.
	hedgeAt int64
	delay   int64
	late    bool
	// won is set once it has answered some key first. lost is the reason of the first key
	// that it lost while the key was waited for.
	won  bool
	lost Reason
	// awaited is set once a key that it asks for has ended without an answer.
	awaited bool
	denied  bool
	cancel  context.CancelCauseFunc
	query   SubQuery
	// sent is the sub-query as its host sees it.
	sent  *outstanding
	trace int
	// ctx is the context of its reader, and over that of the run, whose events go to to.
	ctx, over context.Context //nolint:containedctx // for Receive, as the arguments of perform are
	to        chan<- event
}

// event is what a reader tells a run: that an attempt has ended or, in phase inFlight,
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

// secondHedge is how many delays a hedge may take until its keys are asked of a further
// replica. It holds for attempts at another datacenter too, which is farther away.
const secondHedge = 4

// patience returns how long the host may take for a sub-query with this hedge delay.
func (h *host) patience(delay time.Duration) time.Duration {
	if h.dc != nil {
		return secondHedge * delay
	}
	return delay
}

// send asks a host for keys, which are reserved there.
func (r *run) send(host ring.HostIndex, keys []int32, kind Kind) {
	h, now := r.view.hosts[host], r.executor.now()
	a := &attempt{kind: kind, asked: keys, keys: keys, open: len(keys), hedgeAt: unset, trace: -1, over: r.ctx, to: r.events}
	query := r.query(keys[0])
	latencies := r.req.Table.at(h, query, r.req.Batch)
	delay, ok := r.req.Policy.Delay(latencies, len(keys))
	switch {
	case ok && kind != KindHedge && h.dc == nil:
		a.delay = int64(delay)
		a.hedgeAt = now + a.delay
	case ok && delay > 0: // with ALWAYS, whose delay is 0, two attempts are enough
		a.delay = secondHedge * int64(delay)
		a.hedgeAt = now + a.delay
	}
	a.sent = &outstanding{
		host: h, view: r.view, latencies: latencies, kind: kind, keys: len(keys),
		sentAt: now, within: int64(overdueAfter(latencies, h.patience(delay), len(keys))), traceID: r.req.TraceID,
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

// count adds an attempt to the statistics of the lookup.
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

// perform reads, and tells the run how that ended.
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

// tell sends an event to the run, unless the run has ended.
func (a *attempt) tell(ev event) {
	select {
	case a.to <- ev:
	case <-a.over.Done():
	}
}

// close records how an attempt ended: by what became of its keys, or else by outcome and
// reason.
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
