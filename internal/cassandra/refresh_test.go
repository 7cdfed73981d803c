package cassandra

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/ring"
)

// told returns the definitions of one table ks.t, whose column id has the given type.
func told(typ string) definitions {
	return definitions{
		keyspaces: []row{{"keyspace_name": "ks", "replication": map[string]string{"class": "SimpleStrategy", "replication_factor": "1"}}},
		tables:    []row{{"keyspace_name": "ks", "table_name": "t", "id": "1"}},
		columns:   []row{{"keyspace_name": "ks", "table_name": "t", "column_name": "id", "kind": "partition_key", "position": 0, "type": typ}},
	}
}

// typeOf returns the type of the column id in the published schema, empty without one.
func typeOf(c *Cluster) string {
	t, ok := c.Schema().Table("ks", "t")
	if !ok {
		return ""
	}
	return t.Columns[0].Type.String()
}

// A step that fails once costs one refresh: what was read before it is read again, since
// it was not published.
func TestRefreshThatEndsHalfwayIsRepeatedWhole(t *testing.T) {
	two := hosts(1, 2)
	apart := hosts(1, 2)
	apart[1].DC = "elsewhere"
	twice := hosts(1, 2)
	twice[1].Tokens = twice[0].Tokens
	for name, test := range map[string]struct {
		hosts  []ring.Host
		broken error
	}{
		"the local datacenter is not found":     {hosts: apart},
		"the ring cannot be built":              {hosts: twice},
		"the schema cannot be read by the node": {hosts: two, broken: errors.New("no answer")},
	} {
		t.Run(name, func(t *testing.T) {
			c := &Cluster{log: slog.New(slog.DiscardHandler)}
			refresh := func(hosts []ring.Host, version, typ string, broken error) error {
				c.keeper.hosts.hosts = hosts
				next, err := c.next(t.Context(), view{schema: version}, func(_ context.Context, version string) (definitions, string, error) {
					return told(typ), version, broken
				})
				if err != nil {
					return err
				}
				c.publish(next)
				return nil
			}
			require.Error(t, refresh(test.hosts, "v1", "int", test.broken))
			assert.Nil(t, c.Ring(), "all or nothing")
			assert.Nil(t, c.Schema(), "all or nothing")
			require.NoError(t, refresh(two, "v1", "int", nil))
			require.NotNil(t, c.Ring())
			require.NotNil(t, c.Schema(), "the first schema is published by the refresh after the one that failed")
			assert.Equal(t, "int", typeOf(c))

			// The same once something serves: what serves stays until all of it can be replaced.
			c.keeper.dc = ""
			require.Error(t, refresh(test.hosts, "v2", "text", test.broken))
			assert.Equal(t, "int", typeOf(c))
			require.NoError(t, refresh(two, "v2", "text", nil))
			assert.Equal(t, "text", typeOf(c))
		})
	}
}

func TestRefreshReadsOnlyASchemaThatIsNew(t *testing.T) {
	c := &Cluster{log: slog.New(slog.DiscardHandler)}
	c.keeper.hosts.hosts = hosts(1, 2)
	reads := 0
	for _, version := range []string{"v1", "v1", "v2", "v2", "", ""} {
		next, err := c.next(t.Context(), view{schema: version}, func(_ context.Context, version string) (definitions, string, error) {
			reads++
			return told("int"), version, nil
		})
		require.NoError(t, err)
		c.publish(next)
	}
	assert.Equal(t, 4, reads, "each version once; without a version always")
	_, ok := c.Ring().Placement("ks")
	assert.True(t, ok, "the replication is kept from the refresh that read it")
}

// A node that has not heard of a change does not undo it, as long as others have another version.
func TestASchemaThatWasReplacedComesBackOnlyIfAllHaveIt(t *testing.T) {
	c := &Cluster{log: slog.New(slog.DiscardHandler)}
	c.keeper.hosts.hosts = hosts(1, 2)
	see := func(version string, agreed bool) string {
		next, err := c.next(t.Context(), view{schema: version, agreed: agreed}, func(_ context.Context, version string) (definitions, string, error) {
			return told(map[string]string{"v1": "int", "v2": "text", "v3": "bigint"}[version]), version, nil
		})
		require.NoError(t, err)
		c.publish(next)
		return c.keeper.version + " " + typeOf(c)
	}
	assert.Equal(t, "v1 int", see("v1", true))
	assert.Equal(t, "v2 text", see("v2", false), "one that is new")
	assert.Equal(t, "v2 text", see("v1", false), "of a node that lags")
	assert.Equal(t, "v3 bigint", see("v3", false))
	assert.Equal(t, "v3 bigint", see("v1", false), "the one before the last")
	assert.Equal(t, "v1 int", see("v1", true))
	assert.Equal(t, "v1 int", see("v3", false))
	assert.Equal(t, "v2 text", see("v2", true))
	assert.Equal(t, "v2 text", see("v1", false), "replaced again")
	for i := range 100 {
		see(fmt.Sprintf("other %d", i), true)
	}
	assert.Len(t, c.keeper.replaced, maxReplaced)
}

// A proxy that starts while a node that missed a change is away may be told the old schema last,
// when that node is back.
func TestASchemaOfALaggingNodeDoesNotStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Cluster{log: slog.New(slog.DiscardHandler)}
		c.keeper.hosts.hosts = hosts(1, 2, 3)
		see := func(version string, others ...string) string {
			peers := make([]row, len(others))
			for i, o := range others {
				peers[i] = row{"schema_version": o}
			}
			v, err := newView(row{"host_id": "id-1", "schema_version": version}, peers, 9042)
			require.NoError(t, err)
			next, err := c.next(t.Context(), v, func(_ context.Context, version string) (definitions, string, error) {
				return told(map[string]string{"v1": "int", "v2": "text"}[version]), version, nil
			})
			require.NoError(t, err)
			c.publish(next)
			return typeOf(c)
		}
		assert.Equal(t, "text", see("v2", "v2", "v1"))
		assert.Equal(t, "int", see("v1", "v2", "v2"), "a version that was never replaced may be a new one")
		time.Sleep(lagPatience - time.Second)
		assert.Equal(t, "int", see("v2", "v2", "v1"), "it may spread")
		time.Sleep(2 * time.Second)
		assert.Equal(t, "text", see("v2", "v2", "v1"), "most have it still")
		time.Sleep(lagPatience + time.Second)
		assert.Equal(t, "text", see("v1", "v2", "v2"), "of one node")
		assert.Equal(t, "int", see("v1", "v1", "v1"))
	})
}

// newStepping returns a Cluster over two fake nodes, and a function that changes what the nodes
// answer and then refreshes.
func newStepping(t *testing.T, log *slog.Logger) (c *Cluster, step func(change func(*fakeCluster)) error) {
	t.Helper()
	var now atomic.Pointer[fakeCluster]
	nodes := &fakeCluster{}
	now.Store(nodes)
	for i := range nodes.nodes {
		nodes.nodes[i].answer = func(cql string, level gocql.Consistency) fakeAnswer { return now.Load().answer(i, cql, level) }
		nodes.nodes[i].start(t)
	}
	cfg, err := quiet(nodes.nodes[0].addr).complete()
	require.NoError(t, err)
	c = &Cluster{cfg: cfg, log: log, kicked: make(chan struct{}, 1), stopped: make(chan struct{})}
	c.status.init("connecting")
	t.Cleanup(func() { c.session.Load().driver.Close() })
	return c, func(change func(*fakeCluster)) error {
		then := &fakeCluster{nodes: nodes.nodes}
		change(then)
		now.Store(then)
		_, err := c.step(t.Context())
		return err
	}
}

// fine is what nodes answer unless a test says otherwise.
func fine(*fakeCluster) {}

// A view that nobody has confirmed says nothing about the ring that serves.
func TestAViewThatIsNotBelievedRefreshesNothing(t *testing.T) {
	c, step := newStepping(t, slog.New(slog.DiscardHandler))
	require.NoError(t, step(fine))
	refreshed, r := c.Status().LastRefresh, c.Ring()
	token := new(atomic.Int64)
	require.NoError(t, step(func(f *fakeCluster) { f.token = func() string { return strconv.FormatInt(token.Add(1), 10) } }))
	assert.Equal(t, refreshed, c.Status().LastRefresh)
	assert.Same(t, r, c.Ring())
	before := time.Now()
	require.NoError(t, step(fine))
	assert.False(t, c.Status().LastRefresh.Before(before))
}

// A proxy that serves is ready as long as nodes answer, whatever a refresh comes to.
func TestAFailedRefreshLeavesTheProxyReady(t *testing.T) {
	var (
		version atomic.Int64
		logged  bytes.Buffer
	)
	c, step := newStepping(t, slog.New(slog.NewTextHandler(&logged, nil)))
	changing := func(f *fakeCluster) { f.schema = func() int { return int(version.Add(1)) % 100 } }
	twice := func(f *fakeCluster) { f.token = func() string { return "0" } }
	silent := func(f *fakeCluster) { f.refuses = map[string]int{"system.": gocql.ErrCodeServer} }

	require.ErrorContains(t, step(changing), "the schema changed 5 times")
	require.False(t, c.Status().Ready, "nothing serves yet")
	require.NoError(t, step(fine))
	require.True(t, c.Status().Ready)
	refreshed, session := c.Status().LastRefresh, c.session.Load()

	for why, change := range map[string]func(*fakeCluster){"the schema changed 5 times": changing, "a token is claimed twice": twice} {
		c.keeper.silentSince = time.Now().Add(-2 * silencePatience)
		require.ErrorContains(t, step(change), why)
		s := c.Status()
		assert.True(t, s.Ready)
		assert.Contains(t, s.Reason, why)
		assert.Equal(t, refreshed, s.LastRefresh)
		assert.Same(t, session, c.session.Load(), "nodes have answered")
	}
	assert.Contains(t, logged.String(), "the last ones serve")

	c.keeper.cluster = "another"
	require.ErrorIs(t, step(fine), errForeign)
	assert.False(t, c.Status().Ready, "that others answer is no answer")
	c.keeper.cluster = "fake"
	require.NoError(t, step(fine))
	require.ErrorContains(t, step(silent), "no node answered")
	assert.False(t, c.Status().Ready, "lookups are not answered")
	require.ErrorContains(t, step(changing), "the schema changed 5 times")
	assert.True(t, c.Status().Ready, "they are again")
	require.NoError(t, step(fine))
	assert.Empty(t, c.Status().Reason)
}
