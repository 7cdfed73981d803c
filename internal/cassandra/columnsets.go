package cassandra

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/schema"
)

const (
	// maxColumnSets is how many sets of columns of one table have statements of their own. The same
	// columns in another partition.Query.Shape are another set. On every node each set takes one
	// prepared statement for single keys, and one for each column that an IN varies.
	maxColumnSets = 32
	// columnSetMemory is how long a set keeps its place after its last use. It bounds how many new
	// statements clients can cause over time, and not only how many are known at once.
	columnSetMemory = time.Hour
)

// columnSets remembers which sets of columns were asked for. It bounds the number of prepared
// statements, which clients would otherwise decide. The zero value is ready for use.
type columnSets struct {
	byTable sync.Map // of [2]string, keyspace and name, to *tableSets
	// whole counts the sub-queries that read more columns than were asked for.
	whole atomic.Uint64
}

// tableSets are the sets of one table that have a place: the time of their last use, by hash. Two
// sets of the same hash share a place, which costs no more than a statement.
type tableSets struct {
	mu   sync.Mutex
	used map[uint64]time.Time
}

var columnSetSeed = maphash.MakeSeed()

// selection returns what the statements of a query select: the columns that were asked for, or all
// that may be read when the table has no place for another set.
func (c *columnSets) selection(q *executor.Query, now time.Time) selection {
	s := newSelection(q)
	readable := q.Readable
	if readable == nil {
		readable = q.Table.Columns
	}
	name := [2]string{q.Table.Keyspace, q.Table.Name}
	known, ok := c.byTable.Load(name)
	if !ok {
		known, _ = c.byTable.LoadOrStore(name, &tableSets{used: make(map[uint64]time.Time)})
	}
	if known.(*tableSets).admit(hashStatement(q.Shape, s.columns), now) { //nolint:forcetypeassert // nothing else is stored
		return s
	}
	all := wholeSelection(q, readable)
	if len(all.columns) == len(s.columns) {
		return s
	}
	c.whole.Add(1)
	return all
}

// wholeSelection returns the selection of all columns that may be read. If the query asks for a
// write time or TTL, it has both for all columns that have them.
func wholeSelection(q *executor.Query, readable []schema.Column) selection {
	s := selectionOf(q, readable)
	s.whole = true
	if !slices.ContainsFunc(q.Columns, func(c schema.Column) bool { return c.Function != schema.Value }) {
		return s
	}
	for _, c := range readable {
		if c.HasVersion() {
			s.add(c.With(schema.WriteTime))
			s.add(c.With(schema.TTL))
		}
	}
	// The order must not depend on what was asked for.
	sorted := slices.Clone(s.columns)
	slices.SortStableFunc(sorted, func(a, b schema.Column) int {
		if a.Function == schema.Value || b.Function == schema.Value {
			return cmp.Compare(min(a.Function, 1), min(b.Function, 1))
		}
		return strings.Compare(a.Name, b.Name)
	})
	for i, at := range s.asked {
		s.asked[i] = slices.IndexFunc(sorted, func(c schema.Column) bool { return c.Name == s.columns[at].Name })
	}
	s.columns = sorted
	return s
}

// admit reports whether a set has a place or gets one: a free place, or that of a set that nobody
// has asked for in columnSetMemory.
func (t *tableSets) admit(set uint64, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.used[set]; ok {
		t.used[set] = now
		return true
	}
	if len(t.used) >= maxColumnSets {
		for other, at := range t.used {
			if now.Sub(at) >= columnSetMemory {
				delete(t.used, other)
				break
			}
		}
	}
	if len(t.used) >= maxColumnSets {
		return false
	}
	t.used[set] = now
	return true
}

// hashStatement returns the hash of a set: of the shape and the names of the selected columns.
func hashStatement(shape string, columns []schema.Column) uint64 {
	h := maphash.String(columnSetSeed, shape) + uint64(len(columns))
	for i := range columns {
		h = h*31 + maphash.String(columnSetSeed, columns[i].Name)
	}
	return h
}
