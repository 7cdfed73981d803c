// Package clienttest builds the clients in languages other than Go and runs their conformance
// programs, for tests. It decides how a value is written down so that languages can be compared.
//
// A program reads a lookup from each line of its standard input and tells on a line of its
// standard output what came of it. It stands beside the tests of the client: conformance.py,
// conformance.ts and Conformance.java in api.
package clienttest
