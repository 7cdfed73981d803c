// Package api is the contract of the proxy, for clients in any language; its tests
// try it with those that are not written in Go. The client for Go is the package
// qosproxy below it.
package api
