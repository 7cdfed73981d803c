//go:build !chaos

package app

import "github.com/qosproxy/qosproxy/internal/executor"

// safeguards leaves those of the executor on; safeguards_chaos.go does not always.
func safeguards(cfg executor.Config) executor.Config { return cfg }
