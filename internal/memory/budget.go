// Package memory decides who gives up bytes when the process has spent its memory
// budget: the connection that holds the most, its newest call first. The budget
// counts requests that are being received, expected answers of hosts, and answers
// that their readers have not taken yet.
package memory

import (
	"sync"
	"time"
)

// CallBytes is what a call takes besides its messages, in bytes: the goroutines and
// buffers of its stream, as measured with a thousand calls that send nothing.
const CallBytes = 16 << 10

// Budget is the bytes that a process may hold for its callers. It is safe for
// concurrent use.
type Budget struct {
	mu    sync.Mutex
	most  int64
	used  int64
	hosts int64 // of used, what answers of hosts are expected to take
	peers map[*Peer]struct{}

	evicted [causes]int64
}

// New returns a budget of so many bytes; 0 or less counts and refuses nothing.
func New(most int64) *Budget {
	return &Budget{most: most, peers: map[*Peer]struct{}{}}
}

// SetLimit changes the budget; 0 or less refuses nothing. What is held beyond a
// smaller one stays until something more is asked for.
func (b *Budget) SetLimit(most int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.most = most
}

// Usage is what a budget holds at a moment, in bytes.
type Usage struct {
	// Used is all of it, and Hosts is how much of that answers of hosts are expected
	// to take.
	Used, Hosts int64
	// Limit is the budget; 0 or less is none.
	Limit int64
	// Evicted counts, by reason, the calls and answers that had to go.
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

// Hold takes bytes for the answers of hosts to one lookup, and reports whether
// they are free below a share of the budget, from above 0 to 1. Connections that
// hold more than is asked for give way. Nothing expected of hosts may take any amount
// while there is no other, or a large answer could never be read.
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

// Release gives back what Hold took.
func (b *Budget) Release(bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hosts -= bytes
	b.used -= bytes
}

// makeRoom frees bytes below a limit, and reports whether they are free. Calls of
// the heaviest connections go for it, as long as these are heavier than the one that
// asks, which is nil for a lookup. The mutex is held.
func (b *Budget) makeRoom(bytes, limit int64, asking *Peer, after *actions) bool {
	own := bytes
	if asking != nil {
		own += asking.used
	}
	for b.used+bytes > limit {
		heaviest := b.heaviest()
		if heaviest == nil || heaviest == asking || heaviest.used <= own {
			return false
		}
		heaviest.evict(Full, after)
	}
	return true
}

// heaviest returns the connection that holds the most bytes of those that have
// something to give up; nil if none has. The mutex is held.
func (b *Budget) heaviest() *Peer {
	var found *Peer
	for p := range b.peers {
		if (p.receiving.newest != nil || p.answers.newest != nil) && (found == nil || p.used > found.used) {
			found = p
		}
	}
	return found
}

// Expire ends what peers have taken too long for: requests that began to arrive more
// than receive ago, and answers that were ready more than send ago.
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

// actions are what remains to be done once the mutex is free.
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
