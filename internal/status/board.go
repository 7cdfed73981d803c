package status

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/qosproxy/qosproxy/internal/lookup"
)

// Source is how a Board asks the parts of the proxy. Calls are never concurrent.
type Source interface {
	// Fill writes what the parts know into a snapshot: everything but counts, errors,
	// clients, Time and Started.
	Fill(s *Snapshot)
	// History returns the last five minutes of a table, the oldest step first; nil for
	// an unknown table.
	History(table string) []Step
}

// Freshness is the maximum age of a snapshot that is shared by several readers, so
// that ten open pages cost as much as one.
const Freshness = 500 * time.Millisecond

// The limits for the names that a Board keeps.
const (
	// idle is how long a client or table is shown after its last lookup.
	idle = 10 * time.Minute
	// mostNames is the maximum number of clients, and of tables; further ones are
	// counted as UnknownName.
	mostNames = 1000
	// UnknownName stands for a missing name, and for those beyond the maximum.
	UnknownName = "unknown"
)

// Board counts lookups by table and client, remembers the latest problems, and makes
// snapshots. It is safe for concurrent use and has no goroutine.
type Board struct {
	source  Source
	started time.Time
	total   counter
	tables  names
	clients names
	events  events

	mu     sync.Mutex // orders those who make snapshots
	latest *Snapshot
	// histories are those of tables requested since the latest snapshot.
	histories map[string][]Step
}

// New returns a board of a process that starts now. With a nil source, snapshots hold
// only what the board itself observes.
func New(source Source) *Board { return &Board{source: source, started: time.Now()} }

// Lookup is a lookup that has ended.
type Lookup struct {
	// Table is keyspace.table, or empty; Client is the name of the caller.
	Table, Client string
	// Keys is the number of keys asked for, Unanswered how many of them have no
	// answer.
	Keys, Unanswered int
	// Code is the outcome, as in metrics.
	Code lookup.Code
	// Reason is why it was refused, as a word of package reasons; empty for none.
	Reason string
	// Duration is how long it took.
	Duration time.Duration
	// TraceID identifies its trace; empty for none.
	TraceID string
}

// failed reports whether the lookup is a problem for an operator. A caller that hung
// up, or agreed to do without some keys, is not.
func (l *Lookup) failed() bool {
	return l.Code != lookup.CodeOK && l.Code != lookup.CodePartialOK && l.Code != lookup.CodeCancelled
}

// Observe counts a lookup that has just ended.
func (b *Board) Observe(l *Lookup) {
	now := time.Now()
	failed := l.failed()
	for _, c := range []*counter{&b.total, b.tables.counter(l.Table), b.clients.counter(l.Client)} {
		c.add(l.Keys, failed, now)
	}
	if failed {
		b.events.lookup(l, now)
	}
}

// Snapshot returns the state of the proxy, at most Freshness old. What it points to is
// shared and must not be changed.
func (b *Board) Snapshot() Snapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.snapshot()
}

// snapshot is Snapshot with the mutex held.
func (b *Board) snapshot() Snapshot {
	if now := time.Now(); b.latest == nil || now.Sub(b.latest.Time) >= Freshness {
		b.latest, b.histories = b.make(now), map[string][]Step{}
	}
	return *b.latest
}

// WithHistory is Snapshot with the last five minutes of a table, if the table is
// known.
func (b *Board) WithHistory(table string) Snapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.snapshot()
	i := slices.IndexFunc(s.Tables, func(t Table) bool { return t.Name == table && t.SLO != nil })
	if i < 0 || b.source == nil {
		return s
	}
	history, asked := b.histories[table]
	if !asked {
		history = b.source.History(table)
		b.histories[table] = history
	}
	slo := *s.Tables[i].SLO
	slo.History = history
	s.Tables = slices.Clone(s.Tables)
	s.Tables[i].SLO = &slo
	return s
}

func (b *Board) make(now time.Time) *Snapshot {
	s := &Snapshot{Time: now, Started: b.started.UTC(), Tables: []Table{}, Clients: []Client{}, Hosts: []Host{}, Errors: b.events.latest()}
	if b.source != nil {
		b.source.Fill(s)
	}
	s.Total = b.total.count()
	shown := make(map[string]bool, len(s.Tables))
	for i := range s.Tables {
		shown[s.Tables[i].Name] = true
	}
	counted := b.tables.counts(now, shown)
	for i := range s.Tables {
		s.Tables[i].Count = counted[s.Tables[i].Name]
		delete(counted, s.Tables[i].Name)
	}
	for name, c := range counted {
		s.Tables = append(s.Tables, Table{Name: name, Count: c})
	}
	for name, c := range b.clients.counts(now, nil) {
		s.Clients = append(s.Clients, Client{Name: name, Count: c})
	}
	slices.SortFunc(s.Tables, func(a, b Table) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Clients, func(a, b Client) int { return strings.Compare(a.Name, b.Name) })
	return s
}

// counter counts lookups.
type counter struct {
	lookups, keys, failures atomic.Int64
	// last is when the last one ended, in Unix seconds.
	last atomic.Int64
}

func (c *counter) add(keys int, failed bool, now time.Time) {
	// Before the count: counts forgets counters that have lookups and are idle.
	if at := now.Unix(); c.last.Load() != at {
		c.last.Store(at)
	}
	c.lookups.Add(1)
	c.keys.Add(int64(keys))
	if failed {
		c.failures.Add(1)
	}
}

func (c *counter) count() Count {
	// Failures first, so that there are never more of them than lookups.
	failed := c.failures.Load()
	return Count{Failed: failed, Lookups: c.lookups.Load(), Keys: c.keys.Load()}
}

// names are counters by name.
type names struct {
	counters sync.Map // string → *counter
	size     atomic.Int64
}

func (n *names) counter(name string) *counter {
	if name == "" {
		name = UnknownName
	}
	if c, ok := n.counters.Load(name); ok {
		return c.(*counter)
	}
	if name != UnknownName && n.size.Load() >= mostNames {
		return n.counter(UnknownName)
	}
	c, found := n.counters.LoadOrStore(name, &counter{})
	if !found {
		n.size.Add(1)
	}
	return c.(*counter)
}

// counts returns the counts by name, and forgets names that have been idle for long and are not to
// be kept.
func (n *names) counts(now time.Time, keep map[string]bool) map[string]Count {
	out := map[string]Count{}
	n.counters.Range(func(name, value any) bool {
		c := value.(*counter)
		if c.lookups.Load() > 0 && now.Sub(time.Unix(c.last.Load(), 0)) > idle && !keep[name.(string)] { // in this order; see add
			if _, there := n.counters.LoadAndDelete(name); there {
				n.size.Add(-1)
			}
			return true
		}
		out[name.(string)] = c.count()
		return true
	})
	return out
}
