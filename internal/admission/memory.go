package admission

import (
	"context"
	"time"
)

// How the memory that answers take is told beforehand.
const (
	// copies is how often the bytes of an answer are in memory at once: as the frame
	// of a node, as cells, and as what is sent to the client.
	copies = 3
	// heavyShare is the share of the memory that lookups may fill which by themselves
	// take more than one in lightShare of it, so that heavy ones leave room for light.
	heavyShare = 0.75
	lightShare = 64
	// heavier and lighter are the weights of one lookup in the moving average: what is
	// more than thought is believed sooner.
	heavier, lighter = 1.0 / 4, 1.0 / 16
	// unitBytes is how many bytes cost a node about as much CPU as a key does: with
	// 10,000 bytes in place of 1,000 a lookup took 1.2 to 2.1 times as long.
	unitBytes = 8 << 10
	// mostScouts is how many lookups of a table are under way before one has told how
	// large its answers are.
	mostScouts = 4
)

// weight is how large the answers of one table are.
type weight struct {
	// perKey is the moving average in bytes; it means something once known is set.
	perKey float64
	known  bool
	// scouts are under way while nothing is known, and changed is closed when one has
	// ended.
	scouts  int
	changed chan struct{}
}

// observe takes the answer of a lookup.
func (w *weight) observe(bytes, keys int) {
	x := float64(bytes) / float64(keys)
	switch {
	case !w.known:
		w.perKey, w.known = x, true
	case x > w.perKey:
		w.perKey += heavier * (x - w.perKey)
	default:
		w.perKey += lighter * (x - w.perKey)
	}
}

// wait returns what is closed when the next scout has ended.
func (w *weight) wait() <-chan struct{} {
	if w.changed == nil {
		w.changed = make(chan struct{})
	}
	return w.changed
}

// back ends a scout.
func (w *weight) back() {
	w.scouts--
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
}

// weighed reports whether the memory of a lookup is held to a limit.
func (c *Controller) weighed(p *Permit) bool {
	return c.limits.Enabled && c.limits.MaxMemory > 0 && p.table != nil && !c.without.memory
}

// large refuses a lookup whose answer would take more memory than is left. One alone
// may take any.
func (c *Controller) large(p *Permit) *Refusal {
	if !c.weighed(p) || !p.table.weight.known || c.memory == 0 {
		return nil
	}
	most := float64(c.limits.MaxMemory)
	cost := p.cost()
	if float64(cost) > most/lightShare {
		most *= heavyShare
	}
	if float64(c.memory+cost) <= most {
		return nil
	}
	return &Refusal{ReasonMemory, retries[p.class],
		"the answers under way take all the memory that they may; ask again later, for fewer keys, rows or columns at a time"}
}

// cost is how much memory the answer of a lookup is likely to take, in bytes.
func (p *Permit) cost() int64 {
	bytes := p.table.weight.perKey * float64(p.ask.Keys)
	if p.ask.MostBytes > 0 {
		bytes = min(bytes, float64(p.ask.MostBytes))
	}
	return int64(copies * bytes)
}

// units returns what a lookup costs its hosts: its keys, or more where these are large,
// but no more than the least limit, so that one lookup alone does not fill all of it.
func (c *Controller) units(p *Permit) int {
	keys := p.ask.Keys
	if !c.weighed(p) || !p.table.weight.known || c.without.units {
		return keys
	}
	return max(keys, int(min(p.cost()/copies/unitBytes, int64(c.limits.MinConcurrency))))
}

// hold counts the memory of a lookup that starts, and returns nil, or what it has to
// wait for.
func (c *Controller) hold(p *Permit) <-chan struct{} {
	p.waits = false
	if !c.weighed(p) {
		return nil
	}
	w := p.table.weight
	switch {
	case w.known:
		p.memory = p.cost()
		c.memory += p.memory
	case w.scouts < mostScouts:
		w.scouts++
		p.scout = true
	default:
		p.waits = true
		return w.wait()
	}
	return nil
}

// unhold gives back what hold took, and learns from the answer.
func (c *Controller) unhold(p *Permit, o Outcome) {
	c.memory -= p.memory
	p.memory = 0
	t := p.table
	if t == nil {
		return
	}
	if o.Answered > 0 || o.Bytes > 0 {
		t.weight.observe(o.Bytes, p.ask.Keys)
	}
	if p.scout {
		p.scout = false
		t.weight.back()
	}
}

// Wait returns when the lookup may go on. That is at once, unless nobody knows yet how
// large the answers of its table are: then a few lookups go first, and when one of them
// has been answered, this one is refused if there is no memory for it, or if its deadline
// has come before. The error is a *Refusal. When ctx ends first it is nil, since the
// lookup finds out by itself. A nil Permit never waits.
func (p *Permit) Wait(ctx context.Context) error {
	if p == nil {
		return nil
	}
	var over <-chan time.Time
	for {
		wait, refusal := p.proceed()
		if refusal != nil {
			return refusal
		}
		if wait == nil {
			return nil
		}
		if over == nil && !p.ask.Deadline.IsZero() {
			timer := time.NewTimer(time.Until(p.ask.Deadline))
			defer timer.Stop()
			over = timer.C
		}
		select {
		case <-wait:
		case <-over:
			return p.tooLate()
		case <-ctx.Done():
			return nil
		}
	}
}

// tooLate refuses a lookup that has waited until its deadline.
func (p *Permit) tooLate() *Refusal {
	c := p.controller
	c.mu.Lock()
	defer c.mu.Unlock()
	c.metrics.shed(p.client.who.Name, p.class, ReasonDeadline)
	return &Refusal{ReasonDeadline, retries[p.class], "the first lookups of the table are not answered in time; ask again later"}
}

// proceed tries again to start a lookup that has to wait.
func (p *Permit) proceed() (<-chan struct{}, *Refusal) {
	c := p.controller
	c.mu.Lock()
	defer c.mu.Unlock()
	if !p.waits || p.released {
		return nil, nil
	}
	c.advance(time.Now())
	if refusal := c.large(p); refusal != nil {
		c.metrics.shed(p.client.who.Name, p.class, refusal.Reason)
		return nil, refusal
	}
	return c.hold(p), nil
}
