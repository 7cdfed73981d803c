// Package lab is the root of the lab: a module of its own that demonstrates, measures and breaks
// the product on real clusters, with the tests that need such clusters.
package lab
