package coalesce

import (
	"sync"
	"time"

	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// Call is the part that one lookup has in a Group. Share, Withhold and Report may be
// called from the goroutines that read for it; the other methods only from the lookup's
// own.
type Call struct {
	group    *Group
	query    partition.Query
	hash     uint64
	keys     []partition.Key
	deadline int64
	patience int64
	priority identity.Priority
	// reads holds the reads by this call, by the index of the key.
	reads []read

	// The fields below are of calls that wait. slots holds the keys that wait or have
	// waited.
	slots []slot
	wake  chan struct{}

	mu     sync.Mutex
	events []event
	spare  []event
	closed bool
}

// slot is what a call knows of a key for which it waits or has waited.
type slot struct {
	index int32
	// first and second are waits that have not ended. own is set once the call reads the
	// key itself, which it does at most once, and reading until that read ends. The first
	// answer of any of them counts.
	first, second *wait
	own, reading  bool
	// impatient is set once patience has run out, done when there is an answer.
	impatient, done bool
	// since is when the call asked for the key; due when its patience runs out.
	since, due int64
	// verdict is the latest result of a read, pending before the first. A failure is kept
	// while another read may still answer. shared is set if another lookup read it.
	verdict partition.Result
	shared  bool
}

// event is the end of a read: of the call itself, or one that it waits for.
type event struct {
	index, slot int32
	// from is the wait that ended; nil for a read of the call's own.
	from *wait
	// result is pending when the read ended without one that could be shared.
	result partition.Result
}

// waiting makes a wait for a key, and a slot if it has none. The mutex of the bucket is
// held: once it is free, events may come.
func (c *Call) waiting(index, at int32, now int64) *wait {
	if c.wake == nil {
		c.wake = make(chan struct{}, 1)
	}
	if at == none {
		at = int32(len(c.slots))
		c.slots = append(c.slots, slot{index: index, since: now, due: now + c.patience})
	}
	return &wait{call: c, index: index, slot: at}
}

// Waiting returns how many keys the call waited for from the start.
func (c *Call) Waiting() int { return len(c.slots) }

// Own returns the indices of the keys that the lookup must read from the start. It must
// be called before Next, which adds to them.
func (c *Call) Own() []int32 {
	own := make([]int32, 0, len(c.keys)-len(c.slots))
	for i := range c.reads {
		if c.reads[i].by != nil {
			own = append(own, int32(i))
		}
	}
	return own
}

// Share ends a read of the key at index and hands its result to all that wait for it;
// nobody may change it any more. A result that is due to this lookup's caller, such as
// its deadline, must not be shared: see Withhold.
func (c *Call) Share(index int, res partition.Result) { c.reads[index].unlist().notify(&res) }

// Withhold ends a read of the key at index without a result for others. One of those that
// wait for it reads the key at once, and the rest wait for that read.
func (c *Call) Withhold(index int) { c.reads[index].unlist().notify(nil) }

// Report has Next return a result that the lookup itself has read.
func (c *Call) Report(index int, res partition.Result) {
	c.post(event{index: int32(index), slot: c.reads[index].slot, result: res})
	c.ring()
}

func (c *Call) post(e event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.events = append(c.events, e)
	}
}

// ring signals that there are events.
func (c *Call) ring() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Wake receives when Next should be called; it is nil for a call that never waited.
func (c *Call) Wake() <-chan struct{} { return c.wake }

// Due returns after how long Next should be called even if Wake has not received, since
// patience runs out. It is above 0; ok is false for never.
func (c *Call) Due() (wait time.Duration, ok bool) {
	due := int64(never)
	for i := range c.slots {
		if s := &c.slots[i]; !s.done && !s.own {
			due = min(due, s.due)
		}
	}
	if due == never {
		return 0, false
	}
	return max(1, time.Duration(due-c.group.now())), true
}

// Answer is the result of one key.
type Answer struct {
	// Key is the index of the key.
	Key int
	// Result may be shared with others and must not be changed.
	Result partition.Result
	// Shared says that another lookup read it.
	Shared bool
}

// Next returns the answers that have come since the last call, each key once, and
// the indices of keys that the lookup must now read itself: the read that it waited
// for has ended without an answer, or takes too long.
func (c *Call) Next() (answers []Answer, read []int32) {
	c.mu.Lock()
	events := c.events
	c.events, c.spare = c.spare[:0], nil
	c.mu.Unlock()
	now := c.group.now()
	for i := range events {
		answers, read = c.take(&events[i], now, answers, read)
	}
	clear(events)
	c.spare = events
	for i := range c.slots {
		if s := &c.slots[i]; !s.done && !s.own && s.due <= now {
			read = c.insist(int32(i), now, read)
		}
	}
	return answers, read
}

// take handles one event for Next.
func (c *Call) take(e *event, now int64, answers []Answer, read []int32) ([]Answer, []int32) {
	if e.slot == none {
		return append(answers, Answer{Key: int(e.index), Result: e.result}), read
	}
	s := &c.slots[e.slot]
	if s.done {
		return answers, read
	}
	switch e.from {
	case nil:
		s.reading = false
	case s.first:
		s.first = nil
	case s.second:
		s.second = nil
	}
	if e.result.Status != partition.Pending {
		s.verdict, s.shared = e.result, e.from != nil
	}
	last := s.first == nil && s.second == nil && !s.reading
	switch {
	case conclusive(e.result.Status), last && s.verdict.Status != partition.Pending:
		c.finish(s)
		return append(answers, Answer{Key: int(s.index), Result: s.verdict, Shared: s.shared}), read
	case last:
		if s.first = c.attach(s.index, e.slot, now, anyTime); s.first == nil {
			s.own, s.reading = true, true
			read = append(read, s.index)
		}
	}
	return answers, read
}

// conclusive reports whether no other read could do better.
func conclusive(s partition.Status) bool { return s.Answered() || s == partition.TooLarge }

// insist has a key read again while its wait goes on. The first time the call waits for
// another that has begun to read the key since, or else reads it itself; the second time
// it reads it in any case.
func (c *Call) insist(at int32, now int64, read []int32) []int32 {
	s := &c.slots[at]
	after := s.since
	switch {
	case s.impatient:
		after = alone
	case s.first != nil:
		after = max(after, s.first.on.started)
	}
	s.impatient, s.due = true, now+c.patience
	w := c.attach(s.index, at, now, after)
	switch {
	case w == nil:
		s.own, s.reading = true, true
		return append(read, s.index)
	case s.first == nil:
		s.first = w
	default:
		s.second = w
	}
	return read
}

// finish marks a key as answered and ends its waits.
func (c *Call) finish(s *slot) {
	s.done = true
	for _, w := range []*wait{s.first, s.second} {
		if w != nil {
			w.leave()
		}
	}
	s.first, s.second = nil, nil
}

// Unanswered returns the keys that have waited and have no answer, for a lookup that ends
// before they have. The result of a key is the failure of a read of it that ended while
// another went on, or pending.
func (c *Call) Unanswered() []Answer {
	var out []Answer
	for i := range c.slots {
		if s := &c.slots[i]; !s.done {
			out = append(out, Answer{Key: int(s.index), Result: s.verdict, Shared: s.shared})
		}
	}
	return out
}

// Close ends the call, which must not be used any more. No read of its own may go on.
// Those that wait for its reads read the keys themselves, and its own waits end.
func (c *Call) Close() {
	// All are notified before any is woken, so that each plans all its keys together.
	var notified *wait
	met := len(c.slots) > 0
	for i := range c.reads {
		r := &c.reads[i]
		if r.listed { // only the call itself changes it
			notified = r.unlist().release(notified)
		}
		met = met || r.met
	}
	for ; notified != nil; notified = notified.next {
		notified.call.ring()
	}
	if !met {
		c.query, c.keys = partition.Query{}, nil
		c.group.calls.Put(c)
		return
	}
	c.mu.Lock()
	c.closed, c.events = true, nil
	c.mu.Unlock()
	for i := range c.slots {
		if s := &c.slots[i]; !s.done {
			c.finish(s)
		}
	}
}
