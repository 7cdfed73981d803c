// Package apitest tests what package api promises, with clients that are not written in Go
// and with the examples of the documents. They run against the real listeners, which are
// not part of the module of api. It also verifies that this module has few dependencies.
// The tests run in the folder api.
package apitest
