package bench

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
)

// listener is a gRPC listener that counts its callers.
type listener struct {
	qosproxyv1.UnimplementedQosProxyServer
	mu    sync.Mutex
	asked map[string]int // by authorization
}

func (l *listener) BatchGet(ctx context.Context, in *qosproxyv1.BatchGetRequest) (*qosproxyv1.BatchGetResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range append(metadata.ValueFromIncomingContext(ctx, "authorization"), "all") {
		l.asked[a]++
	}
	out := &qosproxyv1.BatchGetResponse{}
	if in.GetExplain() {
		out.Results = append(out.Results, &qosproxyv1.KeyResult{Status: qosproxyv1.KeyStatus_KEY_STATUS_TIMED_OUT, Error: "late"})
		out.Explanation = &qosproxyv1.Explanation{Attempts: []*qosproxyv1.Attempt{
			{Kind: qosproxyv1.AttemptKind_ATTEMPT_KIND_FIRST, Host: "a", Keys: []int32{0, 1}, End: durationpb.New(3 * time.Millisecond),
				Outcome: qosproxyv1.AttemptOutcome_ATTEMPT_OUTCOME_FAILED, Error: "unreachable"},
			{Kind: qosproxyv1.AttemptKind_ATTEMPT_KIND_FAILOVER, Host: "b", Keys: []int32{1}},
			{Kind: qosproxyv1.AttemptKind_ATTEMPT_KIND_FAILOVER, Host: "c", Keys: []int32{0}, Start: durationpb.New(3 * time.Millisecond),
				End: durationpb.New(115 * time.Millisecond), Outcome: qosproxyv1.AttemptOutcome_ATTEMPT_OUTCOME_PENDING, NotHedged: "load"},
		}}
	}
	for range in.GetKeys()[len(out.GetResults()):] {
		out.Results = append(out.Results, &qosproxyv1.KeyResult{Status: qosproxyv1.KeyStatus_KEY_STATUS_NOT_FOUND})
	}
	return out, nil
}

func (l *listener) count(of string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked[of]
}

// serveAt serves a listener and returns it, its address and its stop.
func serveAt(t *testing.T, address string) (*listener, string, func()) {
	t.Helper()
	bound, err := net.Listen("tcp", address)
	require.NoError(t, err)
	l, s := &listener{asked: map[string]int{}}, grpc.NewServer()
	qosproxyv1.RegisterQosProxyServer(s, l)
	go func() { _ = s.Serve(bound) }()
	t.Cleanup(s.Stop)
	return l, bound.Addr().String(), s.GracefulStop
}

func TestTheTokenGoesWithEveryLookup(t *testing.T) {
	door, address, _ := serveAt(t, "127.0.0.1:0")
	var header string
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { header = r.Header.Get("Authorization") }))
	defer web.Close()
	for token, sent := range map[string]string{"secret": "Bearer secret", "": ""} {
		d, err := NewDriver(Open{Data: dataset(t, small, 7), Timeout: 5 * time.Second, GRPC: address, HTTP: web.Listener.Addr().String(), Token: token}, Meter{})
		require.NoError(t, err)
		lookup := newWorkload(d.open.Data, d.open.kinds, 1).next()
		for _, name := range []string{ProxyGRPC, ProxyHTTP} {
			target, err := d.Target(t.Context(), name)
			require.NoError(t, err)
			target.Do(t.Context(), lookup)
		}
		assert.Equal(t, sent, header)
		d.Close()
	}
	assert.Equal(t, 1, door.count("Bearer secret"))
	assert.Equal(t, 2, door.count("all"))
}

func TestAKeyThatIsNotAnsweredTellsWhatWasTried(t *testing.T) {
	_, address, _ := serveAt(t, "127.0.0.1:0")
	d, err := NewDriver(Open{Data: dataset(t, small, 7), Timeout: 5 * time.Second, GRPC: address, Explain: true}, Meter{})
	require.NoError(t, err)
	defer d.Close()
	target, err := d.Target(t.Context(), ProxyGRPC)
	require.NoError(t, err)
	got := target.Do(t.Context(), newWorkload(d.open.Data, d.open.kinds, 1).next())
	assert.Equal(t, 1, got.Failed)
	assert.EqualError(t, got.Err, "KEY_STATUS_TIMED_OUT: late\nFIRST of 2 keys to a from 0 to 3: FAILED (unreachable)\nFAILOVER of 1 keys to c from 3 to 115: PENDING (load)")
}

func TestSeveralProxiesTakeTurnsAndOneMayGo(t *testing.T) {
	one, first, stop := serveAt(t, "127.0.0.1:0")
	two, second, _ := serveAt(t, "127.0.0.1:0")
	d, err := NewDriver(Open{Data: dataset(t, small, 7), Timeout: 20 * time.Second, GRPC: first + ", " + second}, Meter{})
	require.NoError(t, err)
	defer d.Close()
	target, err := d.Target(t.Context(), ProxyGRPC)
	require.NoError(t, err)
	lookup := newWorkload(d.open.Data, d.open.kinds, 1).next()
	asked := func() { assert.Empty(t, target.Do(t.Context(), lookup).Failed) }
	both := func() bool { asked(); return one.count("all") > 5 && two.count("all") > 5 }
	require.Eventually(t, both, 20*time.Second, time.Millisecond)
	stop()
	for range 20 {
		asked()
	}
	again, _, _ := serveAt(t, first)
	require.Eventually(t, func() bool { asked(); return again.count("all") > 0 }, 20*time.Second, time.Millisecond, "a proxy that is back is asked")
}

func TestALoadCanEndEarly(t *testing.T) {
	for _, load := range []Load{{Rate: 200}, {Concurrency: 2}} {
		synctest.Test(t, func(t *testing.T) {
			enough := make(chan struct{})
			load.Until = enough
			time.AfterFunc(time.Second, func() { close(enough) })
			c := driverOf(t, map[string]Target{In: &scripted{do: after(10 * time.Millisecond)}}).Contenders("", In)[0]
			r, err := c.round(t.Context(), load, time.Hour, 1, 0)
			require.NoError(t, err)
			assert.InDelta(t, 200, r.Counts.Lookups, 60)
			assert.InDelta(t, 1, r.Seconds, 0.1)
		})
	}
}
