package ring_test

import (
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/ring"
)

// golden decodes a file of vectors that testdata/Golden.java has written.
func golden(t testing.TB, name string, into any) {
	t.Helper()
	f, err := os.Open("testdata/" + name)
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	require.NoError(t, json.NewDecoder(z).Decode(into))
}

type goldenTokens struct {
	Keys []struct {
		Key   string `json:"key"`
		Token int64  `json:"token"`
	} `json:"keys"`
	Long []struct {
		Length int   `json:"length"`
		Step   int   `json:"step"`
		Token  int64 `json:"token"`
	} `json:"long"`
}

func TestTokenIsCassandras(t *testing.T) {
	var vectors goldenTokens
	golden(t, "tokens.json.gz", &vectors)
	require.Greater(t, len(vectors.Keys), 2000)
	for _, v := range vectors.Keys {
		key, err := hex.DecodeString(v.Key)
		require.NoError(t, err)
		require.Equal(t, v.Token, ring.Token(key), "key 0x%s", v.Key)
	}
	require.NotEmpty(t, vectors.Long)
	for _, v := range vectors.Long {
		key := make([]byte, v.Length)
		for i := range key {
			key[i] = byte(i * v.Step)
		}
		require.Equal(t, v.Token, ring.Token(key), "%d bytes, byte i is i × %d", v.Length, v.Step)
	}
}

type goldenCluster struct {
	Name  string `json:"name"`
	Hosts []struct {
		Name   string  `json:"name"`
		DC     string  `json:"dc"`
		Rack   string  `json:"rack"`
		Tokens []int64 `json:"tokens"`
	} `json:"hosts"`
	Keyspaces []struct {
		Replication map[string]string `json:"replication"`
		Ranges      string            `json:"ranges"`
		Probes      []struct {
			Token    int64  `json:"token"`
			Replicas string `json:"replicas"`
		} `json:"probes"`
	} `json:"keyspaces"`
}

func TestPlacementIsCassandras(t *testing.T) {
	var clusters []goldenCluster
	golden(t, "placement.json.gz", &clusters)
	require.Greater(t, len(clusters), 50)
	for _, c := range clusters {
		t.Run(c.Name, func(t *testing.T) {
			topology := ring.Topology{Keyspaces: map[string]ring.Replication{}}
			for _, h := range c.Hosts {
				topology.Hosts = append(topology.Hosts, ring.Host{ID: h.Name, Addr: h.Name + ":9042", DC: h.DC, Rack: h.Rack, Tokens: h.Tokens})
			}
			// Hosts without tokens change nothing, whatever their rack.
			topology.Hosts = append(topology.Hosts,
				ring.Host{ID: "coordinator", Addr: "coordinator:9042", DC: "dc1", Rack: "another"})
			for _, k := range c.Keyspaces {
				topology.Keyspaces["ks"] = ring.ParseReplication(k.Replication)
				r, err := ring.New(topology)
				require.NoError(t, err)
				p, ok := r.Placement("ks")
				require.True(t, ok, "%v: %v", k.Replication, r.PlacementError("ks"))

				var ranges []string
				for rg := range p.Ranges() {
					ranges = append(ranges, names(r, rg.Replicas))
				}
				assert.Equal(t, k.Ranges, strings.Join(ranges, " "), "%v", k.Replication)
				for _, probe := range k.Probes {
					assert.Equal(t, probe.Replicas, names(r, p.Replicas(probe.Token)), "token %d of %v", probe.Token, k.Replication)
				}
			}
		})
	}
}

// names joins the ids of hosts.
func names(r *ring.Ring, hosts []ring.HostIndex) string {
	var b strings.Builder
	for _, h := range hosts {
		b.WriteString(r.Host(h).ID)
	}
	return b.String()
}
