package executor

import (
	"context"
	"slices"

	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// probe asks avoided hosts for one key each, when it is time, and if the lookup
// has a key of theirs. The key is asked elsewhere as well, so no lookup ever
// waits for a probe.
func (e *Executor) probe(v *view, req *Request) {
	if e.without.suspects && e.without.ejection {
		return
	}
	for _, i := range v.data {
		h := v.hosts[i]
		if h.is(stateHealthy) || h.probeAt.Load() > e.now() || h.probing.Load() {
			continue
		}
		k := slices.IndexFunc(req.Replicas, func(r []ring.HostIndex) bool { return slices.Contains(r, i) })
		if k < 0 || h.full(1) || !h.probing.CompareAndSwap(false, true) {
			continue
		}
		if !e.spawn(func() { e.ask(v, h, req, req.Keys[k:k+1:k+1]) }) {
			h.probing.Store(false)
			return
		}
	}
}

// spawn runs f unless the executor is closed.
func (e *Executor) spawn(f func()) bool {
	e.closing.RLock()
	defer e.closing.RUnlock()
	if e.ctx.Err() != nil {
		return false
	}
	e.probes.Go(f)
	return true
}

// ask sends the one key to the host; its answer is thrown away.
func (e *Executor) ask(v *view, h *host, req *Request, key []partition.Key) {
	defer h.probing.Store(false)
	ctx, cancel := context.WithTimeout(e.ctx, probeTimeout)
	defer cancel()
	delay, _ := req.Table.delayOf(req.Policy, 1)
	f := &flight{
		host: h, view: v, table: req.Table, kind: KindProbe, keys: 1,
		sent: e.now(), allowance: int64(req.Table.suspectAfter(delay, 1)),
	}
	h.launch(f)
	e.metrics.subQuery(KindProbe).Inc()
	_, err := e.reader.Read(ctx, &SubQuery{Query: req.Query, Host: h.Host, Ring: req.Ring, Keys: key, Settled: f.settle})
	if e.ctx.Err() != nil {
		return
	}
	h.rest(e.now())
	f.land(landingOf(ctx, err))
}

// rest spaces the probes of a host that is not ejected; those of one that is are
// spaced by its backoff.
func (h *host) rest(now int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch state(h.current.Load()) {
	case stateSuspect:
		h.probeAt.Store(now + int64(suspectGap))
	case stateProbing:
		h.probeAt.Store(now + h.gap())
	case stateHealthy, stateEjected:
	}
}
