//go:build !chaos

package app

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/qosproxy/qosproxy/internal/executor"
)

// The variables are for the proxy that the chaos suite builds.
func TestTheProductHasItsSafeguardsWhateverItsEnvironmentSays(t *testing.T) {
	t.Setenv("CHAOS_AVOIDANCE", "nothing")
	t.Setenv("CHAOS_HOST_KEYS", "4096")
	assert.Equal(t, executor.Config{}, safeguards(executor.Config{}))
	assert.Equal(t, executor.AvoidUnhealthy, safeguards(executor.Config{}).Avoidance)
}
