// Package client tests the Go client of package api/qosproxy against the real listeners,
// which are not part of the client's module.
package client
