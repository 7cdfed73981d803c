// Package api defines what clients in any language may send to the proxy and rely on. The Go
// client is package qosproxy below it. Both belong to one module that excludes the server.
// The server's module imports that module, and its package internal/apitest tests the
// contract.
package api
