//go:build race

package merge

// underRace is whether the race detector is on.
const underRace = true
