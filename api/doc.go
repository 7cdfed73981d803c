// Package api defines what clients in any language may send to the proxy and rely on.
// The client for Go is package qosproxy below it. Both are in one module, without the server.
// The server's module imports it, and its internal/apitest tries the contract.
package api
