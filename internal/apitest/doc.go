// Package apitest tries what package api promises, with clients that are not written in Go
// and with the documents' own examples. They run against the real listeners, which are no
// part of the module of api. It also holds that module light. The tests run in the folder
// api.
package apitest
