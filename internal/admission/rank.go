package admission

import (
	"time"

	"github.com/qosproxy/qosproxy/internal/identity"
)

// ranks is the number of ranks. Lookups rank by priority, and within a priority those of light
// clients before those of heavy ones. 0 is the highest.
const ranks = 2 * priorities

// rank returns the rank of a client's lookups. A light client has less than half of the usage
// of the heaviest one of its priority.
func (c *Controller) rank(cl *client, class int, now time.Time) int {
	heaviest := &c.heaviest[class]
	// All fade alike. A client may have got another priority since.
	if h := *heaviest; h == nil || classOf(h.who.Priority) != class || h.recent(now) <= cl.recent(now) {
		*heaviest = cl
	}
	if 2*cl.recent(now) < (*heaviest).recent(now) {
		return 2 * class
	}
	return 2*class + 1
}

// checkOverload refuses what would exceed the limit of keys in-flight.
func (c *Controller) checkOverload(p *Permit) *Refusal {
	if c.load.fits(p.rank, p.began) {
		return nil
	}
	return p.refusal(ReasonOverload, "the proxy has as much in-flight as the hosts keep up with; ask again later, or send less")
}

// AtHeaders refuses a lookup of which only the client is known, or returns nil if it may be
// read. It refuses only while most lookups of its priority are refused for overload, and only
// one that Admit would refuse now whatever it asked for. Decoding the keys of such a lookup
// would cost more than refusing it. A nil client is identity.Anonymous; a nil Controller
// refuses nothing.
func (c *Controller) AtHeaders(who *identity.Client) *Refusal {
	if c == nil {
		return nil
	}
	if who == nil {
		who = identity.Anonymous
	}
	p := &Permit{class: classOf(who.Priority), began: time.Now()}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.limits.Enabled || c.refusals[p.class] < enough/2 {
		return nil
	}
	c.advance(p.began)
	p.rank = c.rank(c.client(who, p.began), p.class, p.began)
	refusal := c.checkOverload(p)
	if refusal != nil {
		c.shed(who, p.class, refusal)
	}
	return refusal
}

// shed counts a refusal.
func (c *Controller) shed(who *identity.Client, class int, r *Refusal) {
	if r.Reason == ReasonOverload {
		c.refusals[class] = min(c.refusals[class]+1, enough)
	}
	c.metrics.shed.WithLabelValues(string(r.Reason), priorityName(class)).Inc()
	c.metrics.clientShed.WithLabelValues(who.Name, string(r.Reason)).Inc()
}
