// Package prometheus holds the rules and alerts for Prometheus and the tests that
// prove them with its own tool.
package prometheus
