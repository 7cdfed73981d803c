// Package chaos decides whether the proxy keeps its guarantees under load while a real Cassandra
// cluster is broken, or while callers abuse the proxy. Each guarantee is a scenario, judged over
// the sum of its tries. Where its safeguard can be switched off, a control repeats the measurement
// without it. The control must break the guarantee tenfold, or the measurement proves nothing.
//
// The suite has the build tag chaos: make chaos.
package chaos
