//go:build !race

package simulate

// underRace is whether the race detector is on.
const underRace = false
