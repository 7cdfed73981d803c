//go:build chaos

package app

import (
	"os"

	"github.com/qosproxy/qosproxy/internal/executor"
)

// avoidance is the policy of the executor. The proxy that the chaos suite builds takes it
// from its environment, so that a control can do without: CHAOS_AVOIDANCE=nothing.
func avoidance() executor.Avoidance {
	if os.Getenv("CHAOS_AVOIDANCE") == "nothing" {
		return executor.AvoidNothing
	}
	return executor.AvoidTrouble
}
