// Package admission decides whether a lookup starts: within the share of its client, when its
// deadline can be met, while there is memory, and as long as the hosts keep up. The least
// important lookups are refused first. A refusal is immediate, except while the size of the
// table's rows is unknown.
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

// Limits configures a Controller. The limits of concurrency are in keys of usual size.
type Limits struct {
	Enabled bool // false refuses nothing, not even beyond the share of a client
	// MinConcurrency and MaxConcurrency bound the limit of keys in-flight; 1 or more, and
	// MaxConcurrency not below MinConcurrency. The limit is MaxConcurrency unless lookups are
	// late. Lookups of high rank may exceed a lower limit, but not MaxConcurrency.
	MinConcurrency, MaxConcurrency int
	// MaxMemory is the memory budget of the process in bytes: requests that are being received,
	// expected answers of hosts, and answers that are not sent yet; 0 means no limit. Enabled
	// affects only the answers of hosts.
	MaxMemory int64
	Ladder    Ladder
}

// DefaultLimits returns the limits of the reference configuration, for a process without
// a memory limit.
func DefaultLimits() Limits {
	return Limits{
		Enabled: true, MinConcurrency: 100, MaxConcurrency: 100_000, MaxMemory: 1 << 30,
		Ladder: Ladder{Hedges: 2, Optional: 3, Batch: 4, Standard: 8},
	}
}

// SLO is the share of a table's lookups that must be within a target.
type SLO struct {
	Target     time.Duration // within which a lookup ends; above 0
	Percentile float64       // of the lookups that do so; above 0 and below 100
}

// slack returns the share of lookups that may be late.
func (s SLO) slack() float64 { return 1 - s.Percentile/100 }

// Config configures a Controller.
type Config struct {
	Limits Limits
	// Tables are the SLOs by keyspace.table. A lookup of another table is held to the limits
	// too, but is no evidence for changing them.
	Tables     map[string]SLO
	Registerer prometheus.Registerer // of the metrics; nil registers none
	Memory     *memory.Budget        // of the process; nil makes one for the answers of hosts alone
}

// Ask is a lookup that wants to start.
type Ask struct {
	Client    *identity.Client // nil is identity.Anonymous
	Table     string           // keyspace.table
	Keys      int              // duplicates included; 1 or more
	MostBytes int              // of cells in the answer; 0 means no bound
	Answers   int              // replicas that answer for each key; 0 means 1
	Deadline  time.Time        // when the answer is of no use any more; zero means never
}

// Controller admits lookups. It is safe for concurrent use, has no goroutine and
// needs no closing.
type Controller struct {
	metrics *metrics
	memory  *memory.Budget // where the bytes of answers are counted

	mu       sync.Mutex
	limits   Limits
	load     load
	tables   map[string]*table
	clients  map[string]*client
	swept    time.Time           // when clients were last forgotten
	heaviest [priorities]*client // of each priority, by usage
	// refusals goes up with each lookup of a priority that is refused for overload, and down
	// with each that is admitted, between 0 and enough.
	refusals [priorities]int
}

// priorities is the number of priorities.
const priorities = int(identity.Batch) + 1

// table is what is known of the lookups of one table.
type table struct {
	name    string
	slo     SLO
	fastest fastest
	weight  *weight
	ladder  ladder
}

// New returns a controller. The error is that of the registerer.
func New(cfg Config) (*Controller, error) {
	now := time.Now()
	c := &Controller{
		metrics: newMetrics(),
		memory:  cmp.Or(cfg.Memory, memory.New(cfg.Limits.MaxMemory)),
		load:    load{open: map[*Permit]struct{}{}, sample: sample{begin: now}},
		clients: map[string]*client{},
		swept:   now,
		tables:  map[string]*table{},
	}
	c.Replace(cfg.Limits, cfg.Tables)
	if cfg.Registerer == nil {
		return c, nil
	}
	return c, c.metrics.register(cfg.Registerer, c)
}

// Replace puts other limits and SLOs in force. Lookups in-flight go on and count under them.
// What has been learned of a table is kept if its SLO stays, and the size of its answers in any
// case. The shares of clients come with each Ask.
func (c *Controller) Replace(limits Limits, tables map[string]SLO) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limits = limits
	c.memory.SetLimit(limits.MaxMemory)
	c.load.bound(limits)
	former := c.tables
	c.tables = map[string]*table{}
	for name, slo := range tables {
		t := former[name]
		switch {
		case t == nil:
			t = &table{name: name, slo: slo, weight: newWeight()}
			c.metrics.begin(name)
		case t.slo != slo: // its answers are as large as before
			t = &table{name: name, slo: slo, weight: t.weight}
		}
		c.tables[name] = t
		delete(former, name)
	}
	for name := range former {
		c.metrics.forget(name)
	}
}

// Admit lets a lookup start or refuses it, without waiting. The error is a *Refusal. The caller
// must call Wait of the Permit before the lookup goes on, and Release on every path.
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
	if p.table = c.tables[ask.Table]; p.table != nil {
		p.budget = p.table.slo.Target
		if !ask.Deadline.IsZero() {
			p.budget = min(max(ask.Deadline.Sub(now), time.Nanosecond), p.budget)
		}
	}
	p.client = c.client(who, now)
	p.rank = c.rank(p.client, p.class, now)
	p.units = c.units(p)
	if c.limits.Enabled {
		if refusal := c.refuse(p); refusal != nil {
			c.shed(who, p.class, refusal)
			return nil, refusal
		}
	}
	c.refusals[p.class] = max(c.refusals[p.class]-1, 0)
	p.goFirst()
	c.load.enter(p)
	p.client.inflight++
	if !p.waits {
		c.start(p)
	}
	return p, nil
}

// start counts a lookup that goes on, and takes its keys from the share of its client.
func (c *Controller) start(p *Permit) {
	p.client.usage += float64(p.units)
	if c.limits.Enabled {
		p.client.spend(p.ask.Keys)
	}
	c.metrics.admitted.WithLabelValues(priorityName(p.class)).Inc()
}

// checks are in the order of the reasons. Memory comes last, since making room evicts others.
var checks = []func(*Controller, *Permit) *Refusal{
	(*Controller).checkConcurrency, (*Controller).checkLadder, (*Controller).checkDeadline,
	(*Controller).checkOverload, (*Controller).checkRate, (*Controller).checkMemory,
}

// refuse returns the first reason not to start a lookup, or nil.
func (c *Controller) refuse(p *Permit) *Refusal {
	for _, check := range checks {
		if r := check(c, p); r != nil {
			return r
		}
	}
	return nil
}

// advance brings what depends on time up to date.
func (c *Controller) advance(now time.Time) {
	if now.Sub(c.load.checked) >= checkEvery {
		c.load.check(now)
	}
	if now.Sub(c.swept) >= longWindow*time.Second {
		c.swept = now
		maps.DeleteFunc(c.clients, func(_ string, cl *client) bool { return cl.idle(now) })
	}
}

// classOf returns a priority as an index; an unknown one is Standard.
func classOf(p identity.Priority) int {
	if p < identity.Interactive || p > identity.Batch {
		p = identity.Standard
	}
	return int(p)
}

func priorityName(class int) string { return identity.Priority(class).String() }
