//go:build lab

package cassandra_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/lab/devcluster"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// TestMain stops the cluster that the tests share.
func TestMain(m *testing.M) {
	code := m.Run()
	if err := shared.stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// sharedCluster is the cluster of three nodes that most real tests share.
type sharedCluster struct {
	mu      sync.Mutex
	cluster *devcluster.Cluster
	admin   *cassandra.Client
	tables  atomic.Int64
}

var shared sharedCluster

// patience is how long a test waits for what the client does not promise to do in time: the machine
// is busy with a cluster and the tests.
const patience = time.Minute

// tombstoneLimit is how many tombstones a read on the shared cluster survives.
const tombstoneLimit = 200

// get boots the cluster if no test has, and skips the test in short mode.
func (s *sharedCluster) get(t testing.TB) (*devcluster.Cluster, *cassandra.Client) {
	t.Helper()
	if testing.Short() {
		t.Skip("boots a real Cassandra cluster")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cluster != nil {
		return s.cluster, s.admin
	}
	nodes := devcluster.Racks("dc1", "r1", "r2", "r3")
	for i := range nodes[:2] { // but not for the third, which therefore refuses NODE_LOCAL
		nodes[i].JVMArgs = []string{"-Dcassandra.enable_nodelocal_queries=true"}
	}
	c, err := devcluster.Start(t.Context(), devcluster.Config{
		Nodes: nodes, ShortLived: true,
		YAML: map[string]any{"tombstone_failure_threshold": tombstoneLimit, "tombstone_warn_threshold": tombstoneLimit},
	})
	require.NoError(t, err)
	s.cluster = c
	s.admin, err = cassandra.Connect(t.Context(), config(c))
	require.NoError(t, err)
	require.NoError(t, s.admin.Exec(t.Context(),
		"CREATE KEYSPACE IF NOT EXISTS test WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3}"))
	return s.cluster, s.admin
}

// stop ends the cluster; the next get boots another.
func (s *sharedCluster) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cluster == nil {
		return nil
	}
	if s.admin != nil {
		s.admin.Close()
	}
	err := s.cluster.Stop()
	s.cluster, s.admin = nil, nil
	return err
}

// table creates a table in keyspace test and returns its name; the definition
// has %s where the name goes.
func (s *sharedCluster) table(t testing.TB, definition string) string {
	t.Helper()
	name := fmt.Sprintf("t%d", s.tables.Add(1))
	require.NoError(t, s.admin.Exec(t.Context(), fmt.Sprintf(definition, "test."+name)))
	return name
}

// define is table for several definitions. It waits once until all nodes know them.
func (s *sharedCluster) define(t testing.TB, definitions ...string) (names []string) {
	t.Helper()
	statements := make([]string, len(definitions))
	for i, definition := range definitions {
		names = append(names, fmt.Sprintf("t%d", s.tables.Add(1)))
		statements[i] = fmt.Sprintf(definition, "test."+names[i])
	}
	require.NoError(t, s.admin.Define(t.Context(), statements...))
	return names
}

// logger returns a logger for clusters; its output is shown when the test fails.
func logger(t testing.TB) *slog.Logger {
	var mu sync.Mutex
	var buf bytes.Buffer
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		if t.Failed() {
			t.Log(buf.String())
		}
	})
	return slog.New(slog.NewTextHandler(lockedWriter{&mu, &buf}, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

type lockedWriter struct {
	mu  *sync.Mutex
	buf *bytes.Buffer
}

func (w lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(p)
}

func config(c *devcluster.Cluster) cassandra.Config {
	cfg := cassandra.Default()
	cfg.ContactPoints = c.ContactPoints()
	cfg.Consistency = "ALL"
	return cfg
}

// open opens a Cluster and waits until it is ready.
func open(t testing.TB, cfg cassandra.Config) *cassandra.Cluster {
	t.Helper()
	cfg.Logger = logger(t)
	c, err := cassandra.Open(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	ready(t, c, patience)
	return c
}

func ready(t testing.TB, c *cassandra.Cluster, within time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	require.NoError(t, c.WaitReady(ctx))
}

// definition returns the table of the snapshot, waiting until it is there.
func definition(t testing.TB, c *cassandra.Cluster, name string) *schema.Table {
	t.Helper()
	var table *schema.Table
	require.Eventually(t, func() bool {
		var ok bool
		table, ok = c.Schema().Table("test", name)
		return ok
	}, time.Minute, 10*time.Millisecond, "table test.%s never came", name)
	return table
}

// columns returns the named columns of a table; all of them when none is named.
func columns(t testing.TB, table *schema.Table, names ...string) []schema.Column {
	t.Helper()
	if len(names) == 0 {
		return table.Columns
	}
	out := make([]schema.Column, len(names))
	for i, n := range names {
		var ok bool
		out[i], ok = table.Column(n)
		require.True(t, ok, "column %s", n)
	}
	return out
}

// settling counts the calls of a sub-query's Settled.
type settling struct {
	count atomic.Int32
	done  chan struct{}
}

// query builds a sub-query of text keys to a host.
func query(q executor.Query, host ring.Host, keys ...partition.Key) (*executor.SubQuery, *settling) {
	if q.Consistency == "" {
		q.Consistency = "LOCAL_ONE"
	}
	if q.Limit == 0 {
		q.Limit = 1000
	}
	if q.MaxBytes == 0 {
		q.MaxBytes = 16 << 20
	}
	s := &settling{done: make(chan struct{})}
	return &executor.SubQuery{Query: &q, Host: host, Keys: keys, Settled: func() {
		if s.count.Add(1) == 1 {
			close(s.done)
		}
	}}, s
}

// read reads a sub-query and requires that it settles exactly once.
func read(t *testing.T, c *cassandra.Cluster, q executor.Query, host ring.Host, keys ...partition.Key) ([]partition.Result, error) {
	t.Helper()
	sub, s := query(q, host, keys...)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	res, err := c.Read(ctx, sub)
	await(t, s)
	require.EqualValues(t, 1, s.count.Load(), "Settled")
	return res, err
}

func textKey(t testing.TB, parts ...string) partition.Key {
	t.Helper()
	components := make([][]byte, len(parts))
	for i, p := range parts {
		components[i] = []byte(p)
	}
	k, err := partition.NewKey(components...)
	require.NoError(t, err)
	return k
}

func reason(err error) executor.Reason {
	if re, ok := errors.AsType[*executor.ReadError](err); ok {
		return re.Reason
	}
	return ""
}

// hostOf returns the host of the ring at a node's address.
func hostOf(t *testing.T, c *cassandra.Cluster, n *devcluster.Node) ring.Host {
	t.Helper()
	for _, h := range c.Ring().Hosts() {
		if h.Addr == n.Addr() {
			return h
		}
	}
	t.Fatalf("node %s is not in the ring", n.Addr())
	return ring.Host{}
}

func containsAll(s string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(s, p) {
			return false
		}
	}
	return true
}
