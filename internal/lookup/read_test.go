package lookup_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/qosproxy/qosproxy/internal/coalesce"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// concurrent is a service whose reads take time and are counted, and the lookups that are
// sent to it at exact times of a synctest bubble.
type concurrent struct {
	*fixture
	t       *testing.T
	service *lookup.Service
	start   time.Time
	took    time.Duration
	// client is the caller of the lookups.
	client *identity.Client

	mu     sync.Mutex
	counts map[string]int
	// fault is called before each read; if it returns a nil result the read goes on. It
	// may block.
	fault func(ctx context.Context, n int, q *executor.SubQuery) ([]partition.Result, error)
	reads int
	all   sync.WaitGroup
}

// newConcurrent returns a service whose hosts take 10 ms, with changed settings.
func newConcurrent(t *testing.T, change ...func(*lookup.Settings)) *concurrent {
	t.Helper()
	c := &concurrent{fixture: newFixture(t), t: t, start: time.Now(), took: 10 * time.Millisecond, client: identity.Anonymous, counts: map[string]int{}}
	settings := lookup.Settings{
		Keyspace: "shop", Table: "products", Consistency: "LOCAL_ONE", Timeout: 125 * time.Millisecond,
		SpeculativeRetry: hedge.Fixed(15 * time.Millisecond), HedgeBudget: 0.02, MaxKeys: 100, MaxRowsPerKey: 10, MaxResponseBytes: 1000,
	}
	for _, f := range change {
		f(&settings)
	}
	c.service = lookup.New(lookup.Config{
		Tables: []lookup.Settings{settings}, Executor: c.executor,
		Ring: func() *ring.Ring { return c.snapshot }, Schema: func() *schema.Schema { return c.schema },
	})
	c.fixture.reads = c.read
	return c
}

// value returns the only cell with which a read of k may be answered.
func value(q *executor.Query, k partition.Key) []byte {
	return fmt.Appendf(nil, "%s %s %s %d %v", q.Consistency, k.Routing(), strings.Join(names(q.Columns), ","), q.Limit, q.Strict)
}

func (c *concurrent) read(ctx context.Context, q *executor.SubQuery) ([]partition.Result, error) {
	defer q.Settled()
	c.mu.Lock()
	c.reads++
	n, fault := c.reads, c.fault
	for _, k := range q.Keys {
		c.counts[string(k.Routing())]++
	}
	c.mu.Unlock()
	if fault != nil {
		if results, err := fault(ctx, n, q); results != nil || err != nil {
			return results, err
		}
	}
	select {
	case <-time.After(c.took):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	results := make([]partition.Result, len(q.Keys))
	for i, k := range q.Keys {
		cell := value(q.Query, k)
		results[i] = partition.Result{Status: partition.Found, Rows: []partition.Row{{cell}}, Bytes: len(cell)}
	}
	return results, nil
}

// count returns how often a key was read.
func (c *concurrent) count(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[key]
}

// asked is a lookup that has been sent.
type asked struct {
	resp   *lookup.Response
	ended  time.Duration
	cancel context.CancelFunc
}

func (a *asked) statuses() []partition.Status {
	var out []partition.Status
	for _, r := range a.resp.Results {
		out = append(out, r.Status)
	}
	return out
}

// at asks for keys at a given time, in a goroutine.
func (c *concurrent) at(moment time.Duration, req lookup.Request, names ...string) *asked {
	c.t.Helper()
	table, err := c.service.Table("shop", "products")
	require.NoError(c.t, err)
	req.Table, req.Keys = table, keys(c.t, names...)
	ctx, cancel := context.WithCancel(identity.NewContext(c.t.Context(), c.client))
	a := &asked{cancel: cancel}
	c.all.Go(func() {
		time.Sleep(time.Until(c.start.Add(moment)))
		resp, err := c.service.Get(ctx, &req)
		assert.NoError(c.t, err)
		a.resp, a.ended = resp, time.Since(c.start)
	})
	return a
}

// cancelAt cancels a lookup at a given time.
func (c *concurrent) cancelAt(moment time.Duration, a *asked) {
	c.all.Go(func() {
		time.Sleep(time.Until(c.start.Add(moment)))
		a.cancel()
	})
}

// wait waits for all lookups and checks that nothing of them is left.
func (c *concurrent) wait() {
	c.all.Wait()
	reads, waits := c.service.Shared().Count()
	assert.Zero(c.t, reads, "reads left behind")
	assert.Zero(c.t, waits, "waits left behind")
}

// bubble runs a test in a synctest bubble and checks that it leaks no goroutine.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t) })
}

var found = partition.Found

func TestEqualKeysOfConcurrentLookupsShareOneRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newConcurrent(t)
		first := c.at(0, lookup.Request{}, "a", "b")
		second := c.at(4*ms, lookup.Request{Trace: true}, "b", "c", "b")
		c.wait()
		assert.Equal(t, 10*ms, first.ended)
		assert.Equal(t, 14*ms, second.ended, "c is its own")
		assert.Equal(t, 1, c.count("b"))
		assert.Equal(t, []partition.Status{found, found, found}, second.statuses())
		assert.Equal(t, first.resp.Results[1].Rows, second.resp.Results[0].Rows)
		assert.Equal(t, 0, first.resp.Stats.Coalesced)
		assert.Equal(t, 1, second.resp.Stats.Coalesced, "distinct keys")
		assert.Equal(t, 1, second.resp.Stats.SubQueries)
		assert.Equal(t, 1, second.resp.Stats.Groups)

		require.Len(t, second.resp.Attempts, 2)
		joined := second.resp.Attempts[0]
		assert.Equal(t, lookup.Attempt{Kind: "coalesced", HedgeAfter: -1, Keys: []int{0}, End: 6 * ms, Outcome: "won"}, joined)
		assert.Equal(t, []int{1}, second.resp.Attempts[1].Keys, "by position in the request")
		assert.Equal(t, -1, second.resp.Plan.Keys[0].Group)
		assert.Equal(t, 0, second.resp.Plan.Keys[1].Group)
	})
}

func TestOnlyReadsThatAnswerTheSameAreShared(t *testing.T) {
	base := func(r lookup.Request) lookup.Request { return r }
	for name, tc := range map[string]struct {
		change func(*lookup.Settings)
		first  lookup.Request
		second lookup.Request
		reads  int
	}{
		"the same":                         {reads: 1},
		"another limit":                    {second: base(lookup.Request{LimitPerKey: 3}), reads: 2},
		"the limit of the table, not kept": {second: lookup.Request{LimitPerKey: 10}, reads: 2},
		"another level":                    {second: lookup.Request{Consistency: "ONE"}, reads: 2},
		"other columns":                    {second: lookup.Request{Columns: products.Columns[:1]}, reads: 2},
		"columns in another order": {
			first:  lookup.Request{Columns: []schema.Column{products.Columns[0], products.Columns[1]}},
			second: lookup.Request{Columns: []schema.Column{products.Columns[1], products.Columns[0]}}, reads: 2},
		"the same columns, named": {
			first:  lookup.Request{Columns: products.Columns[:2]},
			second: lookup.Request{Columns: []schema.Column{products.Columns[0], products.Columns[1]}}, reads: 1},
		"a quorum, which promises to see what was written": {
			first: lookup.Request{Consistency: "LOCAL_QUORUM"}, second: lookup.Request{Consistency: "LOCAL_QUORUM"}, reads: 2},
		"a quorum that is shared by choice": {
			change: func(s *lookup.Settings) { s.Coalesce = coalesce.Always },
			first:  lookup.Request{Consistency: "LOCAL_QUORUM"}, second: lookup.Request{Consistency: "LOCAL_QUORUM"}, reads: 1},
		"none by choice": {change: func(s *lookup.Settings) { s.Coalesce = coalesce.Never }, reads: 2},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				if tc.change == nil {
					tc.change = func(*lookup.Settings) {}
				}
				c := newConcurrent(t, tc.change)
				c.at(0, tc.first, "a")
				c.at(5*ms, tc.second, "a")
				c.wait()
				assert.Equal(t, tc.reads, c.count("a"))
			})
		})
	}
}

func TestAnotherDefinitionOfTheTableIsAnotherRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newConcurrent(t)
		c.at(0, lookup.Request{}, "a")
		synctest.Wait()
		c.schema = schema.New([]*schema.Table{schema.NewTable("shop", "products", "id", products.Columns)})
		c.at(5*ms, lookup.Request{}, "a")
		c.wait()
		assert.Equal(t, 2, c.count("a"))
	})
}

func TestAWaiterKeepsItsOwnDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newConcurrent(t, func(s *lookup.Settings) { s.SpeculativeRetry = hedge.Policy{} })
		c.took = 50 * ms
		reader := c.at(0, lookup.Request{}, "a")
		waiter := c.at(2*ms, lookup.Request{Timeout: 8 * ms}, "a")
		c.wait()
		assert.Equal(t, 10*ms, waiter.ended)
		assert.Equal(t, []partition.Status{partition.TimedOut}, waiter.statuses())
		assert.EqualError(t, waiter.resp.Results[0].Err, "no replica answered within 8ms")
		assert.Equal(t, 50*ms, reader.ended)
		assert.Equal(t, []partition.Status{found}, reader.statuses())
	})
}

// TestAWaiterTellsWhyItsOwnReadFailed waits for a read that outlives its deadline.
func TestAWaiterTellsWhyItsOwnReadFailed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newConcurrent(t)
		c.fault = func(ctx context.Context, n int, _ *executor.SubQuery) ([]partition.Result, error) {
			if n > 1 {
				return nil, &executor.ReadError{Reason: executor.ReasonOverloaded, Err: errors.New("busy")}
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}
		c.at(0, lookup.Request{Timeout: 400 * ms}, "a")
		waiter := c.at(2*ms, lookup.Request{Timeout: 100 * ms}, "a")
		c.wait()
		assert.Equal(t, []partition.Status{partition.Shed}, waiter.statuses())
		assert.Equal(t, 102*ms, waiter.ended)
	})
}

func TestWaitersOfACancelledReaderReadOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newConcurrent(t)
		reader := c.at(0, lookup.Request{}, "a", "b", "c")
		var waiters []*asked
		for i := range 5 {
			waiters = append(waiters, c.at(time.Duration(i+1)*100*time.Microsecond, lookup.Request{}, "a", "b", "c"))
		}
		c.cancelAt(5*ms, reader)
		c.wait()
		assert.Equal(t, 5*ms, reader.ended)
		assert.Equal(t, partition.TimedOut, reader.statuses()[0])
		shared := 0
		for _, w := range waiters {
			assert.Equal(t, 15*ms, w.ended, "one read on at once")
			assert.Equal(t, []partition.Status{found, found, found}, w.statuses())
			shared += w.resp.Stats.Coalesced
		}
		assert.Equal(t, 12, shared)
		assert.Equal(t, 2, c.count("a"))
	})
}

func TestTheDeadlineOfAReaderDoesNotReachOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newConcurrent(t, func(s *lookup.Settings) { s.SpeculativeRetry = hedge.Policy{} })
		c.fault = func(ctx context.Context, n int, _ *executor.SubQuery) ([]partition.Result, error) {
			if n > 1 {
				return nil, nil
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}
		reader := c.at(0, lookup.Request{Timeout: 20 * ms}, "a")
		waiter := c.at(2*ms, lookup.Request{Timeout: 18 * ms}, "a")
		short := c.at(8*ms, lookup.Request{Timeout: 12 * ms}, "a")
		c.wait()
		assert.Equal(t, []partition.Status{partition.TimedOut}, reader.statuses())
		assert.Equal(t, []partition.Status{found}, waiter.statuses(), "which ends at the same time, but has asked again")
		assert.Equal(t, 6*ms+500*time.Microsecond+10*ms, waiter.ended, "after a quarter of its time")
		assert.Equal(t, []partition.Status{found}, short.statuses())
		assert.Equal(t, waiter.ended, short.ended, "it joined the younger read")
	})
}

func TestAReaderWhoseConnectionDiesFailsOverForAll(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newConcurrent(t)
		c.fault = func(_ context.Context, n int, _ *executor.SubQuery) ([]partition.Result, error) {
			if n > 1 {
				return nil, nil
			}
			time.Sleep(5 * ms)
			return nil, &executor.ReadError{Reason: executor.ReasonDisconnected}
		}
		reader := c.at(0, lookup.Request{}, "a")
		waiter := c.at(3*ms, lookup.Request{}, "a")
		c.wait()
		for _, a := range []*asked{reader, waiter} {
			assert.Equal(t, 15*ms, a.ended)
			assert.Equal(t, []partition.Status{found}, a.statuses())
		}
		assert.Equal(t, 2, c.count("a"))
	})
}

func TestWhatAllReplicasSaidIsShared(t *testing.T) {
	for name, tc := range map[string]struct {
		results []partition.Result
		err     error
		want    partition.Status
		reads   int
	}{
		"no replica can be reached":   {err: &executor.ReadError{Reason: executor.ReasonUnreachable}, want: partition.Unavailable, reads: 2},
		"too large":                   {results: []partition.Result{{Status: partition.TooLarge}}, want: partition.TooLarge, reads: 1},
		"every replica fails to read": {results: []partition.Result{{Status: partition.Failed}}, want: partition.Failed, reads: 2},
		"no rows":                     {results: []partition.Result{{Status: partition.NotFound}}, want: partition.NotFound, reads: 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newConcurrent(t)
				c.fault = func(context.Context, int, *executor.SubQuery) ([]partition.Result, error) {
					time.Sleep(4 * ms)
					return tc.results, tc.err
				}
				reader := c.at(0, lookup.Request{}, "a")
				waiter := c.at(2*ms, lookup.Request{}, "a")
				c.wait()
				assert.Equal(t, []partition.Status{tc.want}, reader.statuses())
				assert.Equal(t, []partition.Status{tc.want}, waiter.statuses())
				assert.Equal(t, reader.ended, waiter.ended)
				assert.Equal(t, tc.reads, c.count("a"))
			})
		})
	}
}

func TestTheSizeOfAReadersAnswerIsItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newConcurrent(t, func(s *lookup.Settings) { s.MaxResponseBytes = 60 })
		reader := c.at(0, lookup.Request{}, "a", "b", "c")
		waiters := []*asked{c.at(2*ms, lookup.Request{}, "a"), c.at(2*ms, lookup.Request{}, "b"), c.at(2*ms, lookup.Request{}, "c")}
		c.wait()
		assert.Contains(t, reader.statuses(), partition.TooLarge)
		for _, w := range waiters {
			assert.Equal(t, []partition.Status{found}, w.statuses())
			assert.Equal(t, 1, w.resp.Stats.Coalesced)
		}
	})
}

func TestAKeyThatWasCrowdedOutIsReadAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newConcurrent(t)
		c.fault = func(_ context.Context, n int, _ *executor.SubQuery) ([]partition.Result, error) {
			if n > 1 {
				return nil, nil
			}
			time.Sleep(5 * ms)
			return []partition.Result{{Status: partition.TooLarge, Err: executor.ErrCrowded}}, nil
		}
		reader := c.at(0, lookup.Request{}, "a")
		waiter := c.at(2*ms, lookup.Request{}, "a")
		c.wait()
		assert.Equal(t, []partition.Status{partition.TooLarge}, reader.statuses())
		assert.Equal(t, []partition.Status{found}, waiter.statuses())
		assert.Equal(t, 15*ms, waiter.ended)
	})
}

func TestAFullReadIsNotJoined(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newConcurrent(t)
		c.at(0, lookup.Request{}, "a")
		for i := range coalesce.DefaultMaxWaiters + 5 {
			c.at(time.Duration(i+1)*10*time.Microsecond, lookup.Request{}, "a")
		}
		c.wait()
		assert.Equal(t, 2, c.count("a"))
	})
}

func TestAReadOfBatchWorkHoldsUpNoOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newConcurrent(t)
		c.fault = func(ctx context.Context, n int, _ *executor.SubQuery) ([]partition.Result, error) {
			if n == 1 {
				<-ctx.Done()
			}
			return nil, ctx.Err()
		}
		c.client = &identity.Client{Priority: identity.Batch}
		c.at(0, lookup.Request{}, "a")
		c.client = &identity.Client{Priority: identity.Interactive}
		interactive := c.at(2*ms, lookup.Request{}, "a")
		c.wait()
		assert.Equal(t, 12*ms, interactive.ended)
		assert.Equal(t, []partition.Status{found}, interactive.statuses())
	})
}

func TestBatchWorkThatIsLateLeavesOthersTheirHedges(t *testing.T) {
	for priority, want := range map[identity.Priority]string{identity.Batch: "", identity.Standard: "load"} {
		bubble(t, func(t *testing.T) {
			c := newConcurrent(t, func(s *lookup.Settings) { s.HedgeBudget = 0.5 })
			c.took = 16 * ms
			c.client = &identity.Client{Priority: priority}
			for i := range 100 {
				c.at(time.Duration(i)*20*ms, lookup.Request{}, strconv.Itoa(i))
			}
			c.wait()
			c.client = &identity.Client{Priority: identity.Interactive}
			a := c.at(3*time.Second, lookup.Request{Trace: true}, "a")
			c.wait()
			assert.EqualValues(t, want, a.resp.Attempts[0].NotHedged)
		})
	}
}

func TestAReadThatIsStuckHoldsNobodyUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newConcurrent(t, func(s *lookup.Settings) { s.HedgeBudget = 0; s.SpeculativeRetry = hedge.Fixed(15 * ms) })
		var frozen string
		c.fault = func(ctx context.Context, _ int, q *executor.SubQuery) ([]partition.Result, error) {
			c.mu.Lock()
			if frozen == "" {
				frozen = q.Host.ID
			}
			stuck := frozen == q.Host.ID
			c.mu.Unlock()
			if stuck {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return nil, nil
		}
		c.at(0, lookup.Request{}, "a")
		var joined []*asked
		for i := range 20 {
			joined = append(joined, c.at(time.Duration(i+1)*100*time.Microsecond, lookup.Request{}, "a"))
		}
		late := c.at(15*ms+1, lookup.Request{}, "a")
		c.wait()
		assert.Equal(t, 25*ms+1, late.ended, "a read that is late is not joined: the host is avoided")
		for _, a := range joined {
			assert.Equal(t, []partition.Status{found}, a.statuses())
			assert.LessOrEqual(t, a.ended, 30*ms)
		}
		assert.Less(t, c.count("a"), 5)
	})
}

func TestReadsThatAreSlowEverywhereAreNoSlowerForWaiters(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newConcurrent(t, func(s *lookup.Settings) { s.HedgeBudget = 0 })
		c.took = 40 * ms
		c.at(0, lookup.Request{}, "a")
		waiter := c.at(10*ms, lookup.Request{}, "a")
		c.wait()
		assert.Equal(t, 40*ms, waiter.ended, "it reads itself at 25 ms, and waits on")
	})
}

func TestASlowStreamHoldsNobodyUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newConcurrent(t)
		table, err := c.service.Table("shop", "products")
		require.NoError(t, err)
		var positions []int
		c.all.Go(func() {
			_, err := c.service.Stream(t.Context(), &lookup.Request{Table: table, Keys: keys(t, "a", "b", "c")}, func(i int, _ partition.Result) error {
				time.Sleep(time.Second)
				positions = append(positions, i)
				return nil
			})
			assert.NoError(t, err)
		})
		waiter := c.at(2*ms, lookup.Request{}, "a", "b", "c")
		c.wait()
		assert.Equal(t, 10*ms, waiter.ended)
		assert.Equal(t, 3, waiter.resp.Stats.Coalesced)
		assert.ElementsMatch(t, []int{0, 1, 2}, positions)
	})
}

func TestAStreamThatIsGoneLeavesItsReadsToOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newConcurrent(t)
		c.fault = func(_ context.Context, _ int, q *executor.SubQuery) ([]partition.Result, error) {
			if string(q.Keys[0].Routing()) == "a" && len(q.Keys) == 1 {
				return []partition.Result{{Status: partition.NotFound}}, nil
			}
			return nil, nil
		}
		table, err := c.service.Table("shop", "products")
		require.NoError(t, err)
		c.all.Go(func() {
			_, err := c.service.Stream(t.Context(), &lookup.Request{Table: table, Keys: keys(t, "b", "c")}, func(int, partition.Result) error {
				return context.Canceled
			})
			assert.ErrorIs(t, err, context.Canceled)
		})
		waiter := c.at(2*ms, lookup.Request{}, "b", "c")
		c.wait()
		assert.Equal(t, []partition.Status{found, found}, waiter.statuses())
		assert.LessOrEqual(t, waiter.ended, 20*ms)
	})
}

func TestManyLookupsCancelledAtRandomLeaveNothingBehind(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	bubble(t, func(t *testing.T) {
		c := newConcurrent(t)
		random := rand.New(rand.NewPCG(1, 2))
		lookups := 5000
		if testing.Short() {
			lookups = 1000
		}
		for range lookups {
			var names []string
			for range 1 + random.IntN(8) {
				names = append(names, strconv.Itoa(random.IntN(20)))
			}
			at := time.Duration(random.IntN(1_000_000)) * time.Microsecond
			a := c.at(at, lookup.Request{Timeout: time.Duration(1+random.IntN(60)) * ms}, names...)
			if random.IntN(2) == 0 {
				c.cancelAt(at+time.Duration(random.IntN(20_000))*time.Microsecond, a)
			}
		}
		c.wait()
	})
}

// TestCoalescingChangesNoAnswer runs random schedules of lookups, cancellations and
// faults. Every key must be answered exactly once: with the value that its own query
// reads, or with a failure that the lookup would have met alone.
func TestCoalescingChangesNoAnswer(t *testing.T) {
	type plan struct {
		at, timeout, cancel time.Duration
		keys                []string
		limit               int
	}
	rapid.Check(t, func(rt *rapid.T) {
		micros := func(most int, label string) time.Duration {
			return time.Duration(rapid.IntRange(0, most).Draw(rt, label)) * time.Microsecond
		}
		plans := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) plan {
			p := plan{
				at:      micros(30_000, "at"),
				timeout: rapid.SampledFrom([]time.Duration{8 * ms, 30 * ms, 10 * time.Second}).Draw(rt, "timeout"),
				keys:    rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 1, 6).Draw(rt, "keys"),
				limit:   rapid.IntRange(0, 1).Draw(rt, "limit"),
			}
			if rapid.IntRange(0, 3).Draw(rt, "cancelled") == 0 {
				p.cancel = 1 + micros(20_000, "cancel")
			}
			return p
		}), 1, 25).Draw(rt, "lookups")
		pace := rapid.SliceOfN(rapid.SampledFrom([]time.Duration{0, ms, 5 * ms, 20 * ms, 60 * ms}), 1, 20).Draw(rt, "pace")
		bubble(t, func(t *testing.T) {
			c := newConcurrent(t)
			c.took = 1
			c.fault = func(ctx context.Context, n int, _ *executor.SubQuery) ([]partition.Result, error) {
				if d := pace[n%len(pace)]; d > 0 {
					select {
					case <-time.After(d):
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}
				return nil, nil
			}
			table, err := c.service.Table("shop", "products")
			require.NoError(t, err)
			for _, p := range plans {
				asked := keys(t, p.keys...)
				c.all.Go(func() {
					time.Sleep(p.at)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if p.cancel > 0 {
						defer time.AfterFunc(p.cancel, cancel).Stop()
					}
					answers := make([]int, len(asked))
					begin := time.Now()
					_, err := c.service.Stream(ctx, &lookup.Request{Table: table, Keys: asked, Timeout: p.timeout, LimitPerKey: p.limit}, func(i int, r partition.Result) error {
						answers[i]++
						if r.Status != partition.Found {
							assert.Equal(t, partition.TimedOut, r.Status)
							assert.True(t, time.Since(begin) == p.timeout || time.Since(begin) == p.cancel, "by its own end only: %s", time.Since(begin))
							return nil
						}
						limit, strict := 10, true
						if p.limit > 0 {
							limit, strict = p.limit, false
						}
						want := value(&executor.Query{Consistency: "LOCAL_ONE", Columns: table.Columns, Limit: limit, Strict: strict}, asked[i])
						assert.Equal(t, string(want), string(r.Rows[0][0]))
						return nil
					})
					assert.NoError(t, err)
					for i, n := range answers {
						assert.Equal(t, 1, n, "answers of key %d", i)
					}
				})
			}
			c.wait()
		})
		if t.Failed() {
			rt.FailNow()
		}
	})
}

func BenchmarkCoalesced(b *testing.B) {
	for _, mode := range []coalesce.Mode{coalesce.Never, coalesce.Auto} {
		b.Run("coalesce="+mode.String(), func(b *testing.B) {
			f := newFixture(&testing.T{})
			f.reads = echo
			s := lookup.New(lookup.Config{
				Tables: []lookup.Settings{{
					Keyspace: "shop", Table: "products", Consistency: "LOCAL_ONE", Timeout: 125 * ms, SpeculativeRetry: hedge.Fixed(15 * ms),
					HedgeBudget: 0.02, MaxKeys: 100, MaxRowsPerKey: 10, MaxResponseBytes: 1000, Coalesce: mode,
				}},
				Executor: f.executor,
				Ring:     func() *ring.Ring { return f.snapshot }, Schema: func() *schema.Schema { return f.schema },
			})
			table, err := s.Table("shop", "products")
			if err != nil {
				b.Fatal(err)
			}
			asked := make([]partition.Key, 50)
			for i := range asked {
				asked[i], _ = partition.NewKey(fmt.Appendf(nil, "key-%d", i))
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Get(b.Context(), &lookup.Request{Table: table, Keys: asked}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
