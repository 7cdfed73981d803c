// Package api defines what clients in any language may send to the proxy and rely on.
// The client for Go is package qosproxy below it. Both are a module without the server,
// which imports it; internal/apitest of the server tries the contract.
package api
