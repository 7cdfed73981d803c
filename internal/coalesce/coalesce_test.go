package coalesce

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/schema"
)

const (
	ms       = time.Millisecond
	patience = 15 * ms
)

// inBubble runs a test in virtual time, after which nothing may be listed.
func inBubble(t *testing.T, maxWaiters int, f func(t *testing.T, g *Group, begin func(deadline time.Duration) *Call)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g, q, keys := New(maxWaiters), benchQuery(), benchKeys(1, 0)
		f(t, g, func(deadline time.Duration) *Call {
			return g.Begin(q, keys, time.Now().Add(deadline), patience, identity.Standard)
		})
		reads, waits := g.Count()
		assert.Zero(t, reads)
		assert.Zero(t, waits)
	})
}

// next returns what Next tells a call now.
func next(c *Call) (statuses []partition.Status, read []int32) {
	answers, read := c.Next()
	for _, a := range answers {
		statuses = append(statuses, a.Result.Status)
	}
	return statuses, read
}

var notFound = partition.Result{Status: partition.NotFound}

func TestAWaiterGetsTheAnswerOnce(t *testing.T) {
	inBubble(t, 0, func(t *testing.T, g *Group, begin func(time.Duration) *Call) {
		reader, waiter := begin(time.Second), begin(time.Second)
		assert.Equal(t, []int32{0}, reader.Own())
		assert.Empty(t, waiter.Own())
		assert.Equal(t, 1, waiter.Waiting())
		reads, waits := g.Count()
		assert.Equal(t, []int{1, 1}, []int{reads, waits})
		due, ok := waiter.Due()
		assert.True(t, ok)
		assert.Equal(t, patience, due)

		reader.Share(0, found)
		reader.Share(0, notFound)
		<-waiter.Wake()
		answers, read := waiter.Next()
		assert.Equal(t, []Answer{{Key: 0, Result: found, Shared: true}}, answers)
		assert.Empty(t, read)
		answers, _ = waiter.Next()
		assert.Empty(t, answers)
		_, ok = waiter.Due()
		assert.False(t, ok)
		reader.Close()
		waiter.Close()
	})
}

func TestWhichReadsAreWaitedFor(t *testing.T) {
	for name, tc := range map[string]struct {
		reader, age, waiter time.Duration
		waits               int
	}{
		"a young one":                         {reader: time.Second, age: patience, waiter: time.Second, waits: 1},
		"one that is late":                    {reader: time.Second, age: patience + 1, waiter: time.Second},
		"one that soon ends":                  {reader: 20 * ms, age: 6 * ms, waiter: time.Second},
		"one that lasts for one's patience":   {reader: 20 * ms, age: 5 * ms, waiter: time.Second, waits: 1},
		"one that lasts as long as oneself":   {reader: 20 * ms, age: 2 * ms, waiter: 18 * ms, waits: 1},
		"young for somebody in a hurry":       {reader: time.Second, age: 5 * ms, waiter: 20 * ms, waits: 1},
		"one that is late for one in a hurry": {reader: time.Second, age: 5*ms + 1, waiter: 20 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 0, func(t *testing.T, _ *Group, begin func(time.Duration) *Call) {
				reader := begin(tc.reader)
				time.Sleep(tc.age)
				waiter := begin(tc.waiter)
				assert.Equal(t, tc.waits, waiter.Waiting())
				waiter.Close()
				reader.Close()
			})
		})
	}
}

func TestNobodyWaitsForAReadOfALowerPriority(t *testing.T) {
	all := []identity.Priority{identity.Interactive, identity.Standard, identity.Batch}
	for _, of := range all {
		for _, asks := range all {
			synctest.Test(t, func(t *testing.T) {
				g, q, keys := New(0), benchQuery(), benchKeys(1, 0)
				begin := func(p identity.Priority) *Call { return g.Begin(q, keys, time.Now().Add(time.Second), patience, p) }
				reader, waiter := begin(of), begin(asks)
				assert.Equal(t, asks >= of, waiter.Waiting() == 1, "%v for %v", asks, of)
				last := begin(asks)
				assert.Equal(t, 1, last.Waiting(), "but for one of its own")
				reader.Close()
				waiter.Close()
				last.Close()
			})
		}
	}
}

func TestAFullReadStartsAnother(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, _ *Group, begin func(time.Duration) *Call) {
		var calls []*Call
		var waiting []int
		for range 6 {
			c := begin(time.Second)
			calls, waiting = append(calls, c), append(waiting, c.Waiting())
		}
		assert.Equal(t, []int{0, 1, 1, 0, 1, 1}, waiting)
		calls[1].Close()
		place := begin(time.Second)
		assert.Equal(t, 1, place.Waiting(), "who left makes room")
		for _, c := range append(calls[2:], calls[0], place) {
			c.Close()
		}
	})
}

func TestOneOfTheWaitersOfAReaderThatEndsReadsOn(t *testing.T) {
	inBubble(t, 0, func(t *testing.T, _ *Group, begin func(time.Duration) *Call) {
		reader, a, b := begin(time.Second), begin(time.Second), begin(time.Second)
		reader.Close()
		<-a.Wake()
		<-b.Wake()
		_, read := next(b)
		assert.Equal(t, []int32{0}, read)
		statuses, read := next(a)
		assert.Empty(t, statuses)
		assert.Empty(t, read, "the other waits on")
		b.Share(0, found)
		b.Report(0, found)
		for _, c := range []*Call{a, b} {
			statuses, _ = next(c)
			assert.Equal(t, []partition.Status{partition.Found}, statuses)
			c.Close()
		}
	})
}

func TestPatienceRunsOut(t *testing.T) {
	inBubble(t, 0, func(t *testing.T, _ *Group, begin func(time.Duration) *Call) {
		reader, a := begin(time.Second), begin(time.Second)
		time.Sleep(ms)
		b := begin(time.Second)
		time.Sleep(patience - ms)
		_, read := next(a)
		assert.Equal(t, []int32{0}, read, "one reads")
		time.Sleep(ms)
		_, read = next(b)
		assert.Empty(t, read, "the other waits for that, too")
		time.Sleep(patience)
		_, read = next(b)
		assert.Equal(t, []int32{0}, read, "but not for ever")

		reader.Share(0, found)
		for _, c := range []*Call{a, b} {
			statuses, _ := next(c)
			assert.Equal(t, []partition.Status{partition.Found}, statuses, "it waited on for the first read")
			c.Report(0, notFound)
			statuses, _ = next(c)
			assert.Empty(t, statuses, "one answer")
		}
		b.Close()
		a.Close()
		reader.Close()
	})
}

func TestAFailureCountsWhenNothingElseIsWaitedFor(t *testing.T) {
	unavailable := partition.Result{Status: partition.Unavailable}
	inBubble(t, 0, func(t *testing.T, _ *Group, begin func(time.Duration) *Call) {
		reader, waiter := begin(time.Second), begin(time.Second)
		time.Sleep(patience)
		_, read := next(waiter)
		require.Equal(t, []int32{0}, read)
		waiter.Report(0, unavailable)
		statuses, _ := next(waiter)
		assert.Empty(t, statuses, "the first read may still be answered")
		assert.Equal(t, []Answer{{Result: unavailable}}, waiter.Unanswered())
		reader.Close()
		answers, read := waiter.Next()
		assert.Equal(t, []Answer{{Result: unavailable}}, answers)
		assert.Empty(t, read)
		waiter.Close()
	})
}

func TestWithholdHasTheKeyReadAgain(t *testing.T) {
	inBubble(t, 0, func(t *testing.T, _ *Group, begin func(time.Duration) *Call) {
		reader, waiter := begin(time.Second), begin(time.Second)
		reader.Withhold(0)
		_, read := next(waiter)
		assert.Equal(t, []int32{0}, read)
		waiter.Close()
		reader.Close()
	})
}

func TestQueriesAreEqualInAllThatDecidesAnAnswer(t *testing.T) {
	columns := []schema.Column{{Name: "a"}, {Name: "b"}}
	table := schema.NewTable("ks", "t", "1", columns)
	base := partition.Query{Table: table, Columns: columns, Consistency: "ONE", Limit: 1, MaxBytes: 1}
	same := base
	same.Columns = []schema.Column{{Name: "a"}, {Name: "b"}}
	assert.True(t, equal(&base, &same))
	g := New(0)
	assert.Equal(t, hash(&base, g.seed), hash(&same, g.seed))
	changes := map[string]func(q *partition.Query){
		"table":             func(q *partition.Query) { q.Table = schema.NewTable("ks", "t", "1", columns) },
		"columns":           func(q *partition.Query) { q.Columns = columns[:1] },
		"order of columns":  func(q *partition.Query) { q.Columns = []schema.Column{columns[1], columns[0]} },
		"consistency level": func(q *partition.Query) { q.Consistency = "QUORUM" },
		"limit":             func(q *partition.Query) { q.Limit = 2 },
		"strictness":        func(q *partition.Query) { q.Strict = true },
		"pages":             func(q *partition.Query) { q.Paged = true },
		"bytes":             func(q *partition.Query) { q.MaxBytes = 2 },
		"slice":             func(q *partition.Query) { q.Slice = &partition.Slice{Reverse: true} },
	}
	assert.Equal(t, reflect.TypeFor[partition.Query]().NumField()-4, len(changes)-1,
		"all fields are compared but Readable, Shape, Alone and Cap, which decide how a key is read and not what is answered")
	for name, change := range changes {
		other := base
		change(&other)
		assert.False(t, equal(&base, &other), name)
	}
}

func TestModes(t *testing.T) {
	for text, mode := range map[string]Mode{"auto": Auto, "false": Never, "true": Always} {
		var m Mode
		require.NoError(t, m.UnmarshalText([]byte(text)))
		assert.Equal(t, mode, m)
		assert.Equal(t, text, m.String())
		for level, weak := range map[partition.Level]bool{"LOCAL_ONE": true, "ONE": true, "NODE_LOCAL": true, "TWO": false, "LOCAL_QUORUM": false, "ALL": false} {
			assert.Equal(t, mode == Always || mode == Auto && weak, mode.Shares(level), "%s at %s", text, level)
		}
	}
	var m Mode
	assert.ErrorContains(t, m.UnmarshalText([]byte("sometimes")), "use auto, true or false")
}
