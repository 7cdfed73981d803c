package acceptance

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/lab/devcluster"
	"github.com/qosproxy/qosproxy/internal/secret"
)

// TestGrants checks that the grants in the guide are those that the proxy needs. With all of them
// lookups, qosproxy get and the doctor succeed; without any one of them something fails, as the
// guide says. The same node first shows that tokens are Cassandra's.
func TestGrants(t *testing.T) {
	binary := build(t)
	cluster, client := boot(t, devcluster.Config{Nodes: []devcluster.NodeConfig{{JVMArgs: []string{"-Dcassandra.enable_nodelocal_queries=true"}}}})
	define(t, client,
		"CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 1}",
		"CREATE TABLE shop.products (id text PRIMARY KEY, name text) WITH speculative_retry = 'NONE'",
		"CREATE TABLE shop.features (id text PRIMARY KEY, name text) WITH speculative_retry = 'NONE'")
	execute(t, client, "INSERT INTO shop.products (id, name) VALUES ('a', 'b')", "INSERT INTO shop.features (id, name) VALUES ('a', 'b')")
	// Tokens do not depend on the cluster, and one node stores the keys much sooner than six.
	t.Run("tokens are Cassandra's", func(t *testing.T) { testTokensAreCassandras(t, client, scale(1000)) })
	t.Run("tokens of composite keys are Cassandra's", func(t *testing.T) { testCompositeTokens(t, client, scale(1000)) })
	demandGrants(t, cluster.Nodes()[0])
	admin := superuser(t, cluster)

	statements := documentedGrants(t)
	const password = "a-good-one"
	require.NoError(t, admin.Exec(t.Context(), strings.ReplaceAll(statements[0], "…", password)))
	grants := statements[1:]
	if !devcluster.AtLeast(5, 0) { // older versions lack that table and NODE_LOCAL
		grants = append(grants[:2:2], grants[3:]...)
	}
	for _, g := range grants {
		require.NoError(t, admin.Exec(t.Context(), g), g)
	}
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte(password+"\n"), 0o600))
	level := "LOCAL_ONE"
	if devcluster.AtLeast(5, 0) {
		level = "NODE_LOCAL"
	}
	yaml := fmt.Sprintf("cassandra: {contact_points: [%s], local_dc: dc1, username: qosproxy, password_file: %s}\n"+
		"tables: [{name: shop.products, consistency: %s}, {name: shop.features}]\n", cluster.ContactPoints()[0], file, level)

	t.Run("all of them", func(t *testing.T) {
		assert.Empty(t, complaints(t, binary, yaml))
		p := serve(t, cluster, yaml)
		for _, table := range []string{"shop.products", "shop.features"} {
			assert.Equal(t, []string{"FOUND", "NOT_FOUND"}, statuses(t, p, table), table)
		}
		p.readsOwnData(t, devcluster.AtLeast(5, 0))
		out, err := getWith(t, binary, p)
		require.NoError(t, err, out)
		assert.Contains(t, out, "FOUND")
	})
	for i, g := range grants {
		what := strings.TrimSuffix(strings.TrimPrefix(g, "GRANT SELECT ON "), " TO qosproxy")
		// Each has its own role, so that all wait in parallel until ownership is at rest.
		role := fmt.Sprintf("qosproxy_%d", i)
		as := strings.NewReplacer(" qosproxy", " "+role, "…", password)
		require.NoError(t, admin.Exec(t.Context(), as.Replace(statements[0])))
		for _, other := range slices.Delete(slices.Clone(grants), i, i+1) {
			require.NoError(t, admin.Exec(t.Context(), as.Replace(other)), other)
		}
		yaml := as.Replace(yaml)
		t.Run("without "+what, func(t *testing.T) {
			t.Parallel()
			said := complaints(t, binary, yaml)
			if assert.Len(t, said, 1, "the doctor complains of that alone: %v", said) {
				assert.Contains(t, said[0], grantsGuide(t)[what], "as the guide says")
				assert.Contains(t, said[0], what, "and how to mend it")
			}
			p := serve(t, cluster, yaml)
			denied := strings.HasPrefix(what, "shop.")
			for _, table := range []string{"shop.products", "shop.features"} {
				want := []string{"FOUND", "NOT_FOUND"}
				if table == what {
					want = []string{"FAILED", "FAILED"}
				}
				assert.Equal(t, want, statuses(t, p, table), table)
			}
			if !denied {
				p.readsOwnData(t, devcluster.AtLeast(5, 0) && what != "system_views.gossip_info")
			}
		})
	}
}

// demandGrants restarts the only node with authentication and authorization. It boots without,
// because the code that boots it has no password yet.
func demandGrants(t *testing.T, n *devcluster.Node) {
	t.Helper()
	require.NoError(t, n.Stop())
	require.NoError(t, n.Configure(map[string]any{
		"authenticator": "PasswordAuthenticator", "authorizer": "CassandraAuthorizer", "role_manager": "CassandraRoleManager",
		"permissions_validity": "100ms", "roles_validity": "100ms", "dynamic_snitch": false,
	}))
	require.NoError(t, n.Start(t.Context()))
}

// superuser connects as the default role, which Cassandra creates some time after its first start.
func superuser(t *testing.T, cluster *devcluster.Cluster) *cassandra.Client {
	t.Helper()
	root := cassandra.Default()
	root.ContactPoints, root.Logger = cluster.ContactPoints(), slog.New(slog.DiscardHandler)
	root.Username, root.Password = "cassandra", secret.New("cassandra")
	var admin *cassandra.Client
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		var err error
		admin, err = cassandra.Connect(t.Context(), root)
		require.NoError(c, err)
	}, patience, 200*time.Millisecond)
	t.Cleanup(admin.Close)
	return admin
}

// getWith runs qosproxy get.
func getWith(t *testing.T, binary string, p *proxy) (string, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), binary, "get", "shop.products", "a", "--addr", p.Addr("grpc")).CombinedOutput()
	return string(out), err
}

// documentedGrants returns the statements in the guide to security, that of the role first.
func documentedGrants(t *testing.T) []string {
	t.Helper()
	_, block, found := strings.Cut(guide(t), "```sql\n")
	require.True(t, found)
	block, _, _ = strings.Cut(block, "```")
	statements := strings.Split(strings.TrimSuffix(strings.TrimSpace(block), ";"), ";\n")
	require.Len(t, statements, 6)
	return statements
}

// grantsGuide returns, for each line of grants in the guide, the last words in backticks: what the
// doctor says without the grant.
func grantsGuide(t *testing.T) map[string]string {
	t.Helper()
	said := map[string]string{"shop.products": "may not read shop.products", "shop.features": "may not read shop.features"}
	for _, line := range regexp.MustCompile("(?m)^\\| `(system[a-z_.]+)` .*`([^`]+)` \\|$").FindAllStringSubmatch(guide(t), -1) {
		said[line[1]] = line[2]
	}
	require.Len(t, said, 5)
	return said
}

func guide(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(product + "/deploy/security.md")
	require.NoError(t, err)
	return string(text)
}

// complaints returns what the doctor finds about grants and, of other checks, its warnings and
// problems. That there is one node with one replica is no fault here.
func complaints(t *testing.T, binary, yaml string) []string {
	t.Helper()
	_, out := examine(t, binary, yaml, "-o", "json")
	report := new(doctorReport)
	require.NoError(t, json.Unmarshal([]byte(out), report), out)
	var said []string
	for _, fault := range report.faults() {
		old := !devcluster.AtLeast(5, 0) && strings.Contains(fault, " release: ")
		if !old && !strings.Contains(fault, " replication: ") {
			said = append(said, fault)
		}
	}
	return said
}

// statuses looks up a key that exists and one that does not, and returns their statuses.
func statuses(t *testing.T, p *proxy, table string) []string {
	t.Helper()
	_, a, err := p.post(t.Context(), table, `{"keys": ["a", "none"]}`)
	require.NoError(t, err)
	out := make([]string, 0, len(a.Results))
	for _, r := range a.Results {
		out = append(out, r.Status)
	}
	return out
}

// readsOwnData checks that lookups at NODE_LOCAL are answered from the node's own data, or that
// they are not.
func (p *proxy) readsOwnData(t *testing.T, want bool) {
	t.Helper()
	local := func() bool {
		statuses(t, p, "shop.products")
		_, metrics := p.get(t, "/metrics")
		return regexp.MustCompile(`(?m)^qosproxy_node_local_reads_total\{outcome="node_local"\} [1-9]`).MatchString(metrics)
	}
	if want {
		assert.Eventually(t, local, patience, 200*time.Millisecond, "the node answers from its own data")
		return
	}
	time.Sleep(3 * time.Second)
	assert.False(t, local(), "through a coordinator")
}
