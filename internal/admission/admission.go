// Package admission decides whether a lookup starts: within the share of its client, when
// its deadline can be met, while there is memory, and as long as the hosts keep up. What it
// refuses is refused at once, the least important first.
package admission

import (
	"cmp"
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/memory"
)

// Limits are the numbers of a Controller. Those of concurrency are in
// keys of usual size.
type Limits struct {
	// Enabled is false to refuse nothing, the shares of clients included.
	Enabled bool
	// MinConcurrency and MaxConcurrency bound how many keys the proxy has in-flight; 1 or
	// more, and MaxConcurrency not below MinConcurrency. It is MaxConcurrency unless lookups
	// are late.
	MinConcurrency, MaxConcurrency int
	// MaxMemory is the budget of bytes of the process: requests that are being received,
	// answers of hosts as far as they can be told beforehand, and answers that are not
	// sent yet; 0 does not limit it. Enabled does not bear on it but for the answers of
	// hosts.
	MaxMemory int64
	// Ladder is at which burn rates of a table what is given up.
	Ladder Ladder
}

// DefaultLimits returns the limits of the reference configuration, for a process without
// a memory limit.
func DefaultLimits() Limits {
	return Limits{
		Enabled:        true,
		MinConcurrency: 200,
		MaxConcurrency: 100_000,
		MaxMemory:      1 << 30,
		Ladder:         Ladder{Hedges: 2, Optional: 3, Batch: 4, Standard: 8},
	}
}

// SLO is what the lookups of a table are held to.
type SLO struct {
	// Target is the duration within which a lookup ends; above 0.
	Target time.Duration
	// Percentile of the lookups do so; above 0 and below 100.
	Percentile float64
}

// slack is the share of lookups that may be late.
func (s SLO) slack() float64 { return 1 - s.Percentile/100 }

// Config is what a Controller works with.
type Config struct {
	// Limits are the numbers; Replace changes them.
	Limits Limits
	// Tables are the SLOs by keyspace.table; Replace changes them. A lookup of another
	// table is held to the limits there are, and is no reason to change them.
	Tables map[string]SLO
	// Registerer gets the metrics; nil measures for nobody.
	Registerer prometheus.Registerer
	// Memory is the budget of bytes of the process, of which answers of hosts take their
	// part; nil is one of its own.
	Memory *memory.Budget
}

// Ask is a lookup that wants to start.
type Ask struct {
	// Client is who asks; nil is identity.Anonymous.
	Client *identity.Client
	// Table is keyspace.table.
	Table string
	// Keys is the number of keys asked, duplicates included; 1 or more.
	Keys int
	// MostBytes is the most bytes of cells in the answer; 0 when nothing bounds it.
	MostBytes int
	// Answers is how many replicas answer for each key; 0 is 1.
	Answers int
	// Deadline is when the answer is of no use any more; the zero Time is never.
	Deadline time.Time
}

// Controller admits lookups. It is safe for concurrent use, has no goroutine and
// needs no closing.
type Controller struct {
	metrics *metrics

	mu      sync.Mutex
	limits  Limits
	load    load
	clients map[string]*client
	swept   time.Time
	tables  map[string]*table
	// classes is how many lookups of each priority are in-flight.
	classes  [priorities]int
	turnouts [priorities]turnout
	// memory is where the bytes of answers are counted.
	memory *memory.Budget
}

// priorities is the number of classes.
const priorities = int(identity.Batch) + 1

// New returns a controller. The error is that of the registerer.
func New(cfg Config) (*Controller, error) {
	now := time.Now()
	c := &Controller{
		metrics: newMetrics(),
		clients: map[string]*client{},
		tables:  map[string]*table{},
		swept:   now,
		memory:  cmp.Or(cfg.Memory, memory.New(cfg.Limits.MaxMemory)),
	}
	c.load.start(now)
	c.Replace(cfg.Limits, cfg.Tables)
	if cfg.Registerer == nil {
		return c, nil
	}
	return c, c.metrics.register(cfg.Registerer, c)
}

// Replace puts other limits and SLOs in force. What is in-flight goes on and
// counts; what has been learned of a table whose SLO stays is kept. Shares of
// clients come with each Ask.
func (c *Controller) Replace(limits Limits, tables map[string]SLO) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limits = limits
	c.memory.SetLimit(limits.MaxMemory)
	c.load.bound(limits)
	weights := map[string]*weight{} // whatever the SLO, answers are as large
	maps.DeleteFunc(c.tables, func(name string, t *table) bool {
		p, stays := tables[name]
		if !stays {
			c.metrics.forget(name)
		} else {
			weights[name] = t.weight
		}
		return !stays || p != t.slo
	})
	for name, p := range tables {
		if c.tables[name] == nil {
			c.tables[name] = &table{name: name, slo: p, weight: cmp.Or(weights[name], &weight{}), metrics: c.metrics.table(name)}
		}
	}
}

// table is what is known of the lookups of one table.
type table struct {
	name    string
	slo     SLO
	fastest fastest
	weight  *weight
	ladder  ladder
	metrics tableMetrics
}

// Admit lets a lookup start, or refuses it. It does not wait. The Permit must be
// released, on every path, and waited for before the lookup goes on; the error is a
// *Refusal.
func (c *Controller) Admit(ask Ask) (*Permit, error) {
	who := ask.Client
	if who == nil {
		who = identity.Anonymous
	}
	now := time.Now()
	p := &Permit{controller: c, ask: ask, began: now, class: classOf(who.Priority)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.advance(now)
	p.table = c.tables[ask.Table]
	p.budget = p.timeLeft()
	p.client = c.client(who, now)
	p.rank = c.rank(p.client, p.class, now)
	p.units = c.units(p)
	if c.limits.Enabled {
		refusal := c.refuse(p, now)
		c.turnouts[p.class].note(refusal)
		if refusal != nil {
			c.metrics.shed(who.Name, p.class, refusal.Reason)
			return nil, refusal
		}
	}
	c.classes[p.class]++
	c.load.enter(p)
	p.client.enter(p.units, now)
	c.hold(p)
	c.metrics.admitted[p.class].Inc()
	return p, nil
}

// refuse asks everyone who may object, the bucket last, since it takes.
func (c *Controller) refuse(p *Permit, now time.Time) *Refusal {
	if r := p.client.crowded(); r != nil {
		return r
	}
	if p.table != nil {
		if r := c.browned(p, now); r != nil {
			return r
		}
		if r := c.hopeless(p, now); r != nil {
			return r
		}
	}
	if r := c.overloaded(p); r != nil {
		return r
	}
	if r := c.large(p); r != nil {
		return r
	}
	r := p.client.spend(p.ask.Keys, now)
	if r != nil {
		c.unlarge(p)
	}
	return r
}

// advance brings what depends on time up to date.
func (c *Controller) advance(now time.Time) {
	if now.Sub(c.load.checked) >= checkEvery {
		c.weigh(now)
		c.load.check(now)
	}
	if now.Sub(c.swept) >= longWindow*time.Second {
		c.swept = now
		maps.DeleteFunc(c.clients, func(_ string, cl *client) bool { return cl.idle(now) })
	}
}

// timeLeft is the time that a lookup may take: up to its deadline, and no longer than the
// target of its table; 0 for a table without one.
func (p *Permit) timeLeft() time.Duration {
	switch {
	case p.table == nil:
		return 0
	case p.ask.Deadline.IsZero():
		return p.table.slo.Target
	}
	return min(max(p.ask.Deadline.Sub(p.began), time.Nanosecond), p.table.slo.Target)
}

// classOf returns a priority as an index; one that does not exist is Standard.
func classOf(p identity.Priority) int {
	if p < identity.Interactive || p > identity.Batch {
		p = identity.Standard
	}
	return int(p)
}
