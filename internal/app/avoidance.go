//go:build !chaos

package app

import "github.com/qosproxy/qosproxy/internal/executor"

// avoidance is the policy of the executor; see avoidance_chaos.go for the other.
func avoidance() executor.Avoidance { return executor.AvoidTrouble }
