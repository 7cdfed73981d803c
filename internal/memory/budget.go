// Package memory decides who gives up bytes when the process has spent its memory budget: the
// connection that holds the most, its newest call first. The budget counts requests that are
// being received, expected answers of hosts, and answers that their peers have not received yet.
package memory

import (
	"sync"
	"time"
)

// CallBytes is how many bytes a call takes besides its messages: the goroutines and buffers of
// its stream, as measured with a thousand calls that send nothing.
const CallBytes = 16 << 10

// Budget is the bytes that a process may hold for its callers. It is safe for
// concurrent use.
type Budget struct {
	mu    sync.Mutex
	most  int64
	used  int64
	hosts int64 // the part of used that Hold reserved
	peers map[*Peer]struct{}

	evicted [causes]int64
}

// New returns a budget of so many bytes. One of 0 or less counts but refuses nothing.
func New(most int64) *Budget {
	return &Budget{most: most, peers: map[*Peer]struct{}{}}
}

// SetLimit changes the budget; 0 or less refuses nothing. What is held beyond a smaller one is
// kept until more is asked for.
func (b *Budget) SetLimit(most int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.most = most
}

// Usage is what a budget holds at one moment, in bytes.
type Usage struct {
	// Used is all of it, and Hosts the part that is reserved for answers of hosts.
	Used, Hosts int64
	// Limit is the budget; 0 or less means no limit.
	Limit int64
	// Evicted counts the calls and answers that were evicted or found no room, by reason.
	Evicted map[Reason]int64
}

// Usage returns what the budget holds.
func (b *Budget) Usage() Usage {
	b.mu.Lock()
	defer b.mu.Unlock()
	u := Usage{Used: b.used, Hosts: b.hosts, Limit: b.most, Evicted: map[Reason]int64{}}
	for r, n := range b.evicted {
		u.Evicted[Reason(r)] = n
	}
	return u
}

// Hold reserves bytes for the answers that a lookup expects from hosts, and reports whether it
// could. They must fit below share of the budget, a fraction in (0, 1]; connections that hold
// more than bytes are evicted to make room. While nothing else is reserved for hosts any amount
// fits, or a large answer could never be read.
func (b *Budget) Hold(bytes int64, share float64) bool {
	var after actions
	defer after.run()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.most > 0 && b.hosts > 0 && !b.makeRoom(bytes, int64(share*float64(b.most)), nil, &after) {
		return false
	}
	b.hosts += bytes
	b.used += bytes
	return true
}

// Release releases what Hold reserved.
func (b *Budget) Release(bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hosts -= bytes
	b.used -= bytes
}

// makeRoom reports whether bytes fit below limit. To make them fit, it evicts calls and answers
// of the heaviest connections, as long as these hold more than asking with the bytes; asking is
// nil for a lookup. If all of these would not be enough, none is evicted. The mutex is held.
func (b *Budget) makeRoom(bytes, limit int64, asking *Peer, after *actions) bool {
	own := bytes
	if asking != nil {
		own += asking.used
	}
	if over := b.used + bytes - limit; over > 0 {
		for p := range b.peers {
			if over > 0 && p != asking {
				over -= p.evictable(own, over)
			}
		}
		if over > 0 {
			return false
		}
	}
	for b.used+bytes > limit {
		heaviest := b.heaviest()
		if heaviest == nil || heaviest == asking || heaviest.used <= own {
			return false
		}
		heaviest.evict(after)
	}
	return true
}

// heaviest returns the connection that holds the most bytes of those that have something to
// evict; nil if there is none. The mutex is held.
func (b *Budget) heaviest() *Peer {
	var found *Peer
	for p := range b.peers {
		if (p.receiving.newest != nil || p.answers.newest != nil) && (found == nil || p.used > found.used) {
			found = p
		}
	}
	return found
}

// Expire ends requests that began to arrive more than receive ago and are incomplete, and answers
// that were ready more than send ago and are not sent.
func (b *Budget) Expire(receive, send time.Duration) {
	var after actions
	defer after.run()
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	for p := range b.peers {
		for c := p.receiving.oldest; c != nil && now.Sub(c.began) > receive; c = p.receiving.oldest {
			c.evict(Slow, &after)
		}
		for a := p.answers.oldest; a != nil && now.Sub(a.began) > send; a = a.newer {
			a.expire(&after)
			if p.closed {
				break
			}
		}
	}
}

// actions are callbacks to run once the mutex is free.
type actions []func()

func (a *actions) add(f func()) {
	if f != nil {
		*a = append(*a, f)
	}
}

func (a *actions) run() {
	for _, f := range *a {
		f()
	}
}
