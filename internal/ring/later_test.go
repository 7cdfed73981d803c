package ring

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReplicasOfLaterDatacentersAreInTheirOrder(t *testing.T) {
	topology := Topology{
		LocalDC: "dc2", LaterDCs: []string{"dc3", "dc1", "dc9"},
		Keyspaces: map[string]Replication{"ks": {Strategy: "NetworkTopologyStrategy", Factors: map[string]int{"dc1": 2, "dc2": 1}}},
		Hosts: []Host{
			{ID: "a", Addr: "10.0.0.1:9042", DC: "dc1", Rack: "r1", Tokens: []int64{-50}},
			{ID: "b", Addr: "10.0.0.2:9042", DC: "dc1", Rack: "r2", Tokens: []int64{50}},
			{ID: "c", Addr: "10.0.0.3:9042", DC: "dc2", Rack: "r1", Tokens: []int64{0}},
			{ID: "d", Addr: "10.0.0.4:9042", DC: "dc3", Rack: "r1", Tokens: []int64{100}},
		},
	}
	r, err := New(topology)
	require.NoError(t, err)
	assert.Equal(t, []string{"dc3", "dc1", "dc9"}, r.LaterDCs())
	p, ok := r.Placement("ks")
	require.True(t, ok)
	index := func(id string) HostIndex {
		i, ok := r.Index(id)
		require.True(t, ok)
		return i
	}
	at := p.Range(20)
	assert.Equal(t, []HostIndex{index("c")}, p.LocalAt(at))
	assert.Empty(t, p.LaterAt(at, 0), "the keyspace is not in dc3")
	assert.Equal(t, []HostIndex{index("b"), index("a")}, p.LaterAt(at, 1), "in ring order from the token")
	assert.Empty(t, p.LaterAt(at, 2), "a datacenter that the cluster does not have")

	other, err := New(Topology{LocalDC: topology.LocalDC, Keyspaces: topology.Keyspaces, Hosts: topology.Hosts})
	require.NoError(t, err)
	assert.False(t, r.Equal(other))
}
