package admission

import (
	"time"

	"github.com/qosproxy/qosproxy/internal/identity"
)

// ranks is the number of ranks. Lookups rank by priority, and within one those of light
// clients before those of heavy ones. 0 is the highest.
const ranks = 2 * priorities

// light is the usage, relative to that of the heaviest client of the same priority, below
// which a client is a light one: no two clients of equal use differ by as much.
const light = 0.5

// retries are when to ask again after an overload, by priority: the low ones leave the first
// free room to the high ones.
var retries = [priorities]time.Duration{100 * time.Millisecond, 250 * time.Millisecond, time.Second}

// rank returns the rank of a client's lookups.
func (c *Controller) rank(cl *client, class int, now time.Time) int {
	rank := 2 * class
	if cl.recent(now) >= light*c.load.heaviest[class] {
		rank++
	}
	return rank
}

// weigh finds out who asks: of each priority the heaviest client, and which ranks there are.
func (c *Controller) weigh(now time.Time) {
	l := &c.load
	l.heaviest, l.asking = [priorities]float64{}, [ranks]bool{}
	for _, cl := range c.clients {
		class := classOf(cl.who.Priority)
		l.heaviest[class] = max(l.heaviest[class], cl.recent(now))
	}
	for _, cl := range c.clients {
		if now.Sub(cl.asked) < usageMemory {
			l.asking[c.rank(cl, classOf(cl.who.Priority), now)] = true
		}
	}
}

// overloaded refuses what the hosts could not keep up with.
func (c *Controller) overloaded(p *Permit) *Refusal {
	if c.load.fits(p.rank) {
		return nil
	}
	return &Refusal{ReasonOverload, retries[p.class],
		"the proxy has as much in-flight as the hosts keep up with; ask again later, or send less"}
}

// turnout is how the lookups of one priority fared of late.
type turnout struct{ admitted, refused int }

// note takes a lookup; halved now and then, the numbers are those of the last lookups.
func (t *turnout) note(r *Refusal) {
	if r != nil && r.Reason == ReasonOverload {
		t.refused++
	} else {
		t.admitted++
	}
	if t.admitted+t.refused >= enough {
		t.admitted /= 2
		t.refused /= 2
	}
}

// AtHeaders refuses a lookup of which nothing is known but who asks, and returns nil if
// it may be read. It refuses only while most lookups of its priority are refused for
// overload, and only one that Admit would refuse at this moment whatever it asked for. To
// decode the keys of such a lookup would cost more than to refuse it. A nil client is
// identity.Anonymous; a nil Controller refuses nothing.
func (c *Controller) AtHeaders(who *identity.Client) *Refusal {
	if c == nil {
		return nil
	}
	if who == nil {
		who = identity.Anonymous
	}
	class, now := classOf(who.Priority), time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := &c.turnouts[class]; !c.limits.Enabled || t.refused <= max(t.admitted, enough/4) {
		return nil
	}
	c.advance(now)
	p := &Permit{class: class, rank: c.rank(c.client(who, now), class, now)}
	refusal := c.overloaded(p)
	if refusal != nil {
		c.turnouts[class].note(refusal)
		c.metrics.shed(who.Name, class, refusal.Reason)
	}
	return refusal
}
