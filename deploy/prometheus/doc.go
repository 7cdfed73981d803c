// Package prometheus decides when an operator is alerted: it holds the rules and
// alerts for Prometheus. Its tests prove them with Prometheus's own tool.
package prometheus
