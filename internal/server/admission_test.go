package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/admission"
	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/reasons"
)

// controller returns an admission controller with that number of keys in-flight.
func controller(t testing.TB, taken int) *admission.Controller {
	t.Helper()
	c, err := admission.New(admission.Config{Limits: admission.DefaultLimits(),
		Tables: map[string]admission.SLO{"ks.products": {Target: time.Second, Percentile: 95}}})
	require.NoError(t, err)
	if taken > 0 {
		p, err := c.Admit(admission.Ask{Table: "ks.products", Keys: taken})
		require.NoError(t, err)
		t.Cleanup(func() { p.Release(admission.Outcome{}) })
	}
	return c
}

func TestARefusedLookupAnswersEveryKeyWithShed(t *testing.T) {
	for name, c := range map[string]struct {
		taken int
		want  int
	}{"full": {1 << 20, http.StatusTooManyRequests}, "control: empty": {0, http.StatusOK}} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			tbl := products(t)
			d := open(t, Deps{Admission: controller(t, c.taken), Lookup: &fake{tables: []*lookup.Table{tbl},
				get: func(ctx context.Context, req *lookup.Request) (*lookup.Response, error) {
					asked++
					return respond(absent, absent)(ctx, req)
				}}})

			w := do(d.http.Handler, http.MethodPost, "/v1/ks/products:batchGet", `{"keys":["a","b"]}`)
			assert.Equal(t, c.want, w.Code)
			resp, err := d.rpc.BatchGet(t.Context(), &qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "products",
				Keys: []*qosproxyv1.Key{key(text("a")), key(text("b"))}})
			stream, streamErr := d.rpc.StreamBatchGet(t.Context(), &qosproxyv1.StreamBatchGetRequest{Keyspace: "ks", Table: "products",
				Keys: []*qosproxyv1.Key{key(text("a")), key(text("b"))}})
			require.NoError(t, streamErr)
			_, streamErr = stream.Recv()
			if c.taken == 0 {
				assert.NoError(t, errors.Join(err, streamErr))
				assert.Len(t, resp.GetResults(), 2)
				for streamErr == nil {
					_, streamErr = stream.Recv()
				}
				assert.ErrorIs(t, streamErr, io.EOF)
				assert.Equal(t, 3, asked)
				return
			}
			assert.Zero(t, asked, "nobody is asked")
			assert.Equal(t, "1", w.Header().Get("Retry-After"))
			assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
			var body struct {
				Results []struct{ Key, Status, Error string }
				Left    []string `json:"unprocessed_keys"`
			}
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
			require.Len(t, body.Results, 2)
			assert.Equal(t, "SHED", body.Results[1].Status)
			assert.Contains(t, body.Results[1].Error, "ask again later")
			assert.Equal(t, []string{"a", "b"}, body.Left)
			for name, err := range map[string]error{"unary": err, "stream": streamErr} {
				assert.Equal(t, codes.ResourceExhausted, status.Code(err), name)
				assert.Equal(t, 250*time.Millisecond, detail[*errdetails.RetryInfo](err).GetRetryDelay().AsDuration(), name)
				assert.Equal(t, "SHED", detail[*errdetails.ErrorInfo](err).GetReason(), name)
				assert.Len(t, detail[*qosproxyv1.BatchGetResponse](err).GetUnprocessedKeys(), 2, name)
			}
			assert.Equal(t, "RESOURCE_EXHAUSTED", d.observed.last())
			assert.Equal(t, reasons.Overload, d.observed.why, "as observers see it")
			assert.Equal(t, 2, d.observed.resp.Stats.Refused)
		})
	}
}

// TestExplanationsCountForTheShareOfAClient explains as many keys as a client may ask for.
func TestExplanationsCountForTheShareOfAClient(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte(strings.Repeat("a", 20)), 0o600))
	for name, burst := range map[string]int{"as many as it may": 4, "control: fewer": 1000} {
		t.Run(name, func(t *testing.T) {
			clients := identity.NewRegistry(nil, nil)
			require.NoError(t, clients.Replace([]identity.Member{{TokenFile: token, Client: identity.Client{
				Name: "metered", KeysPerSecond: 0.001, BurstKeys: burst, Access: identity.NewAccess([]identity.Grant{{Keyspace: "ks", Table: "products"}}),
			}}}))
			d := open(t, Deps{Clients: clients, Admission: controller(t, 0), Lookup: &fake{tables: []*lookup.Table{products(t)},
				explain: func(context.Context, *lookup.Request) (*lookup.Plan, error) { return &lookup.Plan{}, nil }}})
			bearer := "Bearer " + strings.Repeat("a", 20)
			ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", bearer)
			byHTTP := func() int {
				return do(d.http.Handler, http.MethodPost, "/v1/ks/products:explain", `{"keys":["a","b"]}`, "Authorization", bearer).Code
			}
			byGRPC := func() error {
				_, err := d.rpc.Explain(ctx, &qosproxyv1.ExplainRequest{Keyspace: "ks", Table: "products",
					Keys: []*qosproxyv1.Key{key(text("a")), key(text("b"))}})
				return err
			}
			assert.Equal(t, http.StatusOK, byHTTP())
			require.NoError(t, byGRPC())
			if burst > 4 {
				assert.Equal(t, http.StatusOK, byHTTP())
				assert.NoError(t, byGRPC())
				return
			}
			assert.Equal(t, http.StatusTooManyRequests, byHTTP())
			assert.Equal(t, codes.ResourceExhausted, status.Code(byGRPC()))
		})
	}
}

// TestAListCountsForTheShareOfAClient lists two tables to a client that may ask for three keys.
func TestAListCountsForTheShareOfAClient(t *testing.T) {
	for name, burst := range map[string]int{"fewer than twice": 3, "control: more": 1000} {
		t.Run(name, func(t *testing.T) {
			who := &identity.Client{Name: "metered", KeysPerSecond: 0.001, BurstKeys: burst}
			ctx := identity.NewContext(t.Context(), who)
			deps := Deps{Admission: controller(t, 0), Lookup: &fake{tables: []*lookup.Table{products(t), table(t, "other", 1, "id text")}}}
			byGRPC := func() codes.Code {
				_, err := (&grpcService{server: New(Config{}, deps)}).ListTables(ctx, nil)
				return status.Code(err)
			}
			byHTTP := func() int {
				w := httptest.NewRecorder()
				New(Config{}, deps).http.Handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/tables", nil))
				return w.Code
			}
			assert.Equal(t, http.StatusOK, byHTTP())
			if burst > 4 {
				assert.Equal(t, codes.OK, byGRPC())
				assert.Equal(t, http.StatusOK, byHTTP())
				return
			}
			assert.Equal(t, codes.ResourceExhausted, byGRPC())
			assert.Equal(t, http.StatusTooManyRequests, byHTTP())
		})
	}
}

// TestNoPathKeepsAPermit ends lookups in every possible way.
func TestNoPathKeepsAPermit(t *testing.T) {
	for name, get := range map[string]func(context.Context, *lookup.Request) (*lookup.Response, error){
		"answered":  respond(absent),
		"timed out": respond(late),
		"refused": func(context.Context, *lookup.Request) (*lookup.Response, error) {
			return nil, &lookup.Error{Reason: reasons.NotReady}
		},
		"panic": func(context.Context, *lookup.Request) (*lookup.Response, error) { panic("lookup") },
		"hung up": func(ctx context.Context, _ *lookup.Request) (*lookup.Response, error) {
			<-ctx.Done()
			return respond(late)(ctx, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := controller(t, 0)
			var held atomic.Int64
			d := open(t, Deps{Admission: c, Lookup: &fake{tables: []*lookup.Table{products(t)},
				get: func(ctx context.Context, req *lookup.Request) (*lookup.Response, error) {
					held.Add(int64(c.Status().InflightKeys))
					return get(ctx, req)
				}}})
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			_, _ = d.rpc.BatchGet(ctx, &qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "products", Keys: []*qosproxyv1.Key{key(text("a"))}})
			stream, err := d.rpc.StreamBatchGet(ctx, &qosproxyv1.StreamBatchGetRequest{Keyspace: "ks", Table: "products", Keys: []*qosproxyv1.Key{key(text("a"))}})
			for err == nil {
				_, err = stream.Recv()
			}
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/v1/ks/products/a", nil)
			require.NoError(t, err)
			d.http.Handler.ServeHTTP(discard{http.Header{}}, r)
			d.grpc.GracefulStop()
			assert.Positive(t, held.Load(), "a permit is held while hosts are asked")
			assert.Zero(t, c.Status().InflightKeys)
		})
	}
}

// discard is a response that nobody reads.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

func TestTheClientOfTheContextIsAsked(t *testing.T) {
	c := controller(t, 0)
	d := open(t, Deps{Admission: c, Lookup: &fake{tables: []*lookup.Table{products(t)}}})
	who := &identity.Client{Name: "slow", Priority: identity.Batch, KeysPerSecond: 0.5, BurstKeys: 1}
	for _, want := range []int{http.StatusNotFound, http.StatusTooManyRequests} {
		r, err := http.NewRequestWithContext(identity.NewContext(t.Context(), who), http.MethodGet, "/v1/ks/products/a", nil)
		require.NoError(t, err)
		w := do(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { d.http.Handler.ServeHTTP(w, r) }), http.MethodGet, "/", "")
		assert.Equal(t, want, w.Code)
		if want == http.StatusTooManyRequests {
			assert.Equal(t, "2", w.Header().Get("Retry-After"), "a key every two seconds")
			assert.Contains(t, w.Body.String(), "client slow has asked for more than its 0.5 keys a second")
		}
	}
}

// TestALookupWaitsForTheFirstOfItsTable has a table with four lookups in-flight, none of which
// has been answered.
func TestALookupWaitsForTheFirstOfItsTable(t *testing.T) {
	c := controller(t, 0)
	var first []*admission.Permit
	for range 4 {
		p, err := c.Admit(admission.Ask{Table: "ks.products", Keys: 1})
		require.NoError(t, err)
		first = append(first, p)
	}
	asked := make(chan time.Duration, 1)
	d := open(t, Deps{Admission: c, Lookup: &fake{tables: []*lookup.Table{products(t)},
		get: func(ctx context.Context, req *lookup.Request) (*lookup.Response, error) {
			asked <- time.Until(req.Deadline)
			return respond(absent)(ctx, req)
		}}})
	code := make(chan int, 1)
	go func() {
		code <- do(d.http.Handler, http.MethodPost, "/v1/ks/products:batchGet", `{"keys":["a"],"timeout":"5s"}`).Code
	}()
	select {
	case <-asked:
		t.Error("it did not wait")
	case <-time.After(50 * time.Millisecond):
	}
	for _, p := range first {
		p.Release(admission.Outcome{Answered: 1, Bytes: 100})
	}
	assert.Equal(t, http.StatusOK, <-code)
	assert.Less(t, <-asked, 5*time.Second-40*time.Millisecond, "what is left of its time")
}

// TestDeepInOverloadNoMessageIsRead refuses lookups by their headers once most are refused.
func TestDeepInOverloadNoMessageIsRead(t *testing.T) {
	c := controller(t, 1<<20)
	d := open(t, Deps{Admission: c, Lookup: &fake{tables: []*lookup.Table{products(t)}}})
	in := &qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "products", Keys: []*qosproxyv1.Key{key(text("a"))}}
	_, err := d.rpc.BatchGet(t.Context(), in)
	assert.NotNil(t, detail[*qosproxyv1.BatchGetResponse](err), "every key has its status")
	for range 100 {
		_, err = d.rpc.BatchGet(t.Context(), in)
		require.Equal(t, codes.ResourceExhausted, status.Code(err))
	}
	assert.Nil(t, detail[*qosproxyv1.BatchGetResponse](err), "the keys were not read")
	assert.Positive(t, detail[*errdetails.RetryInfo](err).GetRetryDelay().AsDuration())
	assert.Equal(t, "RESOURCE_EXHAUSTED", d.observed.last())
	w := do(d.http.Handler, http.MethodPost, "/v1/ks/products:batchGet", `not read`)
	assert.Equal(t, http.StatusTooManyRequests, w.Code)
	assert.NotEmpty(t, w.Header().Get("Retry-After"))
}
