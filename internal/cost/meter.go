// Package cost decides how large groups should be. From the answers of hosts it learns, for each
// table, how long a statement takes and how much each of its keys adds. It then finds the fewest
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

// Meter is an executor.Reader that learns from the reads of another. It is safe for concurrent
// use.
type Meter struct {
	reader executor.Reader
	begin  time.Time
	// budgets is by keyspace.table.
	budgets atomic.Pointer[map[string]time.Duration]
	// models is never changed, but replaced when a model is added or removed; mu guards that.
	models atomic.Pointer[map[kind]*model]

	mu sync.Mutex
	// reads counts the reads that each host, by its id, has not settled.
	reads map[string]int
}

// kind identifies the reads that are learned from together, as they cost the same.
type kind struct {
	keyspace, table, shape string
	level                  partition.Level
}

// NewMeter returns a Meter of reader. Until SetBudgets every table has Budget's default.
func NewMeter(reader executor.Reader) *Meter {
	m := &Meter{reader: reader, begin: time.Now(), reads: make(map[string]int)}
	m.models.Store(&map[kind]*model{})
	m.budgets.Store(&map[string]time.Duration{})
	return m
}

// A group may take one part in budgetShare of the hedge delay. It keeps a host busy for that
// long, and what queues behind it waits for that long: DESIGN.md compares other parts.
const budgetShare = 8

// Budget returns how long the groups of a table may take: an eighth of the delay of its
// speculative_retry or of the operating point of its SLA, 0 for none, whichever is shorter. A
// policy without a fixed delay counts as hedge.Fallback: percentiles follow the size of groups,
// which must not follow them.
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

// SetBudgets sets how long the groups of each table may take, by keyspace.table, and forgets what
// is known of other tables. The caller must not change the map any more.
func (m *Meter) SetBudgets(budgets map[string]time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.budgets.Store(&budgets)
	models := maps.Clone(*m.models.Load())
	maps.DeleteFunc(models, func(k kind, _ *model) bool {
		_, stays := budgets[k.name()]
		return !stays
	})
	m.models.Store(&models)
}

// budget returns how long a group of the kind may take.
func (m *Meter) budget(k kind) time.Duration {
	if d, ok := (*m.budgets.Load())[k.name()]; ok {
		return d
	}
	return Budget(hedge.Policy{}, 0)
}

func (k kind) name() string { return k.keyspace + "." + k.table }

// GroupSize returns how large the groups of a plan that is made now should be: Keys alone until
// enough answers were seen, and Keys 0 while the planner should decide by the number of keys.
func (m *Meter) GroupSize(q *executor.Query) executor.GroupSize {
	if of := (*m.models.Load())[kindOf(q)]; of != nil {
		return of.planned(time.Since(m.begin))
	}
	return executor.GroupSize{Keys: firstSize}
}

// Costs returns what is known of a query, as GroupSize does. But it returns the zero GroupSize
// while reads are slow and it is not certain that their keys are expensive.
func (m *Meter) Costs(q *executor.Query) executor.GroupSize {
	if of := (*m.models.Load())[kindOf(q)]; of != nil {
		return of.certain(time.Since(m.begin))
	}
	return executor.GroupSize{Keys: firstSize}
}

// GroupSizes returns the known sizes by keyspace.table. A table that is read at several levels or
// in several shapes has the size that was learned from the most reads.
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
		if panics { // then it may never be settled
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

// enter counts a read at a host and returns how many were in-flight there before it.
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
