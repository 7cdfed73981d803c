package executor

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/qosproxy/qosproxy/internal/ring"
)

// The parts of a price: latency relative to what is usual, keys outstanding, slow start,
// and the recent share of the keys.
const (
	// keysPerPrice is how many outstanding keys double the price of a host: the
	// four groups of eight that keep the read threads of a small node busy.
	keysPerPrice = 32
	// shareLeast and shareMost bound the factor of the recent share. A host that was away
	// has no share at all, and would be free.
	shareLeast, shareMost = 0.5, 2
	// slowStartPrice is what slow start adds to its factor of 1 at the beginning.
	slowStartPrice = 4
)

// findPrices sets what each host costs. The share of a host is compared with those of the
// hosts that are as near: otherwise near hosts, which are meant to be sent more, would cost
// more for it. A slow host is not compared, since it is meant to be sent less: it would be
// cheap for that, and the others expensive.
func (e *Executor) findPrices(v *view, near []bool, now int64, s *survey) {
	var total, count [2]float64 // of the hosts that are not near, and that are
	lookup := e.lookups.Load()
	for _, i := range v.data {
		s.price[i] = v.hosts[i].share.at(lookup)
		if c := class(near, i); !s.slow[i] {
			total[c] += s.price[i]
			count[c]++
		}
	}
	for _, i := range v.data {
		share := 1.0
		if c := class(near, i); !s.slow[i] {
			share = balance(s.price[i], total[c]/count[c])
		}
		s.price[i] = v.hosts[i].price(s.relative[i], now) * share
	}
}

// class returns 1 for a host that is near, 0 for another.
func class(near []bool, i ring.HostIndex) int {
	if int(i) < len(near) && near[i] {
		return 1
	}
	return 0
}

// The memory of latencies.
const (
	// relativeWeight is the weight of one answer in the moving averages.
	relativeWeight = 0.05
	// relativeMost bounds the relative latency of one answer.
	relativeMost = 50
	// relativeMemory is how long a host without answers stays expensive: if its price did
	// not fade, it would never be asked again.
	relativeMemory = float64(5 * time.Second)
	// A stall delays many answers but is one event: of the answers that took more than
	// stallRelative times the usual, one in stallGap counts.
	stallRelative = 8
	stallGap      = int64(50 * time.Millisecond)
)

// price returns what it costs to ask the host now, relative to a usual idle one. relative
// is what relativeNow returned.
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

// learn adds the latency of an answer to the averages. The mutex is held.
func (h *host) learn(o *outstanding, took time.Duration, now int64) {
	seconds := math.Float64frombits(h.latency.Load())
	if seconds == 0 {
		seconds = took.Seconds()
	}
	h.latency.Store(math.Float64bits(seconds + relativeWeight*(took.Seconds()-seconds)))

	usual, ok := o.latencies.Usual(0.5, o.keys)
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

// fade returns the part of a difference that is left after the time passed.
func fade(passed int64, memory float64) float64 { return math.Exp(-float64(max(passed, 0)) / memory) }

// balance returns the factor of a price that keeps the hottest host near the mean.
func balance(sent, mean float64) float64 {
	if mean <= 0 {
		return 1
	}
	x := sent / mean
	return min(max(x*x, shareLeast), shareMost)
}

// shareMemory is over how many lookups the share of a host is remembered: the
// keys of a lookup that long ago weigh 1/e.
const shareMemory = 500

// share is how many keys a host was recently sent. It decays with each lookup of the
// executor rather than with time, so that it means the same at any rate. Its value (a
// float32) and the number of its last lookup share one word, so that they are read
// together.
type share struct{ word atomic.Uint64 }

func (s *share) add(keys int, lookup uint32) {
	for {
		old := s.word.Load()
		v := float32(decayed(old, lookup)) + float32(keys)
		if s.word.CompareAndSwap(old, uint64(math.Float32bits(v))<<32|uint64(lookup)) {
			return
		}
	}
}

func (s *share) at(lookup uint32) float64 { return decayed(s.word.Load(), lookup) }

func decayed(word uint64, lookup uint32) float64 {
	v := float64(math.Float32frombits(uint32(word >> 32)))
	// A signed distance, as lookups overtake each other and the count wraps.
	passed := int32(lookup - uint32(word))
	if v == 0 || passed <= 0 {
		return v
	}
	return v * math.Exp(-float64(passed)/shareMemory)
}
