package coalesce

import (
	"hash/maphash"
	"math"
	"sync"

	"github.com/qosproxy/qosproxy/internal/partition"
)

// bucket is a list of reads whose hashes have the same lower bits, the youngest first.
// Its mutex guards the reads in it and their lists of waits.
type bucket struct {
	mu    sync.Mutex
	first *read
}

// read is the read of a key by a call. Fields that its bucket does not guard do not
// change while it is listed.
type read struct {
	prev, next *read
	by         *Call
	waits      *wait
	started    int64
	index      int32
	waiting    int32
	hash       uint32
	// slot is the index of the key's slot in the call; none for a key that never waited.
	slot int32
	// listed is set while others may join, met once another call has waited.
	listed, met bool
}

// none is the slot of a key that its call reads from the start.
const none = -1

// wait is the wait of a call for the read of another.
type wait struct {
	prev, next  *wait
	call        *Call
	on          *read
	index, slot int32
}

// A read is joined only if it began after some moment; these two are special.
const (
	// anyTime is before every read.
	anyTime = -1
	// alone is after every read: the call reads itself.
	alone = math.MaxInt64
)

// attach makes a key of the call wait for a read by another call, and returns the
// wait. If there is none to wait for, it lists a read by the call itself and returns
// nil. A read is waited for when
//
//   - it began later than after, and no longer ago than the patience of the call: an
//     older one is late, and a new one may be answered sooner by another host;
//   - its lookup ends no earlier than the patience of the call, or than the call;
//   - its lookup has the priority of the call or a higher one;
//   - fewer than maxWaiters calls wait for it.
func (c *Call) attach(index, slot int32, now, after int64) *wait {
	id := c.keys[index].ID()
	hash := uint32(maphash.Comparable(c.group.seed, id) ^ c.hash)
	b := &c.group.buckets[hash%buckets]
	b.mu.Lock()
	defer b.mu.Unlock()
	if after != alone {
		after = max(after, now-c.patience-1)
		until := min(c.deadline, now+c.patience)
		for r := b.first; r != nil; r = r.next {
			if r.hash == hash && r.started > after && r.by.deadline >= until && r.by.priority <= c.priority && r.waiting < c.group.maxWaiters && r.of(&c.query, id) {
				return r.admit(c.waiting(index, slot, now))
			}
		}
	}
	r := &c.reads[index]
	r.by, r.started, r.index, r.hash, r.slot, r.listed, r.next = c, now, index, hash, slot, true, b.first
	if r.next != nil {
		r.next.prev = r
	}
	b.first = r
	return nil
}

// of reports whether the read is of that key and query.
func (r *read) of(q *partition.Query, id partition.ID) bool {
	return r.by.keys[r.index].ID() == id && equal(&r.by.query, q)
}

// admit adds a wait. The mutex of the bucket is held.
func (r *read) admit(w *wait) *wait {
	w.on, w.next = r, r.waits
	if w.next != nil {
		w.next.prev = w
	}
	r.waits = w
	r.waiting++
	r.met = true
	return w
}

func (r *read) bucket() *bucket { return &r.by.group.buckets[r.hash%buckets] }

// unlist removes the read from its bucket, so that nobody joins any more, and returns the
// waits for it; nil the second time.
func (r *read) unlist() *wait {
	b := r.bucket()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !r.listed {
		return nil
	}
	r.listed = false
	if r.prev == nil {
		b.first = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next != nil {
		r.next.prev = r.prev
	}
	waits := r.waits
	// What is left of the read must not keep its neighbours in memory.
	r.prev, r.next, r.waits = nil, nil, nil
	return waits
}

// leave ends a wait. Its read may have ended before.
func (w *wait) leave() {
	r := w.on
	b := r.bucket()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !r.listed {
		return
	}
	r.waiting--
	if w.prev == nil {
		r.waits = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	}
}

// notify tells those that wait that the read has ended: with its result or, if res is
// nil, without one.
func (w *wait) notify(res *partition.Result) {
	for ; w != nil; w = w.next {
		w.call.post(w.event(res))
		w.call.ring()
	}
}

// release does the same as notify(nil), but wakes nobody. It returns its waits in front
// of those given.
func (w *wait) release(notified *wait) *wait {
	for w != nil {
		w.call.post(w.event(nil))
		// The read is unlisted, so that the link is free for another list.
		w, w.next, notified = w.next, notified, w
	}
	return notified
}

// event is the end of the read that is waited for.
func (w *wait) event(res *partition.Result) event {
	e := event{index: w.index, slot: w.slot, from: w}
	if res != nil {
		e.result = *res
	}
	return e
}
