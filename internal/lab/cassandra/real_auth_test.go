//go:build lab

package cassandra_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/doctor"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/lab/devcluster"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/secret"
)

// inThreshold is how many keys the nodes accept in one IN.
const inThreshold = 5

// TestRealPasswordsDatacentersAndGuardrails uses its own cluster: two datacenters, passwords, and a
// guardrail, which applies only to ordinary users.
func TestRealPasswordsDatacentersAndGuardrails(t *testing.T) {
	if testing.Short() {
		t.Skip("boots a real Cassandra cluster")
	}
	require.NoError(t, shared.stop())
	nodes := []devcluster.NodeConfig{{DC: "near", Rack: "r1"}, {DC: "far", Rack: "r1"}}
	for i := range nodes {
		nodes[i].JVMArgs = []string{"-Dcassandra.superuser_setup_delay_ms=0"}
	}
	cluster, err := devcluster.Start(t.Context(), devcluster.Config{Nodes: nodes, ShortLived: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, cluster.Stop()) }()
	demandPasswords(t, cluster)

	root := config(cluster)
	root.Username, root.Password, root.Consistency = "cassandra", secret.New("cassandra"), "ONE"
	ctx := t.Context()
	var admin *cassandra.Client
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		admin, err = cassandra.Connect(ctx, root)
		require.NoError(t, err)
	}, patience, 200*time.Millisecond, "the role cassandra is made some time after the start")
	defer admin.Close()
	for _, cql := range []string{
		"CREATE ROLE reader WITH PASSWORD = 'secret' AND LOGIN = true",
		"CREATE KEYSPACE test WITH replication = {'class': 'NetworkTopologyStrategy', 'near': 1, 'far': 1}",
		"CREATE TABLE test.t (id text PRIMARY KEY, v text)",
		"GRANT SELECT ON KEYSPACE test TO reader",
	} {
		require.NoError(t, admin.Exec(t.Context(), cql))
	}
	var keys []partition.Key
	for i := range 4 * inThreshold {
		require.NoError(t, admin.Exec(t.Context(), "INSERT INTO test.t (id, v) VALUES (?, ?)", strconv.Itoa(i), "x"))
		keys = append(keys, textKey(t, strconv.Itoa(i)))
	}

	reader := config(cluster)
	reader.Logger = logger(t)
	reader.Username, reader.Password = "reader", secret.New("secret")
	notReady := func(name, want string, change func(*cassandra.Config)) {
		t.Run(name, func(t *testing.T) {
			cfg := reader
			change(&cfg)
			c, err := cassandra.Open(t.Context(), cfg)
			require.NoError(t, err)
			defer c.Close()
			assert.Eventually(t, func() bool { return containsAll(c.Status().Reason, want) }, patience, 20*time.Millisecond)
			assert.Contains(t, c.Status().Reason, want)
			if !cfg.Password.Empty() {
				assert.NotContains(t, c.Status().Reason, cfg.Password.Reveal())
			}
		})
	}
	const credentials = "check cassandra.username and cassandra.password_file"
	notReady("a wrong password", credentials, func(c *cassandra.Config) { c.Password = secret.New("wr0ng-one") })
	notReady("no password", credentials, func(c *cassandra.Config) { c.Username, c.Password = "", secret.Text{} })
	notReady("contact points in two datacenters",
		"the contact points are not in one datacenter; set cassandra.local_dc to one of far, near", func(*cassandra.Config) {})

	t.Run("the datacenter of the contact point", func(t *testing.T) {
		cfg := reader
		cfg.ContactPoints = cfg.ContactPoints[:1]
		c := open(t, cfg)
		assert.Equal(t, "near", c.Status().LocalDC)
		require.Len(t, c.Ring().Hosts(), 2, "the ring has all datacenters")
		far := hostOf(t, c, cluster.Nodes()[1])
		table := definition(t, c, "t")
		_, err := read(t, c, executor.Query{Table: table, Columns: table.Columns}, far, keys[0])
		assert.Equal(t, executor.ReasonUnreachable, reason(err), "no connection is kept to another datacenter: %v", err)
	})

	t.Run("a guardrail on the keys of an IN", func(t *testing.T) {
		cfg := reader
		cfg.LocalDC = "near"
		plain := cfg
		plain.Consistency = "ONE"
		client, err := cassandra.Connect(t.Context(), plain)
		require.NoError(t, err)
		defer client.Close()
		_, err = client.Query(t.Context(), "SELECT v FROM test.t WHERE id IN ('1', '2', '3', '4', '5', '6')")
		require.ErrorContains(t, err, "Guardrail", "the node does refuse")
		c := open(t, cfg)
		table := definition(t, c, "t")
		for range 3 {
			res, err := read(t, c, executor.Query{Table: table, Columns: table.Columns}, hostOf(t, c, cluster.Nodes()[0]), keys...)
			require.NoError(t, err)
			for i, r := range res {
				require.Equal(t, partition.Found, r.Status, "key %d: %v", i, r.Err)
			}
		}
	})

	t.Run("a table that the role may not read", func(t *testing.T) {
		require.NoError(t, admin.Exec(t.Context(), "REVOKE SELECT ON KEYSPACE test FROM reader"))
		cfg := reader
		cfg.LocalDC = "near"
		c := open(t, cfg)
		table := definition(t, c, "t")
		require.Eventually(t, func() bool {
			_, err = read(t, c, executor.Query{Table: table, Columns: table.Columns}, hostOf(t, c, cluster.Nodes()[0]), keys[0])
			return reason(err) == executor.ReasonInvalid
		}, patience, 100*time.Millisecond, "%v", err)

		found, err := cassandra.Inspect(t.Context(), cfg, []doctor.Question{{Keyspace: "test", Table: "t", Rows: 1}})
		require.NoError(t, err)
		require.Len(t, found.Tables, 1)
		assert.True(t, found.Tables[0].Denied)
		assert.True(t, found.GossipDenied)
		near := hostOf(t, c, cluster.Nodes()[0])
		for _, n := range found.Nodes {
			assert.Equal(t, n.ID == near.ID, n.Asked, "%s: only nodes of the local datacenter are connected to", n.Addr)
			assert.Equal(t, n.ID == near.ID, n.SettingsDenied, n.Addr)
			assert.NotEmpty(t, n.Schema, n.Addr)
		}
		assert.Equal(t, []string{"near", "far"}, []string{found.Points[0].DC, found.Points[1].DC})
	})

	t.Run("an inspection with a wrong password", func(t *testing.T) {
		cfg := reader
		cfg.Password = secret.New("wr0ng-one")
		found, err := cassandra.Inspect(t.Context(), cfg, nil)
		require.NoError(t, err)
		assert.Empty(t, found.Nodes)
		for _, p := range found.Points {
			assert.Equal(t, "cassandra.username and cassandra.password_file", p.Key)
			assert.NotContains(t, p.Failure, "wr0ng-one")
		}
	})
}

// demandPasswords restarts the nodes with authentication. They boot without it, because the code
// that boots them has no password yet.
func demandPasswords(t *testing.T, cluster *devcluster.Cluster) {
	t.Helper()
	// Roles are read in the datacenter of the node that is asked.
	admin, err := cassandra.Connect(t.Context(), config(cluster))
	require.NoError(t, err)
	require.NoError(t, admin.Exec(t.Context(),
		"ALTER KEYSPACE system_auth WITH replication = {'class': 'NetworkTopologyStrategy', 'near': 1, 'far': 1}"))
	admin.Close()
	_, err = cluster.Nodetool(t.Context(), 1, "repair", "-full", "system_auth")
	require.NoError(t, err)
	for _, n := range cluster.Nodes() {
		require.NoError(t, n.Stop())
	}
	var booting errgroup.Group
	for _, n := range cluster.Nodes() {
		require.NoError(t, n.Configure(map[string]any{
			"authenticator": "PasswordAuthenticator", "authorizer": "CassandraAuthorizer", "role_manager": "CassandraRoleManager",
			"permissions_validity": "100ms", "roles_validity": "100ms",
			"partition_keys_in_select_warn_threshold": inThreshold, "partition_keys_in_select_fail_threshold": inThreshold,
			// This guardrail refuses all keys at once, and the other one refuses halves of them.
			"in_select_cartesian_product_warn_threshold": 2 * inThreshold, "in_select_cartesian_product_fail_threshold": 2 * inThreshold,
		}))
		booting.Go(func() error { return n.Start(t.Context()) })
	}
	require.NoError(t, booting.Wait())
}
