package devcluster

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// idleCluster is a cluster whose nodes are never started.
func idleCluster(t *testing.T, cfg Config) *Cluster {
	t.Helper()
	cfg, err := cfg.withDefaults()
	require.NoError(t, err)
	c := &Cluster{cfg: cfg, dir: t.TempDir()}
	tokens := ringTokens(cfg.Nodes, cfg.RandomTokens)
	for i, node := range cfg.Nodes {
		c.nodes = append(c.nodes, newNode(c, i+1, node, tokens[i]))
	}
	return c
}

func TestNodeFiles(t *testing.T) {
	c := idleCluster(t, Config{
		Nodes: []NodeConfig{
			{Rack: "a", NumTokens: 2},
			{DC: "far", Rack: "b", NumTokens: 1, ExtraYAML: map[string]any{"concurrent_reads": 3, "row_cache_size": "8MiB"}},
			{NoJoin: true},
		},
		YAML: map[string]any{"concurrent_reads": 2, "read_request_timeout": "7s"},
	})
	settings := make([]map[string]any, len(c.nodes))
	for i, n := range c.nodes {
		require.NoError(t, n.writeFiles(c.seeds(), n.tokens, c.cfg.YAML))
		text, err := os.ReadFile(filepath.Join(n.dir, "cassandra.yaml"))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &settings[i]))
	}
	assert.EqualValues(t, 2, settings[0]["concurrent_reads"], "the cluster's settings go over the package's")
	assert.EqualValues(t, 3, settings[1]["concurrent_reads"], "the node's settings go over the cluster's")
	assert.Equal(t, "7s", settings[1]["read_request_timeout"])
	assert.NotContains(t, settings[0], "row_cache_size")

	assert.Equal(t, "127.0.0.2", settings[1]["listen_address"])
	assert.EqualValues(t, 2, settings[0]["num_tokens"])
	assert.Regexp(t, `^-?\d+,-?\d+$`, settings[0]["initial_token"])
	assert.NotContains(t, settings[2], "initial_token", "a coordinator has no tokens")
	seeds, err := json.Marshal(settings[2]["seed_provider"])
	require.NoError(t, err)
	assert.Contains(t, string(seeds), `"127.0.0.1:7000,127.0.0.2:7000"`, "coordinators are no seeds")

	rack, err := os.ReadFile(filepath.Join(c.nodes[1].dir, "cassandra-rackdc.properties"))
	require.NoError(t, err)
	assert.Equal(t, "dc=far\nrack=b\n", string(rack))
}

func TestConfigIsRefused(t *testing.T) {
	for sentence, tt := range map[string]struct {
		cfg  Config
		says string
	}{
		"no nodes":                    {Config{}, "Config.Nodes is empty"},
		"too many nodes":              {Config{Nodes: make([]NodeConfig, maxNodes+1)}, "at most 64"},
		"nobody joins the ring":       {Config{Nodes: []NodeConfig{{NoJoin: true}}}, "at least one must join"},
		"a node with negative tokens": {Config{Nodes: []NodeConfig{{}, {NumTokens: -1}}}, "Config.Nodes[1].NumTokens"},
		"a negative heap":             {Config{Nodes: Racks("dc1", "r1"), HeapMB: -1}, "HeapMB"},
	} {
		t.Run(sentence, func(t *testing.T) {
			_, err := Start(t.Context(), tt.cfg)
			require.ErrorContains(t, err, tt.says)
		})
	}
}

func TestKeptLogsAreNamed(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	c := idleCluster(t, Config{Nodes: Racks("dc1", "r1")})
	n := c.nodes[0]
	require.NoError(t, n.writeFiles(nil, nil, nil))
	p := &process{}
	log := "INFO  all is well\nERROR [main] Exception encountered during startup: bad setting\nINFO  bye\n"
	require.NoError(t, os.WriteFile(n.LogPath(), []byte(log), 0o644))

	err := c.keepLogs(n.bootError(p, errExited))
	require.ErrorIs(t, err, errExited)
	require.ErrorContains(t, err, "node 1: its process ended while it started\nERROR [main] Exception encountered during startup: bad setting")
	require.NotContains(t, err.Error(), "all is well")
	require.NotContains(t, err.Error(), c.dir)
	kept, _ := filepath.Glob(filepath.Join(os.TempDir(), "qosproxy-devcluster-logs-*", "node1-system.log"))
	require.Len(t, kept, 1)
	require.Contains(t, err.Error(), kept[0])
	text, readErr := os.ReadFile(kept[0])
	require.NoError(t, readErr)
	require.Equal(t, log, string(text))
}

func TestBootErrorOfASilentNodeHasWhatTheJVMSaid(t *testing.T) {
	c := idleCluster(t, Config{Nodes: Racks("dc1", "r1")})
	n := c.nodes[0]
	require.NoError(t, n.writeFiles(nil, nil, nil))
	require.NoError(t, os.WriteFile(n.outputPath(), []byte("Unrecognized option: -Xbad\n"), 0o644))
	require.ErrorContains(t, n.bootError(&process{}, errExited), "Unrecognized option: -Xbad")
}

func TestParseEndpoints(t *testing.T) {
	answers, err := parseEndpoints("127.0.0.2:7000 127.0.0.1:7000\n127.0.0.3:7000\n", 2)
	require.NoError(t, err)
	assert.Equal(t, [][]string{{"127.0.0.2", "127.0.0.1"}, {"127.0.0.3"}}, answers)

	_, err = parseEndpoints("127.0.0.2:7000\n", 2)
	require.ErrorContains(t, err, "1 answers for 2 keys")
	_, err = parseEndpoints("nonsense\n", 1)
	require.Error(t, err)
}
