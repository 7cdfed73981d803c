// Package chaos breaks a real Cassandra cluster, and the proxy's callers, under
// load, and holds the proxy to what it promises meanwhile. Each promise is a
// scenario with its negative control: the same measurement with the safeguard off,
// which must not keep the promise, lest the measurement prove nothing.
//
// The suite is under the build tag chaos: make chaos.
package chaos
