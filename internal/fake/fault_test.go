package fake_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/fake"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
)

func TestAFaultIsWhatTheProxySaysOfSuchAKey(t *testing.T) {
	f := serveExample(t)
	for word, tc := range map[string]struct {
		status      int
		unprocessed bool
	}{
		"TIMED_OUT":   {http.StatusGatewayTimeout, true},
		"UNAVAILABLE": {http.StatusServiceUnavailable, true},
		"SHED":        {http.StatusTooManyRequests, true},
		"TOO_LARGE":   {http.StatusRequestEntityTooLarge, false},
		"FAILED":      {http.StatusServiceUnavailable, false},
	} {
		t.Run(word, func(t *testing.T) {
			beside := f.ask(t, "shop/products", `{"keys": ["sku-1", "sku-2"]}`, "status="+word+";keys=sku-2")
			assert.Equal(t, http.StatusOK, beside.status)
			assert.Equal(t, "FOUND "+word, beside.statuses())
			assert.True(t, beside.Partial)
			assert.NotEmpty(t, beside.Results[1].Error)
			assert.Equal(t, tc.unprocessed, len(beside.Unprocessed) == 1, "unprocessed_keys")
			alone := f.ask(t, "shop/products", `{"keys": ["sku-2"]}`, "status="+word)
			assert.Equal(t, tc.status, alone.status)
			assert.Equal(t, word, alone.statuses())
		})
	}
	assert.Equal(t, "NOT_FOUND", f.ask(t, "shop/products", `{"keys": ["sku-1"]}`, "status=NOT_FOUND").statuses())
	assert.Equal(t, "UNAVAILABLE SHED FOUND", f.ask(t, "shop/products", `{"keys": ["sku-down", "sku-shed", "sku-1"]}`).statuses(), "of the file")
	assert.Equal(t, "FAILED FOUND", f.ask(t, "shop/orders", `{"keys": [["south", 2026, 7], ["north", 2026]]}`).statuses(), "of a partition, and of its rows")
}

// The only host of the fake must not be ejected because of requested faults.
func TestFaultsLeaveOtherLookupsAlone(t *testing.T) {
	f := serveExample(t)
	for range 30 {
		for _, word := range []string{"TIMED_OUT", "UNAVAILABLE", "SHED", "FAILED"} {
			require.Equal(t, word, f.ask(t, "shop/products", `{"keys": ["sku-1"]}`, "status="+word).statuses())
		}
		require.Equal(t, "TIMED_OUT", f.ask(t, "shop/products", `{"keys": ["sku-late"], "timeout": "1ms"}`).statuses())
		require.Equal(t, "FOUND", f.ask(t, "shop/products", `{"keys": ["sku-1"]}`).statuses())
	}
}

func TestADelayIsOfItsKeyAlone(t *testing.T) {
	f := serveExample(t)
	begin := time.Now()
	a := f.ask(t, "shop/products", `{"keys": ["sku-1", "sku-slow"], "timeout": "5s"}`)
	assert.Equal(t, "FOUND NOT_FOUND", a.statuses())
	assert.GreaterOrEqual(t, time.Since(begin), 40*time.Millisecond)
	a = f.ask(t, "shop/products", `{"keys": ["sku-1", "sku-late"], "timeout": "50ms"}`)
	assert.Equal(t, "FOUND TIMED_OUT", a.statuses(), "the deadline ends what takes longer")
	assert.Contains(t, a.Results[1].Error, "no replica answered within")
	a = f.ask(t, "shop/products", `{"keys": ["sku-1", "sku-2"], "timeout": "50ms"}`, `delay=1m ; keys=sku-2`)
	assert.Equal(t, "FOUND TIMED_OUT", a.statuses())
	a = f.ask(t, "shop/products", `{"keys": ["sku-1", "sku-2"], "timeout": "10s", "soft_deadline": "1ms", "min_keys": 1}`, `delay=1m;keys=sku-2`)
	assert.Equal(t, "FOUND TIMED_OUT", a.statuses(), "a soft deadline does not wait for it")

	stream, err := f.grpc.StreamBatchGet(metadata.AppendToOutgoingContext(t.Context(), fake.Header, "delay=30ms;keys=sku-1"), &qosproxyv1.StreamBatchGetRequest{
		Keyspace: "shop", Table: "products", Keys: keys("sku-1", "sku-2"),
	})
	require.NoError(t, err)
	var order []int32
	for len(order) < 2 {
		part, err := stream.Recv()
		require.NoError(t, err)
		if r := part.GetResult(); r != nil {
			order = append(order, r.GetIndex())
		}
	}
	assert.Equal(t, []int32{1, 0}, order, "a stream has the fast key first")
}

// keys returns text keys.
func keys(of ...string) []*qosproxyv1.Key {
	var out []*qosproxyv1.Key
	for _, k := range of {
		out = append(out, &qosproxyv1.Key{Components: []*qosproxyv1.Value{{Kind: &qosproxyv1.Value_Text{Text: k}}}})
	}
	return out
}

func TestARefusalSaysWhenToComeBack(t *testing.T) {
	f := serveExample(t)
	get := func(ctx context.Context, key string) error {
		_, err := f.grpc.BatchGet(ctx, &qosproxyv1.BatchGetRequest{Keyspace: "shop", Table: "products", Keys: keys(key)})
		return err
	}
	for name, tc := range map[string]struct {
		key, fault string
		after      time.Duration
	}{
		"of the file":    {"sku-refused", "", 250 * time.Millisecond},
		"of the request": {"sku-1", "refuse", 100 * time.Millisecond},
		"with a pause":   {"sku-1", "refuse; retry_after=2s", 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			if tc.fault != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, fake.Header, tc.fault)
			}
			err := get(ctx, tc.key)
			require.Equal(t, codes.ResourceExhausted, status.Code(err), "%v", err)
			var after time.Duration
			for _, d := range status.Convert(err).Details() {
				if retry, ok := d.(*errdetails.RetryInfo); ok {
					after = retry.GetRetryDelay().AsDuration()
				}
			}
			assert.Equal(t, tc.after, after)
		})
	}
	require.NoError(t, get(t.Context(), "sku-1"))
	a := f.ask(t, "shop/products", `{"keys": ["sku-1", "sku-refused"]}`)
	assert.Equal(t, http.StatusTooManyRequests, a.status)
	assert.Equal(t, "1", a.retryAfter, "whole seconds, rounded up")
	assert.Equal(t, "SHED SHED", a.statuses())
}

func TestAFaultIsForSoManyLookups(t *testing.T) {
	f := serve(t, `
tables:
  - name: t.rows
    columns: {id: text}
    rows: [{id: a}, {id: b}]
    faults: [{status: UNAVAILABLE, count: 2}, {keys: [b], refuse: true, count: 1}]
`)
	assert.Equal(t, "UNAVAILABLE UNAVAILABLE", f.ask(t, "t/rows", `{"keys": ["a", "c"]}`).statuses(), "all keys of the first")
	assert.Equal(t, "UNAVAILABLE", f.ask(t, "t/rows", `{"keys": ["a"]}`).statuses())
	assert.Equal(t, "FOUND", f.ask(t, "t/rows", `{"keys": ["a"]}`).statuses())
	assert.Equal(t, "SHED", f.ask(t, "t/rows", `{"keys": ["b"]}`).statuses())
	assert.Equal(t, "FOUND", f.ask(t, "t/rows", `{"keys": ["b"]}`).statuses())
}

func TestAFaultThatAffectsNoKeyIsNotUsedUp(t *testing.T) {
	f := serve(t, `
tables:
  - name: t.rows
    columns: {id: text}
    rows: [{id: a}, {id: b}]
    faults: [{keys: [a], status: UNAVAILABLE, count: 1}, {keys: [a], status: TIMED_OUT, count: 1}, {keys: [b], status: FAILED, count: 1}, {keys: [b], refuse: true, count: 1}]
`)
	for _, want := range []string{"UNAVAILABLE", "TIMED_OUT", "FOUND"} {
		assert.Equal(t, want, f.ask(t, "t/rows", `{"keys": ["a"]}`).statuses())
	}
	for _, want := range []string{"SHED", "FAILED", "FOUND"} {
		assert.Equal(t, want, f.ask(t, "t/rows", `{"keys": ["b"]}`).statuses())
	}
}

func TestAProbabilityIsOfEachKey(t *testing.T) {
	f := serveExample(t)
	list := strings.TrimSuffix(strings.Repeat(`"sku-1","sku-2","sku-3",`, 1), ",")
	failed, all := 0, 0
	for range 200 {
		for _, r := range f.ask(t, "shop/products", `{"keys": [`+list+`]}`, "status=FAILED;probability=50%").Results {
			if all++; r.Status == "FAILED" {
				failed++
			}
		}
	}
	assert.InDelta(t, all/2, failed, 120, "of %d; five deviations of a fair coin", all)
}

func TestAMistakenHeaderIsRefused(t *testing.T) {
	f := serveExample(t)
	for fault, says := range map[string]string{
		"status=TIMEDOUT":               `did you mean "TIMED_OUT"`,
		"stauts=FAILED":                 `did you mean "status"`,
		"delay=40":                      `"40" is not a duration above 0`,
		"keys=sku-1":                    "a fault has a delay, a status or refuse",
		"refuse;status=FAILED":          "leave one of the two out",
		"status=FAILED;probability=2%%": "is not a percentage",
		"delay=1ms;delay=2ms":           "given twice",
	} {
		a := f.ask(t, "shop/products", `{"keys": ["sku-1"]}`, fault)
		assert.Equal(t, http.StatusBadRequest, a.status, fault)
		assert.Equal(t, fake.Header, a.Error.Field, fault)
		assert.Contains(t, a.Error.Message, says, fault)
	}
	a := f.ask(t, "shop/orders", `{"keys": [["north", 2026]]}`, "status=FAILED;keys=north")
	assert.Contains(t, a.Error.Message, "keys: ", "a key of another form")
}

func TestSeveralFaultsOfARequest(t *testing.T) {
	f := serve(t, "tables: [{name: t.rows, columns: {id: text}, rows: [{id: 'a,b'}, {id: 'c|d'}, {id: e}]}]")
	body := `{"keys": ["a,b", "c|d", "e"]}`
	assert.Equal(t, "FAILED SHED FOUND", f.ask(t, "t/rows", body, `status=FAILED;keys=a\,b | status=SHED;keys=c\|d`).statuses())
	assert.Equal(t, "FAILED SHED FOUND", f.ask(t, "t/rows", body, `status=FAILED;keys=a\,b`, `status=SHED;keys=c\|d`).statuses(), "the header twice")
	assert.Equal(t, "FAILED SHED SHED", f.ask(t, "t/rows", body, `status=FAILED;keys=a\,b | status=SHED`).statuses(), "the first that is for a key")
}

func TestReplacedDataIsServed(t *testing.T) {
	f := serve(t, "tables: [{name: t.rows, columns: {id: text}, rows: [{id: a}]}]")
	assert.Equal(t, "FOUND NOT_FOUND", f.ask(t, "t/rows", `{"keys": ["a", "b"]}`).statuses())
	next, err := fake.Parse([]byte("tables: [{name: t.rows, columns: {id: text}, rows: [{id: b}]}, {name: t.more, columns: {id: int}}]"), "")
	require.NoError(t, err)
	table, err := f.Table("t", "rows")
	require.NoError(t, err)
	a, err := partition.NewKey([]byte("a"))
	require.NoError(t, err)
	f.Replace(next)
	assert.Equal(t, "NOT_FOUND FOUND", f.ask(t, "t/rows", `{"keys": ["a", "b"]}`).statuses())
	assert.Equal(t, "NOT_FOUND", f.ask(t, "t/more", `{"keys": [1]}`).statuses())
	resp, err := f.Get(t.Context(), &lookup.Request{Table: table, Keys: []partition.Key{a}})
	require.NoError(t, err)
	assert.Equal(t, partition.Found, resp.Results[0].Status, "a lookup ends with the data that it began with")
}

func TestAFaultOfARequestIsNotThatOfAnotherForTheSameKey(t *testing.T) {
	f := serveExample(t)
	var asking sync.WaitGroup
	for range 40 {
		asking.Go(func() {
			assert.Equal(t, "FAILED", f.ask(t, "shop/products", `{"keys": ["sku-1"], "timeout": "10s"}`, "status=FAILED;delay=5ms").statuses())
		})
		asking.Go(func() {
			assert.Equal(t, "FOUND", f.ask(t, "shop/products", `{"keys": ["sku-1"], "timeout": "10s"}`).statuses())
		})
	}
	asking.Wait()
}
