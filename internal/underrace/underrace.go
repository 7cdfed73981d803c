// Package underrace decides which tests the race detector spares. It makes code up to ten times as
// slow, and takes memory of its own. make test-unit runs such tests a second time without it.
package underrace

import "testing"

// Skip skips a test or benchmark under the race detector, and says why.
func Skip(t testing.TB, why string) {
	t.Helper()
	if enabled {
		t.Skip("not under the race detector: " + why)
	}
}

// Simulations is the reason to skip tests that simulate very many lookups. Their goroutines are
// those of the tests that are not skipped.
const Simulations = "it simulates too many lookups"
