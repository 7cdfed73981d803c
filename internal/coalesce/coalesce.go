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

// DefaultMaxWaiters is the most lookups that wait for one read. A hot key then costs one
// read for every 65 lookups of it, and a read that is slow or fails holds up no more than
// these.
const DefaultMaxWaiters = 64

// buckets is a power of two. At 128 KiB in all, a bucket holds few keys even when a
// hundred thousand are being read.
const buckets = 1 << 13

// Group is the set of keys that are being read. It is safe for concurrent use.
type Group struct {
	seed       maphash.Seed
	begin      time.Time
	maxWaiters int32
	buckets    []bucket
	// calls holds ended calls that met no other, for reuse.
	calls sync.Pool
}

// New returns a group in which at most maxWaiters lookups wait for one read; 0 or less
// means DefaultMaxWaiters.
func New(maxWaiters int) *Group {
	if maxWaiters <= 0 {
		maxWaiters = DefaultMaxWaiters
	}
	g := &Group{seed: maphash.MakeSeed(), begin: time.Now(), maxWaiters: int32(maxWaiters), buckets: make([]bucket, buckets)}
	g.calls.New = func() any { return new(Call) }
	return g
}

// now returns the nanoseconds since the group was made.
func (g *Group) now() int64 { return int64(time.Since(g.begin)) }

// Count returns how many reads can be joined and how many waits there are for them.
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

// A lookup waits for one read of another for at most one part in patienceShare of the
// time that it has left.
const patienceShare = 4

// never is the deadline of a call without one.
const never = math.MaxInt64

// Begin divides the keys of a lookup, which must be distinct, into those that it reads
// itself and those for which it waits. The lookup ends at deadline; the zero time means
// never. Patience, above 0, is both the largest age of a read that is joined and how long
// a key is waited for until it is read again; it is cut to a quarter of the time left. No
// read of a lower priority is joined, as that may itself be kept waiting or shed. The
// caller must not change keys or the columns of q any more, and must close the call once.
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
			c.reads[i].by = nil // left from an earlier use
		}
	}
	return c
}
