//go:build !chaos

package app

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/qosproxy/qosproxy/internal/executor"
)

// The variable is for the proxy that the chaos suite builds.
func TestTheProductAvoidsHostsInTroubleWhateverItsEnvironmentSays(t *testing.T) {
	t.Setenv("CHAOS_AVOIDANCE", "nothing")
	assert.Equal(t, executor.AvoidUnhealthy, avoidance())
}
