// Package verify tests what is deployed by the tools that will read it: manifests
// and charts by kustomize, Helm and the types of the Kubernetes API, the compose
// file by compose's own loader, workflows by actionlint. It is a module of its own,
// so that the proxy's does not depend on them.
package verify
