package devcluster

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/cassandra"
)

// bootCluster starts a cluster that ends with the test. Its parent folder must be empty at the end.
func bootCluster(t *testing.T, cfg Config) *Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("boots Cassandra")
	}
	cfg.Dir, cfg.ShortLived = t.TempDir(), true
	cfg.Progress = func(e Event) {
		t.Logf("%6.2f s %-8s %d/%d %s", e.Elapsed.Seconds(), e.Step, e.Node, e.Nodes, e.Detail)
	}
	c, err := Start(t.Context(), cfg)
	require.NoError(t, err)
	var pids []int
	for _, n := range c.Nodes() {
		pids = append(pids, n.PID())
	}
	t.Cleanup(func() {
		require.NoError(t, c.Stop())
		require.NoError(t, c.Stop(), "a second time does nothing")
		left, err := os.ReadDir(cfg.Dir)
		require.NoError(t, err)
		assert.Empty(t, left)
		assert.False(t, anyAlive(pids))
		assert.NoError(t, checkPorts(1))
		require.ErrorIs(t, c.Nodes()[0].Start(context.Background()), ErrStopped)
	})
	return c
}

func connect(t *testing.T, c *Cluster) *cassandra.Client {
	t.Helper()
	client, err := cassandra.Connect(t.Context(), cassandra.Config{
		ContactPoints: c.ContactPoints(), Port: c.Port(), Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// requireUp asserts that every running node sees all of the addresses given up and normal.
func requireUp(t *testing.T, c *Cluster, ips ...string) {
	t.Helper()
	for i, n := range c.Nodes() {
		if n.PID() == 0 {
			continue
		}
		var up []string
		status, err := c.Nodetool(t.Context(), i, "status")
		require.NoError(t, err)
		for line := range strings.Lines(status) {
			if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "UN" {
				up = append(up, fields[1])
			}
		}
		slices.Sort(up)
		require.Equal(t, ips, up, "as node %d sees it:\n%s", n.Number(), status)
	}
}

func TestCluster(t *testing.T) {
	c := bootCluster(t, Config{Nodes: Racks("dc1", "r1", "r2", "r3")})
	nodes := c.Nodes()
	require.Len(t, nodes, 3)
	assert.Equal(t, "127.0.0.3:9042", nodes[2].Addr())
	requireUp(t, c, "127.0.0.1", "127.0.0.2", "127.0.0.3")
	ids := map[string]bool{}
	for _, n := range nodes {
		assert.Len(t, n.HostID(), 36)
		ids[n.HostID()] = true
	}
	assert.Len(t, ids, 3)

	client := connect(t, c)
	exec := func(cql string, args ...any) {
		t.Helper()
		require.NoError(t, client.Exec(t.Context(), cql, args...))
	}
	exec("CREATE KEYSPACE ks WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 2}")
	exec("CREATE TABLE ks.one (k text PRIMARY KEY, v int)")
	exec("CREATE TABLE ks.two (a text, b int, v int, PRIMARY KEY ((a, b)))")

	t.Run("another cluster is refused", func(t *testing.T) {
		_, err := Start(t.Context(), Config{Nodes: Racks("dc1", "r1")})
		require.ErrorIs(t, err, ErrBusy)
		require.ErrorContains(t, err, fmt.Sprintf("process %d has it", os.Getpid()))
	})

	t.Run("natural endpoints are those of nodetool", func(t *testing.T) {
		keys := []string{"", "a", "key with blank", "zwölf", "line\nfeed"}
		for i := range 295 {
			keys = append(keys, fmt.Sprint("key-", i))
		}
		tables, err := c.NaturalEndpoints(t.Context(), []string{"ks.one", "ks.one"}, keys)
		require.NoError(t, err)
		require.Len(t, tables, 2)
		assert.Equal(t, tables[0], tables[1])
		answers := tables[0]
		require.Len(t, answers, len(keys))
		first := map[string]int{}
		for _, replicas := range answers {
			require.Len(t, replicas, 2)
			require.NotEqual(t, replicas[0], replicas[1])
			first[replicas[0]]++
		}
		assert.Len(t, first, 3)
		for _, i := range []int{1, 100} {
			output, err := c.Nodetool(t.Context(), 2, "getendpoints", "ks", "one", keys[i])
			require.NoError(t, err)
			assert.Equal(t, answers[i], strings.Fields(output))
		}
		tables, err = c.NaturalEndpoints(t.Context(), []string{"ks.two"}, []string{"a:7"})
		require.NoError(t, err)
		assert.Len(t, tables[0][0], 2)
		_, err = c.NaturalEndpoints(t.Context(), []string{"ks.absent"}, []string{"a"})
		require.ErrorContains(t, err, "absent")
	})

	t.Run("a killed node comes back with its data", func(t *testing.T) {
		exec("INSERT INTO ks.one (k, v) VALUES ('survivor', 7)")
		pid := nodes[2].PID()
		require.NoError(t, nodes[2].Kill())
		assert.False(t, alive(pid))
		assert.Zero(t, nodes[2].PID())
		require.ErrorIs(t, nodes[2].Pause(), ErrNotRunning)
		require.NoError(t, nodes[2].Kill(), "a second time does nothing")
		before, err := nodes[2].CPUSeconds()
		require.NoError(t, err)
		require.NoError(t, nodes[2].Start(t.Context()))
		require.ErrorContains(t, nodes[2].Start(t.Context()), "it is running")
		after, err := nodes[2].CPUSeconds()
		require.NoError(t, err)
		assert.Greater(t, after, before+0.5, "CPU time counts over restarts")
		compiling, err := nodes[2].CompilerSeconds()
		require.NoError(t, err)
		if runtime.GOOS == "linux" {
			assert.Greater(t, compiling, 0.1, "a JVM that has just begun has compiled a lot")
		}
		assert.Less(t, compiling, after-before)
		rows, err := client.Query(t.Context(), "SELECT v FROM ks.one WHERE k = 'survivor'")
		require.NoError(t, err)
		assert.Len(t, rows, 1)
	})

	t.Run("a stopped node leaves in an orderly way", func(t *testing.T) {
		require.NoError(t, nodes[1].Pause())
		require.NoError(t, nodes[1].Stop(), "a paused node as well")
		assert.Contains(t, nodes[1].LogTail(30), "Cassandra shutdown complete")
		require.NoError(t, nodes[1].Start(t.Context()))
	})

	t.Run("a paused node spends nothing", func(t *testing.T) {
		require.NoError(t, nodes[0].Pause())
		time.Sleep(100 * time.Millisecond) // a thread stops when it leaves the kernel
		before, err := nodes[0].CPUSeconds()
		require.NoError(t, err)
		time.Sleep(500 * time.Millisecond)
		after, err := nodes[0].CPUSeconds()
		require.NoError(t, err)
		assert.InDelta(t, before, after, 0.02, "two ticks of the clock that counts it")
		require.NoError(t, nodes[0].Resume())
	})

	t.Run("a limited node has its quota", func(t *testing.T) {
		if err := nodes[0].LimitCPU(0.05); err != nil {
			t.Skip(err)
		}
		members, err := os.ReadFile(filepath.Join(string(nodes[0].group), "cgroup.procs"))
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprintln(nodes[0].PID()), string(members))
		require.NoError(t, nodes[0].LimitCPU(0))
		require.Error(t, nodes[0].LimitCPU(-1))
		group := nodes[0].group
		t.Cleanup(func() { assert.NoDirExists(t, string(group)) })
		require.NoError(t, nodes[0].dispose())
		require.NoError(t, nodes[0].Start(t.Context()))
	})

	t.Run("a node keeps to one CPU", func(t *testing.T) {
		if cpus, err := ownCPUs(); err != nil || len(cpus) < 2 {
			t.Skip("needs Linux and two CPUs")
		}
		allowed := func() (out []string) {
			threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", nodes[0].PID()))
			require.NoError(t, err)
			for _, thread := range threads {
				text, err := os.ReadFile(thread)
				if err != nil {
					continue // it has ended
				}
				_, rest, _ := strings.Cut(string(text), "Cpus_allowed_list:\t")
				cpus, _, _ := strings.Cut(rest, "\n")
				out = append(out, cpus)
			}
			slices.Sort(out)
			return slices.Compact(out)
		}
		before := allowed()
		require.NoError(t, nodes[0].ShareCPU(true))
		one := allowed()
		require.Len(t, one, 1)
		assert.NotEqual(t, before, one)
		assert.NotContains(t, one[0], "-")
		assert.NotContains(t, one[0], ",")
		require.NoError(t, LeaveCPU(nodes[0].PID(), true))
		others := allowed()
		require.Len(t, others, 1)
		assert.NotEqual(t, one, others)
		require.NoError(t, nodes[0].ShareCPU(false))
		assert.Equal(t, before, allowed())
	})

	t.Run("a node is added and leaves", func(t *testing.T) {
		// A node waits for twice the timeout of writes before it leaves, in case batches are replayed.
		added, err := c.AddNode(t.Context(), NodeConfig{Rack: "r1", JVMArgs: []string{"-Dcassandra.batchlog.replay_timeout_in_ms=1000"}})
		require.NoError(t, err)
		assert.Equal(t, "127.0.0.4", added.IP())
		requireUp(t, c, "127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4")
		require.NoError(t, c.Decommission(t.Context(), added))
		assert.Len(t, c.Nodes(), 3)
		assert.Zero(t, added.PID())
		requireUp(t, c, "127.0.0.1", "127.0.0.2", "127.0.0.3")
	})
}

func TestUnevenCluster(t *testing.T) {
	c := bootCluster(t, Config{Nodes: []NodeConfig{
		{DC: "east", NumTokens: 256},
		{DC: "west", NumTokens: 1, ExtraYAML: map[string]any{"row_cache_size": "8MiB"}},
		{DC: "east", NoJoin: true, JVMArgs: []string{"-Dcassandra.expiration_overflow_warning_interval_minutes=7"}},
	}, RandomTokens: true})
	assert.Equal(t, []string{"127.0.0.1", "127.0.0.2"}, c.ContactPoints())
	nodes := c.Nodes()
	assert.Empty(t, nodes[2].HostID(), "a coordinator is no member of the ring")

	status, err := c.Nodetool(t.Context(), 2, "status")
	require.NoError(t, err)
	assert.Regexp(t, `UN +127\.0\.0\.1 .* 256 `, status)
	assert.Regexp(t, `UN +127\.0\.0\.2 .* 1 `, status)

	client := connect(t, c)
	require.NoError(t, client.Exec(t.Context(), "CREATE KEYSPACE ks WITH replication = {'class': 'NetworkTopologyStrategy', 'east': 1}"))
	require.NoError(t, client.Exec(t.Context(), "CREATE TABLE ks.t (k int PRIMARY KEY)"))
	answers, err := c.NaturalEndpoints(t.Context(), []string{"ks.t"}, []string{"1", "2"})
	require.NoError(t, err)
	assert.Equal(t, [][][]string{{{"127.0.0.1"}, {"127.0.0.1"}}}, answers)
}

func TestFailingBootSaysWhyAndKeepsTheLog(t *testing.T) {
	if testing.Short() {
		t.Skip("boots Cassandra")
	}
	t.Setenv("TMPDIR", t.TempDir())
	nodes := Racks("dc1", "r1", "r2")
	nodes[1].ExtraYAML = map[string]any{"concurrent_reads": "plenty"}
	_, err := Start(t.Context(), Config{Nodes: nodes, ShortLived: true})
	require.ErrorContains(t, err, "node 2: its process ended while it started")
	require.ErrorContains(t, err, "concurrent_reads")
	left, globErr := filepath.Glob(filepath.Join(os.TempDir(), "*", "*"))
	require.NoError(t, globErr)
	require.NotEmpty(t, left)
	for _, path := range left {
		assert.Contains(t, path, "qosproxy-devcluster-logs-")
	}
	assert.Contains(t, err.Error(), filepath.Dir(left[0]))
	require.NoError(t, checkPorts(1))
}

func TestEndedContextStopsTheBoot(t *testing.T) {
	if testing.Short() {
		t.Skip("boots Cassandra")
	}
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := Start(ctx, Config{Nodes: Racks("dc1", "r1"), Progress: func(e Event) {
		if e.Step == StepStart {
			cancel()
		}
	}})
	require.ErrorIs(t, err, context.Canceled)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
	require.NoError(t, checkPorts(1))
}

func TestKilledParentLeavesNoCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("boots Cassandra")
	}
	dir := t.TempDir()
	parent, pids := startHelper(t, "cluster", dir)
	require.Len(t, pids, 3, "two nodes and what belongs to them")
	require.True(t, alive(pids[0]) && alive(pids[1]))
	require.NoError(t, parent.Process.Kill())
	_ = parent.Wait()
	start := time.Now()
	held, err := acquireLock(t.Context(), lockName)
	require.NoError(t, err)
	t.Logf("all gone %v after the parent", time.Since(start))
	assert.False(t, anyAlive(pids))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
	require.NoError(t, held.release())
}
