// Package cost decides how large groups should be: from the answers of hosts it learns, for
// each table, what a statement takes and what each of its keys does, and finds the fewest
// statements that still keep a lookup well within its hedge delay and operating point.
package cost

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// Meter is a Reader that learns from what another reads. It is safe for concurrent use.
type Meter struct {
	reader executor.Reader
	begin  time.Time
	// budgets are by keyspace.table.
	budgets atomic.Pointer[map[string]time.Duration]
	// models is replaced as a whole when there is one more; mu is for that.
	models atomic.Pointer[map[kind]*model]

	mu sync.Mutex
	// reads are in flight at each host, by its id, until the host has settled them.
	reads map[string]int
}

// kind is what reads that cost the same have in common.
type kind struct {
	keyspace, table, shape string
	level                  partition.Level
}

// NewMeter returns a meter of a reader. Until SetBudgets every table has Budget's default.
func NewMeter(reader executor.Reader) *Meter {
	m := &Meter{reader: reader, begin: time.Now(), reads: make(map[string]int)}
	m.models.Store(&map[kind]*model{})
	m.SetBudgets(nil)
	return m
}

// budgetShare is the part of the hedge delay that a group may take. A host is kept for as
// long, so that what queues behind it waits the longer: DESIGN.md has what other parts do.
const budgetShare = 8

// Budget returns how long the groups of a table may take, by its speculative_retry and the
// operating point of its SLA (0 for none): an eighth of the shorter. A policy without a fixed
// delay counts as hedge.Fallback: percentiles follow the size of groups, which must not
// follow them.
func Budget(retry hedge.Policy, operateAt time.Duration) time.Duration {
	within := retry.FixedDelay()
	if within <= 0 {
		within = hedge.Fallback
	}
	if operateAt > 0 {
		within = min(within, operateAt)
	}
	return within / budgetShare
}

// SetBudgets sets how long the groups of each table may take, by keyspace.table. The map
// must not change any more.
func (m *Meter) SetBudgets(budgets map[string]time.Duration) { m.budgets.Store(&budgets) }

// budget is how long a group of the kind may take.
func (m *Meter) budget(k kind) time.Duration {
	if d, ok := (*m.budgets.Load())[k.name()]; ok {
		return d
	}
	return Budget(hedge.Policy{}, 0)
}

func (k kind) name() string { return k.keyspace + "." + k.table }

// GroupSize returns how large groups of a query should be: Keys alone until enough answers
// were seen, and Keys 0 while the number of keys alone should say.
func (m *Meter) GroupSize(q *executor.Query) executor.GroupSize {
	if of := (*m.models.Load())[kindOf(q)]; of != nil {
		return of.planned(time.Since(m.begin))
	}
	return executor.GroupSize{Keys: firstSize}
}

// Costs returns what is known of a query, as GroupSize does, but nothing, not even Keys, while
// reads are slow and it is not certain that their keys are expensive.
func (m *Meter) Costs(q *executor.Query) executor.GroupSize {
	if of := (*m.models.Load())[kindOf(q)]; of != nil {
		return of.certain(time.Since(m.begin))
	}
	return executor.GroupSize{Keys: firstSize}
}

// GroupSizes returns those that are known, by keyspace.table. Of a table that is read at
// several levels or in several shapes it is the one most reads were learned of.
func (m *Meter) GroupSizes() map[string]executor.GroupSize {
	out, most := make(map[string]executor.GroupSize), make(map[string]int)
	for k, of := range *m.models.Load() {
		size, learned := of.groupSize(), of.learned()
		if size.KeyCost > 0 && learned > most[k.name()] {
			out[k.name()], most[k.name()] = size, learned
		}
	}
	return out
}

// Read implements executor.Reader.
func (m *Meter) Read(ctx context.Context, q *executor.SubQuery) ([]partition.Result, error) {
	met := m.enter(q.Host.ID)
	var left sync.Once
	leave := func() { left.Do(func() { m.leave(q.Host.ID) }) }
	metered := *q
	metered.Settled = func() {
		leave()
		q.Settled()
	}
	panics := true
	defer func() {
		if panics { // then nobody may settle it
			leave()
		}
	}()
	of, sent := m.model(kindOf(q.Query)), time.Since(m.begin)
	wanted := of.wants(met, sent)
	results, err := m.reader.Read(ctx, &metered)
	panics = false
	if !wanted {
		return results, err
	}
	r := read{host: q.Host.ID, keys: len(q.Keys), took: time.Since(m.begin) - sent}
	switch {
	case ctx.Err() != nil:
		of.learn(r, true)
	case err == nil && answered(results):
		of.learn(r, false)
	}
	return results, err
}

// answered reports whether a replica has answered every key.
func answered(results []partition.Result) bool {
	for i := range results {
		if !results[i].Status.Answered() {
			return false
		}
	}
	return len(results) > 0
}

// enter counts a read at a host and returns how many were in flight there before it.
func (m *Meter) enter(host string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	met := m.reads[host]
	m.reads[host] = met + 1
	return met
}

// leave ends what enter began.
func (m *Meter) leave(host string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reads[host]--; m.reads[host] <= 0 {
		delete(m.reads, host)
	}
}

func kindOf(q *executor.Query) kind {
	return kind{keyspace: q.Table.Keyspace, table: q.Table.Name, shape: q.Shape, level: q.Consistency}
}

// model returns the model of a kind, made on first use.
func (m *Meter) model(k kind) *model {
	if of := (*m.models.Load())[k]; of != nil {
		return of
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	models := maps.Clone(*m.models.Load())
	if models[k] == nil {
		models[k] = &model{budget: func() time.Duration { return m.budget(k) }}
		m.models.Store(&models)
	}
	return models[k]
}
