// Package kubernetes tests the example manifests of this folder against the types
// of the Kubernetes API. It is a module of its own, so that the proxy's does not
// depend on them.
package kubernetes
