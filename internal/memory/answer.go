package memory

import "time"

// Answer is an answer on its way to a peer. Its methods are safe for concurrent use. A nil Answer
// holds nothing.
type Answer struct {
	peer  *Peer
	bytes int64
	began time.Time
	abort func()

	// The fields below are guarded by the mutex of the budget.
	links[Answer]
	done, aborted bool
}

// Answer reserves bytes for an answer that the peer is to receive. The error is an *Error: there
// is no room and no connection holds more than this one, or the connection is closed. Sent must
// be called once the bytes are written. If the peer does not receive them in time, abort ends the
// sending; a nil abort has the connection closed instead. If others need the room, the connection
// is closed or, where it cannot be, the sending is aborted. abort may be called from any
// goroutine. A nil Call reserves nothing.
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
	// A call that is alone may take any amount, or a large answer could never be sent.
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

// Sent releases the bytes. Only the first call counts.
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

// evict gives up an answer that is not sent yet, to make room. The mutex is held.
func (a *Answer) evict(after *actions) {
	p := a.peer
	p.budget.evicted[Full]++
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

// expire aborts an answer that its peer has not received in time, or closes the connection if it
// has no abort. An aborted answer counts until Sent. The mutex is held.
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
