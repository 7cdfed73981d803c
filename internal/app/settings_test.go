package app

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/admission"
	"github.com/qosproxy/qosproxy/internal/config"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/sla"
)

// TestStatusesAreCountedUnderTheirName checks the order of statuses on which
// observe relies.
func TestStatusesAreCountedUnderTheirName(t *testing.T) {
	for i, name := range sla.StatusNames() {
		assert.Equal(t, name, (partition.Found + partition.Status(i)).String())
	}
	assert.Len(t, sla.StatusNames(), len(partition.Statuses))
}

// TestTheDefaultsOfAdmissionAreThoseOfTheConfiguration also checks that every
// field is passed on.
func TestTheDefaultsOfAdmissionAreThoseOfTheConfiguration(t *testing.T) {
	cfg := config.Default()
	assert.Equal(t, admission.DefaultLimits(), limitsOf(&cfg, 1<<30))
}

func TestOneTableAtNodeLocalIsEnough(t *testing.T) {
	for yaml, want := range map[string]bool{
		"tables: [{name: a.b}]": false,
		"tables: [{name: a.b}, {name: a.c, consistency: node_local}]":                        true,
		"defaults: {consistency: NODE_LOCAL}\ntables: [{name: a.b}]":                         true,
		"defaults: {consistency: NODE_LOCAL}\ntables: [{name: a.b, consistency: LOCAL_ONE}]": false,
	} {
		cfg, err := config.Parse([]byte("cassandra: {contact_points: [a]}\n"+yaml), "test.yaml")
		require.NoError(t, err)
		settings, err := CassandraConfig(cfg, nil)
		require.NoError(t, err)
		assert.Equal(t, want, settings.NodeLocal, yaml)
	}
}
