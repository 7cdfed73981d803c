package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/memory"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/reasons"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// respond returns a lookup that ends with the given results.
func respond(results ...partition.Result) func(context.Context, *lookup.Request) (*lookup.Response, error) {
	return func(context.Context, *lookup.Request) (*lookup.Response, error) {
		return &lookup.Response{Results: append([]partition.Result(nil), results...), Stats: lookup.Stats{
			Keys: len(results), Groups: 2, SubQueries: 3, Hedges: 1, Elapsed: 50*time.Millisecond + 200*time.Microsecond}}, nil
	}
}

var (
	errLate = errors.New("no replica answered within 50ms")
	late    = partition.Unanswered(reasons.Deadline, errLate)
	absent  = partition.Result{Status: partition.NotFound}
)

func kettle(t testing.TB, tbl *lookup.Table) partition.Result {
	return partition.Result{Status: partition.Found, Rows: []partition.Row{{
		cell(t, tbl.Schema.Columns[1].Type, `"Kettle"`), cell(t, tbl.Schema.Columns[2].Type, `19.5`)}}}
}

func TestAPartialAnswerIsTheContractsExample(t *testing.T) {
	tbl := products(t)
	d := open(t, Deps{Lookup: &fake{tables: []*lookup.Table{tbl}, get: respond(kettle(t, tbl), absent, late)}})

	w := do(d.http.Handler, http.MethodPost, "/v1/ks/products:batchGet",
		"{\"keys\": [\"sku-1\",\t\"nope\", \"sku-9\"], \"columns\": [\"name\",\"price\"], \"timeout\": \"50ms\"}")
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	// Exact to the byte, including the order of members.
	want := `{"results":[{"key":"sku-1","status":"FOUND","rows":[{"name":"Kettle","price":19.5}]},` +
		`{"key":"nope","status":"NOT_FOUND"},` +
		`{"key":"sku-9","status":"TIMED_OUT","reason":"deadline","error":"no replica answered within 50ms"}],` +
		`"partial":true,"unprocessed_keys":["sku-9"],` +
		`"stats":{"keys":3,"groups":2,"sub_queries":3,"hedges":1,"failovers":0,"coalesced":0,"elapsed_ms":50.2}}` + "\n"
	assert.Equal(t, []byte(want), w.Body.Bytes(), "%s", w.Body)
	assert.Equal(t, "PARTIAL", d.observed.last())
	assert.Equal(t, "ks.products", d.observed.table)
	assert.Equal(t, 3, d.observed.keys)
	assert.Len(t, d.observed.resp.Results, 3)

	resp, err := d.rpc.BatchGet(t.Context(), &qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "products",
		Keys: []*qosproxyv1.Key{key(text("sku-1")), key(text("nope")), key(text("sku-9"))}, Columns: []string{"name", "price"}})
	require.NoError(t, err)
	assert.True(t, resp.GetPartial())
	assert.Equal(t, []int32{2}, resp.GetUnprocessedKeys())
	assert.Equal(t, "Kettle", resp.GetResults()[0].GetRows()[0].GetValues()[0].GetText())
	assert.InDelta(t, 19.5, resp.GetResults()[0].GetRows()[0].GetValues()[1].GetDouble(), 0)
	assert.Equal(t, qosproxyv1.KeyStatus_KEY_STATUS_NOT_FOUND, resp.GetResults()[1].GetStatus())
	assert.Equal(t, errLate.Error(), resp.GetResults()[2].GetError())
	assert.Equal(t, qosproxyv1.Reason_REASON_DEADLINE, resp.GetResults()[2].GetReason())
	assert.Equal(t, []string{"name", "price"}, []string{resp.GetColumns()[0].GetName(), resp.GetColumns()[1].GetName()})
	assert.Equal(t, qosproxyv1.TypeKind_TYPE_KIND_DOUBLE, resp.GetColumns()[1].GetType().GetKind())
	assert.EqualValues(t, 3, resp.GetStats().GetSubQueries())
	assert.Equal(t, "PARTIAL", d.observed.last())
}

func TestKeysAreEchoedAsTheyWereSent(t *testing.T) {
	tbl := table(t, "wide", 2, "a text", "B bigint")
	d := open(t, Deps{Lookup: &fake{tables: []*lookup.Table{tbl}, get: respond(absent, late, absent)}})
	w := do(d.http.Handler, http.MethodPost, "/v1/ks/wide:batchGet",
		`{"keys":[ [ "a \" b", 9007199254740993 ], {"\"B\"" : "7", "a":"\u0041 \\"}, ["a \" b",9007199254740993]]}`)
	require.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
	assert.Contains(t, w.Body.String(), `[{"key":["a \" b",9007199254740993],"status":"NOT_FOUND"},{"key":{"\"B\"":"7","a":"\u0041 \\"},`)
	assert.Contains(t, w.Body.String(), `"unprocessed_keys":[{"\"B\"":"7","a":"\u0041 \\"}]`)
}

func TestOneKeyByItsPath(t *testing.T) {
	tbl := products(t)
	found := kettle(t, tbl)
	for name, c := range map[string]struct {
		result partition.Result
		status int
		code   string
		cache  string
	}{
		"found":       {found, 200, "OK", ""},
		"not found":   {absent, 404, "OK", "no-store"},
		"timed out":   {late, 504, "DEADLINE_EXCEEDED", "no-store"},
		"shed":        {partition.Result{Status: partition.Shed}, 429, "RESOURCE_EXHAUSTED", "no-store"},
		"unavailable": {partition.Result{Status: partition.Unavailable}, 503, "UNAVAILABLE", "no-store"},
	} {
		t.Run(name, func(t *testing.T) {
			var asked *lookup.Request
			d := open(t, Deps{Lookup: &fake{tables: []*lookup.Table{tbl}, get: func(ctx context.Context, req *lookup.Request) (*lookup.Response, error) {
				asked = req
				return respond(c.result)(ctx, req)
			}}})
			w := do(d.http.Handler, http.MethodGet, "/v1/ks/products/a%2F%20..%2F%22?columns=name,price&limit_per_key=7&timeout=20ms", "")
			assert.Equal(t, c.status, w.Code)
			assert.Contains(t, w.Body.String(), `{"results":[{"key":"a/ ../\"","status":"`+c.result.Status.String()+`"`)
			assert.Equal(t, c.code, d.observed.last())
			assert.Equal(t, c.cache, w.Header().Get("Cache-Control"))
			assert.Equal(t, `a/ ../"`, string(asked.Keys[0].Routing()))
			assert.Equal(t, 7, asked.LimitPerKey)
			assert.Equal(t, 20*time.Millisecond, asked.Timeout)
			assert.Len(t, asked.Columns, 2)
		})
	}
}

func TestALookupWithoutAnyAnswerFailsWithItsWorstStatus(t *testing.T) {
	of := func(s partition.Status) partition.Result { return partition.Result{Status: s} }
	for name, c := range map[string]struct {
		results []partition.Result
		code    codes.Code
		http    int
		retry   bool
		left    int
	}{
		"all timed out":             {[]partition.Result{late, late}, codes.DeadlineExceeded, 504, false, 2},
		"all unavailable":           {[]partition.Result{of(partition.Unavailable)}, codes.Unavailable, 503, true, 1},
		"all shed":                  {[]partition.Result{of(partition.Shed)}, codes.ResourceExhausted, 429, true, 1},
		"all failed":                {[]partition.Result{of(partition.Failed)}, codes.Unavailable, 503, false, 0},
		"all too large":             {[]partition.Result{of(partition.TooLarge)}, codes.FailedPrecondition, 413, false, 0},
		"shed before all others":    {[]partition.Result{late, of(partition.Unavailable), of(partition.Failed), of(partition.Shed)}, codes.ResourceExhausted, 429, true, 3},
		"unavailable before late":   {[]partition.Result{late, of(partition.Unavailable)}, codes.Unavailable, 503, true, 2},
		"late before failed":        {[]partition.Result{of(partition.Failed), late}, codes.DeadlineExceeded, 504, false, 1},
		"failed before too large":   {[]partition.Result{of(partition.TooLarge), of(partition.Failed)}, codes.Unavailable, 503, false, 0},
		"more than a header's keys": {make([]partition.Result, 0, 90), codes.DeadlineExceeded, 504, false, 90},
	} {
		t.Run(name, func(t *testing.T) {
			if len(c.results) == 0 {
				long := partition.Result{Status: partition.TimedOut, Err: errors.New(strings.Repeat("x", 100))}
				c.results = slices.Repeat([]partition.Result{long}, cap(c.results))
			}
			d := open(t, Deps{Lookup: &fake{tables: []*lookup.Table{products(t)}, get: respond(c.results...)}})
			in := &qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "products"}
			in.Keys = slices.Repeat([]*qosproxyv1.Key{key(text("a"))}, len(c.results))
			body := `{"keys":["a"` + strings.Repeat(`,"a"`, len(c.results)-1)
			_, err := d.rpc.BatchGet(t.Context(), in)
			assert.Equal(t, c.code, status.Code(err))
			assert.Equal(t, c.retry, detail[*errdetails.RetryInfo](err) != nil)
			resp := detail[*qosproxyv1.BatchGetResponse](err)
			require.NotNil(t, resp)
			assert.Len(t, resp.GetResults(), len(c.results))
			assert.Len(t, resp.GetUnprocessedKeys(), c.left)
			assert.LessOrEqual(t, proto.Size(resp), maxDetailBytes)

			w := do(d.http.Handler, http.MethodPost, "/v1/ks/products:batchGet", body+"]}")
			assert.Equal(t, c.http, w.Code)
			assert.Equal(t, c.retry, w.Header().Get("Retry-After") != "")
			assert.Contains(t, w.Body.String(), `"partial":true`)
			assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
		})
	}
}

func TestACellThatCannotBeDecodedFailsItsKeyAlone(t *testing.T) {
	tbl := products(t)
	broken := partition.Result{Status: partition.Found, Rows: []partition.Row{{{0xff}, nil}}}
	short := partition.Result{Status: partition.Found, Rows: []partition.Row{{nil}}}
	d := open(t, Deps{Lookup: &fake{tables: []*lookup.Table{tbl}, get: respond(kettle(t, tbl), broken, short)}})
	w := do(d.http.Handler, http.MethodPost, "/v1/ks/products:batchGet", `{"keys":["a","b","c"],"columns":["name","price"]}`)
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Contains(t, w.Body.String(), `{"key":"b","status":"FAILED","reason":"undecodable","error":"a cell is not`)
	assert.Contains(t, w.Body.String(), `{"key":"c","status":"FAILED","reason":"undecodable","error":"a cell is not`)
	assert.Contains(t, w.Body.String(), `"partial":true,"unprocessed_keys":[]`)

	resp, err := d.rpc.BatchGet(t.Context(), &qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "products",
		Keys: []*qosproxyv1.Key{key(text("a")), key(text("b")), key(text("c"))}, Columns: []string{"name", "price"}})
	require.NoError(t, err)
	assert.Equal(t, qosproxyv1.KeyStatus_KEY_STATUS_FOUND, resp.GetResults()[0].GetStatus())
	assert.Equal(t, qosproxyv1.KeyStatus_KEY_STATUS_FAILED, resp.GetResults()[1].GetStatus())
	assert.Equal(t, qosproxyv1.KeyStatus_KEY_STATUS_FAILED, resp.GetResults()[2].GetStatus())
	assert.Empty(t, resp.GetResults()[1].GetRows())
}

func TestExplainShowsPlanAndAttempts(t *testing.T) {
	host := ring.Host{ID: "h", Addr: "10.0.0.1:9042", DC: "dc1", Rack: "r1", Release: "5.0.9", Tokens: []int64{1}}
	plan := &lookup.Plan{Keys: []lookup.PlannedKey{{Token: 1<<62 + 1, Replicas: []ring.Host{host}}, {Token: 5, Group: -1}},
		Groups: []lookup.PlannedGroup{{Host: host, Keys: []int{0}}},
		Hosts:  []lookup.PlannedHost{{Host: host, Avoided: "suspect"}}, Stressed: true}
	d := open(t, Deps{Lookup: &fake{tables: []*lookup.Table{products(t)},
		explain: func(context.Context, *lookup.Request) (*lookup.Plan, error) { return plan, nil },
		get: func(ctx context.Context, req *lookup.Request) (*lookup.Response, error) {
			assert.True(t, req.Trace)
			resp, err := respond(absent, late)(ctx, req)
			resp.Plan = plan
			resp.Attempts = []lookup.Attempt{{Host: host.Addr, Kind: "hedge", Keys: []int{0}, Start: time.Millisecond, End: 2 * time.Millisecond, Outcome: "failed", Err: "timeout", HedgeAfter: -1},
				{Host: host.Addr, Kind: "first", Keys: []int{1}, HedgeAfter: 15 * time.Millisecond, NotHedged: "budget", Outcome: "pending", StatementKeys: 120}}
			resp.Deadline, resp.SoftDeadline = 50*time.Millisecond, 20*time.Millisecond
			return resp, err
		}}})
	w := do(d.http.Handler, http.MethodPost, "/v1/ks/products:batchGet", `{"keys":["a","b"],"explain":true}`)
	assert.Contains(t, w.Body.String(), `"explain":{"keys":[{"token":"4611686018427387905","replicas":["10.0.0.1:9042"],"group":0},{"token":"5","replicas":[],"group":null}],`+
		`"groups":[{"host":"10.0.0.1:9042","dc":"dc1","rack":"r1","keys":[0]}],`+
		`"hosts":[{"host":"10.0.0.1:9042","dc":"dc1","rack":"r1","avoided":"suspect"}],"stressed":true,`+
		`"attempts":[{"host":"10.0.0.1:9042","kind":"hedge","keys":[0],"start_ms":1,"end_ms":2,"outcome":"failed","error":"timeout","hedge_after_ms":null},`+
		`{"host":"10.0.0.1:9042","kind":"first","keys":[1],"start_ms":0,"end_ms":0,"outcome":"pending","hedge_after_ms":15,"not_hedged":"budget","statement_keys":120}],`+
		`"deadline_ms":50,"soft_deadline_ms":20}}`)
	planned := do(d.http.Handler, http.MethodPost, "/v1/ks/products:explain", `{"keys":["a","b"],"timeout":"5ms"}`)
	assert.Equal(t, http.StatusOK, planned.Code)
	assert.JSONEq(t, `{"keys":[{"token":"4611686018427387905","replicas":["10.0.0.1:9042"],"group":0},{"token":"5","replicas":[],"group":null}],
		"groups":[{"host":"10.0.0.1:9042","dc":"dc1","rack":"r1","keys":[0]}],
		"hosts":[{"host":"10.0.0.1:9042","dc":"dc1","rack":"r1","avoided":"suspect"}],"stressed":true}`, planned.Body.String())
	assert.Equal(t, "no-store", planned.Header().Get("Cache-Control"))

	keys := []*qosproxyv1.Key{key(text("a")), key(text("b"))}
	resp, err := d.rpc.BatchGet(t.Context(), &qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "products", Keys: keys, Explain: true})
	require.NoError(t, err)
	attempt := resp.GetExplanation().GetAttempts()[0]
	assert.Equal(t, qosproxyv1.AttemptKind_ATTEMPT_KIND_HEDGE, attempt.GetKind())
	assert.Equal(t, qosproxyv1.AttemptOutcome_ATTEMPT_OUTCOME_FAILED, attempt.GetOutcome())
	assert.Nil(t, attempt.GetHedgeAfter())
	assert.Equal(t, 15*time.Millisecond, resp.GetExplanation().GetAttempts()[1].GetHedgeAfter().AsDuration())
	assert.Equal(t, "budget", resp.GetExplanation().GetAttempts()[1].GetNotHedged())
	assert.Equal(t, int32(120), resp.GetExplanation().GetAttempts()[1].GetStatementKeys())
	assert.Equal(t, 50*time.Millisecond, resp.GetExplanation().GetDeadline().AsDuration())
	assert.Equal(t, 20*time.Millisecond, resp.GetExplanation().GetSoftDeadline().AsDuration())
	assert.Equal(t, "suspect", resp.GetExplanation().GetPlan().GetHosts()[0].GetAvoided())
	assert.True(t, resp.GetExplanation().GetPlan().GetStressed())
	explained, err := d.rpc.Explain(t.Context(), &qosproxyv1.ExplainRequest{Keyspace: "ks", Table: "products", Keys: keys})
	require.NoError(t, err)
	assert.True(t, proto.Equal(resp.GetExplanation().GetPlan(), explained.GetPlan()))
	assert.Nil(t, explained.GetPlan().GetKeys()[1].Group)
	assert.EqualValues(t, 0, explained.GetPlan().GetKeys()[0].GetGroup())
}

func TestTheLookupEndsAheadOfItsDeadline(t *testing.T) {
	for name, c := range map[string]struct{ deadline, lookup time.Duration }{
		"a tenth of a short deadline":          {50 * time.Millisecond, 45 * time.Millisecond},
		"at most 10 ms":                        {time.Second, 990 * time.Millisecond},
		"at least 1 ms":                        {4 * time.Millisecond, 3 * time.Millisecond},
		"at once when there is less than that": {500 * time.Microsecond, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), c.deadline)
				defer cancel()
				end := deadlineOf(ctx, &lookup.Request{Table: products(t)})
				assert.Equal(t, c.lookup, max(end.Sub(start), 0))
			})
		})
	}
	t.Run("and at that of its table when its call has none", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			end := deadlineOf(t.Context(), &lookup.Request{Table: products(t)})
			assert.Equal(t, 125*time.Millisecond, time.Until(end))
		})
	})
}

func TestAnAnswerAtTheDeadlineReachesTheClient(t *testing.T) {
	tbl := products(t)
	synctest.Test(t, func(t *testing.T) {
		d := open(t, Deps{Lookup: &fake{tables: []*lookup.Table{tbl}, get: func(ctx context.Context, req *lookup.Request) (*lookup.Response, error) {
			<-ctx.Done()
			return respond(kettle(t, tbl), late)(ctx, req)
		}}})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		start := time.Now()
		resp, err := d.rpc.BatchGet(ctx, &qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "products",
			Keys: []*qosproxyv1.Key{key(text("a")), key(text("b"))}, Columns: []string{"name", "price"}})
		require.NoError(t, err)
		assert.Equal(t, []int32{1}, resp.GetUnprocessedKeys())
		assert.InDelta(t, 45*time.Millisecond, time.Since(start), float64(10*time.Microsecond))
	})
}

func TestAStreamIsHeaderResultsAndSummary(t *testing.T) {
	tbl := products(t)
	d := open(t, Deps{Lookup: &fake{tables: []*lookup.Table{tbl}, get: respond(kettle(t, tbl), absent, late)}})
	stream, err := d.rpc.StreamBatchGet(t.Context(), &qosproxyv1.StreamBatchGetRequest{Keyspace: "ks", Table: "products",
		Keys: []*qosproxyv1.Key{key(text("a")), key(text("b")), key(text("c"))}, Columns: []string{"name", "price"}})
	require.NoError(t, err)
	var order []int32
	first, err := stream.Recv()
	require.NoError(t, err)
	assert.Len(t, first.GetHeader().GetColumns(), 2)
	for range 3 {
		m, err := stream.Recv()
		require.NoError(t, err)
		order = append(order, m.GetResult().GetIndex())
	}
	assert.Equal(t, []int32{2, 1, 0}, order, "in the order of the service, not of the keys")
	last, err := stream.Recv()
	require.NoError(t, err)
	assert.Equal(t, []int32{2}, last.GetSummary().GetUnprocessedKeys())
	assert.True(t, last.GetSummary().GetPartial())
	_, err = stream.Recv()
	require.ErrorIs(t, err, io.EOF)
	assert.Equal(t, "PARTIAL", d.observed.last())
	assert.Len(t, d.observed.resp.Results, 3)
	assert.Nil(t, d.observed.resp.Results[0].Rows)
}

func TestAStreamThatIsRefusedHasNoHeader(t *testing.T) {
	d := open(t, Deps{Lookup: &fake{tables: []*lookup.Table{products(t)}}})
	stream, err := d.rpc.StreamBatchGet(t.Context(), &qosproxyv1.StreamBatchGetRequest{Keyspace: "ks", Table: "products"})
	require.NoError(t, err)
	_, err = stream.Recv()
	assert.Equal(t, "keys", rpcProblem(err).field)
}

func TestAClientThatLeavesIsNotAnError(t *testing.T) {
	asked := make(chan struct{})
	d := open(t, Deps{Lookup: &fake{tables: []*lookup.Table{products(t)}, get: func(ctx context.Context, req *lookup.Request) (*lookup.Response, error) {
		close(asked)
		<-ctx.Done()
		return respond(late)(ctx, req)
	}}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	_, err := d.rpc.BatchGet(ctx, &qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "products", Keys: []*qosproxyv1.Key{key(text("a"))}})
	assert.Equal(t, codes.Canceled, status.Code(err))
	assert.Eventually(t, func() bool { return d.observed.last() == "CANCELLED" }, 5*time.Second, time.Millisecond)
}

// An undecodable row is discovered while the answer is written. Its key then is not answered:
// neither listener may call such a lookup OK.
func TestACellThatCannotBeDecodedIsNoAnswer(t *testing.T) {
	tbl := products(t)
	broken := partition.Result{Status: partition.Found, Rows: []partition.Row{{[]byte("Kettle"), []byte("no double")}}}
	for name, tt := range map[string]struct {
		results []partition.Result
		code    string
		grpc    codes.Code
		http    int
	}{
		"beside one that can":   {[]partition.Result{kettle(t, tbl), broken}, "PARTIAL", codes.OK, http.StatusOK},
		"and nothing else":      {[]partition.Result{broken}, "UNAVAILABLE", codes.Unavailable, http.StatusServiceUnavailable},
		"control: two that can": {[]partition.Result{kettle(t, tbl), kettle(t, tbl)}, "OK", codes.OK, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, Deps{Lookup: &fake{tables: []*lookup.Table{tbl}, get: respond(tt.results...)}})
			in := &qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "products", Columns: []string{"name", "price"}}
			names := []string{"a", "b"}[:len(tt.results)]
			for _, n := range names {
				in.Keys = append(in.Keys, key(text(n)))
			}
			resp, err := d.rpc.BatchGet(t.Context(), in)
			assert.Equal(t, tt.grpc, status.Code(err), "%v", err)
			assert.Equal(t, tt.code, d.observed.last())
			assert.Equal(t, tt.code == "PARTIAL", resp.GetPartial())

			w := do(d.http.Handler, http.MethodPost, "/v1/ks/products:batchGet", `{"keys": ["`+strings.Join(names, `","`)+`"], "columns": ["name","price"]}`)
			assert.Equal(t, tt.http, w.Code, "%s", w.Body)
			assert.Equal(t, tt.code, d.observed.last())
		})
	}
}

// A client whose connection breaks has cancelled its lookup: memory is not short, and the hosts are
// not at fault.
func TestAClientWhoseConnectionBreaksIsNotAnError(t *testing.T) {
	asked, told := make(chan struct{}), &observed{}
	s := start(t, both(Limits{}), Deps{Memory: memory.New(0), Observer: told, Lookup: &fake{tables: []*lookup.Table{products(t)},
		get: func(ctx context.Context, req *lookup.Request) (*lookup.Response, error) {
			close(asked)
			<-ctx.Done()
			return respond(late)(ctx, req)
		}}})
	conn, err := grpc.NewClient(s.Addr("grpc").String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	go func() {
		<-asked
		_ = conn.Close()
	}()
	_, err = qosproxyv1.NewQosProxyClient(conn).BatchGet(t.Context(),
		&qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "products", Keys: []*qosproxyv1.Key{key(text("a"))}})
	require.Error(t, err)
	assert.Eventually(t, func() bool { return told.last() == "CANCELLED" }, 5*time.Second, time.Millisecond, told.last())
}

// slowBody is a body that exceeds its time limit.
type slowBody struct{}

func (slowBody) Read([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }

func TestABodyThatTakesTooLongIsOutOfTime(t *testing.T) {
	d := open(t, Deps{Lookup: &fake{tables: []*lookup.Table{products(t)}}})
	w := httptest.NewRecorder()
	d.http.Handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/ks/products:batchGet", slowBody{}))
	assert.Equal(t, http.StatusRequestTimeout, w.Code)
	assert.Contains(t, w.Body.String(), `"request_timeout"`)
	assert.Equal(t, "close", w.Header().Get("Connection"))
}

// slow is a client that takes ten seconds to send its request, and as long to receive the answer.
// until is the deadline for the latter.
type slow struct {
	*httptest.ResponseRecorder
	body  *strings.Reader
	until time.Time
}

func (s *slow) Read(b []byte) (int, error) {
	if s.body.Len() > 0 {
		time.Sleep(10 * time.Second)
	}
	return s.body.Read(b)
}

func (s *slow) Write(b []byte) (int, error) {
	time.Sleep(10 * time.Second)
	return s.ResponseRecorder.Write(b)
}

func (s *slow) SetWriteDeadline(t time.Time) error {
	s.until = t
	return nil
}

func TestTheTimeOfAClientIsNotThatOfItsLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lengths := []time.Duration{}
		s := New(Config{MaxRequestBytes: 128 << 10, Limits: Limits{WriteTimeout: time.Hour}}, Deps{
			Log: slog.New(slog.DiscardHandler), Lookup: &fake{tables: []*lookup.Table{products(t)}, get: respond(absent)},
			Observer: ObserverFunc(func(_ context.Context, _ string, _ int, _ lookup.Code, d time.Duration, _ *lookup.Response) {
				lengths = append(lengths, d)
			}),
		})
		client := &slow{ResponseRecorder: httptest.NewRecorder(), body: strings.NewReader(`{"keys":["a"]}`)}
		begin := time.Now()
		s.http.Handler.ServeHTTP(client, httptest.NewRequest(http.MethodPost, "/v1/ks/products:batchGet", client))
		assert.Equal(t, 200, client.Code)
		assert.Equal(t, 20*time.Second, time.Since(begin))
		assert.Equal(t, []time.Duration{0}, lengths)
		assert.Equal(t, begin.Add(10*time.Second+time.Hour), client.until, "write_timeout")
	})
}
