package acceptance

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/app"
	"github.com/qosproxy/qosproxy/internal/config"
	"github.com/qosproxy/qosproxy/internal/lab/devcluster"
)

// TestOtherPartitionersAreRefused checks that the proxy does not serve a cluster whose tokens it
// cannot compute: it would ask the wrong nodes.
func TestOtherPartitionersAreRefused(t *testing.T) {
	cluster, client := boot(t, devcluster.Config{
		Nodes: []devcluster.NodeConfig{{NumTokens: 1}},
		YAML:  map[string]any{"partitioner": "org.apache.cassandra.dht.RandomPartitioner", "initial_token": "0"},
	})
	define(t, client,
		"CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 1}",
		"CREATE TABLE shop.products (id text PRIMARY KEY, name text)")
	yaml := "cassandra: {contact_points: [" + cluster.ContactPoints()[0] + "], local_dc: dc1}\ntables: [{name: shop.products}]\n"
	cfg, err := config.Parse([]byte(yaml+"listen: {grpc: \"127.0.0.1:0\", http: \"\", admin: \"\"}\n"), "partitioner.yaml")
	require.NoError(t, err)
	p := app.New(cfg, app.Options{Version: "test"})
	require.NoError(t, p.Start(t.Context()))
	defer func() { require.NoError(t, p.Stop(t.Context())) }()
	const why = "the cluster does not use Murmur3Partitioner, the only one whose tokens are known: it uses org.apache.cassandra.dht.RandomPartitioner"
	require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Contains(c, p.NotReady(), why) }, patience, 50*time.Millisecond)

	said := complaints(t, build(t), yaml)
	require.NotEmpty(t, said)
	assert.Contains(t, said[0], "problem partitioner: the cluster uses org.apache.cassandra.dht.RandomPartitioner")
}
