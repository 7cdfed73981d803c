package executor

import (
	"context"
	"slices"

	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// probe asks avoided hosts for a few keys each, when it is time, and if the lookup
// has keys of theirs. They are asked elsewhere as well, so no lookup ever waits for
// a probe.
func (e *Executor) probe(v *view, req *Request) {
	if e.without.suspects && e.without.ejection {
		return
	}
	for _, i := range v.data {
		h := v.hosts[i]
		if h.is(stateHealthy) || h.probeAt.Load() > e.now() || h.probing.Load() {
			continue
		}
		keys := keysOf(req, i, h.probeKeys())
		if len(keys) == 0 || h.full(len(keys)) || !h.probing.CompareAndSwap(false, true) {
			continue
		}
		if req.Table.manyLate() && !e.without.sparing && !req.Table.hedges.Probe() {
			h.probing.Store(false)
			continue
		}
		if !e.spawn(func() { e.ask(v, h, req, keys) }) {
			h.probing.Store(false)
			return
		}
	}
}

// keysOf returns up to most keys that a host has a replica of.
func keysOf(req *Request, of ring.HostIndex, most int) []partition.Key {
	var keys []partition.Key
	for k, replicas := range req.Replicas {
		if len(keys) == most {
			break
		}
		if slices.Contains(replicas, of) {
			keys = append(keys, req.Keys[k])
		}
	}
	return keys
}

// probeKeys is of how many keys a probe is: one at first, and more with each strike,
// up to what a group usually has. A host that answers single keys in time and groups
// too late is not well.
func (h *host) probeKeys() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.executor.without.warming || !h.is(stateProbing) {
		return 1
	}
	return min(1<<min(max(h.trouble.strikes-1, 0), 16), mostProbeKeys)
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

// ask sends the keys to the host; its answer is thrown away.
func (e *Executor) ask(v *view, h *host, req *Request, keys []partition.Key) {
	defer h.probing.Store(false)
	ctx, cancel := context.WithTimeout(e.ctx, probeTimeout)
	defer cancel()
	delay, _ := req.Table.delayOf(req.Policy, len(keys))
	f := &flight{
		host: h, view: v, table: req.Table, kind: KindProbe, keys: len(keys),
		sent: e.now(), allowance: int64(req.Table.suspectAfter(delay, len(keys))),
	}
	h.launch(f)
	e.metrics.subQuery(KindProbe).Inc()
	_, err := e.reader.Read(ctx, &SubQuery{Query: req.Query, Host: h.Host, Ring: req.Ring, Keys: keys, Settled: f.settle})
	if e.ctx.Err() != nil {
		return
	}
	h.rest(f, err == nil, e.now())
	f.land(landingOf(ctx, err))
}

// rest spaces the probes of a host that is not ejected; those of one that is are
// spaced by its backoff. A host that answers its probes slowly works at most a quarter
// of its time: one that was restarted is slow until it has worked for a while (its code
// is compiled, its caches fill), and would stay so if it were left alone. But where others
// are in trouble as well it is load that makes them slow.
func (h *host) rest(f *flight, answers bool, now int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch state(h.current.Load()) {
	case stateSuspect:
		h.probeAt.Store(now + int64(suspectGap))
	case stateProbing:
		gap := h.gap()
		if answers && cold(f, now) && !h.executor.without.warming && (!f.view.crowded(now) || h.executor.without.sparing) {
			gap = min(gap, 3*(now-f.sent))
		}
		h.probeAt.Store(now + gap)
	case stateHealthy, stateEjected:
	}
}

// cold reports whether a probe took several times what is usual for its keys. Further
// ones between those that count would only be load for a host that is well again.
func cold(f *flight, now int64) bool {
	usual, ok := f.table.latencies.Usual(0.5, f.keys)
	return !ok || now-f.sent > coldRelative*int64(usual)
}
