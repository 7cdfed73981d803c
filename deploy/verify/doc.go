// Package verify decides whether what is deployed is valid, by the tools that will
// read it: kustomize, Helm and the types of the Kubernetes API for manifests and
// charts, the loader of compose for the compose file, actionlint for workflows. It is
// a module of its own, so that the proxy's module does not depend on them.
package verify
