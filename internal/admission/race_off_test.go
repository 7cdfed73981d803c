//go:build !race

package admission

// underRace is whether the race detector is on.
const underRace = false
