// Package chaos decides whether the proxy keeps its guarantees while a real Cassandra
// cluster, or the proxy's own callers, are broken under load. Each guarantee is a
// scenario. It is judged over all its tries together. Where its safeguard can be switched
// off, a control makes the same measurement without it, and must break the guarantee
// tenfold, or the measurement proves nothing.
//
// The suite has the build tag chaos: make chaos.
package chaos
