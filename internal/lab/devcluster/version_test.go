package devcluster

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSettingsAreThoseOfTheVersion(t *testing.T) {
	settings := map[string]any{
		"file_cache_size": "64MiB", "write_request_timeout": "10s", "permissions_validity": "100ms",
		"storage_compatibility_mode": "NONE", "authenticator": "PasswordAuthenticator", "concurrent_reads": 16,
	}
	assert.Equal(t, settings, ofVersion(settings, "5.0.9"))
	assert.Equal(t, settings, ofVersion(settings, "6.0-alpha2"))
	without := ofVersion(settings, "4.1.10")
	assert.NotContains(t, without, "storage_compatibility_mode")
	assert.Len(t, without, len(settings)-1)
	assert.Equal(t, map[string]any{
		"file_cache_size_in_mb": 64, "write_request_timeout_in_ms": int64(10_000), "permissions_validity_in_ms": int64(100),
		"authenticator": "PasswordAuthenticator", "concurrent_reads": 16,
	}, ofVersion(settings, "4.0.19"))
	assert.Len(t, settings, 6, "what was given is not changed")
}

func TestOldVersionsMeasureObjectsByAnAgent(t *testing.T) {
	const jars = "/lib/cassandra-all.jar:/lib/jamm-0.3.2.jar"
	assert.Equal(t, "-javaagent:/lib/jamm-0.3.2.jar", agentOf(jars, "4.1.10")[0])
	assert.Empty(t, agentOf(jars, "5.0.9"))
}

func TestVersionsAreCompared(t *testing.T) {
	assert.True(t, isAtLeast("5.0.9", 5, 0))
	assert.True(t, isAtLeast("6.0-alpha2", 6, 0))
	assert.True(t, isAtLeast("6.0-alpha2", 5, 1))
	assert.False(t, isAtLeast("4.1.10", 5, 0))
	assert.True(t, isAtLeast("4.1.10", 4, 1))
	assert.False(t, isAtLeast("4.0.19", 4, 1))
}
