package executor

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// unset is a moment that never comes.
const unset = math.MaxInt64

// host is the state of one host with one id and address. What plans read is atomic; what
// answers write is guarded by the mutex.
type host struct {
	ring.Host
	executor *Executor
	metrics  hostMetrics

	// keys and subQueries count what is outstanding, including what was abandoned.
	keys, subQueries atomic.Int64
	// overdueAt is when the first of the outstanding sub-queries becomes overdue; see
	// overdue.
	overdueAt atomic.Int64
	// nextOverdueAt is when the second does.
	nextOverdueAt atomic.Int64
	// settledAt is when the host last settled a sub-query, or answered a part of one.
	settledAt atomic.Int64
	// probeAt is when an avoided host may be probed; probing is set while it is.
	probeAt atomic.Int64
	probing atomic.Bool
	// slowUntil is when slow start ends.
	slowUntil atomic.Int64
	// current is a State, but never SlowStart, which follows from slowUntil.
	current atomic.Int32
	// gone is set while the host was last seen to be unreachable.
	gone atomic.Bool
	// lost is set from when the host was found to answer nobody until it is healthy.
	lost atomic.Bool
	// dc is its datacenter if that is one to fail over to; nil for the local one.
	dc     *datacenter
	share  share
	counts hostCounts
	// relative is the moving average, as of relativeAt, of latency divided by the usual
	// latency of the group's size; latency is the moving average in seconds. Both are
	// float64 bits.
	relative, relativeAt, latency atomic.Uint64

	mu sync.Mutex
	// oldest and newest are the ends of the list of sub-queries that the host has yet to
	// answer.
	oldest, newest *outstanding
	stallAt        int64
	history        history
}

// hostCounts are what was asked of a host since the proxy first saw it. They begin anew
// when it comes back at another address.
type hostCounts struct {
	// subQueries are all that were sent to it but for probes, and hedges those because another
	// host was late. hedgedAway are the sub-queries that were hedged because this host was late.
	subQueries, hedges, hedgedAway atomic.Int64
}

func (c *hostCounts) sent(kind Kind) {
	c.subQueries.Add(1)
	if kind == KindHedge {
		c.hedges.Add(1)
	}
}

// history records what went wrong with a host.
type history struct {
	// failures are consecutive; backoff is how long the last ejection was.
	failures int
	backoff  time.Duration
	// since is when the state began.
	since int64
	// strikes is how often in a row the host became suspect. good is how many sub-queries
	// in a row it has answered in time while probing, of those sent at goodAt or later.
	strikes, good int
	goodAt        int64
	clearedAt     int64
	loggedAt      int64
}

func (e *Executor) newHost(rh ring.Host, dc *datacenter) *host {
	h := &host{Host: rh, executor: e, dc: dc, metrics: e.metrics.host(rh.Addr)}
	h.overdueAt.Store(unset)
	h.nextOverdueAt.Store(unset)
	h.probeAt.Store(unset)
	h.relative.Store(math.Float64bits(1))
	h.stallAt = math.MinInt64 / 2
	h.history.clearedAt = math.MinInt64 / 2
	h.history.loggedAt = math.MinInt64 / 2
	return h
}

// is reports whether the host is in one of the states.
func (h *host) is(states ...State) bool {
	return slices.Contains(states, State(h.current.Load()))
}

// full reports whether n more keys would be too many at the host. An idle host is never
// full.
func (h *host) full(n int) bool { return h.fullWith(h.keys.Load(), n, false) }

// fullWith is full for a given number of outstanding keys. For batch work the limit is
// half.
func (h *host) fullWith(inflight int64, n int, batch bool) bool {
	most := int64(h.executor.limits.InflightKeys)
	if batch {
		most /= 2
	}
	return inflight > 0 && inflight+int64(n) > most
}

// reserve counts n keys, of batch work or other, as outstanding, unless the host or its
// datacenter is too full for them.
func (h *host) reserve(n int, batch bool) bool {
	if !h.dc.reserve(n) {
		return false
	}
	for {
		inflight := h.keys.Load()
		if h.fullWith(inflight, n, batch) {
			h.dc.add(-n)
			return false
		}
		if h.keys.CompareAndSwap(inflight, inflight+int64(n)) {
			return true
		}
	}
}

// unreserve gives back n reserved keys that were not sent.
func (h *host) unreserve(n int) { h.addKeys(-n) }

// addKeys counts n keys as outstanding, or as not outstanding any more.
func (h *host) addKeys(n int) {
	h.keys.Add(int64(n))
	h.dc.add(n)
}

// silentFor reports whether the host has settled nothing for that long. Then it pauses or
// is gone, while one that goes on answering others has merely met a key that is slow to
// read. A host that is seldom asked always looks silent.
func (h *host) silentFor(d time.Duration) bool {
	return h.executor.now()-h.settledAt.Load() >= int64(d)
}

// overdue reports whether answers have been outstanding for too long: two of them, or one
// while the host is silent. One alone is a key that is slow to read.
func (h *host) overdue(now int64) bool {
	return h.overdueAt.Load() <= now && (h.nextOverdueAt.Load() <= now || h.silentFor(hedge.Fallback))
}
