//go:build lab

package cassandra_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/lab/devcluster"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// oneRow creates a table in which key a has the value x, and opens the shared cluster. It returns
// the query for that value. change may alter the configuration; it may be nil.
func oneRow(t *testing.T, change func(*cassandra.Config)) (*devcluster.Cluster, *cassandra.Cluster, executor.Query) {
	t.Helper()
	cluster, admin := shared.get(t)
	name := shared.table(t, `CREATE TABLE %s (id text PRIMARY KEY, v text)`)
	require.NoError(t, admin.Exec(t.Context(), "INSERT INTO test."+name+" (id, v) VALUES ('a', 'x')"))
	cfg := config(cluster)
	if change != nil {
		change(&cfg)
	}
	c := open(t, cfg)
	table := definition(t, c, name)
	return cluster, c, executor.Query{Table: table, Columns: columns(t, table, "v")}
}

func TestRealSubQueryToAFrozenNodeSettlesWhenItAnswers(t *testing.T) {
	cluster, c, q := oneRow(t, nil)
	node := cluster.Nodes()[2]
	host := hostOf(t, c, node)
	_, err := read(t, c, q, host, textKey(t, "a"), textKey(t, "b"))
	require.NoError(t, err)

	require.NoError(t, node.Pause())
	defer func() { _ = node.Resume() }()
	time.Sleep(200 * time.Millisecond) // until each of its threads has stopped
	const waits = 20
	var late []*settling
	for range waits {
		sub, s := query(q, host, textKey(t, "a"), textKey(t, "b"))
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Millisecond)
		start := time.Now()
		_, err := c.Read(ctx, sub)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Less(t, time.Since(start), 500*time.Millisecond, "Read returns with its context")
		late = append(late, s)
	}
	time.Sleep(2 * time.Second)
	for _, s := range late {
		require.Zero(t, s.count.Load(), "a frozen node has not answered")
	}
	thawed := time.Now()
	require.NoError(t, node.Resume())
	for _, s := range late {
		await(t, s)
	}
	t.Logf("%d sub-queries settled %v after the thaw", waits, time.Since(thawed))
	time.Sleep(100 * time.Millisecond)
	for _, s := range late {
		require.EqualValues(t, 1, s.count.Load(), "Settled is called once")
	}
	res, err := read(t, c, q, host, textKey(t, "a"))
	require.NoError(t, err)
	require.Equal(t, partition.Found, res[0].Status)
}

func TestRealKilledNodeIsUnreachableAndComesBack(t *testing.T) {
	cluster, c, q := oneRow(t, nil)
	node := cluster.Nodes()[1]
	host := hostOf(t, c, node)

	// Frozen first, so that sub-queries are in-flight when it dies.
	require.NoError(t, node.Pause())
	type outcome struct {
		err error
		s   *settling
	}
	under := make(chan outcome, 5)
	key := textKey(t, "a")
	for range cap(under) {
		go func() {
			sub, s := query(q, host, key)
			_, err := c.Read(t.Context(), sub)
			under <- outcome{err, s}
		}()
	}
	abandoned, left := query(q, host, textKey(t, "a"))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	_, err := c.Read(ctx, abandoned)
	cancel()
	require.ErrorIs(t, err, context.DeadlineExceeded)
	time.Sleep(200 * time.Millisecond)
	require.NoError(t, node.Kill())
	for range cap(under) {
		o := <-under
		assert.Equal(t, executor.ReasonDisconnected, reason(o.err), "%v", o.err)
		await(t, o.s)
	}
	await(t, left)

	var last error
	require.Eventually(t, func() bool {
		_, last = read(t, c, q, host, textKey(t, "a"))
		return reason(last) == executor.ReasonUnreachable
	}, patience, 20*time.Millisecond)
	before := c.Ring()
	require.Len(t, before.Hosts(), 3, "a dead node still owns its data")

	require.NoError(t, node.Start(t.Context()))
	up := time.Now()
	require.Eventually(t, func() bool {
		_, last = read(t, c, q, host, textKey(t, "a"))
		return last == nil
	}, patience, 20*time.Millisecond, "%v", last)
	t.Logf("read from the restarted node %v after it was ready", time.Since(up))
	require.Less(t, time.Since(up), 30*time.Second)
	require.Len(t, c.Ring().Hosts(), 3)
}

func await(t *testing.T, s *settling) {
	t.Helper()
	select {
	case <-s.done:
	case <-time.After(patience):
		t.Fatal("a sub-query did not settle")
	}
}

func TestRealSchemaChangesDoNotFailReadsOfOtherColumns(t *testing.T) {
	cluster, admin := shared.get(t)
	name := shared.table(t, `CREATE TABLE %s (id text PRIMARY KEY, v text, gone text)`)
	require.NoError(t, admin.Exec(t.Context(), "INSERT INTO test."+name+" (id, v, gone) VALUES ('a', 'x', 'y')"))
	c := open(t, config(cluster))
	old := definition(t, c, name)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	reads := make([]int, 3)
	for i, host := range c.Ring().Hosts() {
		wg.Go(func() {
			for ctx.Err() == nil {
				sub, _ := query(executor.Query{Table: old, Columns: columns(t, old, "v")}, host, textKey(t, "a"), textKey(t, "none"))
				res, err := c.Read(t.Context(), sub)

				if !assert.NoError(t, err) || !assert.Equal(t, partition.Found, res[0].Status) ||
					!assert.Equal(t, "x", string(res[0].Rows[0][0])) || !assert.Equal(t, partition.NotFound, res[1].Status) {
					return
				}
				reads[i]++
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	for i := range 3 {
		require.NoError(t, admin.Exec(t.Context(), fmt.Sprintf("ALTER TABLE test.%s ADD extra%d int", name, i)))
	}
	require.NoError(t, admin.Exec(t.Context(), "ALTER TABLE test."+name+" DROP gone"))
	changed := time.Now()
	require.Eventually(t, func() bool {
		now, _ := c.Schema().Table("test", name)
		_, gone := now.Column("gone")
		_, extra := now.Column("extra2")
		return !gone && extra
	}, patience, 5*time.Millisecond)
	t.Logf("the change was in the snapshot %v after the statement returned", time.Since(changed))
	cancel()
	wg.Wait()
	t.Logf("reads meanwhile: %v", reads)
	_, err := read(t, c, executor.Query{Table: old, Columns: columns(t, old, "v", "gone")}, c.Ring().Host(0), textKey(t, "a"))
	assert.Equal(t, executor.ReasonInvalid, reason(err), "%v", err)
}

func TestRealTableThatIsDroppedAndCreatedAgain(t *testing.T) {
	cluster, admin := shared.get(t)
	name := shared.table(t, `CREATE TABLE %s (id text PRIMARY KEY, v text)`)
	require.NoError(t, admin.Exec(t.Context(), "INSERT INTO test."+name+" (id, v) VALUES ('aaaa', 'text')"))
	c := open(t, config(cluster))
	old := definition(t, c, name)
	stale := executor.Query{Table: old, Columns: columns(t, old, "v")}
	for _, h := range c.Ring().Hosts() {
		_, err := read(t, c, stale, h, textKey(t, "aaaa"), textKey(t, "b"))
		require.NoError(t, err)
	}
	require.NoError(t, admin.Exec(t.Context(), "DROP TABLE test."+name))
	_, err := read(t, c, stale, c.Ring().Host(0), textKey(t, "aaaa"))
	assert.Equal(t, executor.ReasonInvalid, reason(err), "%v", err)
	require.Eventually(t, func() bool {
		_, there := c.Schema().Table("test", name)
		return !there
	}, patience, 5*time.Millisecond, "a dropped table leaves the snapshot")

	require.NoError(t, admin.Exec(t.Context(), "CREATE TABLE test."+name+" (id text PRIMARY KEY, v int)"))
	require.NoError(t, admin.Exec(t.Context(), "INSERT INTO test."+name+" (id, v) VALUES ('aaaa', 7)"))
	for _, h := range c.Ring().Hosts() {
		_, err = read(t, c, stale, h, textKey(t, "aaaa"))
		assert.Equal(t, executor.ReasonInvalid, reason(err), "an int must not be read as the text that it was: %v", err)
	}
	fresh := definition(t, c, name)
	require.NotEqual(t, old.ID, fresh.ID)
	for _, h := range c.Ring().Hosts() {
		res, err := read(t, c, executor.Query{Table: fresh, Columns: columns(t, fresh, "v")}, h, textKey(t, "aaaa"), textKey(t, "b"))
		require.NoError(t, err)
		require.Equal(t, []byte{0, 0, 0, 7}, res[0].Rows[0][0])
	}
}

func TestRealClusterThatGoesAndComes(t *testing.T) {
	cluster, admin := shared.get(t)
	cfg := config(cluster)
	cfg.Logger = logger(t)
	c, err := cassandra.Open(t.Context(), cfg)
	require.NoError(t, err)
	ready(t, c, patience)
	before := c.Ring()
	for _, n := range cluster.Nodes() {
		require.NoError(t, n.Kill())
	}
	killed := time.Now()
	require.Eventually(t, func() bool { return !c.Status().Ready }, patience, 10*time.Millisecond)
	require.Eventually(t, func() bool {
		r := c.Status().Reason
		return containsAll(r, "127.0.0.1:9042: connection refused", "127.0.0.3:9042", "check cassandra.contact_points")
	}, patience, 50*time.Millisecond)
	t.Logf("not ready %v after the last node died: %s", time.Since(killed), c.Status().Reason)
	require.Same(t, before, c.Ring(), "the ring serves on")

	// A proxy that starts now is not ready, and says why.
	late, err := cassandra.Open(t.Context(), cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	err = late.WaitReady(ctx)
	cancel()
	require.ErrorContains(t, err, "no contact point answered: 127.0.0.1:9042: connection refused")
	require.Nil(t, late.Ring())
	sub, s := query(executor.Query{}, before.Host(0))
	sub.Query = &executor.Query{Consistency: "ONE"}
	_, err = late.Read(t.Context(), sub)
	require.Equal(t, executor.ReasonUnreachable, reason(err))
	await(t, s)

	var wg sync.WaitGroup
	for _, n := range cluster.Nodes() {
		wg.Go(func() { assert.NoError(t, n.Start(t.Context())) })
	}
	wg.Wait()
	up := time.Now()
	ready(t, c, patience)
	ready(t, late, patience)
	t.Logf("ready again %v after the nodes", time.Since(up))
	require.Eventually(t, func() bool { // for the tests that follow
		_, err := admin.Query(t.Context(), "SELECT release_version FROM system.local")
		return err == nil
	}, patience, 50*time.Millisecond)
	require.True(t, c.Ring().Equal(late.Ring()))
	c.Close()
	late.Close()
}

func TestRealSessionIsReplacedUnderReads(t *testing.T) {
	_, c, q := oneRow(t, func(cfg *cassandra.Config) { cfg.LocalDC, cfg.RequestTimeout = "dc1", 2*time.Second })
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	reads := make([]int, 3)
	for i, host := range c.Ring().Hosts() {
		wg.Go(func() {
			for ctx.Err() == nil {
				sub, s := query(q, host, textKey(t, "a"), textKey(t, "none"))
				res, err := c.Read(t.Context(), sub)

				if !assert.NoError(t, err) || !assert.Equal(t, partition.Found, res[0].Status) {
					return
				}
				await(t, s)
				reads[i]++
			}
		})
	}
	for range 4 {
		require.NoError(t, c.ReplaceSession(t.Context()))
		time.Sleep(700 * time.Millisecond)
	}
	time.Sleep(2 * time.Second) // until the old sessions are closed
	cancel()
	wg.Wait()
	t.Logf("reads meanwhile: %v", reads)
}

func TestRealCloseLeavesNoGoroutine(t *testing.T) {
	cluster, _ := shared.get(t)
	name := shared.table(t, `CREATE TABLE %s (id text PRIMARY KEY, v text)`)
	// The admin session's own goroutines come and go for some time after DDL.
	time.Sleep(2 * time.Second)
	others := goleak.IgnoreCurrent()
	cfg := config(cluster)
	cfg.Logger = logger(t)
	c, err := cassandra.Open(t.Context(), cfg)
	require.NoError(t, err)
	ready(t, c, patience)
	table := definition(t, c, name)
	_, err = read(t, c, executor.Query{Table: table, Columns: table.Columns}, c.Ring().Host(0), textKey(t, "a"), textKey(t, "b"))
	require.NoError(t, err)
	c.Close()
	closed := time.Now()
	require.Eventually(t, func() bool { err = goleak.Find(others); return err == nil }, patience, 50*time.Millisecond, "%v", err)
	t.Logf("nothing left %v after Close", time.Since(closed))
}
