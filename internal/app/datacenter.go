package app

import (
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/status"
)

// datacenters converts the fail-over order for operators.
func datacenters(of []executor.Datacenter) []status.Datacenter {
	var out []status.Datacenter
	for _, d := range of {
		out = append(out, status.Datacenter(d))
	}
	return out
}
