package acceptance

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/app"
	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/config"
	"github.com/qosproxy/qosproxy/internal/lab/devcluster"
)

// scale multiplies the counts of the random tests: QOSPROXY_ACCEPTANCE_SCALE=10
// is the long run.
func scale(n int) int { return n * factor }

var factor = func() int {
	const name = "QOSPROXY_ACCEPTANCE_SCALE"
	s, err := strconv.Atoi(os.Getenv(name))
	// A proxy that a test starts would refuse a variable that it does not know.
	_ = os.Unsetenv(name)
	if err != nil || s < 1 {
		return 1
	}
	return s
}()

// bootTimeout is how long a cluster may take to boot, including the first download.
const bootTimeout = 10 * time.Minute

// patience is how long a test waits for what the proxy does not promise to do in time: the machine
// is busy with a cluster and the tests.
const patience = time.Minute

// boot starts a cluster and opens a session to it. Both end with the test.
func boot(t *testing.T, cfg devcluster.Config) (*devcluster.Cluster, *cassandra.Client) {
	t.Helper()
	if testing.Short() {
		t.Skip("boots a Cassandra cluster")
	}
	cfg.ShortLived = true
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), bootTimeout)
	defer cancel()
	cluster, err := devcluster.Start(ctx, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	t.Logf("%d nodes booted in %s", len(cfg.Nodes), time.Since(start).Round(100*time.Millisecond))
	return cluster, connect(t, cluster.ContactPoints()...)
}

// connect opens a session, which ends with the test.
func connect(t *testing.T, contactPoints ...string) *cassandra.Client {
	t.Helper()
	settings := cassandra.Default()
	settings.ContactPoints = contactPoints
	settings.Logger = slog.New(slog.DiscardHandler)
	client, err := cassandra.Connect(t.Context(), settings)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// execute runs statements one after the other.
func execute(t *testing.T, client *cassandra.Client, statements ...string) {
	t.Helper()
	for _, s := range statements {
		require.NoError(t, client.Exec(t.Context(), s), s)
	}
}

// define runs statements of data definition.
func define(t *testing.T, client *cassandra.Client, statements ...string) {
	t.Helper()
	require.NoError(t, client.Define(t.Context(), statements...))
}

// proxy is a running proxy with a client for each listener.
type proxy struct {
	*app.App
	http  string
	admin string
	grpc  qosproxyv1.QosProxyClient
}

// serve runs a proxy in this process until the test ends.
func serve(t *testing.T, cluster *devcluster.Cluster, yaml string) *proxy {
	t.Helper()
	cfg, err := config.Parse([]byte(yaml), "acceptance.yaml")
	require.NoError(t, err)
	cfg.Cassandra.ContactPoints = cluster.ContactPoints()
	if cfg.Cassandra.LocalDC.Local() == "" {
		cfg.Cassandra.LocalDC = config.Datacenters{"dc1"}
	}
	// A machine that runs a whole cluster and the tests is slow at times, for which admission would
	// refuse lookups.
	cfg.Admission.Enabled = false
	cfg.Listen.GRPC, cfg.Listen.HTTP, cfg.Listen.Admin = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	p := &proxy{App: app.New(cfg, app.Options{Version: "test"})}
	require.NoError(t, p.Start(t.Context()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		require.NoError(t, p.Stop(ctx))
	})
	require.Eventually(t, func() bool { return p.NotReady() == "" }, patience, 20*time.Millisecond, "the proxy becomes ready")
	p.http, p.admin = "http://"+p.Addr("http"), "http://"+p.Addr("admin")
	p.grpc = dial(t, p.Addr("grpc"))
	return p
}

// dial connects to the gRPC listener at an address.
func dial(t *testing.T, addr string) qosproxyv1.QosProxyClient {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return qosproxyv1.NewQosProxyClient(conn)
}

// answer is a response of the HTTP listener.
type answer struct {
	Results []struct {
		Key    json.RawMessage   `json:"key"`
		Status string            `json:"status"`
		Rows   []json.RawMessage `json:"rows"`
		Error  string            `json:"error"`

		NextPageToken string `json:"next_page_token"`
	} `json:"results"`
	Partial     bool              `json:"partial"`
	Unprocessed []json.RawMessage `json:"unprocessed_keys"`
	Stats       struct {
		Keys       int `json:"keys"`
		SubQueries int `json:"sub_queries"`
	} `json:"stats"`
	Error *struct {
		Code, Message, Field string
	} `json:"error"`
}

// post sends a batchGet to the HTTP listener.
func (p *proxy) post(ctx context.Context, table, body string) (int, *answer, error) {
	keyspace, name, _ := strings.Cut(table, ".")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("%s/v1/%s/%s:batchGet", p.http, keyspace, name), strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil, err
	}
	a := new(answer)
	if err := json.Unmarshal(data, a); err != nil {
		return 0, nil, fmt.Errorf("%s: %w", data, err)
	}
	return resp.StatusCode, a, nil
}

// get reads a page of the admin listener.
func (p *proxy) get(t *testing.T, path string, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.admin+path, nil)
	require.NoError(t, err)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(data)
}
