package executor

import (
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// state is what the executor thinks of a host.
type state int32

const (
	stateHealthy state = iota
	// stateProbing: it was suspect, has answered, and has not yet shown that it
	// is well.
	stateProbing
	// stateSuspect: it owes an answer for too long.
	stateSuspect
	// stateEjected: it failed again and again.
	stateEjected
)

// unset is a moment that never comes.
const unset = math.MaxInt64

// host is the state of one host: of one id at one address. What plans read is
// atomic; what answers write is behind the mutex.
type host struct {
	ring.Host
	executor *Executor
	metrics  hostMetrics

	// keys and subQueries are in flight, abandoned ones included.
	keys, subQueries atomic.Int64
	// lateAt is when the oldest outstanding sub-query is late; see late.
	lateAt atomic.Int64
	// nextLateAt is the same for the oldest but one.
	nextLateAt atomic.Int64
	// settledAt is when the host last settled a sub-query.
	settledAt atomic.Int64
	// probeAt is when an avoided host may be asked for one key; probing is set
	// while it is.
	probeAt atomic.Int64
	probing atomic.Bool
	// slowUntil is when slow start ends.
	slowUntil atomic.Int64
	current   atomic.Int32
	// gone is set while the host was last seen to be unreachable.
	gone   atomic.Bool
	sent   share
	counts hostCounts
	// relative is the moving average of latencies over what a group of their
	// size usually takes, as of relativeAt; latency is that of plain seconds.
	// Both are float64 bits.
	relative, relativeAt, latency atomic.Uint64

	mu             sync.Mutex
	oldest, newest *flight
	stallAt        int64
	trouble        trouble
}

// trouble is the memory of what went wrong with a host.
type trouble struct {
	// failures are consecutive; backoff is how long the last ejection was.
	failures int
	backoff  time.Duration
	// since is when the state began.
	since int64
	// strikes is how often in a row the host became suspect; good how many
	// sub-queries it has answered in time since it is probed, of those sent at
	// goodAt or later.
	strikes, good int
	goodAt        int64
	clearedAt     int64
	loggedAt      int64
}

func (e *Executor) newHost(rh ring.Host) *host {
	h := &host{Host: rh, executor: e, metrics: e.metrics.host(rh.Addr)}
	h.lateAt.Store(unset)
	h.nextLateAt.Store(unset)
	h.probeAt.Store(unset)
	h.relative.Store(math.Float64bits(1))
	h.stallAt = math.MinInt64 / 2
	h.trouble.clearedAt = math.MinInt64 / 2
	h.trouble.loggedAt = math.MinInt64 / 2
	return h
}

// is reports whether the host is in one of the states.
func (h *host) is(states ...state) bool {
	s := state(h.current.Load())
	return slices.Contains(states, s)
}

// full reports whether the host owes so many answers that n more keys are too
// many. An idle host is never full.
func (h *host) full(n int) bool {
	inflight := h.keys.Load()
	return inflight > 0 && inflight+int64(n) > int64(h.executor.limits.InflightKeys)
}

// still reports whether the host has not finished anything for that long: then it
// pauses or is gone, while one that goes on answering others has merely met a key
// that is slow to read. A host that is asked seldom always looks still.
func (h *host) still(since time.Duration) bool {
	return h.executor.now()-h.settledAt.Load() >= int64(since)
}

// late reports whether the host owes answers for too long: two of them, or one
// while it is still. One alone is a key that is slow to read.
func (h *host) late(now int64) bool {
	return h.lateAt.Load() <= now && (h.nextLateAt.Load() <= now || h.still(hedge.Fallback))
}

// The memory of latencies.
const (
	// relativeWeight is the weight of one answer in the moving averages.
	relativeWeight = 0.05
	// relativeMost bounds what one answer can say.
	relativeMost = 50
	// relativeMemory is how long a host without answers stays expensive: without
	// forgetting it would never be asked again.
	relativeMemory = float64(5 * time.Second)
	// A stall delays many answers and is one event: of the answers that took
	// stallRelative times the usual, one in stallGap counts.
	stallRelative = 8
	stallGap      = int64(50 * time.Millisecond)
)

// price is what it costs to ask the host now, relative to a usual idle one, from
// what relativeNow returned.
func (h *host) price(relative float64, now int64) float64 {
	p := relative * (1 + float64(h.keys.Load())/keysPerPrice)
	if left := h.slowUntil.Load() - now; left > 0 {
		p *= 1 + slowStartPrice*float64(left)/float64(h.executor.limits.SlowStart)
	}
	return p
}

func (h *host) relativeNow(now int64) float64 {
	x := math.Float64frombits(h.relative.Load())
	return 1 + (x-1)*fade(now-int64(h.relativeAt.Load()), relativeMemory)
}

// learn takes the latency of an answer into the averages. The mutex is held.
func (h *host) learn(f *flight, took time.Duration, now int64) {
	seconds := math.Float64frombits(h.latency.Load())
	if seconds == 0 {
		seconds = took.Seconds()
	}
	h.latency.Store(math.Float64bits(seconds + relativeWeight*(took.Seconds()-seconds)))

	usual, ok := f.table.latencies.Usual(0.5, f.keys)
	if !ok || usual <= 0 {
		return
	}
	x := min(float64(took)/float64(usual), relativeMost)
	if x > stallRelative {
		if now-h.stallAt < stallGap {
			return
		}
		h.stallAt = now
	}
	was := h.relativeNow(now)
	h.relative.Store(math.Float64bits(was + relativeWeight*(x-was)))
	h.relativeAt.Store(uint64(now))
}

// enter changes the state, and says so. The mutex is held.
func (h *host) enter(s state, now int64, why string, attrs ...any) {
	was := state(h.current.Swap(int32(s)))
	h.trouble.since = now
	if was == s {
		return
	}
	h.metrics.changes(s).Inc()
	// A limping host becomes suspect many times a minute; that is one message
	// each ten seconds, and ejections are always worth one.
	level := slog.LevelInfo
	if s != stateEjected && was != stateEjected {
		if now-h.trouble.loggedAt < int64(10*time.Second) {
			level = slog.LevelDebug
		} else {
			h.trouble.loggedAt = now
		}
	}
	h.executor.logger.Log(h.executor.ctx, level, "host changed state",
		append([]any{"event", why, "host", h.Addr, "state", s.String(), "was", was.String()}, attrs...)...)
}
