//go:build !chaos

package app

import "github.com/qosproxy/qosproxy/internal/executor"

// avoidance returns the executor's policy; avoidance_chaos.go has another.
func avoidance() executor.Avoidance { return executor.AvoidUnhealthy }
