package memory

import "time"

// Answer is bytes on their way to a peer. Its methods are safe for concurrent use. A
// nil Answer holds nothing.
type Answer struct {
	peer  *Peer
	bytes int64
	began time.Time
	abort func()

	// The rest is behind the mutex of the budget.
	links[Answer]
	done, aborted bool
}

// Answer takes bytes that the peer is to receive. The error is an *Error: there is no
// room, and no connection holds more than this one. Sent must be called once the bytes
// are gone. A peer that does not take them in time has the sending ended by abort, which
// may be nil for the end of its connection; without room the connection is closed, or the
// sending ended if the connection cannot be. abort is called from any goroutine. A nil
// Call takes nothing.
func (c *Call) Answer(bytes int, abort func()) (*Answer, error) {
	if c == nil {
		return nil, nil
	}
	var after actions
	defer after.run()
	p := c.peer
	b := p.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.closed {
		return nil, &Error{Gone}
	}
	a := &Answer{peer: p, bytes: int64(bytes), began: time.Now(), abort: abort}
	// One alone may take any amount, or it could never be sent.
	if b.most > 0 && b.used > c.used && !b.makeRoom(a.bytes, b.most, p, &after) {
		b.evicted[Full]++
		return nil, &Error{Full}
	}
	p.take(a.bytes)
	push(&p.answers, a)
	return a, nil
}

// node returns the links of an answer in the list of its peer.
func (a *Answer) node() *links[Answer] { return &a.links }

// Sent gives the bytes back. Only the first call counts.
func (a *Answer) Sent() {
	if a == nil {
		return
	}
	a.peer.budget.mu.Lock()
	defer a.peer.budget.mu.Unlock()
	if a.done {
		return
	}
	a.done = true
	if a.peer.closed {
		return
	}
	remove(&a.peer.answers, a)
	a.peer.take(-a.bytes)
}

// evict ends an answer that is not sent. The mutex is held.
func (a *Answer) evict(why Reason, after *actions) {
	p := a.peer
	p.budget.evicted[why]++
	if p.close == nil {
		a.done = true
		remove(&p.answers, a)
		p.take(-a.bytes)
		after.add(a.abort)
		return
	}
	p.end()
	after.add(p.close)
}

// expire ends the sending of an answer that its peer has not taken in time, or else the
// connection. What is left of an answer whose sending has ended counts on. The mutex is
// held.
func (a *Answer) expire(after *actions) {
	p := a.peer
	if a.aborted {
		return
	}
	a.aborted = true
	p.budget.evicted[Slow]++
	if a.abort != nil {
		after.add(a.abort)
		return
	}
	p.end()
	after.add(p.close)
}
