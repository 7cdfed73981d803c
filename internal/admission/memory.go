package admission

import (
	"context"
	"time"
)

// How the memory that answers take is foreseen.
const (
	// copies is how often the bytes of an answer are in memory at once when one replica
	// gives it: as the frame of a node, as cells, and as what is sent to the client. Each
	// further replica adds the first two.
	copies, furtherCopies = 3, 2
	// largeShare is the share of the memory that lookups may fill which by themselves
	// take more than one in smallShare of it, so that large ones leave room for small.
	largeShare = 0.75
	smallShare = 64
	// upWeight and downWeight are the weights of one lookup in the moving average: what is
	// more than thought is believed sooner.
	upWeight, downWeight = 1.0 / 4, 1.0 / 16
	// unitBytes is how many bytes cost a node about as much CPU as a key does: with
	// 10,000 bytes in place of 1,000 a lookup took 1.2 to 2.1 times as long.
	unitBytes = 8 << 10
	// mostScouts is how many lookups of a table are in-flight before one has shown how
	// large its answers are.
	mostScouts = 4
)

// weight is how large the answers of one table are.
type weight struct {
	// perKey is the moving average in bytes; it means something once known is set.
	perKey float64
	known  bool
	// scouts are in-flight while nothing is known, and changed is closed when one has
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
		w.perKey += upWeight * (x - w.perKey)
	default:
		w.perKey += downWeight * (x - w.perKey)
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
	return c.limits.Enabled && c.limits.MaxMemory > 0 && p.table != nil
}

// large takes the memory that the answer of a lookup needs, or refuses the lookup if
// there is too little. One alone may take any.
func (c *Controller) large(p *Permit) *Refusal {
	if !c.weighed(p) || !p.table.weight.known {
		return nil
	}
	cost, share := p.cost(), 1.0
	if float64(cost) > float64(c.limits.MaxMemory)/smallShare {
		share = largeShare
	}
	if c.memory.Hold(cost, share) {
		p.memory = cost
		return nil
	}
	return &Refusal{ReasonMemory, retries[p.class],
		"the requests and answers in memory take all that they may; ask again later, for fewer keys, rows or columns at a time"}
}

// unlarge gives back what large took.
func (c *Controller) unlarge(p *Permit) {
	if p.memory > 0 {
		c.memory.Release(p.memory)
		p.memory = 0
	}
}

// cost is how much memory the answer of a lookup is likely to take, in bytes.
func (p *Permit) cost() int64 {
	bytes := p.table.weight.perKey * float64(p.ask.Keys)
	if p.ask.MostBytes > 0 {
		bytes = min(bytes, float64(p.ask.MostBytes))
	}
	return int64(float64(p.copies()) * bytes)
}

// copies is how often the bytes of the answer are in memory at once.
func (p *Permit) copies() int64 { return copies + furtherCopies*int64(max(p.ask.Answers-1, 0)) }

// units returns what a lookup costs its hosts: its keys, or more where these are large,
// but no more than the least limit, so that one lookup alone does not fill all of it.
func (c *Controller) units(p *Permit) int {
	keys := p.ask.Keys
	if !c.weighed(p) || !p.table.weight.known {
		return keys
	}
	return max(keys, int(min(p.cost()/p.copies()/unitBytes, int64(c.limits.MinConcurrency))))
}

// hold returns nil for a lookup that may start, or what it has to wait for.
func (c *Controller) hold(p *Permit) <-chan struct{} {
	p.waits = false
	if !c.weighed(p) {
		return nil
	}
	w := p.table.weight
	switch {
	case w.known:
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
	c.unlarge(p)
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
