package admission

import (
	"context"
	"time"
)

// Constants for the memory that answers are expected to take.
const (
	// largeShare is the part of the memory that large lookups may fill. A lookup is small if
	// four like it fit into the rest.
	largeShare = 0.75
	// lowerShare is largeShare for a priority while a higher one asks: hosts read as many large
	// answers at a time as there is memory for. With a half in place of a quarter, 5.6 % of the
	// higher ones were late in make chaos, and with all of it 9 to 25 %.
	lowerShare = largeShare / 4
	// upWeight is the weight of one lookup in the moving average if it is above the average,
	// and downWeight if it is below, which is believed later.
	upWeight, downWeight = 1.0 / 4, 1.0 / 16
	// unitBytes is how many bytes cost a node about as much CPU as a key does: with rows of
	// 10,000 bytes in place of 1,000 a lookup took 1.2 to 2.1 times as long.
	unitBytes = 8 << 10
	// mostScouts is the most lookups of a table that are in-flight before one has shown how
	// large its answers are.
	mostScouts = 4
)

// weight is the size of the answers of one table.
type weight struct {
	// perKey is the moving average of the bytes of a key, once known.
	perKey float64
	known  bool
	// learned is closed when it is known; until then scouts has an entry for each lookup
	// in-flight that finds it out.
	learned, scouts chan struct{}
}

func newWeight() *weight {
	return &weight{learned: make(chan struct{}), scouts: make(chan struct{}, mostScouts)}
}

// observe learns from the answer of a lookup.
func (w *weight) observe(bytes, keys int) {
	by := downWeight
	x := float64(bytes) / float64(keys)
	if !w.known {
		w.known, by = true, 1
		close(w.learned)
	} else if x > w.perKey {
		by = upWeight
	}
	w.perKey += by * (x - w.perKey)
}

// copies returns how many times the bytes of an answer are in memory at once: twice for each
// replica that answers, as the frame of a node and as cells, and once as what is sent to the
// client.
func (p *Permit) copies() int64 { return 1 + 2*int64(max(p.ask.Answers, 1)) }

// bytes returns how large the answer of a lookup is likely to be.
func (p *Permit) bytes() int64 {
	bytes := p.table.weight.perKey * float64(p.ask.Keys)
	if p.ask.MostBytes > 0 {
		bytes = min(bytes, float64(p.ask.MostBytes))
	}
	return int64(bytes)
}

// weighed reports whether the memory of a lookup is held to a limit.
func (c *Controller) weighed(p *Permit) bool {
	return c.limits.Enabled && c.limits.MaxMemory > 0 && p.table != nil
}

// units returns what a lookup costs its hosts, in keys of usual size: its keys, or more where
// these are large. Their size alone makes it no more than MinConcurrency, so that one lookup
// does not fill the limit.
func (c *Controller) units(p *Permit) int {
	if !c.weighed(p) || !p.table.weight.known {
		return p.ask.Keys
	}
	return max(p.ask.Keys, int(min(p.bytes()/unitBytes, int64(c.limits.MinConcurrency))))
}

// checkMemory reserves the memory that the answer of a lookup is likely to need, or refuses the
// lookup if there is too little. One alone may take any amount. Where the size is unknown, the
// lookup waits.
func (c *Controller) checkMemory(p *Permit) *Refusal {
	if p.waits = c.weighed(p) && !p.table.weight.known; p.waits || !c.weighed(p) {
		return nil
	}
	bytes, share := p.copies()*p.bytes(), 1.0
	if float64(bytes) > float64(c.limits.MaxMemory)*(1-largeShare)/4 {
		if share = largeShare; c.load.outranked(p) {
			share = lowerShare
		}
	}
	if c.memory.Hold(bytes, share) {
		p.memory = bytes
		return nil
	}
	return p.refusal(ReasonMemory,
		"the requests and answers in memory take all that they may; ask again later, for fewer keys, rows or columns at a time")
}

// goFirst makes a lookup that waits a scout, if there are too few.
func (p *Permit) goFirst() {
	if !p.waits {
		return
	}
	select {
	case p.table.weight.scouts <- struct{}{}:
		p.waits, p.scout = false, true
	default:
	}
}

// unhold releases the memory of a lookup, and learns from its answer.
func (c *Controller) unhold(p *Permit, o Outcome) {
	c.memory.Release(p.memory)
	if p.table == nil {
		return
	}
	w := p.table.weight
	if o.Answered > 0 || o.Bytes > 0 {
		w.observe(o.Bytes, p.ask.Keys)
	}
	if p.scout && !w.known {
		<-w.scouts // another goes in its place
	}
}

// Wait returns when the lookup may go on. That is at once, unless nobody knows yet how large
// the answers of its table are: then a few lookups go first, and this one waits until one of
// them has been answered. It counts as admitted, and takes its keys from the share of its client,
// when it goes on. It is refused if the share is used up then, if there is no memory for it, or if
// its deadline comes before. The error is a *Refusal. If ctx ends first it is nil, as the lookup
// finds that out by itself. A nil Permit never waits.
func (p *Permit) Wait(ctx context.Context) error {
	if p == nil || !p.waits {
		return nil
	}
	refusal := p.await(ctx)
	c := p.controller
	c.mu.Lock()
	defer c.mu.Unlock()
	if refusal == nil && ctx.Err() == nil {
		if refusal = c.checkRate(p); refusal == nil {
			refusal = c.checkMemory(p)
		}
	}
	p.waits = false
	if refusal != nil {
		c.shed(p.client.who, p.class, refusal)
		return refusal
	}
	c.start(p)
	return nil
}

// await returns when the size of the table's answers is known, or when the lookup has become
// one of those that find it out. If the deadline comes before it returns a refusal.
func (p *Permit) await(ctx context.Context) *Refusal {
	var over <-chan time.Time
	if !p.ask.Deadline.IsZero() {
		over = time.After(time.Until(p.ask.Deadline))
	}
	select {
	case p.table.weight.scouts <- struct{}{}:
		p.scout = true
	case <-over:
		return p.refusal(ReasonDeadline, "the first lookups of the table are not answered in time; ask again later")
	case <-p.table.weight.learned:
	case <-ctx.Done():
	}
	return nil
}
