package admission

import "time"

// Outcome is how a lookup ended. The zero Outcome is that of a lookup that was abandoned, or
// failed before any host was asked.
type Outcome struct {
	Answered int // keys that were found or not found
	// Late is how many keys the hosts were too slow for: timed out, or refused because too much
	// was in-flight at their hosts. Keys that failed, are too large or have no replica left are
	// not late, as less load would not help them.
	Late int
	// Bytes is how many bytes of memory the rows of the answer take. With a key that is too
	// large it is at least the limit of an answer.
	Bytes     int
	Cancelled bool // the caller hung up before the hosts had answered
}

// Permit is the right of one lookup to be in-flight.
type Permit struct {
	controller *Controller
	ask        Ask
	class      int
	rank       int
	client     *client
	table      *table // nil for one without an SLO
	began      time.Time
	// budget is the time that the lookup may take: up to its deadline, and no longer than
	// the target of its table; 0 for a table without one.
	budget time.Duration
	// units is what the lookup costs its hosts, in keys of usual size, and found how many of
	// these were in-flight when it started.
	units, found int
	// fewHedges and shedOptional are what the ladder of its table gave up when it started.
	fewHedges, shedOptional bool
	// memory is what is reserved for the answer, in bytes. A permit that waits has none yet,
	// and a scout finds out how much the others need.
	memory       int64
	waits, scout bool
	noted        bool // has counted as evidence
	released     bool
}

// FewHedges reports whether the lookup should only be hedged away from stalled
// hosts. False for a nil Permit.
func (p *Permit) FewHedges() bool { return p != nil && p.fewHedges }

// ShedOptional reports whether the keys that the caller marked as optional should
// be answered as SHED. False for a nil Permit.
func (p *Permit) ShedOptional() bool { return p != nil && p.shedOptional }

// tells reports whether an outcome says something about how fast the hosts are. That of a
// lookup that failed at once does not, nor that of a caller who hung up within the first half
// of the time that the lookup might take. Who hangs up later is taken to do so because hosts
// are slow: many callers have a timeout that they do not send.
func (p *Permit) tells(o Outcome, took time.Duration) bool {
	return (o.Answered > 0 || o.Late > 0) && (!o.Cancelled || 2*took >= p.budget)
}

// Release ends the lookup. Only the first call counts, so that a deferred one
// covers the paths that know no outcome; a nil Permit has nothing to release.
func (p *Permit) Release(o Outcome) {
	if p == nil {
		return
	}
	now := time.Now()
	c := p.controller
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.released {
		return
	}
	p.released = true
	c.load.leave(p)
	p.client.inflight--
	c.unhold(p, o)
	took := now.Sub(p.began)
	if p.tells(o, took) {
		c.load.note(p, o.Late > 0, now)
	}
	if p.table != nil && o.Answered == p.ask.Keys {
		p.table.fastest.observe(p.ask.Keys, took, now)
	}
	c.advance(now)
}
