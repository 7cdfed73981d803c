//go:build race

package executor

// underRace is whether the race detector is on.
const underRace = true
