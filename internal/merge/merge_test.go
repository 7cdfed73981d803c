package merge

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/qosproxy/qosproxy/internal/cost"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/incident"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/reasons"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var table = schema.NewTable("ks", "t", "", []schema.Column{{Name: "id"}, {Name: "name"}})

func newQuery() *executor.Query {
	return &executor.Query{Table: table, Columns: table.Columns, Consistency: "LOCAL_ONE", Limit: 1, MaxBytes: 1 << 20}
}

func newKey(i int) partition.Key {
	k, err := partition.NewKey(binary.BigEndian.AppendUint32(nil, uint32(i)))
	if err != nil {
		panic(err)
	}
	return k
}

func number(k partition.Key) int { return int(binary.BigEndian.Uint32(k.Routing())) }

// found is what a node answers for a key: rows that name it.
func found(k partition.Key) partition.Result {
	return partition.Result{Status: partition.Found, Rows: []partition.Row{{k.Routing()}}, Bytes: 10}
}

func answer(q *executor.SubQuery) []partition.Result {
	out := make([]partition.Result, len(q.Keys))
	for i, k := range q.Keys {
		out[i] = found(k)
	}
	return out
}

// node is a Reader whose reads last until the test ends them.
type node struct {
	reads chan *nodeRead
}

type nodeRead struct {
	*executor.SubQuery
	ctx  context.Context
	end  chan error
	then func(*executor.SubQuery) []partition.Result
}

func newNode() *node { return &node{reads: make(chan *nodeRead, 100)} }

func (n *node) Read(ctx context.Context, q *executor.SubQuery) ([]partition.Result, error) {
	r := &nodeRead{SubQuery: q, ctx: ctx, end: make(chan error, 1), then: answer}
	n.reads <- r
	select {
	case err := <-r.end:
		q.Settled()
		if err != nil {
			return nil, err
		}
		return r.then(q), nil
	case <-ctx.Done():
		go func() { <-r.end; q.Settled() }()
		return nil, context.Cause(ctx)
	}
}

// next returns the next read that the node was sent.
func (n *node) next(t *testing.T) *nodeRead {
	t.Helper()
	synctest.Wait()
	select {
	case r := <-n.reads:
		return r
	default:
		t.Fatal("the node was sent nothing")
		return nil
	}
}

func (n *node) none(t *testing.T) {
	t.Helper()
	synctest.Wait()
	assert.Empty(t, n.reads, "the node was sent another read")
}

func (r *nodeRead) numbers() []int {
	var out []int
	for _, k := range r.Keys {
		out = append(out, number(k))
	}
	return out
}

// call is one Read of the reader under test.
type call struct {
	query   executor.SubQuery
	settled atomic.Int32
	done    chan struct{}
	results []partition.Result
	err     error
}

type bench struct {
	t      *testing.T
	reader *Reader
	node   *node
}

func costing(statement, key time.Duration) func(*executor.Query) executor.GroupSize {
	return func(*executor.Query) executor.GroupSize {
		return executor.GroupSize{Keys: 25, StatementCost: statement, KeyCost: key}
	}
}

// newBench has a statement cost as much as a hundred keys, so that 75 keys are enough.
func newBench(t *testing.T) *bench {
	t.Helper()
	n := newNode()
	r, err := New(Config{Reader: n, Costs: costing(100*time.Millisecond, time.Millisecond)})
	require.NoError(t, err)
	return &bench{t, r, n}
}

// newPrimed is newBench after two reads of the host: one took no time, and one a second.
func newPrimed(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.prime(10)
	return b
}

// prime does two reads, of a key of so many bytes each: one takes no time, and one a second.
func (b *bench) prime(bytes int) {
	b.t.Helper()
	b.takes(0, bytes)
	b.takes(time.Second, bytes)
}

// takes does one read that takes so long, of a key of so many bytes.
func (b *bench) takes(length time.Duration, bytes int) {
	b.t.Helper()
	c := b.ask(b.t.Context(), nil, 0)
	sent := b.node.next(b.t)
	sent.then = func(*executor.SubQuery) []partition.Result {
		return []partition.Result{{Status: partition.Found, Bytes: bytes}}
	}
	time.Sleep(length)
	sent.end <- nil
	<-c.done
}

// as returns a context of a client of that priority.
func as(ctx context.Context, p identity.Priority) context.Context {
	return identity.NewContext(ctx, &identity.Client{Priority: p})
}

// ask begins a Read of batch work, which waits as long as one read like it is in-flight.
func (b *bench) ask(ctx context.Context, change func(*executor.SubQuery), keys ...int) *call {
	return b.askAs(as(ctx, identity.Batch), change, keys...)
}

// askAs begins a Read.
func (b *bench) askAs(ctx context.Context, change func(*executor.SubQuery), keys ...int) *call {
	c := &call{done: make(chan struct{})}
	c.query = executor.SubQuery{Query: newQuery(), Host: ring.Host{ID: "h", Addr: "a"}, Settled: func() { c.settled.Add(1) }}
	for _, k := range keys {
		c.query.Keys = append(c.query.Keys, newKey(k))
	}
	if change != nil {
		change(&c.query)
	}
	go func() {
		defer close(c.done)
		c.results, c.err = b.reader.Read(ctx, &c.query)
	}()
	synctest.Wait()
	return c
}

// answered asserts that a call has the results of its own keys.
func (b *bench) answered(c *call) {
	b.t.Helper()
	synctest.Wait()
	select {
	case <-c.done:
	default:
		b.t.Fatal("the call has not returned")
	}
	require.NoError(b.t, c.err)
	assert.Equal(b.t, answer(&c.query), c.results)
	assert.EqualValues(b.t, 1, c.settled.Load())
}

func (b *bench) waits(c *call) {
	b.t.Helper()
	synctest.Wait()
	select {
	case <-c.done:
		b.t.Fatal("the call has returned")
	default:
	}
}

func TestWhatWaitsGoesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPrimed(t)
		first := b.ask(t.Context(), nil, 1, 2)
		sent := b.node.next(t)
		assert.Equal(t, []int{1, 2}, sent.numbers())
		second, third, fourth := b.ask(t.Context(), nil, 3, 4), b.ask(t.Context(), nil, 4, 5, 3), b.ask(t.Context(), nil, 6)
		b.node.none(t)
		q, _ := b.reader.Queue("h")
		assert.Equal(t, Queue{InFlight: 1, Waiting: 3, Sent: 3, SentKeys: 4}, q)

		sent.end <- nil
		b.answered(first)
		assert.Zero(t, first.query.Shared)
		shared := b.node.next(t)
		assert.Equal(t, []int{3, 4, 5, 6}, shared.numbers(), "equal keys are asked once")
		assert.Equal(t, 3<<20, shared.MaxBytes)
		b.node.none(t)
		b.waits(second)
		shared.end <- nil
		for _, c := range []*call{second, third, fourth} {
			b.answered(c)
			assert.Equal(t, 4, c.query.Shared)
		}
		q, _ = b.reader.Queue("h")
		assert.Equal(t, Queue{Sent: 4, SentKeys: 8}, q)
	})
}

func TestOnlyWhatIsTheSameStatementGoesTogether(t *testing.T) {
	other := schema.NewTable("ks", "t", "", table.Columns)
	for name, change := range map[string]func(*executor.SubQuery){
		"another definition of the table": func(q *executor.SubQuery) { q.Table = other },
		"another column":                  func(q *executor.SubQuery) { q.Columns = q.Columns[:1] },
		"other readable columns":          func(q *executor.SubQuery) { q.Readable = q.Columns },
		"another level":                   func(q *executor.SubQuery) { q.Consistency = "LOCAL_QUORUM" },
		"another limit":                   func(q *executor.SubQuery) { q.Limit = 2 },
		"a strict limit":                  func(q *executor.SubQuery) { q.Strict = true },
		"another snapshot":                func(q *executor.SubQuery) { q.Ring = new(ring.Ring) },
		"another address":                 func(q *executor.SubQuery) { q.Host.Addr = "b" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newPrimed(t)
				calls := []*call{b.ask(t.Context(), nil, 1)}
				first := b.node.next(t)
				calls = append(calls, b.ask(t.Context(), nil, 2))
				b.node.none(t)
				calls = append(calls, b.ask(t.Context(), change, 3))
				other := b.node.next(t)
				assert.Equal(t, []int{3}, other.numbers(), "it waits for nothing")
				calls = append(calls, b.ask(t.Context(), nil, 4))
				first.end <- nil
				both := b.node.next(t)
				assert.Equal(t, []int{2, 4}, both.numbers())
				other.end <- nil
				both.end <- nil
				for _, c := range calls {
					b.answered(c)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		b := newPrimed(t)
		alone := func(q *executor.SubQuery) { q.Alone = true }
		for range 3 {
			c := b.ask(t.Context(), alone, 1)
			b.node.next(t).end <- nil
			b.answered(c)
		}
	})
}

func span(from, n int) (out []int) {
	for i := range n {
		out = append(out, from+i)
	}
	return out
}

func TestEnoughKeysWaitForNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPrimed(t)
		ctx := as(t.Context(), identity.Standard)
		calls := []*call{b.askAs(ctx, nil, 1)}
		sent := []*nodeRead{b.node.next(t)}
		calls = append(calls, b.askAs(ctx, nil, span(1000, 40)...), b.askAs(ctx, nil, span(2000, 34)...))
		b.node.none(t)
		calls = append(calls, b.askAs(ctx, nil, 3000))
		sent = append(sent, b.node.next(t))
		assert.Len(t, sent[1].Keys, 75)
		calls = append(calls, b.askAs(ctx, nil, span(4000, 75)...))
		sent = append(sent, b.node.next(t))
		assert.Len(t, sent[2].Keys, 75, "what is enough alone never waits")
		calls = append(calls, b.askAs(ctx, nil, 5000))
		for range 2 {
			b.node.none(t)
			sent[0].end <- nil
			sent = sent[1:]
		}
		b.node.none(t)
		sent[0].end <- nil
		b.node.next(t).end <- nil
		for _, c := range calls {
			b.answered(c)
		}
	})
}

func TestALookupWaitsForNoneOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPrimed(t)
		ctx, own := as(t.Context(), identity.Standard), newQuery()
		mine := func(q *executor.SubQuery) { q.Query = own }
		var calls []*call
		var sent []*nodeRead
		for i := range 4 {
			calls = append(calls, b.askAs(ctx, mine, i))
			sent = append(sent, b.node.next(t))
		}
		calls = append(calls, b.askAs(ctx, nil, 10))
		b.node.none(t)
		for _, r := range sent {
			r.end <- nil
		}
		b.node.next(t).end <- nil
		for _, c := range calls {
			b.answered(c)
		}
	})
}

func TestHowManyKeysAreEnough(t *testing.T) {
	for name, tt := range map[string]struct {
		costs executor.GroupSize
		want  int
	}{
		"keys that are cheap":                {executor.GroupSize{Keys: 60, StatementCost: 200 * time.Microsecond, KeyCost: 10 * time.Microsecond}, 75},
		"keys that are expensive":            {executor.GroupSize{StatementCost: 250 * time.Microsecond, KeyCost: time.Millisecond}, 2},
		"costs that are not known":           {executor.GroupSize{Keys: 25}, 75},
		"costs that are not known, but high": {executor.GroupSize{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newPrimed(t)
				b.reader.cfg.Costs = func(*executor.Query) executor.GroupSize { return tt.costs }
				var calls []*call
				var sent []*nodeRead
				next := 0
				ask := func(keys int) {
					calls = append(calls, b.ask(t.Context(), nil, span(1000*next, keys)...))
					next++
				}
				ask(1)
				sent = append(sent, b.node.next(t))
				if tt.want > 1 {
					ask(tt.want - 1)
					b.node.none(t)
				}
				ask(1)
				last := b.node.next(t)
				assert.Len(t, last.Keys, max(tt.want, 1))
				for _, r := range append(sent, last) {
					r.end <- nil
				}
				for _, c := range calls {
					b.answered(c)
				}
			})
		})
	}
}

func TestNothingWaitsWhileKeysAreSlowAndTheirCostIsNotCertain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		meter := cost.NewMeter(n)
		r, err := New(Config{Reader: meter, Costs: meter.Costs})
		require.NoError(t, err)
		b := &bench{t, r, n}
		for range 64 { // so many teach the first costs; they have one size
			c := b.ask(t.Context(), nil, span(0, 25)...)
			sent := n.next(t)
			time.Sleep(20 * time.Millisecond)
			sent.end <- nil
			b.answered(c)
		}
		calls := []*call{b.ask(t.Context(), nil, 1), b.ask(t.Context(), nil, 2)}
		sent := []*nodeRead{n.next(t), n.next(t)}
		for _, r := range sent {
			r.end <- nil
		}
		for _, c := range calls {
			b.answered(c)
		}
	})
}

func TestTheCapOfGroupsIsThatOfSharedStatements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPrimed(t)
		limited := func(q *executor.SubQuery) { q.Cap = 25 }
		calls := []*call{b.ask(t.Context(), limited, 0)}
		sent := b.node.next(t)
		for i := range 3 {
			calls = append(calls, b.ask(t.Context(), limited, span(1000*(i+1), 8)...))
		}
		b.node.none(t)
		calls = append(calls, b.ask(t.Context(), limited, span(5000, 8)...))
		shared := b.node.next(t)
		assert.Len(t, shared.Keys, 24, "with the 32 that wait, a node that refuses more than 25 would refuse the statement")
		sent.end <- nil
		shared.end <- nil
		last := b.node.next(t)
		assert.Len(t, last.Keys, 8)
		last.end <- nil
		for _, c := range calls {
			b.answered(c)
		}
	})
}

func TestStatementsHaveAMostOfBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.prime(maxBytes / 40) // so that a statement has forty keys
		b.ask(t.Context(), nil, 2)
		sent := b.node.next(t)
		for i := range 3 {
			b.ask(t.Context(), nil, span(1000*(i+1), 20)...)
		}
		for _, keys := range []int{40, 20} {
			sent.end <- nil
			sent = b.node.next(t)
			assert.Len(t, sent.Keys, keys)
			sent.then = func(q *executor.SubQuery) []partition.Result {
				return slices.Repeat([]partition.Result{{Status: partition.Found, Bytes: maxBytes / 40}}, len(q.Keys))
			}
		}
		sent.end <- nil
		synctest.Wait()
	})
}

// TestNobodyWaitsForLong has a host that does not answer. What waits is sent after a second, by
// which reads take longer than the quickest; batch work once the read that it waits for has taken
// four times that.
func TestNobodyWaitsForLong(t *testing.T) {
	for priority, wait := range map[identity.Priority]time.Duration{
		identity.Interactive: time.Second, identity.Standard: time.Second, identity.Batch: 4 * time.Second,
	} {
		t.Run(priority.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newPrimed(t)
				ctx := as(t.Context(), priority)
				calls := []*call{b.askAs(ctx, nil, 1)}
				sent := b.node.next(t)
				calls = append(calls, b.askAs(ctx, nil, 10))
				time.Sleep(wait / 2)
				calls = append(calls, b.askAs(ctx, nil, 20))
				time.Sleep(wait/2 - time.Nanosecond)
				b.node.none(t)
				time.Sleep(time.Nanosecond)
				last := b.node.next(t)
				assert.Equal(t, []int{10, 20}, last.numbers(), "the later one goes with the earlier")
				sent.end <- nil
				last.end <- nil
				for _, c := range calls {
					b.answered(c)
				}
			})
		})
	}
}

// A host that is far away and idle answers no sooner for having fewer statements in-flight.
func TestNobodyWaitsForTheWayToAHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		ctx := as(t.Context(), identity.Standard)
		for _, took := range []time.Duration{30, 34, 30, 31, 32} {
			b.takes(took*time.Millisecond, 10)
		}
		first, second := b.askAs(ctx, nil, 1), b.askAs(ctx, nil, 2)
		sent := []*nodeRead{b.node.next(t)}
		b.node.none(t)
		time.Sleep(2 * time.Millisecond)
		sent = append(sent, b.node.next(t))
		for _, r := range sent {
			r.end <- nil
		}
		b.answered(first)
		b.answered(second)
	})
}

func TestTheQuickestReadIsOneOfTheLast(t *testing.T) {
	var u usual
	for _, took := range []int64{30, 2, 40} {
		u.settled(took, 0)
	}
	assert.EqualValues(t, 2, u.quickest())
	for range recentReads {
		u.settled(32, 0)
		assert.EqualValues(t, 2, u.quickest(), "no less than recentReads are looked at")
	}
	for range recentReads {
		u.settled(32, 0)
	}
	assert.EqualValues(t, 32, u.quickest(), "the way has become longer")
	u.settled(1, 0)
	assert.EqualValues(t, 1, u.quickest())
}

func TestNothingWaitsBeforeAReadIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var calls []*call
		for i := range 4 {
			calls = append(calls, b.ask(t.Context(), nil, i))
		}
		for range calls {
			b.node.next(t).end <- nil
		}
		for _, c := range calls {
			b.answered(c)
		}
	})
}

// A pause, after which everything in-flight is settled, counts as one slow read and not as forty.
func TestAPauseRaisesTheUsualTimeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		ctx, own := as(t.Context(), identity.Standard), newQuery()
		mine := func(q *executor.SubQuery) { q.Query = own }
		first := b.askAs(ctx, nil, 0)
		time.Sleep(2 * time.Millisecond)
		b.node.next(t).end <- nil
		b.answered(first)
		for i := range 40 { // of one lookup, so that none waits
			b.askAs(ctx, mine, i)
		}
		time.Sleep(5 * time.Second)
		for range 40 {
			b.node.next(t).end <- nil
		}
		synctest.Wait()

		stuck := b.askAs(ctx, nil, 100)
		sent := []*nodeRead{b.node.next(t)}
		behind := b.askAs(ctx, nil, 101)
		b.node.none(t)
		time.Sleep(3 * time.Millisecond)
		sent = append(sent, b.node.next(t))
		for _, r := range sent {
			r.end <- nil
		}
		b.answered(stuck)
		b.answered(behind)
	})
}

func TestATableThatHasBecomeSlowIsLearned(t *testing.T) {
	u, now := usual{took: 1e6}, int64(0)
	for range 20 {
		now += int64(100 * time.Millisecond)
		u.settled(int64(100*time.Millisecond), now)
	}
	assert.Greater(t, u.took, 0.5*float64(100*time.Millisecond))
}

func TestKeysThatAreTooLargeShareNoStatement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		c := b.ask(t.Context(), nil, 0)
		sent := b.node.next(t)
		sent.then = func(*executor.SubQuery) []partition.Result {
			return []partition.Result{partition.Unanswered(reasons.TooManyBytes, errTooManyBytes)}
		}
		time.Sleep(time.Second)
		sent.end <- nil
		<-c.done
		for i := range 3 {
			b.ask(t.Context(), nil, i+1)
		}
		for range 3 {
			sent = b.node.next(t)
			assert.Len(t, sent.Keys, 1, "each partition fills an answer by itself")
			sent.then = func(*executor.SubQuery) []partition.Result {
				return []partition.Result{partition.Unanswered(reasons.TooManyBytes, errTooManyBytes)}
			}
			sent.end <- nil
		}
		synctest.Wait()
	})
}

func TestAContextEndsItsOwnPartOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPrimed(t)
		cause := errors.New("answered elsewhere")
		first := b.ask(t.Context(), nil, 1)
		sent := b.node.next(t)
		var calls []*call
		var ends []context.CancelCauseFunc
		for i := range 4 {
			ctx, cancel := context.WithCancelCause(t.Context())
			calls, ends = append(calls, b.ask(ctx, nil, 10+i)), append(ends, cancel)
		}
		// While it waits: nothing was sent.
		ends[0](cause)
		synctest.Wait()
		<-calls[0].done
		require.ErrorIs(t, calls[0].err, executor.ErrUnsent)
		assert.Zero(t, calls[0].settled.Load())

		sent.end <- nil
		b.answered(first)
		shared := b.node.next(t)
		assert.Equal(t, []int{11, 12, 13}, shared.numbers())
		// In the shared read: it returns at once, and the others go on.
		ends[1](cause)
		synctest.Wait()
		<-calls[1].done
		require.ErrorIs(t, calls[1].err, cause)
		assert.Zero(t, calls[1].settled.Load())
		require.NoError(t, shared.ctx.Err())
		ends[2](cause)
		synctest.Wait()
		require.NoError(t, shared.ctx.Err())
		ends[3](cause)
		synctest.Wait()
		require.ErrorIs(t, context.Cause(shared.ctx), cause, "nobody waits any more")
		<-calls[3].done
		assert.Zero(t, calls[3].settled.Load(), "the host has not settled it")
		late := b.ask(t.Context(), nil, 20)
		b.node.none(t)
		shared.end <- nil
		synctest.Wait()
		for i := 1; i <= 3; i++ {
			assert.EqualValues(t, 1, calls[i].settled.Load())
		}
		b.node.next(t).end <- nil
		b.answered(late)
		for _, end := range ends {
			end(nil)
		}
	})
}

func TestAnErrorAndAPanicReachAll(t *testing.T) {
	down := &executor.ReadError{Reason: executor.ReasonDisconnected, Err: errors.New("gone")}
	for name, then := range map[string]func(*nodeRead){
		"error": func(r *nodeRead) { r.end <- down },
		"panic": func(r *nodeRead) {
			r.then = func(*executor.SubQuery) []partition.Result { panic("a bug") }
			r.end <- nil
		},
		"too few results": func(r *nodeRead) {
			r.then = func(*executor.SubQuery) []partition.Result { return make([]partition.Result, 1) }
			r.end <- nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newPrimed(t)
				first := b.ask(t.Context(), nil, 1)
				sent := b.node.next(t)
				calls := []*call{b.ask(t.Context(), nil, 2), b.ask(t.Context(), nil, 3)}
				sent.end <- nil
				b.answered(first)
				then(b.node.next(t))
				for _, c := range calls {
					<-c.done
					assert.EqualValues(t, 1, c.settled.Load())
					assert.Nil(t, c.results)
					switch name {
					case "error":
						assert.Equal(t, error(down), c.err)
					case "panic":
						var broken *incident.Error
						require.ErrorAs(t, c.err, &broken)
					default:
						require.NoError(t, c.err, "the executor sees that there are none")
					}
				}
				after := b.ask(t.Context(), nil, 4)
				b.node.next(t).end <- nil
				b.answered(after)
			})
		})
	}
}

func TestAPanicOfASingleReadFreesItsHost(t *testing.T) {
	r, err := New(Config{Costs: costs, Reader: executor.ReaderFunc(func(context.Context, *executor.SubQuery) ([]partition.Result, error) { panic("a bug") })})
	require.NoError(t, err)
	for range 3 {
		settled := 0
		q := &executor.SubQuery{Query: newQuery(), Host: ring.Host{ID: "h"}, Keys: []partition.Key{newKey(1)}, Settled: func() { settled++ }}
		assert.Panics(t, func() { _, _ = r.Read(t.Context(), q) })
		assert.Equal(t, 1, settled)
	}
	got, _ := r.Queue("h")
	assert.Zero(t, got.InFlight)
}

// TestALostReadIsNoneThatTookLong has a connection break: Lost of each participant is called
// once, before Settled, and the time of the read is not learned.
func TestALostReadIsNoneThatTookLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPrimed(t)
		var told []string
		listen := func(name string) func(*executor.SubQuery) {
			return func(q *executor.SubQuery) {
				q.Lost = func() { told = append(told, name+" lost") }
				settled := q.Settled
				q.Settled = func() { told = append(told, name+" settled"); settled() }
			}
		}
		known := func() any { return b.reader.host(ring.Host{ID: "h"}).tables[tableOf(newQuery())] }
		before := known()
		first := b.ask(t.Context(), listen("first"), 1)
		sent := b.node.next(t)
		second, third := b.ask(t.Context(), listen("second"), 2), b.ask(t.Context(), listen("third"), 3)
		time.Sleep(500 * time.Millisecond)
		sent.Lost()
		sent.end <- errors.New("gone")
		<-first.done
		shared := b.node.next(t)
		shared.Lost()
		shared.end <- errors.New("gone")
		<-second.done
		<-third.done
		assert.Equal(t, []string{"first lost", "first settled", "second lost", "third lost", "second settled", "third settled"}, told)
		assert.Equal(t, before, known())
	})
}

func TestBytesAreEachParticipantsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPrimed(t)
		first := b.ask(t.Context(), nil, 1)
		sent := b.node.next(t)
		most := func(n int) func(*executor.SubQuery) {
			return func(q *executor.SubQuery) { q.MaxBytes = n }
		}
		// Each key has 10 bytes: two fit, the third is crowded; and none fits in 5.
		two, none, all := b.ask(t.Context(), most(25), 2, 3, 4), b.ask(t.Context(), most(5), 5), b.ask(t.Context(), most(100), 2, 3, 4, 5)
		crowded := b.ask(t.Context(), most(10), 6)
		sent.end <- nil
		b.answered(first)
		shared := b.node.next(t)
		assert.Equal(t, 25+5+100+10, shared.MaxBytes)
		shared.then = func(q *executor.SubQuery) []partition.Result {
			out := answer(q)
			out[4] = partition.Unanswered(reasons.AnswerFull, executor.ErrCrowded)
			return out
		}
		shared.end <- nil
		// The neighbours left no room for it, so it is read again by itself.
		again := b.node.next(t)
		assert.Equal(t, []int{6}, again.numbers())
		assert.Equal(t, 10, again.MaxBytes)
		again.end <- nil
		b.answered(crowded)
		b.answered(all)
		<-two.done
		assert.Equal(t, partition.Found, two.results[1].Status)
		assert.Equal(t, partition.Unanswered(reasons.AnswerFull, executor.ErrCrowded), two.results[2])
		<-none.done
		assert.Equal(t, partition.TooLarge, none.results[0].Status)
		require.NotErrorIs(t, none.results[0].Err, executor.ErrCrowded)
	})
}

// TestACrowdedParticipantIsOutstandingUntilItIsReadAlone has neighbours leave no room for the keys
// of a participant. The host has settled that one when it has settled both reads.
func TestACrowdedParticipantIsOutstandingUntilItIsReadAlone(t *testing.T) {
	cause := errors.New("answered elsewhere")
	for name, tt := range map[string]struct {
		// leaves ends its context while the shared read is in-flight; then is called while the
		// read alone is.
		leaves bool
		then   func(leave func(), again *nodeRead)
		lost   int
		err    error
	}{
		"that is answered":           {then: func(func(), *nodeRead) {}},
		"whose read alone is lost":   {then: func(_ func(), again *nodeRead) { again.Lost() }, lost: 1},
		"that leaves while it waits": {leaves: true, err: cause},
		"that leaves the read alone": {then: func(leave func(), _ *nodeRead) { leave() }, err: cause},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newPrimed(t)
				ctx, cancel := context.WithCancelCause(t.Context())
				leave, lost := func() { cancel(cause); synctest.Wait() }, 0
				first := b.ask(t.Context(), nil, 1)
				sent := b.node.next(t)
				neighbour := b.ask(t.Context(), nil, 2)
				crowded := b.ask(ctx, func(q *executor.SubQuery) {
					q.Early, q.Lost = &early{got: map[int]partition.Result{}}, func() { lost++ }
				}, 3)
				sent.end <- nil
				b.answered(first)
				shared := b.node.next(t)
				shared.then = func(q *executor.SubQuery) []partition.Result {
					return []partition.Result{found(q.Keys[0]), partition.Unanswered(reasons.AnswerFull, executor.ErrCrowded)}
				}
				shared.Early.Receive(1, shared.then(shared.SubQuery)[1:])
				if tt.leaves {
					leave()
				}
				assert.Zero(t, crowded.settled.Load())
				shared.end <- nil
				b.answered(neighbour)
				if tt.then != nil {
					again := b.node.next(t)
					tt.then(leave, again)
					assert.Zero(t, crowded.settled.Load(), "it is being read")
					again.end <- nil
				}
				<-crowded.done
				synctest.Wait()
				b.node.none(t)
				assert.EqualValues(t, 1, crowded.settled.Load())
				assert.Equal(t, tt.lost, lost)
				require.ErrorIs(t, crowded.err, tt.err)
				got, _ := b.reader.Queue("h")
				assert.Zero(t, got.InFlight)
			})
		})
	}
}

// early records what it is handed.
type early struct {
	mu  sync.Mutex
	got map[int]partition.Result
}

func (e *early) Receive(from int, results []partition.Result) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, r := range results {
		e.got[from+i] = r
	}
}

func TestEarlyResultsHaveTheParticipantsPositions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPrimed(t)
		b.ask(t.Context(), nil, 1)
		sent := b.node.next(t)
		var takes []*early
		var calls []*call
		for _, keys := range [][]int{{2, 3, 4}, {5, 3, 6, 7, 2}} {
			e := &early{got: map[int]partition.Result{}}
			takes = append(takes, e)
			calls = append(calls, b.ask(t.Context(), func(q *executor.SubQuery) { q.Early = e }, keys...))
		}
		calls = append(calls, b.ask(t.Context(), nil, 8))
		sent.end <- nil
		shared := b.node.next(t)
		require.Equal(t, []int{2, 3, 4, 5, 6, 7, 8}, shared.numbers())
		results := answer(shared.SubQuery)
		shared.Early.Receive(1, results[1:5]) // 3 4 5 6
		assert.Equal(t, map[int]partition.Result{1: found(newKey(3)), 2: found(newKey(4))}, takes[0].got)
		assert.Equal(t, map[int]partition.Result{0: found(newKey(5)), 1: found(newKey(3)), 2: found(newKey(6))}, takes[1].got)
		shared.Early.Receive(0, results[0:2]) // 2, and 3 again
		assert.Len(t, takes[0].got, 3)
		assert.Equal(t, found(newKey(2)), takes[1].got[4])
		shared.end <- nil
		for _, c := range calls {
			b.answered(c)
		}
	})
}

func TestBatchWorkGoesOneStatementAtATimeBesideOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPrimed(t)
		batch, other := as(t.Context(), identity.Batch), as(t.Context(), identity.Interactive)
		calls := []*call{b.askAs(batch, nil, 1)}
		first := b.node.next(t)
		for i := range 3 { // none waits for the other priority
			calls = append(calls, b.askAs(other, nil, 10+i))
			if i < 2 {
				b.node.next(t).end <- nil
			}
		}
		last := b.node.next(t)
		for i := range 4 {
			calls = append(calls, b.askAs(batch, nil, span(100*(i+1), 30)...))
		}
		b.node.none(t)
		first.end <- nil
		first = b.node.next(t)
		assert.Len(t, first.Keys, 90, "until they are enough")
		b.node.none(t)
		last.end <- nil
		time.Sleep(urgent)
		for i := range 2 {
			calls = append(calls, b.askAs(batch, nil, span(1000*(i+1), 25)...))
		}
		second := b.node.next(t)
		assert.Len(t, second.Keys, 80, "enough wait, and other work is no more")
		first.end <- nil
		second.end <- nil
		for _, c := range calls {
			b.answered(c)
		}
	})
}

// Tables that do not merge are other work, too.
func TestBatchWorkGoesOneStatementAtATimeBesideReadsOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPrimed(t)
		calls := []*call{b.ask(t.Context(), nil, 1)}
		sent := b.node.next(t)
		calls = append(calls, b.askAs(as(t.Context(), identity.Interactive), func(q *executor.SubQuery) { q.Alone = true }, 2))
		b.node.next(t).end <- nil
		calls = append(calls, b.ask(t.Context(), nil, span(100, 80)...))
		b.node.none(t)
		sent.end <- nil
		b.node.next(t).end <- nil
		for _, c := range calls {
			b.answered(c)
		}
	})
}

// A hammer of many callers, some of which give up: each gets its own answers, and each that
// was sent is settled once.
func TestManyCallersAtOnce(t *testing.T) {
	var asked atomic.Int64
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(1, 2))
	n := executor.ReaderFunc(func(ctx context.Context, q *executor.SubQuery) ([]partition.Result, error) {
		asked.Add(1)
		mu.Lock()
		took := time.Duration(rng.IntN(300)) * time.Microsecond
		mu.Unlock()
		if q.Early != nil {
			q.Early.Receive(0, answer(q)[:1])
		}
		select {
		case <-time.After(took):
			q.Settled()
			return answer(q), nil
		case <-ctx.Done():
			time.AfterFunc(took, q.Settled)
			return nil, context.Cause(ctx)
		}
	})
	r, err := New(Config{Reader: n, Costs: costs})
	require.NoError(t, err)
	var all sync.WaitGroup
	var settled, sent atomic.Int64
	for c := range 16 {
		rng := rand.New(rand.NewPCG(uint64(c), 7))
		all.Go(func() {
			for range 300 {
				q := &executor.SubQuery{Query: newQuery(), Host: ring.Host{ID: strconv.Itoa(rng.IntN(2))}, Settled: func() { settled.Add(1) }}
				q.Early = &early{got: map[int]partition.Result{}}
				for _, k := range rng.Perm(30)[:1+rng.IntN(10)] {
					q.Keys = append(q.Keys, newKey(k))
				}
				ctx, cancel := context.WithTimeout(as(t.Context(), identity.Batch), time.Duration(200+rng.IntN(2000))*time.Microsecond)
				results, err := r.Read(ctx, q)
				cancel()
				if !errors.Is(err, executor.ErrUnsent) {
					sent.Add(1)
				}
				if err == nil {
					assert.Equal(t, answer(q), results)
				}
			}
		})
	}
	all.Wait()
	assert.Eventually(t, func() bool { return settled.Load() == sent.Load() }, 5*time.Second, time.Millisecond)
	assert.Less(t, asked.Load(), sent.Load())
	for _, id := range []string{"0", "1"} {
		q, _ := r.Queue(id)
		assert.Zero(t, q.InFlight+q.Waiting)
	}
}

func TestHostsThatHaveLeftAreForgotten(t *testing.T) {
	var current atomic.Pointer[ring.Ring]
	n := executor.ReaderFunc(func(_ context.Context, q *executor.SubQuery) ([]partition.Result, error) {
		q.Settled()
		return answer(q), nil
	})
	r, err := New(Config{Reader: n, Ring: current.Load, Costs: costs})
	require.NoError(t, err)
	ask := func(id string) {
		_, err := r.Read(t.Context(), &executor.SubQuery{Query: newQuery(), Host: ring.Host{ID: id}, Settled: func() {}, Keys: []partition.Key{newKey(1)}})
		require.NoError(t, err)
	}
	ask("a")
	ask("b")
	two, err := ring.New(ring.Topology{Hosts: []ring.Host{{ID: "b", Addr: "b", DC: "d", Rack: "r", Tokens: []int64{1}}, {ID: "c", Addr: "c", DC: "d", Rack: "r", Tokens: []int64{2}}}})
	require.NoError(t, err)
	current.Store(two)
	ask("c")
	var known []string
	for id := range *r.hosts.Load() {
		known = append(known, id)
	}
	slices.Sort(known)
	assert.Equal(t, []string{"b", "c"}, known)
}

func TestARemovedTableHasNoSeries(t *testing.T) {
	r := instant(t)
	series := func(tables ...[2]string) int {
		r.SetTables(tables)
		_, err := r.Read(t.Context(), benchQuery(3))
		require.NoError(t, err)
		return testutil.CollectAndCount(r.metrics.keys)
	}
	assert.Equal(t, 2, series([2]string{"ks", "t"}, [2]string{"ks", "other"}))
	assert.Equal(t, 1, series([2]string{"ks", "other"}), "a read that began before does not bring them back")
	assert.Zero(t, series())
}
