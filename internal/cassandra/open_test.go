package cassandra

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/secret"
)

// quiet is a configuration for one address.
func quiet(addr string) Config {
	cfg := Default()
	cfg.ContactPoints = []string{addr}
	cfg.ConnectTimeout = time.Second
	cfg.Logger = slog.New(slog.DiscardHandler)
	return cfg
}

// closedPort returns an address that refuses connections.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	return l.Addr().String()
}

func TestOpenRefusesWhatCannotBe(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"contact_points is empty":           func(c *Config) { c.ContactPoints = nil },
		"a contact point is empty":          func(c *Config) { c.ContactPoints = []string{" "} },
		"port is 70000":                     func(c *Config) { c.Port = 70000 },
		"connections_per_host is -1":        func(c *Config) { c.ConnectionsPerHost = -1 },
		"a timeout or interval is negative": func(c *Config) { c.RequestTimeout = -1 },
		"a password without a username":     func(c *Config) { c.Password = secret.New("x") },
		`unknown consistency level "SOME"`:  func(c *Config) { c.Consistency = "SOME" },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Default()
			change(&cfg)
			_, err := Open(t.Context(), cfg)
			require.ErrorIs(t, err, ErrConfig)
			require.ErrorContains(t, err, name)
		})
	}
}

func TestStatusSaysWhyAndWhatToDo(t *testing.T) {
	plain := closedPort(t)
	// A server whose certificate nobody has signed.
	https := httptest.NewUnstartedServer(nil)
	https.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	https.StartTLS()
	defer https.Close()
	secured := https.Listener.Addr().String()
	for name, test := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"nobody listens": {func(*Config) {}, "no contact point answered: " + plain + ": connection refused; check cassandra.contact_points"},
		"a name that does not resolve": {func(c *Config) { c.ContactPoints = []string{"cassandra.invalid"} },
			"no contact point could be resolved: cassandra.invalid; check cassandra.contact_points"},
		"a certificate that is not trusted, however careless the configuration": {func(c *Config) {
			c.ContactPoints, c.TLS = []string{secured}, &tls.Config{InsecureSkipVerify: true}
		}, "certificate signed by unknown authority; check cassandra.tls"},
	} {
		t.Run(name, func(t *testing.T) {
			others := goleak.IgnoreCurrent()
			cfg := quiet(plain)
			test.change(&cfg)
			c, err := Open(t.Context(), cfg)
			require.NoError(t, err)
			assert.Eventually(t, func() bool { return strings.Contains(c.Status().Reason, test.want) }, 5*time.Second, time.Millisecond)
			assert.Contains(t, c.Status().Reason, test.want)
			assert.False(t, c.Status().Ready)
			assert.Nil(t, c.Ring())
			assert.Nil(t, c.Schema())
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			require.ErrorContains(t, c.WaitReady(ctx), test.want)
			cancel()
			c.Close()
			require.ErrorIs(t, c.WaitReady(t.Context()), errClosed)
			goleak.VerifyNone(t, others)
		})
	}
}

func TestReadWithoutASession(t *testing.T) {
	c, err := Open(t.Context(), quiet(closedPort(t)))
	require.NoError(t, err)
	defer c.Close()
	settled := 0
	_, err = c.Read(t.Context(), &executor.SubQuery{Query: &executor.Query{Consistency: "ONE"}, Settled: func() { settled++ }})
	var re *executor.ReadError
	require.ErrorAs(t, err, &re)
	assert.Equal(t, executor.ReasonUnreachable, re.Reason)
	assert.Equal(t, 1, settled)
}

func TestConnectEndsWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err = Connect(ctx, quiet(l.Addr().String()))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, time.Since(start), 800*time.Millisecond, "a server that accepts and says nothing is not waited for")
}

func TestParseConsistency(t *testing.T) {
	for _, ok := range []string{"ONE", "local_one", "LOCAL_QUORUM", "EACH_QUORUM", "ALL", "Two", "THREE", "QUORUM", "SERIAL", "LOCAL_SERIAL"} {
		level, err := ParseConsistency(ok)
		require.NoError(t, err)
		require.Equal(t, strings.ToUpper(ok), level, "one word for each level")
	}
	for _, bad := range []string{"", "ANY", "NODE_LOCAL", "MOST"} {
		_, err := ParseConsistency(bad)
		require.ErrorContains(t, err, "LOCAL_QUORUM")
	}
	cfg := Default()
	cfg.Consistency = "local_quorum"
	cfg, err := cfg.complete()
	require.NoError(t, err)
	require.Equal(t, "LOCAL_QUORUM", cfg.Consistency)
}

func TestMetricsOfTheRing(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	cfg := quiet(closedPort(t))
	cfg.Registerer = reg
	c, err := Open(t.Context(), cfg)
	require.NoError(t, err)
	two := hosts(1, 2)
	two[0].Tokens, two[1].Tokens = []int64{-1 << 62}, []int64{1 << 62}
	r, err := ring.New(ring.Topology{Hosts: two})
	require.NoError(t, err)
	c.ring.Store(r)
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP qosproxy_ring_last_refresh_timestamp_seconds When the ring was last known to be right; 0 before the first time.
# TYPE qosproxy_ring_last_refresh_timestamp_seconds gauge
qosproxy_ring_last_refresh_timestamp_seconds 0
# HELP qosproxy_ring_ownership_ratio Share of the token ring that the host owns, before replication; the shares sum to 1.
# TYPE qosproxy_ring_ownership_ratio gauge
qosproxy_ring_ownership_ratio{host="10.0.0.1:9042"} 0.5
qosproxy_ring_ownership_ratio{host="10.0.0.2:9042"} 0.5
# HELP qosproxy_whole_row_reads_total Sub-queries that read all columns that may be read, because clients ask a table for more sets of columns than have prepared statements of their own.
# TYPE qosproxy_whole_row_reads_total counter
qosproxy_whole_row_reads_total 0
`)))
	_, err = Open(t.Context(), cfg)
	require.ErrorContains(t, err, "register the metrics")
	c.Close()
	n, err := testutil.GatherAndCount(reg)
	require.NoError(t, err)
	assert.Zero(t, n, "a closed cluster leaves no metric")
}
