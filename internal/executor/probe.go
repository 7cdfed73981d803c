package executor

import (
	"context"
	"slices"
	"time"

	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// An avoided host is asked for a few keys at a time, beside the lookups, until it is healthy.
const (
	// probeTimeout is how long a probe waits, and suspectGap how long after it a suspect is
	// probed again. Together they are the longest time until a host that has lost what was
	// outstanding is seen to answer again. mostProbeTimeout is the limit for tables whose
	// reads take longer.
	probeTimeout     = 400 * time.Millisecond
	mostProbeTimeout = 10 * probeTimeout
	suspectGap       = 400 * time.Millisecond
)

// probe asks avoided hosts for a few keys each, if it is time and the lookup has keys of
// theirs. The lookup asks other hosts for these keys as well, so it never waits for a
// probe.
func (e *Executor) probe(v *view, req *Request) {
	for _, i := range v.asked(req) {
		h := v.hosts[i]
		if h.is(Healthy) || h.probeAt.Load() > e.now() || h.probing.Load() {
			continue
		}
		keys := keysOf(req, i, h.probeKeys())
		if len(keys) == 0 || !h.probing.CompareAndSwap(false, true) {
			continue
		}
		if !h.reserve(len(keys), false) {
			h.probing.Store(false)
			continue
		}
		if !req.Table.hedges.Probe(req.lateness().lateShare() > e.policies.manyLate) ||
			!e.spawn(func() { e.sendProbe(v, h, req, keys) }) {
			h.unreserve(len(keys))
			h.probing.Store(false)
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
		if slices.Contains(replicas, of) || req.Elsewhere != nil && req.position(int32(k), of) >= 0 {
			keys = append(keys, req.Keys[k])
		}
	}
	return keys
}

// asked returns the hosts that may be asked for the keys of a request.
func (v *view) asked(req *Request) []ring.HostIndex {
	if req.Elsewhere == nil {
		return v.data
	}
	return v.all
}

// probeKeys returns how many keys a probe has: one at first, and more with each strike, up
// to what a group usually has. A host that answers single keys in time but groups too late
// is not healthy.
func (h *host) probeKeys() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.is(Probing) {
		return 1
	}
	return min(1<<min(max(h.history.strikes-1, 0), 16), h.executor.policies.probeKeys)
}

// spawn runs f unless the executor is closed.
func (e *Executor) spawn(f func()) bool {
	e.closing.RLock()
	defer e.closing.RUnlock()
	if e.ctx.Err() != nil {
		return false
	}
	e.probes.Go(func() { _ = e.incidents.Run(e.ctx, "probe of a host", f) })
	return true
}

// sendProbe sends the keys, which are reserved, to the host; its answer is thrown away.
func (e *Executor) sendProbe(v *view, h *host, req *Request, keys []partition.Key) {
	defer h.probing.Store(false)
	query := req.probeQuery(v, h)
	latencies := req.Table.at(h, query, req.Batch)
	delay, _ := req.Policy.Delay(latencies, len(keys))
	o := &outstanding{
		host: h, view: v, latencies: latencies, kind: KindProbe, keys: len(keys),
		sentAt: e.now(), within: int64(overdueAfter(latencies, h.patience(delay), len(keys))),
	}
	// A table whose reads take longer is probed for longer, or its hosts would never be healthy again.
	ctx, cancel := context.WithTimeout(e.ctx, min(max(probeTimeout, time.Duration(o.within)), mostProbeTimeout))
	defer cancel()
	h.add(o)
	e.metrics.sent[KindProbe].Inc()
	results, err := e.read(ctx, &SubQuery{Query: query, Host: h.Host, Ring: req.Ring, Keys: keys, Settled: o.settle, Lost: o.lose})
	if e.ctx.Err() != nil {
		return
	}
	end, reason := phaseOf(ctx, results, err)
	h.spaceProbes(o, end == answered, e.now())
	o.returned(err, end, reason, anyAnswered(results))
}

// spaceProbes schedules the next probe of a host, unless it is ejected: then backOff does.
// A host that answers its probes slowly is kept at work for up to a quarter of its time:
// after a restart it is slow until it has worked for a while (its code is compiled, its
// caches fill), and would stay so if left alone. But if other hosts are unhealthy as well,
// it is load that makes them slow.
func (h *host) spaceProbes(o *outstanding, answers bool, now int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch State(h.current.Load()) {
	case Suspect:
		h.probeAt.Store(now + int64(suspectGap))
	case Probing:
		gap := h.gap()
		if answers && o.cold(now) && !o.view.crowded(now) {
			gap = min(gap, 3*(now-o.sentAt))
		}
		h.probeAt.Store(now + gap)
	case Healthy, SlowStart, Ejected:
	}
}

// cold reports whether a probe took several times what is usual for its keys. If not,
// probes beyond those that count would only add load.
func (o *outstanding) cold(now int64) bool {
	usual, ok := o.latencies.Usual(0.5, o.keys)
	return !ok || float64(now-o.sentAt) > o.host.executor.policies.coldRelative*float64(usual)
}
