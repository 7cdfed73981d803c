//go:build chaos

package app

import (
	"os"
	"strconv"

	"github.com/qosproxy/qosproxy/internal/executor"
)

// safeguards turns some of the executor's off, for controls. In the proxy that the chaos suite
// builds, CHAOS_AVOIDANCE=nothing in the environment has plans avoid no host, and CHAOS_HOST_KEYS is
// how many keys may be outstanding at a host.
func safeguards(cfg executor.Config) executor.Config {
	if os.Getenv("CHAOS_AVOIDANCE") == "nothing" {
		cfg.Avoidance = executor.AvoidNothing
	}
	if keys, err := strconv.Atoi(os.Getenv("CHAOS_HOST_KEYS")); err == nil {
		cfg.Limits.InflightKeys = keys
	}
	return cfg
}
