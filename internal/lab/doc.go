// Package lab is the root of the laboratory: a module of its own with what demonstrates,
// measures and breaks the product on real clusters, and the tests that need these.
package lab
