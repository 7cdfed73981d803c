// Package acceptance proves the proxy against real Apache Cassandra clusters that
// it boots itself: tokens and placement against the server's own, rows against
// SELECT JSON, both front doors against each other, and the promises under
// faults. It has no code of its own but tests.
package acceptance
