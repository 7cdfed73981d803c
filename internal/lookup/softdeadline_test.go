package lookup_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
)

const ms = time.Millisecond

// never is later than every deadline in these tests.
const never = time.Hour

// schedule answers each key after a time of its own, whichever host is asked, with
// one sub-query per key.
func (f *fixture) schedule(t *testing.T, at map[string]time.Duration) *lookup.Service {
	t.Helper()
	f.reads = func(ctx context.Context, q *executor.SubQuery) ([]partition.Result, error) {
		defer q.Settled()
		timer := time.NewTimer(at[string(q.Keys[0].Routing())])
		defer timer.Stop()
		select {
		case <-timer.C:
			return echo(ctx, &executor.SubQuery{Query: q.Query, Host: q.Host, Keys: q.Keys, Settled: func() {}})
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return f.single()
}

// ask runs a lookup whose keys are answered at the given times.
func (f *fixture) ask(t *testing.T, at []time.Duration, req lookup.Request) (resp *lookup.Response, took time.Duration) {
	t.Helper()
	names, times := make([]string, len(at)), make(map[string]time.Duration, len(at))
	for i, d := range at {
		names[i] = strconv.Itoa(i)
		times[names[i]] = d
	}
	s := f.schedule(t, times)
	var err error
	req.Table, err = s.Table("shop", "products")
	require.NoError(t, err)
	req.Keys = keys(t, names...)
	start := time.Now()
	resp, err = s.Get(t.Context(), &req)
	took = time.Since(start)
	require.NoError(t, err)
	assert.Equal(t, took, resp.Stats.Elapsed)
	return resp, took
}

func statuses(results []partition.Result) string {
	var out []byte
	for _, r := range results {
		out = append(out, r.Status.String()[0])
	}
	return string(out)
}

func TestSoftDeadlineEndsALookupThatHasWhatItNeeds(t *testing.T) {
	for name, tc := range map[string]struct {
		at       []time.Duration
		req      lookup.Request
		want     time.Duration
		statuses string
		says     string
	}{
		"at the nanosecond of the soft deadline when enough keys are there": {
			at:  []time.Duration{3 * ms, 4 * ms, never},
			req: lookup.Request{SoftDeadline: 20 * ms, MinKeys: 2}, want: 20 * ms, statuses: "FFT",
			says: "the lookup ended at its soft deadline of 20ms with 2 of 3 keys"},
		"as soon as the last needed key is there when it comes later": {
			at:  []time.Duration{3 * ms, 31*ms + 7, never, never},
			req: lookup.Request{SoftDeadline: 20 * ms, MinKeys: 2}, want: 31*ms + 7, statuses: "FFTT",
			says: "the lookup ended at its soft deadline of 20ms with 2 of 4 keys; those it needed were there after 31ms"},
		"at the deadline when too few ever are": {
			at:  []time.Duration{3 * ms, never, never},
			req: lookup.Request{SoftDeadline: 20 * ms, MinKeys: 2}, want: 125 * ms, statuses: "FTT",
			says: "no replica answered within 125ms"},
		"one key is enough without a number": {
			at:  []time.Duration{3 * ms, never},
			req: lookup.Request{SoftDeadline: 20 * ms}, want: 20 * ms, statuses: "FT",
			says: "with 1 of 2 keys"},
		"not before one is there": {
			at:  []time.Duration{22 * ms, never},
			req: lookup.Request{SoftDeadline: 20 * ms}, want: 22 * ms, statuses: "FT",
			says: "with 1 of 2 keys; those it needed were there after 22ms"},
		"before it when every key is there": {
			at:  []time.Duration{3 * ms, 4 * ms},
			req: lookup.Request{SoftDeadline: 20 * ms}, want: 4 * ms, statuses: "FF"},
		"optional keys do not count": {
			at:  []time.Duration{3 * ms, 30 * ms, never},
			req: lookup.Request{SoftDeadline: 20 * ms, MinKeys: 1, Optional: []bool{true, false, false}}, want: 30 * ms, statuses: "FFT",
			says: "with 2 of 3 keys"},
		"unless all are optional": {
			at:  []time.Duration{3 * ms, 30 * ms},
			req: lookup.Request{SoftDeadline: 20 * ms, MinKeys: 1, Optional: []bool{true, true}}, want: 20 * ms, statuses: "FT",
			says: "with 1 of 2 keys"},
		"one at the deadline has no effect": {
			at:  []time.Duration{3 * ms, never},
			req: lookup.Request{SoftDeadline: 40 * ms, Timeout: 40 * ms}, want: 40 * ms, statuses: "FT",
			says: "no replica answered within 40ms"},
		"one beyond the timeout of the table has no effect": {
			at:  []time.Duration{3 * ms, never},
			req: lookup.Request{SoftDeadline: time.Second}, want: 125 * ms, statuses: "FT",
			says: "no replica answered within 125ms"},
		"control: without one, every key is waited for": {
			at: []time.Duration{3 * ms, 4 * ms, never}, want: 125 * ms, statuses: "FFT",
			says: "no replica answered within 125ms"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				resp, took := newFixture(t).ask(t, tc.at, tc.req)
				assert.Equal(t, tc.want, took)
				assert.Equal(t, tc.statuses, statuses(resp.Results))
				for _, r := range resp.Results {
					if !r.Status.Answered() {
						require.ErrorContains(t, r.Err, tc.says)
						early := tc.want < 125*ms && tc.req.Timeout == 0
						assert.Equal(t, early, lookup.Agreed(&r))
					}
				}
			})
		})
	}
}

func TestOutstandingSubQueriesAreCancelledAtTheSoftDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		causes := make(chan error, 10)
		f.reads = func(ctx context.Context, q *executor.SubQuery) ([]partition.Result, error) {
			if string(q.Keys[0].Routing()) == "fast" {
				return echo(ctx, q)
			}
			defer q.Settled()
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return nil, ctx.Err()
		}
		s := f.single()
		table, err := s.Table("shop", "products")
		require.NoError(t, err)
		resp, err := s.Get(t.Context(), &lookup.Request{Table: table, Keys: keys(t, "fast", "slow"), SoftDeadline: 10 * ms, Trace: true})
		require.NoError(t, err)
		synctest.Wait()
		require.Len(t, causes, 1, "cancelled when the lookup ended, not at its deadline")
		assert.Error(t, <-causes)
		last := resp.Attempts[slices.IndexFunc(resp.Attempts, func(a lookup.Attempt) bool { return a.Keys[0] == 1 })]
		assert.Equal(t, executor.OutcomePending, last.Outcome)
		assert.Equal(t, 10*ms, last.End)
		assert.Equal(t, 125*ms, resp.Deadline)
		assert.Equal(t, 10*ms, resp.SoftDeadline)
	})
}

func TestAStreamEndsAtItsSoftDeadlineToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		s := f.schedule(t, map[string]time.Duration{"a": 2 * ms, "b": never, "c": 5 * ms})
		table, err := s.Table("shop", "products")
		require.NoError(t, err)
		type event struct {
			at     time.Duration
			key    int
			status partition.Status
		}
		var got []event
		start := time.Now()
		_, err = s.Stream(t.Context(), &lookup.Request{Table: table, Keys: keys(t, "a", "b", "c"), SoftDeadline: 8 * ms, MinKeys: 2},
			func(i int, r partition.Result) error {
				got = append(got, event{time.Since(start), i, r.Status})
				if i == 1 {
					assert.ErrorIs(t, r.Err, lookup.ErrSoftDeadline)
				}
				return nil
			})
		require.NoError(t, err)
		assert.Equal(t, []event{{2 * ms, 0, partition.Found}, {5 * ms, 2, partition.Found}, {8 * ms, 1, partition.TimedOut}}, got)
	})
}

// TestSoftDeadlineAgainstAReference compares random schedules with the contract,
// which a reference computes from the times alone.
func TestSoftDeadlineAgainstAReference(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		rng := rand.New(rand.NewPCG(seed, 1))
		n := 1 + rng.IntN(8)
		at, optional := make([]time.Duration, n), make([]bool, n)
		countable := 0
		for i := range at {
			// No two events at the same time: their order would be random.
			at[i] = time.Duration(1+rng.IntN(150))*ms + time.Duration(i+1)
			optional[i] = rng.IntN(4) == 0
			if !optional[i] {
				countable++
			}
		}
		if countable == 0 {
			countable = n
		}
		req := lookup.Request{Optional: optional, SoftDeadline: time.Duration(rng.IntN(150)) * ms}
		if req.SoftDeadline > 0 {
			req.MinKeys = rng.IntN(countable + 1)
		}

		// The reference.
		end := 125 * ms
		sorted := slices.Clone(at)
		slices.Sort(sorted)
		if last := sorted[n-1]; last < end {
			end = last
		}
		if soft := req.SoftDeadline; soft > 0 && soft < 125*ms {
			var needed []time.Duration
			for i, d := range at {
				if !optional[i] || countable == n && !slices.Contains(optional, false) {
					needed = append(needed, d)
				}
			}
			slices.Sort(needed)
			end = min(end, max(soft, needed[max(req.MinKeys, 1)-1]))
		}

		synctest.Test(t, func(t *testing.T) {
			resp, took := newFixture(t).ask(t, at, req)
			require.Equal(t, end, took, "%v %+v", at, req)
			for i, r := range resp.Results {
				require.Equal(t, at[i] <= end, r.Status == partition.Found, "key %d of %v at %s", i, at, end)
				if r.Status != partition.Found {
					require.Equal(t, end < 125*ms, lookup.Agreed(&r))
				}
			}
		})
	})
}

func TestOptionalKeysAreShedUnread(t *testing.T) {
	for name, tc := range map[string]struct {
		names    []string
		optional []bool
		shed     bool
		statuses string
		read     []string
	}{
		"when it is so decided":                      {[]string{"a", "b", "c"}, []bool{false, true, true}, true, "FSS", []string{"a"}},
		"control: not before":                        {[]string{"a", "b", "c"}, []bool{false, true, true}, false, "FFF", []string{"a", "b", "c"}},
		"none when none is optional":                 {[]string{"a", "b"}, nil, true, "FF", []string{"a", "b"}},
		"all when all are":                           {[]string{"a", "b"}, []bool{true, true}, true, "SS", nil},
		"not one that a needed key names as well":    {[]string{"x", "a", "b", "a", "b", "a"}, []bool{true, true, true, false, false, false}, true, "SFFFFF", []string{"a", "b"}},
		"a partition that only optional keys name":   {[]string{"a", "b", "a"}, []bool{true, false, true}, true, "SFS", []string{"b"}},
		"needed ones that are repeated keep in step": {[]string{"o", "a", "a", "b"}, []bool{true, false, false, false}, true, "SFFF", []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				read := make(chan string, 10)
				f.reads = func(ctx context.Context, q *executor.SubQuery) ([]partition.Result, error) {
					for _, k := range q.Keys {
						read <- string(k.Routing())
					}
					return echo(ctx, q)
				}
				asked := keys(t, tc.names...)
				resp, err := f.Get(t.Context(), &lookup.Request{Table: f.table(t), Keys: asked, Optional: tc.optional, ShedOptional: tc.shed, Trace: true})
				require.NoError(t, err)
				close(read)
				var got []string
				for k := range read {
					got = append(got, k)
				}
				assert.ElementsMatch(t, tc.read, got)
				assert.Equal(t, tc.statuses, statuses(resp.Results))
				for i, r := range resp.Results {
					if r.Status == partition.Shed {
						assert.ErrorIs(t, r.Err, lookup.ErrOptionalShed)
						assert.True(t, lookup.Agreed(&r))
						assert.Equal(t, -1, resp.Plan.Keys[i].Group)
					} else {
						assert.Equal(t, asked[i].Routing(), r.Rows[0][0])
						assert.GreaterOrEqual(t, resp.Plan.Keys[i].Group, 0)
					}
				}
				refused := strings.Count(tc.statuses, "S")
				assert.Equal(t, refused, resp.Stats.Refused, "they break no promise")
				for _, a := range resp.Attempts {
					for _, i := range a.Keys {
						assert.False(t, i < len(tc.optional) && tc.optional[i] && tc.statuses[i] == 'S')
					}
				}
			})
		})
	}
}

func TestWordsOnWhenToAnswerAreChecked(t *testing.T) {
	f := newFixture(t)
	for name, tc := range map[string]struct {
		req         lookup.Request
		field, says string
	}{
		"beyond the timeout":           {lookup.Request{SoftDeadline: 80 * ms, Timeout: 50 * ms}, "soft_deadline", "80ms is more than the timeout of 50ms"},
		"negative":                     {lookup.Request{SoftDeadline: -1}, "soft_deadline", "negative"},
		"a negative number":            {lookup.Request{SoftDeadline: ms, MinKeys: -1}, "min_keys", "-1 is negative"},
		"a number without a moment":    {lookup.Request{MinKeys: 1}, "min_keys", "set soft_deadline, too"},
		"more than there are":          {lookup.Request{SoftDeadline: ms, MinKeys: 3}, "min_keys", "3 is more than the 2 keys"},
		"more than those that count":   {lookup.Request{SoftDeadline: ms, MinKeys: 2, Optional: []bool{true, false}}, "min_keys", "2 is more than the 1 key"},
		"marks for other keys":         {lookup.Request{Optional: []bool{true}}, "optional_keys", "1 marks for 2 keys"},
		"fine: all that count":         {lookup.Request{SoftDeadline: ms, MinKeys: 2}, "", ""},
		"fine: all are optional":       {lookup.Request{SoftDeadline: ms, MinKeys: 2, Optional: []bool{true, true}}, "", ""},
		"fine: exactly at the timeout": {lookup.Request{SoftDeadline: 50 * ms, Timeout: 50 * ms}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			tc.req.Table, tc.req.Keys = f.table(t), keys(t, "a", "b")
			_, err := f.Get(t.Context(), &tc.req)
			if tc.field == "" {
				require.NoError(t, err)
				return
			}
			var refused *lookup.Error
			require.ErrorAs(t, err, &refused)
			assert.ErrorIs(t, err, lookup.ErrInvalid)
			assert.Equal(t, tc.field, refused.Field)
			assert.Contains(t, refused.Message, tc.says)
		})
	}
}
