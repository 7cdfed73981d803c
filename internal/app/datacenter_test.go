package app

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/config"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/status"
)

func TestTheOrderOfDatacentersIsHandedOn(t *testing.T) {
	parse := func(yaml string) *config.Config {
		cfg, err := config.Parse([]byte(yaml), "test.yaml")
		require.NoError(t, err)
		return cfg
	}
	cfg := parse("cassandra: {local_dc: [a, b, c]}\ntables: [{name: x.y}, {name: x.z, dc_failover: quorum}, {name: x.o, dc_failover: off}]")
	settings, err := CassandraConfig(cfg, nil)
	require.NoError(t, err)
	assert.Equal(t, "a", settings.LocalDC)
	assert.Equal(t, []string{"b", "c"}, settings.LaterDCs)
	var got []lookup.DCFailover
	for _, s := range lookupSettings(cfg) {
		got = append(got, s.DCFailover)
	}
	assert.Equal(t, []lookup.DCFailover{lookup.DCFailoverOne, lookup.DCFailoverQuorum, lookup.DCFailoverOff}, got)

	base := parse("cassandra: {local_dc: [a, b]}")
	assert.Equal(t, []string{"cassandra.local_dc"}, needRestart(base, parse("cassandra: {local_dc: [a, c]}")))
	assert.Empty(t, needRestart(base, parse("cassandra: {local_dc: [a, b], dc_failover_keys: 0}\ndefaults: {dc_failover: off}")))
}

func TestDatacentersAreShownAsTheyAre(t *testing.T) {
	d := executor.Datacenter{Name: "dc2", Active: true, Hosts: 3, Lost: 1, InflightKeys: 4, MostKeys: 5, Keys: 6}
	assert.Equal(t, []status.Datacenter{{Name: "dc2", Active: true, Hosts: 3, Lost: 1, InflightKeys: 4, MostKeys: 5, Keys: 6}}, datacenters([]executor.Datacenter{d}))
	assert.Nil(t, datacenters(nil))
}
