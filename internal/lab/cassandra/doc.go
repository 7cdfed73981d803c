// Package cassandra tests the package internal/cassandra of the product on real clusters.
//
// The tests need the build tag lab: go test -tags lab. With it internal/cassandra exports hooks
// that nobody else gets. DESIGN.md of the lab has the reasons.
package cassandra
