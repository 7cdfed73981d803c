// Package clienttest builds the clients in languages other than Go and runs their conformance
// programs, for tests. It decides how a value is written, so that languages can be compared.
//
// A program reads one lookup from each line of its standard input, and writes its outcome to a
// line of standard output. The programs are in folder api, beside the tests of each client:
// conformance.py, conformance.ts and Conformance.java.
package clienttest
