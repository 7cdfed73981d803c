//go:build chaos

package app

import (
	"os"

	"github.com/qosproxy/qosproxy/internal/executor"
)

// avoidance returns the executor's policy. In the proxy that the chaos suite builds,
// CHAOS_AVOIDANCE=nothing in the environment disables it, for controls.
func avoidance() executor.Avoidance {
	if os.Getenv("CHAOS_AVOIDANCE") == "nothing" {
		return executor.AvoidNothing
	}
	return executor.AvoidUnhealthy
}
