package server

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/incident"
	"github.com/qosproxy/qosproxy/internal/lookup"
)

const anyPort = "127.0.0.1:0"

// start starts a server, and stops it at the end of the test.
func start(t *testing.T, cfg Config, deps Deps) *Server {
	t.Helper()
	s := New(cfg, deps)
	require.NoError(t, s.Start(t.Context()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Second)
		defer cancel()
		_ = s.Shutdown(ctx)
	})
	return s
}

func dial(t *testing.T, target string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(target, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// browse fetches a URL and returns status and body.
func browse(t *testing.T, url string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

func TestDrainThenShutdownAnswersWhatIsInFlight(t *testing.T) {
	asked, release := make(chan struct{}, 2), make(chan struct{})
	f := &fake{tables: []*lookup.Table{products(t)}, get: func(ctx context.Context, req *lookup.Request) (*lookup.Response, error) {
		asked <- struct{}{}
		<-release
		return respond(absent)(ctx, req)
	}}
	s := start(t, Config{GRPC: Listener{Address: anyPort}, HTTP: Listener{Address: anyPort}, Admin: Listener{Address: anyPort}}, Deps{Lookup: f})
	conn := dial(t, s.Addr("grpc").String())
	rpc, probe := qosproxyv1.NewQosProxyClient(conn), healthpb.NewHealthClient(conn)
	admin := "http://" + s.Addr("admin").String()

	resp, err := probe.Check(t.Context(), &healthpb.HealthCheckRequest{})
	require.NoError(t, err)
	assert.Equal(t, healthpb.HealthCheckResponse_SERVING, resp.GetStatus())
	code, _ := browse(t, admin+"/readyz")
	assert.Equal(t, http.StatusOK, code)

	var calls sync.WaitGroup
	var rpcErr error
	var httpCode int
	calls.Go(func() {
		_, rpcErr = rpc.BatchGet(t.Context(), &qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "products", Keys: []*qosproxyv1.Key{key(text("a"))}})
	})
	calls.Go(func() { httpCode, _ = browse(t, "http://"+s.Addr("http").String()+"/v1/ks/products/a") })
	<-asked
	<-asked

	s.Drain(t.Context(), time.Millisecond)
	resp, err = probe.Check(t.Context(), &healthpb.HealthCheckRequest{Service: "qosproxy.v1.QosProxy"})
	require.NoError(t, err)
	assert.Equal(t, healthpb.HealthCheckResponse_NOT_SERVING, resp.GetStatus())
	code, body := browse(t, admin+"/readyz")
	assert.Equal(t, http.StatusServiceUnavailable, code)
	assert.Contains(t, body, "draining")
	code, _ = browse(t, admin+"/livez")
	assert.Equal(t, http.StatusOK, code)

	down := make(chan error, 1)
	go func() { down <- s.Shutdown(t.Context()) }()
	select {
	case <-down:
		t.Fatal("shut down while requests were in-flight")
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	calls.Wait()
	require.NoError(t, rpcErr)
	assert.Equal(t, http.StatusNotFound, httpCode)
	require.NoError(t, <-down)
	_, err = net.Dial("tcp", s.Addr("admin").String())
	assert.Error(t, err)
}

func TestShutdownCutsOffWhatDoesNotEnd(t *testing.T) {
	asked := make(chan struct{})
	f := &fake{tables: []*lookup.Table{products(t)}, get: func(ctx context.Context, req *lookup.Request) (*lookup.Response, error) {
		close(asked)
		<-ctx.Done()
		return respond(late)(ctx, req)
	}}
	s := start(t, Config{GRPC: Listener{Address: anyPort}}, Deps{Lookup: f})
	rpc := qosproxyv1.NewQosProxyClient(dial(t, s.Addr("grpc").String()))
	failed := make(chan error, 1)
	go func() {
		_, err := rpc.BatchGet(t.Context(), &qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "products", Keys: []*qosproxyv1.Key{key(text("a"))}})
		failed <- err
	}()
	<-asked
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorContains(t, s.Shutdown(ctx), "requests were cut off")
	assert.Error(t, <-failed)
}

// TestOpenCallsDoNotHoldUpShutdown has callers that watch the health, use reflection, and
// begin a call without sending its message.
func TestOpenCallsDoNotHoldUpShutdown(t *testing.T) {
	s := start(t, Config{GRPC: Listener{Address: anyPort}}, Deps{Lookup: &fake{}})
	conn := dial(t, s.Addr("grpc").String())
	watch, err := healthpb.NewHealthClient(conn).Watch(t.Context(), &healthpb.HealthCheckRequest{})
	require.NoError(t, err)
	_, err = watch.Recv()
	require.NoError(t, err)
	reflect := reflected(t, conn)
	silent, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, healthpb.Health_Check_FullMethodName)
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, s.Shutdown(ctx))
	for err = nil; err == nil; {
		_, err = watch.Recv()
	}
	assert.NotErrorIs(t, err, io.EOF)
	_, err = reflect.Recv()
	assert.Error(t, err)
	assert.Error(t, silent.RecvMsg(&healthpb.HealthCheckResponse{}))
}

func TestATakenPortIsNamedAndNothingStaysBound(t *testing.T) {
	taken, err := net.Listen("tcp", anyPort)
	require.NoError(t, err)
	defer taken.Close()
	socket := filepath.Join(t.TempDir(), "grpc.sock")
	s := New(Config{GRPC: Listener{Address: "unix://" + socket}, HTTP: Listener{Address: taken.Addr().String()}}, Deps{Lookup: &fake{}})
	err = s.Start(t.Context())
	require.ErrorContains(t, err, "listen for http on "+taken.Addr().String()+": the port is taken by another process")
	assert.NoFileExists(t, socket)
}

func TestUnixSockets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "q.sock")
	// A killed process leaves its socket behind.
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	require.NoError(t, err)
	stale.SetUnlinkOnClose(false)
	require.NoError(t, stale.Close())

	s := start(t, Config{GRPC: Listener{Address: "unix://" + path, SocketMode: 0o600}}, Deps{Lookup: &fake{}})
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	_, err = qosproxyv1.NewQosProxyClient(dial(t, "unix://"+path)).ListTables(t.Context(), &qosproxyv1.ListTablesRequest{})
	require.NoError(t, err)

	second := New(Config{GRPC: Listener{Address: "unix://" + path}}, Deps{Lookup: &fake{}})
	require.ErrorContains(t, second.Start(t.Context()), "another process listens on the socket")
	require.NoError(t, s.Shutdown(t.Context()))
	assert.NoFileExists(t, path)

	require.NoError(t, os.WriteFile(path, []byte("data"), 0o600))
	require.ErrorContains(t, second.Start(t.Context()), "is not a socket")
	assert.FileExists(t, path)
}

func TestHealthFollowsReadiness(t *testing.T) {
	reason := make(chan string, 1)
	reason <- "no cluster yet"
	deps := Deps{Lookup: &fake{}, Ready: func() string { r := <-reason; reason <- r; return r }}
	s := start(t, Config{GRPC: Listener{Address: anyPort}, Admin: Listener{Address: anyPort}}, deps)
	probe := healthpb.NewHealthClient(dial(t, s.Addr("grpc").String()))
	watch, err := probe.Watch(t.Context(), &healthpb.HealthCheckRequest{Service: "qosproxy.v1.QosProxy"})
	require.NoError(t, err)
	seen, err := watch.Recv()
	require.NoError(t, err)
	assert.Equal(t, healthpb.HealthCheckResponse_NOT_SERVING, seen.GetStatus())
	code, body := browse(t, "http://"+s.Addr("admin").String()+"/readyz")
	assert.Equal(t, http.StatusServiceUnavailable, code)
	assert.Equal(t, "not ready: no cluster yet\n", body)

	<-reason
	reason <- ""
	code, _ = browse(t, "http://"+s.Addr("admin").String()+"/readyz")
	assert.Equal(t, http.StatusOK, code)
	s.health.mu.Lock()
	told := s.health.state
	s.health.mu.Unlock()
	assert.Equal(t, healthpb.HealthCheckResponse_SERVING, told, "watchers know what /readyz says")
	seen, err = watch.Recv()
	require.NoError(t, err)
	assert.Equal(t, healthpb.HealthCheckResponse_SERVING, seen.GetStatus())

	_, err = probe.Check(t.Context(), &healthpb.HealthCheckRequest{Service: "nope"})
	assert.Equal(t, codes.NotFound, status.Code(err))
}

func TestAPanicIsAnIncident(t *testing.T) {
	var out bytes.Buffer
	d := open(t, Deps{Log: slog.New(slog.NewTextHandler(&out, nil)), Lookup: &fake{tables: []*lookup.Table{products(t)},
		get: func(context.Context, *lookup.Request) (*lookup.Response, error) { panic("sku-secret") }}})
	keys := []*qosproxyv1.Key{key(text("sku-secret"))}
	_, err := d.rpc.BatchGet(t.Context(), &qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "products", Keys: keys})
	assert.Equal(t, codes.Internal, status.Code(err))
	assert.Contains(t, err.Error(), "under incident ")
	assert.Equal(t, "INTERNAL", d.observed.last())
	stream, err := d.rpc.StreamBatchGet(t.Context(), &qosproxyv1.StreamBatchGetRequest{Keyspace: "ks", Table: "products", Keys: keys})
	require.NoError(t, err)
	_, err = stream.Recv()
	assert.Equal(t, codes.Internal, status.Code(err))
	w := do(d.http.Handler, http.MethodGet, "/v1/ks/products/sku-secret", "")
	assert.Equal(t, http.StatusInternalServerError, w.Code)
	assert.Equal(t, "INTERNAL", httpProblem(t, w.Body.Bytes()).code)
	assert.Equal(t, 3, bytes.Count(out.Bytes(), []byte("msg=panic")))
	assert.NotContains(t, out.String(), "sku-secret")
}

// A panic in a goroutine of a lookup arrives as an error of the lookup.
func TestAnIncidentOfALookupIsInternal(t *testing.T) {
	failed := &incident.Error{ID: "0123456789ab"}
	d := open(t, Deps{Lookup: &fake{tables: []*lookup.Table{products(t)},
		get: func(context.Context, *lookup.Request) (*lookup.Response, error) { return nil, failed }}})
	keys := []*qosproxyv1.Key{key(text("sku"))}
	_, err := d.rpc.BatchGet(t.Context(), &qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "products", Keys: keys})
	stream, open := d.rpc.StreamBatchGet(t.Context(), &qosproxyv1.StreamBatchGetRequest{Keyspace: "ks", Table: "products", Keys: keys})
	require.NoError(t, open)
	_, streamed := stream.Recv()
	for _, err := range []error{err, streamed} {
		assert.Equal(t, codes.Internal, status.Code(err))
		assert.Contains(t, err.Error(), "incident 0123456789ab")
	}
	assert.Equal(t, "INTERNAL", d.observed.last())
	w := do(d.http.Handler, http.MethodGet, "/v1/ks/products/sku", "")
	assert.Equal(t, http.StatusInternalServerError, w.Code)
	assert.Equal(t, "INTERNAL", httpProblem(t, w.Body.Bytes()).code)
	assert.Contains(t, w.Body.String(), "incident 0123456789ab")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	assert.Equal(t, internal, outcomeOfError(ended, failed), "also when the lookup was cancelled for it")
}

func TestAccessIsLoggedAtDebugWithoutKeys(t *testing.T) {
	var out bytes.Buffer
	level := new(slog.LevelVar)
	d := open(t, Deps{Log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level})), Lookup: &fake{tables: []*lookup.Table{products(t)}}})
	do(d.http.Handler, http.MethodGet, "/v1/ks/products/sku-secret", "")
	assert.Empty(t, out.String())
	level.Set(slog.LevelDebug)
	do(d.http.Handler, http.MethodGet, "/v1/ks/products/sku-secret", "")
	assert.Contains(t, out.String(), "Not Found")
	assert.NotContains(t, out.String(), "sku-secret")
}
