package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/ring"
)

// TestBalanceIsOfTheLocalDatacenter has a datacenter whose hosts hold everything, and one
// whose hosts hold a half: each is even, the two together are not.
func TestBalanceIsOfTheLocalDatacenter(t *testing.T) {
	r, err := ring.New(ring.Topology{
		LocalDC:   "dc2",
		Keyspaces: map[string]ring.Replication{"shop": {Strategy: "NetworkTopologyStrategy", Factors: map[string]int{"dc1": 2, "dc2": 1}}},
		Hosts: []ring.Host{
			{ID: "a", Addr: "10.0.0.1:9042", DC: "dc1", Rack: "r1", Tokens: []int64{-50}},
			{ID: "b", Addr: "10.0.0.2:9042", DC: "dc1", Rack: "r2", Tokens: []int64{50}},
			{ID: "c", Addr: "10.0.0.3:9042", DC: "dc2", Rack: "r1", Tokens: []int64{-1 << 62}},
			{ID: "d", Addr: "10.0.0.4:9042", DC: "dc2", Rack: "r2", Tokens: []int64{1 << 62}},
		},
	})
	require.NoError(t, err)
	report, err := newRingReport(r, "shop", false)
	require.NoError(t, err)
	require.NotNil(t, report.Balance)
	assert.Equal(t, "dc2", report.Balance.DC)
	assert.InDelta(t, 1, report.Balance.Min, 1e-9)
	assert.InDelta(t, 1, report.Balance.Max, 1e-9)
	assert.InDelta(t, 0, report.Balance.StdDev, 1e-9)
}
