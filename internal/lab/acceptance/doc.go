// Package acceptance decides whether the proxy does what its contract says, by tests against real
// Apache Cassandra clusters that it boots itself. It compares tokens and placement with Cassandra's
// own, rows with SELECT JSON, and gRPC with HTTP, and checks the SLA under faults. It has only
// tests.
package acceptance
