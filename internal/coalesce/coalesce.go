// Package coalesce decides which lookup reads a key that several ask for at the same
// time, how long the others wait for it, and which of them reads when the reader ends
// early. It does no I/O and starts no goroutine.
package coalesce

import (
	"hash/maphash"
	"math"
	"sync"
	"time"

	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// DefaultMaxWaiters is how many lookups wait for one read. A hot key costs one read
// for every 65 lookups of it, and a read that fares badly holds up no more than
// these.
const DefaultMaxWaiters = 64

// buckets is a power of two. With 128 KiB, a bucket holds few keys also when a
// hundred thousand are being read.
const buckets = 1 << 13

// Group is the keys that are being read. It is safe for concurrent use.
type Group struct {
	seed       maphash.Seed
	begin      time.Time
	maxWaiters int32
	buckets    []bucket
	// calls are those that nobody else has met, for reuse.
	calls sync.Pool
}

// New returns a group in which at most maxWaiters lookups wait for one read; 0
// means DefaultMaxWaiters.
func New(maxWaiters int) *Group {
	if maxWaiters <= 0 {
		maxWaiters = DefaultMaxWaiters
	}
	g := &Group{seed: maphash.MakeSeed(), begin: time.Now(), maxWaiters: int32(maxWaiters), buckets: make([]bucket, buckets)}
	g.calls.New = func() any { return new(Call) }
	return g
}

// now is the time since the group was made.
func (g *Group) now() int64 { return int64(time.Since(g.begin)) }

// Count returns how many reads are listed and how many waits for them.
func (g *Group) Count() (reads, waits int) {
	for i := range g.buckets {
		b := &g.buckets[i]
		b.mu.Lock()
		for r := b.first; r != nil; r = r.next {
			reads++
			for w := r.waits; w != nil; w = w.next {
				waits++
			}
		}
		b.mu.Unlock()
	}
	return reads, waits
}

// patienceShare is which part of the time that a lookup has left it spends at most
// on waiting for one read of another.
const patienceShare = 4

// never is the deadline of a call without one.
const never = math.MaxInt64

// Begin divides the keys of a lookup, which must be distinct, into those that it
// reads itself and those for which it waits. The lookup ends at deadline; the zero
// time is never. Patience, above 0, is both the largest age of a read that is worth
// waiting for and how long to wait for one until the key is read again; it is cut to
// a quarter of the time left. It waits for no read of a lower priority, which may itself be kept
// waiting or shed. The columns of q and keys must not change any more. The call must
// be closed, once.
func (g *Group) Begin(q *partition.Query, keys []partition.Key, deadline time.Time, patience time.Duration, priority identity.Priority) *Call {
	now := g.now()
	c := g.calls.Get().(*Call)
	c.group, c.query, c.hash, c.keys = g, *q, hash(q, g.seed), keys
	c.deadline, c.patience, c.priority = never, int64(patience), priority
	if cap(c.reads) < len(keys) {
		c.reads = make([]read, len(keys))
	}
	c.reads = c.reads[:len(keys)]
	if !deadline.IsZero() {
		c.deadline = int64(deadline.Sub(g.begin))
		c.patience = min(c.patience, max(0, c.deadline-now)/patienceShare)
	}
	for i := range keys {
		if w := c.attach(int32(i), none, now, anyTime); w != nil {
			c.slots[w.slot].first = w
			c.reads[i].by = nil // of an earlier use
		}
	}
	return c
}
