// Package cassandra tests the package internal/cassandra of the product on real clusters.
//
// The tests are under the build tag lab, which gives them what internal/cassandra exports
// to nobody else: go test -tags lab. DESIGN.md of the lab says why.
package cassandra
