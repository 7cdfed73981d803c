// Package api defines what clients in any language may send to the proxy and rely on.
// Its tests try the contract with clients that are not written in Go. The client for
// Go is package qosproxy below it.
package api
