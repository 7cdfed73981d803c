package ring_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/ring"
)

const quarter = math.MinInt64 / -2 // of the token space, 2^62

func TestOwnership(t *testing.T) {
	// a ends the first quarter, b the second, c the second half, d owns nothing.
	r, err := ring.New(ring.Topology{
		Hosts: []ring.Host{host("a", -quarter), host("b", 0), host("c", math.MinInt64), host("d")},
		Keyspaces: map[string]ring.Replication{
			"one": simple(1), "two": simple(2), "all": simple(9),
		},
	})
	require.NoError(t, err)
	assert.InDeltaSlice(t, []float64{0.25, 0.25, 0.5, 0}, r.Ownership(), 1e-9)
	for keyspace, want := range map[string][]float64{
		"one": {0.25, 0.25, 0.5, 0},
		"two": {0.75, 0.5, 0.75, 0},
		"all": {1, 1, 1, 0},
	} {
		p, ok := r.Placement(keyspace)
		require.True(t, ok)
		assert.InDeltaSlice(t, want, p.Ownership(), 1e-9, keyspace)
		assert.InDeltaSlice(t, []float64{0.25, 0.25, 0.5, 0}, p.Primary(), 1e-9, keyspace)
	}

	p, _ := r.Placement("one")
	b := p.Balance("")
	assert.InDelta(t, 0.75, b.Min, 1e-9)
	assert.InDelta(t, 1.5, b.Max, 1e-9)
	assert.InDelta(t, math.Sqrt(0.125), b.StdDev, 1e-9)
	assert.Equal(t, b, p.Balance("dc1"))
	assert.Zero(t, p.Balance("dc2"), "a datacenter without data")

	p, _ = r.Placement("all")
	assert.Equal(t, ring.Balance{Min: 1, Max: 1}, p.Balance("dc1"))
}

func TestPrimaryIsTheFirstReplicaWhereTheOwnerIsNone(t *testing.T) {
	r, err := ring.New(ring.Topology{
		Hosts: []ring.Host{
			{ID: "a", Addr: "a", DC: "dc1", Rack: "r1", Tokens: []int64{math.MinInt64}},
			{ID: "b", Addr: "b", DC: "dc2", Rack: "r1", Tokens: []int64{0}},
		},
		Keyspaces: map[string]ring.Replication{"ks": network(map[string]int{"dc2": 1})},
	})
	require.NoError(t, err)
	p, _ := r.Placement("ks")
	assert.InDeltaSlice(t, []float64{0.5, 0.5}, r.Ownership(), 1e-9)
	assert.InDeltaSlice(t, []float64{0, 1}, p.Primary(), 1e-9)
}

func TestASingleTokenOwnsEverything(t *testing.T) {
	for _, token := range []int64{math.MinInt64, -1, 0, math.MaxInt64} {
		r, err := ring.New(ring.Topology{Hosts: []ring.Host{host("a", token)}})
		require.NoError(t, err)
		assert.Equal(t, []float64{1}, r.Ownership(), "token %d", token)
	}
}
