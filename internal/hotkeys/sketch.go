// Package hotkeys decides which keys of a table count as its hottest: which requested
// keys are sampled, and which of the sampled keys are remembered.
package hotkeys

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/qosproxy/qosproxy/internal/partition"
)

const (
	// capacity is how many keys half a window remembers. A key that makes up more
	// than 1/capacity of the keys counted in it is certainly among them.
	capacity = 512
	// maxKeyBytes is the longest key that is remembered, so that all of them fit in
	// about 1 MiB. Longer keys are counted but not named.
	maxKeyBytes = 1 << 10
	// budget is how many keys are examined per second; beyond it, keys are sampled.
	budget = 2000
	// maxStride is the largest stride.
	maxStride = 1 << 12
)

// HalfWindow is half of the longest time that a report covers.
const HalfWindow = 30 * time.Second

// Sketch counts the keys of one table, over the last 30 to 60 seconds. It is safe
// for concurrent use.
type Sketch struct {
	// stride is the sampling interval: one key in stride is examined.
	stride atomic.Uint32

	mu        sync.Mutex
	now, past *half
	// second is when pace last started to count, and looked is how many keys have
	// been examined since.
	second time.Time
	looked int
}

// New returns an empty sketch.
func New() *Sketch {
	begin := time.Now()
	s := &Sketch{now: newHalf(begin), past: newHalf(begin), second: begin}
	s.stride.Store(1)
	return s
}

// Observe counts the distinct keys of one lookup. It examines every stride-th key,
// and counts it stride times. The start is random, so that each key has the same
// chance.
func (s *Sketch) Observe(keys []partition.Key) {
	stride := s.stride.Load()
	at := 0
	if stride > 1 {
		at = int(rand.Uint32N(stride))
	}
	if at >= len(keys) {
		return
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn(now)
	for ; at < len(keys); at += int(stride) {
		s.now.add(keys[at].Routing(), uint64(stride))
		s.looked++
	}
	s.pace(now)
}

// turn begins a new half of the window when the current one is full.
func (s *Sketch) turn(now time.Time) {
	age := now.Sub(s.now.begin)
	switch {
	case age < HalfWindow:
		return
	case age < 2*HalfWindow:
		s.now, s.past = newHalf(s.now.begin.Add(HalfWindow)), s.now
	default:
		s.now, s.past = newHalf(now), newHalf(now)
	}
}

// pace doubles the stride when too many keys are examined, and halves it after a
// second with few.
func (s *Sketch) pace(now time.Time) {
	stride := s.stride.Load()
	switch {
	case s.looked > budget:
		stride = min(2*stride, maxStride)
	case now.Sub(s.second) < time.Second:
		return
	case s.looked < budget/4 && stride > 1:
		stride /= 2
	}
	s.stride.Store(stride)
	s.second, s.looked = now, 0
}

// Key is one key of a report.
type Key struct {
	// Routing identifies the partition, as partition.Key.Routing does.
	Routing []byte
	// Count estimates how often it was asked for. Apart from the error of sampling,
	// it is at most Error too high.
	Count, Error uint64
}

// Report is what a sketch has seen.
type Report struct {
	// Window is the time that the report covers.
	Window time.Duration
	// Keys is about how many keys were asked for: once for each lookup and distinct
	// key.
	Keys uint64
	// OneIn is the current sampling interval: one key in OneIn is examined.
	OneIn int
	// Top are the hottest keys, by descending Count.
	Top []Key
}

// Top returns a report with the k hottest keys.
func (s *Sketch) Top(k int) Report {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn(now)
	r := Report{Window: now.Sub(s.past.begin), Keys: s.now.total + s.past.total, OneIn: int(s.stride.Load())}
	for _, c := range s.now.heap {
		key := Key{Routing: []byte(c.key), Count: c.count, Error: c.over}
		if before, ok := s.past.at[c.key]; ok {
			key.Count += before.count
			key.Error += before.over
		}
		r.Top = append(r.Top, key)
	}
	for _, c := range s.past.heap {
		if _, ok := s.now.at[c.key]; !ok {
			r.Top = append(r.Top, Key{Routing: []byte(c.key), Count: c.count, Error: c.over})
		}
	}
	slices.SortFunc(r.Top, func(a, b Key) int {
		switch {
		case a.Count != b.Count && a.Count > b.Count:
			return -1
		case a.Count != b.Count:
			return 1
		}
		return slices.Compare(a.Routing, b.Routing)
	})
	r.Top = r.Top[:min(max(k, 0), len(r.Top))]
	return r
}
