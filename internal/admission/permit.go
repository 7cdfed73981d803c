package admission

import "time"

// Outcome is how a lookup ended. The zero Outcome is that of a lookup that was
// abandoned, or failed before anyone was asked.
type Outcome struct {
	// Answered is how many keys were found or not found.
	Answered int
	// Late is how many keys the hosts were too slow for: timed out, or refused
	// because too much was in-flight at their hosts. Keys that failed, are too
	// large or have no replica left are not among them, since less load would not
	// help them.
	Late int
	// Bytes is how many bytes of cells the answer has, or would have had with the keys
	// that are too large, as far as they were read.
	Bytes int
	// Cancelled is set when the caller hung up before the hosts had answered.
	Cancelled bool
}

// Permit is the leave to do one lookup.
type Permit struct {
	controller *Controller
	ask        Ask
	class      int
	rank       int
	// units is what the lookup costs its hosts, in keys of usual size.
	units  int
	client *client
	table  *table
	began  time.Time
	budget time.Duration
	// noted is set once the lookup has counted as evidence.
	noted bool
	// level is that of its table when it started.
	level Level
	// memory is what the answer is likely to take, in bytes. A scout finds that out,
	// and a permit that waits has still to be told.
	memory       int64
	scout, waits bool

	older, newer *Permit
	released     bool
}

// FewHedges reports whether the lookup should only be hedged away from stalled
// hosts. False for a nil Permit.
func (p *Permit) FewHedges() bool { return p != nil && p.level >= LevelHedges }

// ShedOptional reports whether the keys that the caller marked as optional should
// be answered as SHED. False for a nil Permit.
func (p *Permit) ShedOptional() bool { return p != nil && p.level >= LevelOptional }

// abandoned reports whether the caller hung up within the first half of the time that the
// lookup might take. That says nothing about the hosts. Who hangs up later does so because
// they are slow: many callers have a timeout of their own which they do not send.
func (p *Permit) abandoned(o Outcome, now time.Time) bool {
	return o.Cancelled && 2*now.Sub(p.began) < p.budget
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
	took := now.Sub(p.began)
	c.classes[p.class]--
	c.load.leave(p, o, now)
	p.client.leave(now)
	c.unhold(p, o)
	// The table is not the present one when its SLO was replaced meanwhile.
	if t := p.table; t != nil {
		if o.Answered == p.ask.Keys {
			t.fastest.observe(p.ask.Keys, took, now)
		}
		if !p.abandoned(o, now) {
			t.ladder.seconds.add(p.class, o.Late > 0 || took > t.slo.Target, t.slo.slack(), now)
		}
	}
	c.advance(now)
}
