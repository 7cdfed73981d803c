package client

import (
	"context"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/qosproxy/qosproxy/api/qosproxy"
	"github.com/qosproxy/qosproxy/api/qosproxy/cql"
	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
)

// Product is a row of shop.products.
type Product struct {
	ID    string           `cql:"id"`
	Name  string           `cql:"name"`
	Price qosproxy.Decimal `cql:"price"`
	Tags  []string         `cql:"tags"`
}

func dial(t *testing.T, target string, o qosproxy.Options) *qosproxy.Client {
	t.Helper()
	client, err := qosproxy.Dial(target, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// scripted is a proxy that fails calls as scripted, and then answers every key
// NOT_FOUND.
type scripted struct {
	qosproxyv1.UnimplementedQosProxyServer
	mu       sync.Mutex
	failures []error
	answer   *qosproxyv1.BatchGetResponse
	respond  func(*qosproxyv1.BatchGetRequest) *qosproxyv1.BatchGetResponse
	calls    int
	deadline time.Duration // of the last call, 0 for none
	headers  metadata.MD
	health   *health.Server
	first    bool // streams answer the first key in place of each
}

func (s *scripted) take(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	s.headers, _ = metadata.FromIncomingContext(ctx)
	s.deadline = 0
	if d, ok := ctx.Deadline(); ok {
		s.deadline = time.Until(d)
	}
	if len(s.failures) == 0 {
		return nil
	}
	err := s.failures[0]
	s.failures = s.failures[1:]
	return err
}

func (s *scripted) BatchGet(ctx context.Context, in *qosproxyv1.BatchGetRequest) (*qosproxyv1.BatchGetResponse, error) {
	if err := s.take(ctx); err != nil {
		return nil, err
	}
	if s.answer != nil {
		return s.answer, nil
	}
	if s.respond != nil {
		return s.respond(in), nil
	}
	out := &qosproxyv1.BatchGetResponse{}
	for range in.GetKeys() {
		out.Results = append(out.Results, &qosproxyv1.KeyResult{Status: qosproxyv1.KeyStatus_KEY_STATUS_NOT_FOUND})
	}
	return out, nil
}

func (s *scripted) StreamBatchGet(in *qosproxyv1.StreamBatchGetRequest, stream grpc.ServerStreamingServer[qosproxyv1.StreamBatchGetResponse]) error {
	if err := s.take(stream.Context()); err != nil {
		return err
	}
	_ = stream.Send(&qosproxyv1.StreamBatchGetResponse{Part: &qosproxyv1.StreamBatchGetResponse_Header{Header: &qosproxyv1.StreamHeader{}}})
	for i := range in.GetKeys() {
		if s.first {
			i = 0
		}
		_ = stream.Send(&qosproxyv1.StreamBatchGetResponse{Part: &qosproxyv1.StreamBatchGetResponse_Result{Result: &qosproxyv1.StreamResult{
			Index: int32(i), Result: &qosproxyv1.KeyResult{Status: qosproxyv1.KeyStatus_KEY_STATUS_NOT_FOUND}}}})
		if in.GetColumns() != nil {
			return status.Error(codes.Unavailable, "gone in the middle")
		}
	}
	return nil
}

// serve runs the proxy, at a unix socket if socket is set.
func (s *scripted) serve(t *testing.T, socket string) string {
	t.Helper()
	network, at := "tcp", "127.0.0.1:0"
	if socket != "" {
		network, at = "unix", socket
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), network, at)
	require.NoError(t, err)
	g := grpc.NewServer()
	qosproxyv1.RegisterQosProxyServer(g, s)
	if s.health == nil {
		s.health = health.NewServer()
	}
	healthpb.RegisterHealthServer(g, s.health)
	go func() { _ = g.Serve(l) }()
	t.Cleanup(g.Stop)
	if socket != "" {
		return "unix://" + socket
	}
	return l.Addr().String()
}

// failure is an error of a proxy, or of a connection if reason is empty.
func failure(code codes.Code, reason string, retry time.Duration) error {
	s := status.New(code, "no")
	if reason != "" {
		s, _ = s.WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: "qosproxy"})
	}
	if retry > 0 {
		s, _ = s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(retry)})
	}
	return s.Err()
}

func TestWhatIsAskedAgain(t *testing.T) {
	const soon = time.Millisecond
	one := qosproxy.Lookup{Table: "a.b", Keys: qosproxy.Keys("k")}
	for name, c := range map[string]struct {
		failures []error
		options  qosproxy.Options
		timeout  time.Duration
		calls    int
		fails    codes.Code
	}{
		"nothing":                          {nil, qosproxy.Options{}, 0, 1, codes.OK},
		"a connection that failed":         {[]error{failure(codes.Unavailable, "", 0)}, qosproxy.Options{}, 0, 2, codes.OK},
		"a proxy that says when":           {[]error{failure(codes.Unavailable, "NOT_READY", soon)}, qosproxy.Options{}, 0, 2, codes.OK},
		"… later than the deadline":        {[]error{failure(codes.Unavailable, "NOT_READY", time.Hour)}, qosproxy.Options{}, time.Minute, 1, codes.Unavailable},
		"no more than Retries":             {[]error{failure(codes.Unavailable, "", 0), failure(codes.Unavailable, "", 0), failure(codes.Unavailable, "", 0)}, qosproxy.Options{Retries: 2}, 0, 3, codes.Unavailable},
		"never if not wanted":              {[]error{failure(codes.Unavailable, "", 0)}, qosproxy.Options{Retries: -1}, 0, 1, codes.Unavailable},
		"not where it is no remedy":        {[]error{failure(codes.Unavailable, "FAILED", 0)}, qosproxy.Options{}, 0, 1, codes.Unavailable},
		"not what was shed":                {[]error{failure(codes.ResourceExhausted, "SHED", soon)}, qosproxy.Options{}, 0, 1, codes.ResourceExhausted},
		"what was shed if wanted":          {[]error{failure(codes.ResourceExhausted, "SHED", soon)}, qosproxy.Options{RetryShed: true}, 0, 2, codes.OK},
		"not what is too large, if wanted": {[]error{failure(codes.FailedPrecondition, "TOO_LARGE", 0)}, qosproxy.Options{RetryShed: true}, 0, 1, codes.FailedPrecondition},
		"not what is wrong":                {[]error{failure(codes.InvalidArgument, "INVALID_REQUEST", 0)}, qosproxy.Options{}, 0, 1, codes.InvalidArgument},
		"not what timed out":               {[]error{failure(codes.DeadlineExceeded, "TIMED_OUT", 0)}, qosproxy.Options{}, 0, 1, codes.DeadlineExceeded},
	} {
		for _, streamed := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				s := &scripted{failures: c.failures}
				client := dial(t, s.serve(t, ""), c.options)
				ctx := t.Context()
				if c.timeout > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.timeout)
					defer cancel()
				}
				var err error
				if streamed {
					for _, failed := range client.Stream(ctx, one) {
						err = failed
					}
				} else {
					_, err = client.Get(ctx, one)
				}
				assert.Equal(t, c.fails, status.Code(err), "%v", err)
				assert.Equal(t, c.calls, s.calls)
			})
		}
	}
}

func TestAStreamThatHasAnsweredIsNotAskedAgain(t *testing.T) {
	s := &scripted{}
	client := dial(t, s.serve(t, ""), qosproxy.Options{})
	answered, failed := 0, error(nil)
	for _, err := range client.Stream(t.Context(), qosproxy.Lookup{Table: "a.b", Keys: qosproxy.Keys("k", "l"), Columns: []string{"c"}}) {
		if err != nil {
			failed = err
			continue
		}
		answered++
	}
	assert.Equal(t, 1, answered)
	assert.Equal(t, codes.Unavailable, status.Code(failed))
	assert.Equal(t, 1, s.calls)
}

func TestAPartialAnswerIsNotAskedAgain(t *testing.T) {
	s := &scripted{answer: &qosproxyv1.BatchGetResponse{Partial: true, UnprocessedKeys: []int32{1}, Results: []*qosproxyv1.KeyResult{
		{Status: qosproxyv1.KeyStatus_KEY_STATUS_NOT_FOUND}, {Status: qosproxyv1.KeyStatus_KEY_STATUS_UNAVAILABLE, Error: "no replica"}}}}
	client := dial(t, s.serve(t, ""), qosproxy.Options{})
	answer, err := client.Get(t.Context(), qosproxy.Lookup{Table: "a.b", Keys: qosproxy.Keys("k", "secret")})
	require.NoError(t, err)
	assert.Equal(t, 1, s.calls)
	err = answer.Err()
	require.EqualError(t, err, "qosproxy: 1 of 2 keys were not answered: key 1: UNAVAILABLE: no replica")
	assert.NotContains(t, err.Error(), "secret", "keys are not for logs")
	key, ok := errors.AsType[*qosproxy.KeyError](err)
	require.True(t, ok)
	assert.Equal(t, qosproxy.Unavailable, key.Status)
	_, err = qosproxy.Scan[Product](answer.At(1))
	require.ErrorAs(t, err, &key)
	rows, err := answer.At(0).Rows()
	require.NoError(t, err)
	assert.Empty(t, rows)
}

func TestRetriesHaveABudget(t *testing.T) {
	s := &scripted{}
	for range 100 {
		s.failures = append(s.failures, failure(codes.Unavailable, "NOT_READY", time.Microsecond))
	}
	client := dial(t, s.serve(t, ""), qosproxy.Options{})
	for range 20 {
		_, err := client.Get(t.Context(), qosproxy.Lookup{Table: "a.b", Keys: qosproxy.Keys("k")})
		require.Error(t, err)
	}
	assert.Equal(t, 20+5, s.calls, "half of ten tokens are spent on retries")
}

func TestCallsGoToReadyProxiesInTurn(t *testing.T) {
	first, second, draining := &scripted{}, &scripted{}, &scripted{health: health.NewServer()}
	draining.health.Shutdown()
	found := manual.NewBuilderWithScheme("three")
	found.InitialState(resolver.State{Addresses: []resolver.Address{{Addr: first.serve(t, "")}, {Addr: second.serve(t, "")}, {Addr: draining.serve(t, "")}}})
	client := dial(t, "three:///", qosproxy.Options{GRPC: []grpc.DialOption{grpc.WithResolvers(found)}})
	asked := func(s *scripted) int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.calls
	}
	require.Eventually(t, func() bool {
		_, err := client.Get(t.Context(), qosproxy.Lookup{Table: "a.b", Keys: qosproxy.Keys("k")})
		require.NoError(t, err)
		return asked(first) > 2 && asked(second) > 2
	}, 30*time.Second, time.Millisecond)
	assert.Zero(t, asked(draining))

	only := &scripted{health: health.NewServer()}
	only.health.Shutdown()
	_, err := dial(t, only.serve(t, ""), qosproxy.Options{}).Get(t.Context(), qosproxy.Lookup{Table: "a.b", Keys: qosproxy.Keys("k")})
	require.ErrorContains(t, err, "health check failed")
	assert.Zero(t, only.calls)
}

func TestDeadlinesTravel(t *testing.T) {
	s := &scripted{}
	at := s.serve(t, "")
	one := qosproxy.Lookup{Table: "a.b", Keys: qosproxy.Keys("k")}
	_, err := dial(t, at, qosproxy.Options{}).Get(t.Context(), one)
	require.NoError(t, err)
	assert.Zero(t, s.deadline, "the timeout of the table applies")
	client := dial(t, at, qosproxy.Options{Timeout: time.Hour})
	_, err = client.Get(t.Context(), one)
	require.NoError(t, err)
	assert.InDelta(t, time.Hour, s.deadline, float64(time.Minute))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
	defer cancel()
	_, err = client.Get(ctx, one)
	require.NoError(t, err)
	assert.InDelta(t, 2*time.Hour, s.deadline, float64(time.Minute), "that of the context prevails")
}

// TestTheTimeoutOfALookupBoundsItsRetries has a proxy that asks for a pause of a second.
func TestTheTimeoutOfALookupBoundsItsRetries(t *testing.T) {
	l := qosproxy.Lookup{Table: "shop.products", Keys: qosproxy.Keys("a"), Timeout: 500 * time.Millisecond}
	for name, get := range map[string]func(*qosproxy.Client) error{
		"at once": func(c *qosproxy.Client) error {
			_, err := c.Get(t.Context(), l)
			return err
		},
		"as a stream": func(c *qosproxy.Client) (err error) {
			for _, err = range c.Stream(t.Context(), l) {
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scripted{failures: []error{failure(codes.Unavailable, "NOT_READY", time.Second)}}
			client := dial(t, s.serve(t, ""), qosproxy.Options{})
			require.Error(t, get(client))
			assert.Equal(t, 1, s.calls)
			assert.InDelta(t, l.Timeout, s.deadline, float64(l.Timeout/2), "the proxy knows how long the client waits")
			require.NoError(t, get(client))
		})
	}
}

func TestTheLargestAnswerIsNotTheLargestRequest(t *testing.T) {
	client := dial(t, (&scripted{}).serve(t, ""), qosproxy.Options{MaxAnswerBytes: 1 << 10})
	_, err := client.Get(t.Context(), qosproxy.Lookup{Table: "shop.products", Keys: qosproxy.Keys(strings.Repeat("x", 2<<10))})
	require.NoError(t, err)
}

func TestADeadlineThatPasses(t *testing.T) {
	client := dial(t, address, qosproxy.Options{Timeout: 50 * time.Millisecond})
	_, err := client.Get(t.Context(), qosproxy.Lookup{Table: "shop.products", Keys: qosproxy.Keys("sku-slow")})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	failed, ok := errors.AsType[*qosproxy.Error](err)
	require.True(t, ok)
	if failed.Answer != nil { // The proxy answered before the client's deadline.
		assert.Equal(t, qosproxy.TimedOut, failed.Answer.At(0).Status())
	}
}

func TestNoneAnsweredTellsOfEachKey(t *testing.T) {
	client := dial(t, address, qosproxy.Options{})
	_, err := client.Get(t.Context(), qosproxy.Lookup{Table: "shop.products", Keys: qosproxy.Keys("sku-slow")})
	failed, ok := errors.AsType[*qosproxy.Error](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, codes.DeadlineExceeded, failed.Code)
	assert.Equal(t, "TIMED_OUT", failed.Reason)
	require.NotNil(t, failed.Answer)
	assert.Equal(t, qosproxy.TimedOut, failed.Answer.At(0).Status())
	require.Error(t, failed.Answer.Err())
}

func TestWrongLookups(t *testing.T) {
	client := dial(t, address, qosproxy.Options{})
	for name, c := range map[string]struct {
		lookup qosproxy.Lookup
		code   codes.Code
		field  string
		says   string
	}{
		"no keyspace":       {qosproxy.Lookup{Table: "products"}, codes.InvalidArgument, "", "keyspace.table"},
		"no key":            {qosproxy.Lookup{Table: "shop.products"}, codes.InvalidArgument, "keys", "at least one"},
		"an unknown column": {qosproxy.Lookup{Table: "shop.products", Keys: qosproxy.Keys("a"), Columns: []string{"nope"}}, codes.InvalidArgument, "columns[0]", "nope"},
		"a key of another":  {qosproxy.Lookup{Table: "shop.products", Keys: qosproxy.Keys(1)}, codes.InvalidArgument, "keys[0]", "expected text"},
		"the zero key":      {qosproxy.Lookup{Table: "shop.products", Keys: []qosproxy.Key{{}}}, codes.InvalidArgument, "keys[0]", "components"},
		"the zero value":    {qosproxy.Lookup{Table: "shop.products", Keys: qosproxy.Keys(qosproxy.Value{})}, codes.InvalidArgument, "keys[0]", "unset"},
		"no type of CQL":    {qosproxy.Lookup{Table: "shop.products", Keys: qosproxy.Keys(make(chan int))}, codes.InvalidArgument, "", "Keys[0]: component 0: a chan int"},
		"a duration":        {qosproxy.Lookup{Table: "shop.products", Keys: qosproxy.Keys(time.Second)}, codes.InvalidArgument, "", "TimeOfDay"},
		"inside a list":     {qosproxy.Lookup{Table: "shop.products", Keys: qosproxy.Keys(qosproxy.List(1, struct{}{}))}, codes.InvalidArgument, "", "element 1: a struct"},
		"an unknown table":  {qosproxy.Lookup{Table: "shop.nope", Keys: qosproxy.Keys("a")}, codes.NotFound, "table", "nope"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := client.Get(t.Context(), c.lookup)
			failed, ok := errors.AsType[*qosproxy.Error](err)
			require.True(t, ok, "%v", err)
			assert.Equal(t, c.code, failed.Code, "%v", err)
			assert.Equal(t, c.field, failed.Field)
			assert.ErrorContains(t, err, c.says)
			for _, streamed := range client.Stream(t.Context(), c.lookup) {
				assert.Equal(t, c.code, status.Code(streamed), "%v", streamed)
			}
		})
	}
}

func TestCredentials(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("# mine\n\n0123456789abcdef\n"), 0o600))
	_, err := qosproxy.Dial("proxy.example.org:50051", qosproxy.Options{Token: qosproxy.TokenFile(token)})
	require.ErrorContains(t, err, "unencrypted to proxy.example.org")
	_, err = qosproxy.Dial("proxy.example.org:50051", qosproxy.Options{Keepalive: time.Second})
	require.ErrorContains(t, err, "below the 10s")

	one := qosproxy.Lookup{Table: "a.b", Keys: qosproxy.Keys("k")}
	s := &scripted{}
	socket := s.serve(t, filepath.Join(t.TempDir(), "s"))
	_, err = dial(t, socket, qosproxy.Options{Token: qosproxy.TokenFile(token), SocketName: "checkout"}).Get(t.Context(), one)
	require.NoError(t, err)
	assert.Equal(t, []string{"Bearer 0123456789abcdef"}, s.headers["authorization"])
	assert.Equal(t, []string{"checkout"}, s.headers["qosproxy-client"])

	_, err = dial(t, s.serve(t, ""), qosproxy.Options{Token: qosproxy.TokenFile(token + ".none"), PlaintextToken: true}).Get(t.Context(), one)
	require.ErrorContains(t, err, "token.none")
	assert.Equal(t, codes.Unauthenticated, status.Code(err))
}

func TestAKeyThatIsAnsweredTwiceHidesNoOther(t *testing.T) {
	s := &scripted{first: true}
	var last error
	for _, err := range dial(t, s.serve(t, ""), qosproxy.Options{}).Stream(t.Context(), qosproxy.Lookup{Table: "a.b", Keys: qosproxy.Keys("k", "l")}) {
		last = err
	}
	require.ErrorContains(t, last, "another number of keys")
	assert.Equal(t, codes.Internal, status.Code(last))
}

func TestNumbersThatTheWireCannotCarryAreRefused(t *testing.T) {
	client := dial(t, (&scripted{}).serve(t, ""), qosproxy.Options{})
	for says, l := range map[string]qosproxy.Lookup{
		"LimitPerKey is 4294967296": {LimitPerKey: 1 << 32}, "LimitPerKey is -1": {LimitPerKey: -1}, "MinKeys is 4294967297": {MinKeys: 1<<32 + 1},
		"Optional[1] is 4294967296; positions of 1 keys are 0 to 0": {Optional: []int{0, 1 << 32}}, "Optional[0] is -1": {Optional: []int{-1}},
	} {
		l.Table, l.Keys = "a.b", qosproxy.Keys("k")
		_, err := client.Get(t.Context(), l)
		require.ErrorContains(t, err, says)
		assert.Equal(t, codes.InvalidArgument, status.Code(err))
	}
}

func TestARowOfNoAnswerHasNoValues(t *testing.T) {
	assert.Nil(t, qosproxy.Row{}.Value("name"))
}

func TestScanOfWhatNoKeyHolds(t *testing.T) {
	client := dial(t, address, qosproxy.Options{})
	type place struct {
		Street string `cql:"street"`
		Zip    *int   `cql:"zip"`
	}
	type spot struct {
		N    int
		Name *string
	}
	type other struct {
		ID    int8              `cql:"id"`
		Count *uint64           `cql:"count"`
		Span  qosproxy.Duration `cql:"span"`
		Place *place            `cql:"place"`
		Spots []spot            `cql:"spots"`
	}
	ask := func(raw bool) *qosproxy.Answer {
		answer, err := client.Get(t.Context(), qosproxy.Lookup{Table: "shop.others", Keys: qosproxy.Keys(1, 2), CQL: raw})
		require.NoError(t, err)
		return answer
	}
	answer := ask(false)
	rows, err := qosproxy.Scan[other](answer.At(0))
	require.NoError(t, err)
	seven, a := uint64(7), "a"
	assert.Equal(t, []other{{1, &seven, qosproxy.Duration{Months: 1, Days: 2, Nanoseconds: 3}, &place{"High St", nil}, []spot{{1, &a}, {2, nil}}}}, rows)
	rows, err = qosproxy.Scan[other](answer.At(1))
	require.NoError(t, err)
	assert.Equal(t, []other{{ID: 2}}, rows)

	type anything struct {
		Count, Span, Place, Spots any
	}
	raw, err := answer.At(0).Rows()
	require.NoError(t, err)
	got := anything{}
	for column, to := range map[string]*any{"count": &got.Count, "span": &got.Span, "place": &got.Place, "spots": &got.Spots} {
		*to, err = qosproxy.Get[any](raw[0], column)
		require.NoError(t, err, column)
	}
	assert.Equal(t, anything{int64(7), qosproxy.Duration{Months: 1, Days: 2, Nanoseconds: 3}, map[string]any{"street": "High St", "zip": nil},
		[]any{[]any{int32(1), "a"}, []any{int32(2), nil}}}, got)

	type driven struct {
		Count int64          `cql:"count"`
		Span  gocql.Duration `cql:"span"`
		Place map[string]any `cql:"place"`
	}
	byDriver, err := cql.Scan[driven](ask(true).At(0))
	require.NoError(t, err)
	assert.Equal(t, int64(7), byDriver[0].Count)
	assert.Equal(t, gocql.Duration{Months: 1, Days: 2, Nanoseconds: 3}, byDriver[0].Span)
	assert.Equal(t, "High St", byDriver[0].Place["street"])
	_, err = cql.Scan[driven](answer.At(0))
	require.ErrorContains(t, err, "decoded already")
	_, err = qosproxy.Scan[other](ask(true).At(0))
	require.ErrorContains(t, err, "undecoded")
}

func TestScanSaysWhatDoesNotFit(t *testing.T) {
	client := dial(t, address, qosproxy.Options{})
	answer, err := client.Get(t.Context(), qosproxy.Lookup{Table: "shop.products", Keys: qosproxy.Keys("sku-1")})
	require.NoError(t, err)
	r := answer.At(0)
	_, err = qosproxy.Scan[struct {
		Name int `cql:"name"`
	}](r)
	require.ErrorContains(t, err, "column name into struct")
	require.ErrorContains(t, err, "a text does not go into int")
	_, err = qosproxy.Scan[struct {
		Name string `cql:"title"`
	}](r)
	require.ErrorContains(t, err, "title, which is not in the answer (id, name, price, tags)")
	_, err = qosproxy.Scan[struct{ Name string }](r)
	require.ErrorContains(t, err, "no field with a tag")
	_, err = qosproxy.Scan[string](r)
	require.ErrorContains(t, err, "not into string")
	_, err = qosproxy.Scan[struct {
		name string `cql:"name"`
	}](r)
	require.ErrorContains(t, err, "not exported")
	orders, err := client.Get(t.Context(), qosproxy.Lookup{Table: "shop.orders", Keys: []qosproxy.Key{qosproxy.NewKey("north", int16(2026))}})
	require.NoError(t, err)
	_, err = qosproxy.Scan[struct {
		Year int8 `cql:"year"`
	}](orders.At(0))
	require.ErrorContains(t, err, "out of the range of int8")
}

func TestDecimalsAsText(t *testing.T) {
	for text, want := range map[string]qosproxy.Decimal{
		"19.50": {Unscaled: big.NewInt(1950), Scale: 2}, "-0.007": {Unscaled: big.NewInt(-7), Scale: 3}, "7": {Unscaled: big.NewInt(7)},
		"1.5E+9": {Unscaled: big.NewInt(15), Scale: -8}, "1E-9": {Unscaled: big.NewInt(1), Scale: 9}, "0.0": {Unscaled: new(big.Int), Scale: 1},
	} {
		got, err := qosproxy.ParseDecimal(text)
		require.NoError(t, err, text)
		assert.Zero(t, want.Unscaled.Cmp(got.Unscaled), text)
		assert.Equal(t, want.Scale, got.Scale, text)
		assert.Equal(t, text, want.String())
	}
	for _, text := range []string{"", ".", "1.-5", "1_0", "x", "1e", "1e99999999999", "--1", "1.2.3"} {
		_, err := qosproxy.ParseDecimal(text)
		require.Error(t, err, text)
	}
	assert.Equal(t, "0", qosproxy.Decimal{}.String())
}
