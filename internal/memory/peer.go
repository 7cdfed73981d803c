package memory

import (
	"sync/atomic"
	"time"
)

// Peer is a connection and what its calls hold. Its methods are safe for concurrent use. Once it
// is closed, nothing can be reserved for it. A nil Peer holds nothing.
type Peer struct {
	budget *Budget
	close  func()
	// most is how many bytes may be held for one call that is being received; 0 for any number.
	most int64

	// The fields below are guarded by the mutex of the budget.
	closed bool
	// used is all that the connection holds, in bytes. received is the part of it that has
	// arrived for incomplete requests; which part is for which of them is unknown.
	used, received int64
	receiving      list[Call]
	answers        list[Answer]

	// pending is the length of receiving. It changes only under the mutex, but is read without.
	pending atomic.Int32
}

// Peer adds a connection to the budget. close closes it when an answer that nobody reads is
// evicted; it may be called more than once, from any goroutine. It is nil where single answers
// are aborted instead. most is how many bytes may be held for one call that is being received,
// its message and what may come ahead of its reader; 0 for any number.
func (b *Budget) Peer(close func(), most int64) *Peer {
	p := &Peer{budget: b, close: close, most: most}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.peers[p] = struct{}{}
	return p
}

// Close removes the connection and releases all that it holds.
func (p *Peer) Close() {
	if p == nil {
		return
	}
	p.budget.mu.Lock()
	defer p.budget.mu.Unlock()
	p.end()
}

// end is Close. The mutex is held.
func (p *Peer) end() {
	if p.closed {
		return
	}
	p.closed = true
	p.budget.used -= p.used
	delete(p.budget.peers, p)
	// The reader of an incomplete request learns of it from its connection.
	p.receiving, p.answers = list[Call]{}, list[Answer]{}
}

// take adds to what the connection holds. The mutex is held.
func (p *Peer) take(bytes int64) {
	p.used += bytes
	p.budget.used += bytes
}

// Received counts bytes that have come from the peer, while some of its requests are incomplete.
// As they are in memory already, room is made for them: by evicting from the heaviest
// connections, which may include this one.
func (p *Peer) Received(bytes int) {
	if p == nil || p.pending.Load() == 0 {
		return
	}
	var after actions
	defer after.run()
	b := p.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.closed || p.pending.Load() == 0 {
		return
	}
	p.received += int64(bytes)
	p.take(int64(bytes))
	for b.most > 0 && b.used > b.most {
		heaviest := b.heaviest()
		if heaviest == nil {
			return
		}
		heaviest.evict(&after)
	}
}

// evict makes room: it evicts the newest request that is being received or, if all are complete,
// the newest answer. The mutex is held.
func (p *Peer) evict(after *actions) {
	if c := p.receiving.newest; c != nil {
		c.evict(Full, after)
		return
	}
	if a := p.answers.newest; a != nil {
		a.evict(after)
	}
}

// evictable returns how many bytes are released when evict is called as long as the connection holds
// more than own, up to the first that are enough. The mutex is held.
func (p *Peer) evictable(own, enough int64) (freed int64) {
	received, waiting := p.received, int64(p.pending.Load())
	for c := p.receiving.newest; c != nil && p.used-freed > own && freed < enough; c = c.older {
		waiting--
		left := p.counts(received, waiting)
		freed += c.used + received - left
		received = left
	}
	for a := p.answers.newest; a != nil && p.used-freed > own && freed < enough; a = a.older {
		if p.close != nil {
			return p.used
		}
		freed += a.bytes
	}
	return freed
}

// Call is a request on its way and its answer. Its methods are safe for concurrent use. A nil
// Call holds nothing.
type Call struct {
	peer  *Peer
	began time.Time
	gone  chan struct{}
	// interrupt ends the receiving; may be nil.
	interrupt func()

	// The fields below are guarded by the mutex of the budget.
	links[Call]
	used    int64
	message int64 // the part of used that is for the message
	waiting bool  // for the rest of the message
	evicted *Error
}

// Begin reserves CallBytes for a call whose headers have come. The error is an *Error: the budget
// is spent and no connection holds more than this one, or the connection is closed. End must be
// called. If the call is evicted before its request is complete, interrupt is called once, unless
// it is nil, from any goroutine.
func (p *Peer) Begin(interrupt func()) (*Call, error) {
	if p == nil {
		return nil, nil
	}
	var after actions
	defer after.run()
	b := p.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.closed {
		return nil, &Error{Gone}
	}
	if b.most > 0 && !b.makeRoom(CallBytes, b.most, p, &after) {
		b.evicted[Full]++
		return nil, &Error{Full}
	}
	c := &Call{peer: p, began: time.Now(), gone: make(chan struct{}), interrupt: interrupt}
	c.used, c.waiting = CallBytes, true
	p.take(CallBytes)
	push(&p.receiving, c)
	p.pending.Add(1)
	return c, nil
}

// node returns the links of a call in the list of its peer.
func (c *Call) node() *links[Call] { return &c.links }

// Gone is closed when the call is evicted before its request is complete; Err then says why. For
// a nil Call it is nil, which is never closed.
func (c *Call) Gone() <-chan struct{} {
	if c == nil {
		return nil
	}
	return c.gone
}

// Err returns why the call was evicted, as an *Error; nil if it was not.
func (c *Call) Err() error {
	if c == nil {
		return nil
	}
	c.peer.budget.mu.Lock()
	defer c.peer.budget.mu.Unlock()
	if c.evicted == nil {
		return nil
	}
	return c.evicted
}

// Received is Peer.Received of the connection of the call.
func (c *Call) Received(bytes int) {
	if c != nil {
		c.peer.Received(bytes)
	}
}

// Expect reserves bytes that the message will need besides those that come, in place of those
// that an earlier Expect reserved for it, until Complete says how many it needs for good. If the
// last message is complete, another one begins: the bytes of the last are released, and the time
// of the new one begins. The error is that of Err or of Grow.
func (c *Call) Expect(bytes int) error {
	if c == nil {
		return nil
	}
	var after actions
	defer after.run()
	p := c.peer
	p.budget.mu.Lock()
	defer p.budget.mu.Unlock()
	if c.evicted != nil {
		return c.evicted
	}
	if !c.waiting && !p.closed {
		c.began, c.waiting = time.Now(), true
		push(&p.receiving, c)
		p.pending.Add(1)
	}
	return c.hold(int64(bytes), &after)
}

// hold reserves bytes for the message in place of those reserved for it. The mutex is held.
func (c *Call) hold(bytes int64, after *actions) error {
	c.used -= c.message
	if !c.peer.closed {
		c.peer.take(-c.message)
	}
	c.message = 0
	err := c.grow(bytes, after)
	if err == nil {
		c.message = bytes
	}
	return err
}

// Complete notes that the message is complete and that at least wire of the received bytes are of
// it. It reserves bytes for it until the call ends or expects another. The error is that of Err or of
// Grow.
func (c *Call) Complete(wire, bytes int) error {
	if c == nil {
		return nil
	}
	var after actions
	defer after.run()
	c.peer.budget.mu.Lock()
	defer c.peer.budget.mu.Unlock()
	switch {
	case c.evicted != nil:
		return c.evicted
	case !c.waiting:
		return nil
	}
	c.peer.arrived(c, int64(wire))
	return c.hold(int64(bytes), &after)
}

// Grow reserves bytes that the call needs until it ends, such as the rows of its answer. The
// error is an *Error, as that of Begin. A call that is alone may take any amount, or it could
// never be answered.
func (c *Call) Grow(bytes int) error {
	if c == nil {
		return nil
	}
	var after actions
	defer after.run()
	c.peer.budget.mu.Lock()
	defer c.peer.budget.mu.Unlock()
	return c.grow(int64(bytes), &after)
}

// grow is Grow. The mutex is held.
func (c *Call) grow(bytes int64, after *actions) error {
	p := c.peer
	b := p.budget
	if p.closed {
		return &Error{Gone}
	}
	own := c.used
	if c.waiting && p.pending.Load() == 1 {
		own += p.received // all of it has come for this call
	}
	if b.most > 0 && b.used > own && !b.makeRoom(bytes, b.most, p, after) {
		b.evicted[Full]++
		return &Error{Full}
	}
	c.used += bytes
	p.take(bytes)
	return nil
}

// End releases all that the call holds, except answers that are not sent yet.
func (c *Call) End() {
	if c == nil {
		return
	}
	b := c.peer.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.waiting {
		c.peer.arrived(c, 0)
	}
	if !c.peer.closed {
		c.peer.take(-c.used)
	}
	c.used, c.message = 0, 0
}

// evict ends a call that is being received. The mutex is held.
func (c *Call) evict(why Reason, after *actions) {
	p := c.peer
	p.arrived(c, 0)
	p.take(-c.used)
	c.used, c.message = 0, 0
	c.evicted = &Error{why}
	p.budget.evicted[why]++
	close(c.gone)
	after.add(c.interrupt)
}

// arrived removes a call from those being received, and so many bytes from what has come for
// them. If the call ends before its message is complete, nobody knows how much came for it, and
// it may be nothing: a peer could otherwise lower what counts for its other calls by ending many.
// So all that has come still counts, up to what may be held for the calls that are left. The
// mutex is held.
func (p *Peer) arrived(c *Call, bytes int64) {
	c.waiting = false
	if p.closed {
		return
	}
	remove(&p.receiving, c)
	left := p.counts(max(p.received-bytes, 0), int64(p.pending.Add(-1)))
	p.take(left - p.received)
	p.received = left
}

// counts returns how many of the bytes that have come still count when so many calls wait.
func (p *Peer) counts(received, waiting int64) int64 {
	switch {
	case waiting == 0:
		return 0
	case p.most > 0:
		return min(received, waiting*p.most)
	}
	return received
}
