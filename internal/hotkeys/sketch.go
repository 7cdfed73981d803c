// Package hotkeys decides which keys of a table count as its hottest: which of the
// keys that pass are sampled, and which of the sampled are remembered.
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
	// capacity is how many keys half a window remembers. A key with more than one in
	// so many of its keys is certainly among them.
	capacity = 512
	// maxKeyBytes is the longest key that is remembered: all of them fit in 1 MiB or
	// so. Longer ones are counted but not named.
	maxKeyBytes = 1 << 10
	// budget is how many keys are looked at in a second; of more, a sample is.
	budget = 2000
	// maxStride is the thinnest sample.
	maxStride = 1 << 12
)

// HalfWindow is half of the longest time that a report looks back.
const HalfWindow = 30 * time.Second

// Sketch counts the keys of one table, over the last 30 to 60 seconds. It is safe
// for concurrent use.
type Sketch struct {
	// stride is of how many keys one is looked at.
	stride atomic.Uint32

	mu        sync.Mutex
	now, past *half
	// second is when the sample was last thinned or thickened, and looked at how many
	// keys have been looked at since.
	second time.Time
	looked int
}

// New returns a sketch that has seen nothing.
func New() *Sketch {
	begin := time.Now()
	s := &Sketch{now: newHalf(begin), past: newHalf(begin), second: begin}
	s.stride.Store(1)
	return s
}

// Observe counts the distinct keys of one lookup. A sample of them is looked at: each
// key has the same chance, and one that is looked at counts for those that are not.
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

// pace thins the sample when it looks at too many keys, and thickens it when it
// looks at few.
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
	// Count is about how often it was asked for. It is at most Error too high, but
	// for the chance of the sample.
	Count, Error uint64
}

// Report is what a sketch has seen.
type Report struct {
	// Window is the time that it covers.
	Window time.Duration
	// Keys is about how many keys were asked for: once for each lookup and distinct
	// key.
	Keys uint64
	// OneIn is of how many keys one is looked at.
	OneIn int
	// Top are the keys asked for most, first the most.
	Top []Key
}

// Top returns the k keys that were asked for most.
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
