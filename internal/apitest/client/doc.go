// Package client tries the Go client of package api/qosproxy against the real listeners,
// which are no part of the client's module.
package client
