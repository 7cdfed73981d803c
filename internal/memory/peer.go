package memory

import (
	"sync/atomic"
	"time"
)

// Peer is a connection and what its calls hold. Its methods are safe for concurrent
// use. Once it is closed nothing can be taken for it. A nil Peer holds nothing.
type Peer struct {
	budget *Budget
	close  func()
	// most is how many bytes may be held for one call that is being received; 0 for any.
	most int64

	// The rest is behind the mutex of the budget.
	closed bool
	// used is all that the connection holds, in bytes. Of that, received came for
	// calls that are being received: nobody can tell for which.
	used, received int64
	receiving      list[Call]
	answers        list[Answer]

	// pending is the length of receiving; it changes behind the mutex.
	pending atomic.Int32
}

// Peer returns a new connection. It is closed by close when an answer that nobody
// reads has to go; close may be called more than once, from any goroutine. It is nil
// where single answers can be given up. most is how many bytes may be held for one call
// that is being received, its message and what may come ahead of its reader; 0 for any number.
func (b *Budget) Peer(close func(), most int64) *Peer {
	p := &Peer{budget: b, close: close, most: most}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.peers[p] = struct{}{}
	return p
}

// Close gives back all that the connection holds.
func (p *Peer) Close() {
	if p == nil {
		return
	}
	p.budget.mu.Lock()
	defer p.budget.mu.Unlock()
	p.end()
}

// end closes the connection. The mutex is held.
func (p *Peer) end() {
	if p.closed {
		return
	}
	p.closed = true
	p.budget.used -= p.used
	delete(p.budget.peers, p)
	// The reader of a request that is incomplete learns of it from its connection.
	p.receiving, p.answers = list[Call]{}, list[Answer]{}
}

// take adds to what the connection holds. The mutex is held.
func (p *Peer) take(bytes int64) {
	p.used += bytes
	p.budget.used += bytes
}

// Received counts bytes that have come from the peer while some of its requests are
// incomplete, and takes memory for them: the newest requests of the heaviest connection
// go for it, which may be this one.
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
		heaviest.evict(Full, &after)
	}
}

// evict ends the newest request that is being received, or, if all have come, the
// connection, whose answers nobody reads. The mutex is held.
func (p *Peer) evict(why Reason, after *actions) {
	if c := p.receiving.newest; c != nil {
		c.evict(why, after)
		return
	}
	if a := p.answers.newest; a != nil {
		a.evict(why, after)
	}
}

// Call is a request on its way and its answer. Its methods are safe for concurrent
// use. A nil Call holds nothing.
type Call struct {
	peer  *Peer
	began time.Time
	gone  chan struct{}
	// interrupt ends the receiving; nil for nothing.
	interrupt func()

	// The rest is behind the mutex of the budget.
	links[Call]
	used    int64
	message int64 // of used, what is taken for the message
	waiting bool  // for the rest of the message
	evicted *Error
}

// Begin takes the bytes of a call of which the headers have come. The error is an
// *Error: the budget is spent, and no connection holds more than this one. End must be
// called. When the call has to go before its request has come whole, interrupt is called
// once, unless it is nil, from any goroutine.
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

// Gone is closed when the call has to go before its request has come whole; Err then
// says why. It never is for a nil Call.
func (c *Call) Gone() <-chan struct{} {
	if c == nil {
		return nil
	}
	return c.gone
}

// Err returns why the call has to go, nil if it has not. It is an *Error.
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

// Expect has the call receive its message, or another one if the last has come: that one
// gives its bytes back, and the time of the new one begins. It takes bytes that the message
// needs besides those that come, in place of those that an earlier Expect took for it, until
// Complete says how many it needs for good. The error is Err, or that of Grow.
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

// hold takes bytes for the message in place of those that are taken for it. The mutex is held.
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

// Complete notes that the message has come whole, of at least wire of the bytes that were
// received, and takes so many bytes for it until the call ends, or expects another. The error
// is that of Grow.
func (c *Call) Complete(wire, bytes int) error {
	if c == nil {
		return nil
	}
	var after actions
	defer after.run()
	c.peer.budget.mu.Lock()
	defer c.peer.budget.mu.Unlock()
	if !c.waiting {
		return nil
	}
	c.peer.arrived(c, int64(wire))
	return c.hold(int64(bytes), &after)
}

// Grow takes bytes that the call needs until it ends, such as the rows that it is
// answered with. The error is an *Error, as that of Begin. One call alone may take any
// amount, or it could never be answered.
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

// End gives back all that the call holds but answers that are not sent.
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

// arrived takes a call out of those being received, and so many bytes out of what has
// come for them. Of a call that ends before its message has come nobody can tell what came for
// it, and it may be nothing: a peer that ended many of those would otherwise lower what counts
// for the others. So all that has come counts on, up to what may be held for those that are
// left. The mutex is held.
func (p *Peer) arrived(c *Call, bytes int64) {
	c.waiting = false
	if p.closed {
		return
	}
	remove(&p.receiving, c)
	left := max(p.received-bytes, 0)
	switch waiting := int64(p.pending.Add(-1)); {
	case waiting == 0:
		left = 0
	case p.most > 0:
		left = min(left, waiting*p.most)
	}
	p.take(left - p.received)
	p.received = left
}
