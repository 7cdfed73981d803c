package lookup_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/planner"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
)

var text = &cqltype.Type{Kind: cqltype.Text}

// products is shop.products with a key and two columns.
var products = schema.NewTable("shop", "products", "id", []schema.Column{
	{Name: "id", Type: text, Kind: schema.PartitionKey},
	{Name: "name", Type: text, Kind: schema.Regular},
	{Name: "secret", Type: text, Kind: schema.Regular},
})

func TestFewHedgesHoldAlwaysBack(t *testing.T) {
	for name, few := range map[string]bool{"with few hedges": true, "control: without": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				always, err := hedge.ParsePolicy("ALWAYS")
				require.NoError(t, err)
				table, err := f.Table("shop", "products")
				require.NoError(t, err)
				settings := *table.Settings
				settings.SpeculativeRetry = always
				table.Settings = &settings
				key, err := partition.NewKey([]byte("a"))
				require.NoError(t, err)
				resp, err := f.Get(t.Context(), &lookup.Request{Table: table, Keys: []partition.Key{key}, FewHedges: few})
				require.NoError(t, err)
				assert.Equal(t, few, resp.Stats.Hedges == 0)
			})
		})
	}
}

// fixture is a service over three hosts whose reads call a function.
type fixture struct {
	*lookup.Service
	executor *executor.Executor
	snapshot *ring.Ring
	schema   *schema.Schema
	reads    func(ctx context.Context, q *executor.SubQuery) ([]partition.Result, error)
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	snapshot, err := ring.New(ring.Topology{
		Hosts: []ring.Host{
			{ID: "a", Addr: "10.0.0.1:9042", DC: "dc1", Rack: "r1", Tokens: []int64{-4 << 60}},
			{ID: "b", Addr: "10.0.0.2:9042", DC: "dc1", Rack: "r2", Tokens: []int64{0}},
			{ID: "c", Addr: "10.0.0.3:9042", DC: "dc1", Rack: "r3", Tokens: []int64{4 << 60}},
		},
		Keyspaces: map[string]ring.Replication{"shop": {Strategy: "SimpleStrategy", Factor: 2}},
		LocalDC:   "dc1",
	})
	require.NoError(t, err)
	f := &fixture{snapshot: snapshot, schema: schema.New([]*schema.Table{products}), reads: echo}
	e := executor.New(executor.Config{
		Ring:   func() *ring.Ring { return f.snapshot },
		Reader: executor.ReaderFunc(func(ctx context.Context, q *executor.SubQuery) ([]partition.Result, error) { return f.reads(ctx, q) }),
	})
	t.Cleanup(e.Close)
	f.executor = e
	f.Service = lookup.New(lookup.Config{
		Tables: []lookup.Settings{{
			Keyspace: "shop", Table: "products", Columns: []string{"id", "name", "planned"}, Consistency: "LOCAL_ONE",
			Timeout: 125 * time.Millisecond, SpeculativeRetry: hedge.Fixed(15 * time.Millisecond), HedgeBudget: 0.02,
			MaxKeys: 100, MaxRowsPerKey: 10, MaxResponseBytes: 1000,
		}, {Keyspace: "shop", Table: "dropped"}},
		Ring:     func() *ring.Ring { return f.snapshot },
		Schema:   func() *schema.Schema { return f.schema },
		Executor: e,
	})
	return f
}

// single returns the service with one sub-query per key, never hedged.
func (f *fixture) single() *lookup.Service {
	return lookup.New(lookup.Config{
		Tables: []lookup.Settings{{
			Keyspace: "shop", Table: "products", Timeout: 125 * time.Millisecond, Grouping: planner.Single,
			MaxKeys: 100, MaxRowsPerKey: 10, MaxResponseBytes: 1000,
		}},
		Ring:     func() *ring.Ring { return f.snapshot },
		Schema:   func() *schema.Schema { return f.schema },
		Executor: f.executor,
	})
}

// echo answers each key with one row whose first cell is the key.
func echo(_ context.Context, q *executor.SubQuery) ([]partition.Result, error) {
	defer q.Settled()
	results := make([]partition.Result, len(q.Keys))
	for i, k := range q.Keys {
		results[i] = partition.Result{Status: partition.Found, Rows: []partition.Row{{k.Routing()}}, Bytes: len(k.Routing())}
	}
	return results, nil
}

func keys(t *testing.T, names ...string) []partition.Key {
	t.Helper()
	out := make([]partition.Key, len(names))
	for i, n := range names {
		k, err := partition.NewKey([]byte(n))
		require.NoError(t, err)
		out[i] = k
	}
	return out
}

func (f *fixture) table(t *testing.T) *lookup.Table {
	t.Helper()
	table, err := f.Table("shop", "products")
	require.NoError(t, err)
	return table
}

func TestGetAnswersEveryPositionAndReadsEachPartitionOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		read := make(chan string, 100)
		f.reads = func(ctx context.Context, q *executor.SubQuery) ([]partition.Result, error) {
			for _, k := range q.Keys {
				read <- string(k.Routing())
			}
			return echo(ctx, q)
		}
		asked := keys(t, "a", "b", "a", "c", "a")
		resp, err := f.Get(t.Context(), &lookup.Request{Table: f.table(t), Keys: asked})
		require.NoError(t, err)
		require.Len(t, resp.Results, len(asked))
		for i, r := range resp.Results {
			assert.Equal(t, partition.Found, r.Status)
			assert.Equal(t, asked[i].Routing(), r.Rows[0][0])
		}
		assert.Len(t, read, 3, "a is read once")
		assert.Equal(t, 5, resp.Stats.Keys)
		assert.Equal(t, resp.Stats.Groups, resp.Stats.SubQueries)
	})
}

func TestResponseStaysWithinItsSize(t *testing.T) {
	f := newFixture(t)
	f.reads = func(_ context.Context, q *executor.SubQuery) ([]partition.Result, error) {
		defer q.Settled()
		results := make([]partition.Result, len(q.Keys))
		for i := range results {
			results[i] = partition.Result{Status: partition.Found, Rows: []partition.Row{{make([]byte, 300)}}, Bytes: 300}
		}
		return results, nil
	}
	resp, err := f.Get(t.Context(), &lookup.Request{Table: f.table(t), Keys: keys(t, "a", "b", "c", "d", "a")})
	require.NoError(t, err)
	found := 0
	for _, r := range resp.Results {
		if r.Status == partition.Found {
			found++
			continue
		}
		assert.Equal(t, partition.TooLarge, r.Status)
		assert.ErrorIs(t, r.Err, lookup.ErrResponseTooLarge)
		assert.Empty(t, r.Rows)
	}
	assert.Equal(t, 3, found, "1,000 bytes hold three rows of 300, repeated keys counted")
}

func TestStreamEndsWhenTheClientIsGone(t *testing.T) {
	f := newFixture(t)
	gone := errors.New("gone")
	emitted := 0
	_, err := f.Stream(t.Context(), &lookup.Request{Table: f.table(t), Keys: keys(t, "a", "b", "c")}, func(int, partition.Result) error {
		emitted++
		return gone
	})
	require.ErrorIs(t, err, gone)
	assert.Equal(t, 1, emitted)
}

func TestLookupEndsAtItsDeadlineWithWhatHasAnswered(t *testing.T) {
	for name, tc := range map[string]struct {
		timeout, context, want time.Duration
	}{
		"the table's timeout without another":     {want: 125 * time.Millisecond},
		"the request's own timeout":               {timeout: 40 * time.Millisecond, want: 40 * time.Millisecond},
		"the deadline of the context":             {context: 300 * time.Millisecond, want: 300 * time.Millisecond},
		"the earlier of both when both are there": {timeout: 500 * time.Millisecond, context: 60 * time.Millisecond, want: 60 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				silent := "c"
				f.reads = func(ctx context.Context, q *executor.SubQuery) ([]partition.Result, error) {
					results, err := echo(ctx, &executor.SubQuery{Query: q.Query, Host: q.Host, Keys: q.Keys, Settled: func() {}})
					for _, k := range q.Keys {
						if string(k.Routing()) == silent {
							<-ctx.Done()
							err = ctx.Err()
						}
					}
					q.Settled()
					return results, err
				}
				ctx := t.Context()
				if tc.context > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tc.context)
					defer cancel()
				}
				start := time.Now()
				resp, err := f.Get(ctx, &lookup.Request{Table: f.table(t), Keys: keys(t, "c"), Timeout: tc.timeout})
				require.NoError(t, err)
				assert.Equal(t, tc.want, time.Since(start))
				assert.Equal(t, partition.TimedOut, resp.Results[0].Status)
				assert.Error(t, resp.Results[0].Err)
			})
		})
	}
}

func TestRequestsThatBreakARuleNameTheField(t *testing.T) {
	f := newFixture(t)
	many := make([]string, 101)
	for i := range many {
		many[i] = strconv.Itoa(i)
	}
	for name, tc := range map[string]struct {
		req   lookup.Request
		field string
		says  string
	}{
		"no key":              {field: "keys", says: "at least one key"},
		"too many keys":       {req: lookup.Request{Keys: keys(t, many...)}, field: "keys", says: "more than the 100 (max_keys)"},
		"a negative limit":    {req: lookup.Request{Keys: keys(t, "a"), LimitPerKey: -1}, field: "limit_per_key", says: "negative"},
		"a limit beyond most": {req: lookup.Request{Keys: keys(t, "a"), LimitPerKey: 11}, field: "limit_per_key", says: "max_rows_per_key"},
		"a negative timeout":  {req: lookup.Request{Keys: keys(t, "a"), Timeout: -1}, field: "timeout", says: "negative"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.req.Table = f.table(t)
			for _, call := range []func() error{
				func() error { _, err := f.Get(t.Context(), &tc.req); return err },
				func() error { _, err := f.Explain(t.Context(), &tc.req); return err },
				func() error {
					_, err := f.Stream(t.Context(), &tc.req, func(int, partition.Result) error { return nil })
					return err
				},
			} {
				err := call()
				require.ErrorIs(t, err, lookup.ErrInvalid)
				var refused *lookup.Error
				require.ErrorAs(t, err, &refused)
				assert.Equal(t, tc.field, refused.Field)
				assert.Contains(t, refused.Message, tc.says)
			}
		})
	}
}

func TestTableSaysWhyItMayNotBeRead(t *testing.T) {
	f := newFixture(t)
	f.schema = schema.New([]*schema.Table{products, schema.NewTable("shop", "users", "", nil)})
	_, err := f.Table("shop", "users")
	assert.ErrorIs(t, err, lookup.ErrForbidden)
	_, err = f.Table("shop", "nothing")
	assert.ErrorIs(t, err, lookup.ErrUnknownTable)
	_, err = f.Table("shop", "dropped")
	assert.ErrorIs(t, err, lookup.ErrUnknownTable, "listed, but not in the cluster")
	assert.Len(t, f.Tables(), 1)

	f.schema = nil
	_, err = f.Table("shop", "products")
	require.ErrorIs(t, err, lookup.ErrNotReady)
	assert.ErrorContains(t, err, "retry in a moment")
}

func TestGetIsRefusedBeforeTheRingIsKnown(t *testing.T) {
	f := newFixture(t)
	table := f.table(t)
	f.snapshot = nil
	_, err := f.Get(t.Context(), &lookup.Request{Table: table, Keys: keys(t, "a")})
	assert.ErrorIs(t, err, lookup.ErrNotReady)
}

func TestSelect(t *testing.T) {
	table := newFixture(t).table(t)
	all, err := table.Select(nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"id", "name"}, names(all), "what may be read and exists, in the order of SELECT *")

	some, err := table.Select([]string{"name", "id"})
	require.NoError(t, err)
	assert.Equal(t, []string{"name", "id"}, names(some), "in the asked order")

	for asked, kind := range map[string]error{"secret": lookup.ErrForbidden, "nothing": lookup.ErrInvalid, "name": lookup.ErrInvalid} {
		_, err = table.Select([]string{"name", asked})
		require.ErrorIs(t, err, kind, asked)
		var refused *lookup.Error
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, "columns[1]", refused.Field)
	}
}

func names(columns []schema.Column) []string {
	var out []string
	for _, c := range columns {
		out = append(out, c.Name)
	}
	return out
}

func TestNarrowedToAClient(t *testing.T) {
	f := newFixture(t) // which lists id, name and planned, of id, name and secret
	table, err := f.Table("shop", "products")
	require.NoError(t, err)
	for what, c := range map[string]struct {
		only, ask []string
		want      string
	}{
		"no limit":                      {nil, nil, "id name"},
		"one column":                    {[]string{"name"}, nil, "name"},
		"it cannot widen":               {[]string{"name", "secret"}, nil, "name"},
		"nothing is left":               {[]string{"secret", "ghost"}, nil, "not allowed"},
		"asked and allowed":             {[]string{"name"}, []string{"name"}, "name"},
		"asked, not of the client":      {[]string{"name"}, []string{"id"}, "not allowed"},
		"asked, not of the table":       {nil, []string{"secret"}, "not allowed"},
		"asked, does not exist":         {nil, []string{"ghost"}, "not allowed"},
		"asked, allowed, not there yet": {nil, []string{"planned"}, "invalid argument"},
	} {
		columns, err := table.Narrow(c.only).Select(c.ask)
		var names []string
		for _, column := range columns {
			names = append(names, column.Name)
		}
		got := strings.Join(names, " ")
		if err != nil {
			got = errors.Unwrap(err).Error()
		}
		assert.Equal(t, c.want, got, what)
	}
	assert.Len(t, table.Columns, 2, "the table itself is as it was")
	secret, ghost := table.Narrow(nil), table.Narrow(nil)
	_, denied := secret.Select([]string{"secret"})
	_, absent := ghost.Select([]string{"ghost"})
	assert.Equal(t, strings.ReplaceAll(denied.Error(), "secret", "X"), strings.ReplaceAll(absent.Error(), "ghost", "X"), "what exists is not told")
}

func TestExplainReadsNothingAndAgreesWithTheRing(t *testing.T) {
	f := newFixture(t)
	f.reads = func(context.Context, *executor.SubQuery) ([]partition.Result, error) {
		t.Error("Explain must not read")
		return nil, nil
	}
	asked := keys(t, "a", "a", "b")
	plan, err := f.Explain(t.Context(), &lookup.Request{Table: f.table(t), Keys: asked})
	require.NoError(t, err)
	require.Len(t, plan.Keys, 3)
	placement, _ := f.snapshot.Placement("shop")
	for i, k := range plan.Keys {
		token := ring.Token(asked[i].Routing())
		assert.Equal(t, token, k.Token)
		var want []ring.Host
		for _, h := range placement.Replicas(token) {
			want = append(want, f.snapshot.Host(h))
		}
		assert.Equal(t, want, k.Replicas)
		assert.Contains(t, want, plan.Groups[k.Group].Host, "a group is asked of a replica")
	}
	assert.Equal(t, plan.Keys[0].Group, plan.Keys[1].Group)
	var positions []int
	for _, g := range plan.Groups {
		positions = append(positions, g.Keys...)
	}
	assert.ElementsMatch(t, []int{0, 2}, positions, "first occurrences, by position in the request")
}

func TestSettingsOfTheTableReachTheReader(t *testing.T) {
	for name, tc := range map[string]struct {
		req  lookup.Request
		want executor.Query
	}{
		"without a word of the caller": {
			want: executor.Query{Consistency: "LOCAL_ONE", Limit: 10, Strict: true, MaxBytes: 1000},
		},
		"with a limit, rows beyond it are left out": {
			req:  lookup.Request{LimitPerKey: 3},
			want: executor.Query{Consistency: "LOCAL_ONE", Limit: 3, MaxBytes: 1000},
		},
		"with a consistency level": {
			req:  lookup.Request{Consistency: "LOCAL_QUORUM"},
			want: executor.Query{Consistency: "LOCAL_QUORUM", Limit: 10, Strict: true, MaxBytes: 1000},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				var got executor.Query
				f.reads = func(ctx context.Context, q *executor.SubQuery) ([]partition.Result, error) {
					got = *q.Query
					return echo(ctx, q)
				}
				all := f.table(t).Columns
				tc.req.Table, tc.req.Keys = f.table(t).Narrow([]string{"id"}), keys(t, "a")
				_, err := f.Get(t.Context(), &tc.req)
				require.NoError(t, err)
				tc.want.Table, tc.want.Columns = products, tc.req.Table.Columns
				require.Less(t, len(tc.want.Columns), len(all))
				tc.want.Readable = all // of the table, whatever this client may read
				assert.Equal(t, tc.want, got)
			})
		})
	}
}

func TestTheLocalRackIsPreferred(t *testing.T) {
	f := newFixture(t)
	local := lookup.New(lookup.Config{
		Tables:    []lookup.Settings{{Keyspace: "shop", Table: "products", MaxKeys: 100, MaxRowsPerKey: 1, MaxResponseBytes: 1000, Timeout: time.Second}},
		Ring:      func() *ring.Ring { return f.snapshot },
		Schema:    func() *schema.Schema { return f.schema },
		Executor:  f.executor,
		LocalRack: "r2",
	})
	placement, _ := f.snapshot.Placement("shop")
	table, err := local.Table("shop", "products")
	require.NoError(t, err)
	near := 0
	for i := range 200 {
		key := keys(t, strconv.Itoa(i))
		plan, err := local.Explain(t.Context(), &lookup.Request{Table: table, Keys: key})
		require.NoError(t, err)
		for _, h := range placement.Replicas(ring.Token(key[0].Routing())) {
			if f.snapshot.Host(h).Rack == "r2" {
				near++
				assert.Equal(t, "r2", plan.Groups[0].Host.Rack, "a replica there is asked")
			}
		}
	}
	assert.NotZero(t, near)
}

func TestTraceTellsEverySubQuery(t *testing.T) {
	f := newFixture(t)
	resp, err := f.Get(t.Context(), &lookup.Request{Table: f.table(t), Keys: keys(t, "a", "a", "b", "c"), Trace: true})
	require.NoError(t, err)
	require.Len(t, resp.Attempts, resp.Stats.SubQueries)
	var positions []int
	for _, a := range resp.Attempts {
		assert.Equal(t, executor.KindFirst, a.Kind)
		assert.Equal(t, executor.OutcomeWon, a.Outcome)
		positions = append(positions, a.Keys...)
	}
	assert.ElementsMatch(t, []int{0, 2, 3}, positions, "first occurrences, by position in the request")
	require.NotNil(t, resp.Plan)
}

func BenchmarkGet50Keys(b *testing.B) {
	f := newFixture(&testing.T{})
	table, err := f.Table("shop", "products")
	if err != nil {
		b.Fatal(err)
	}
	asked := make([]partition.Key, 50)
	for i := range asked {
		asked[i], _ = partition.NewKey(fmt.Appendf(nil, "key-%d", i))
	}
	req := &lookup.Request{Table: table, Keys: asked}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Get(b.Context(), req); err != nil {
			b.Fatal(err)
		}
	}
}

// Code that compares levels after a lookup has begun expects upper case.
func TestConsistencyIsInUpperCaseFromTheBeginning(t *testing.T) {
	for name, test := range map[string]struct{ table, request, want partition.Level }{
		"of the table":                     {"local_quorum", "", "LOCAL_QUORUM"},
		"of the request":                   {"LOCAL_ONE", "Node_Local", "NODE_LOCAL"},
		"that is in upper case as it is":   {"LOCAL_ONE", "ONE", "ONE"},
		"of the table, that no one shares": {"All", "", "ALL"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			var got partition.Level
			f.reads = func(ctx context.Context, q *executor.SubQuery) ([]partition.Result, error) {
				got = q.Consistency
				return echo(ctx, q)
			}
			f.SetTables([]lookup.Settings{{
				Keyspace: "shop", Table: "products", Consistency: test.table, Timeout: time.Second, MaxKeys: 1, MaxRowsPerKey: 1, MaxResponseBytes: 1000,
			}})
			table, err := f.Table("shop", "products")
			require.NoError(t, err)
			_, err = f.Get(t.Context(), &lookup.Request{Table: table, Keys: keys(t, "a"), Consistency: test.request})
			require.NoError(t, err)
			assert.Equal(t, test.want, got)
		})
	}
}
