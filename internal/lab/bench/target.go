package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Target answers lookups in one way. It is safe for concurrent use.
type Target interface {
	// Do makes a lookup and checks its answer. It returns soon after ctx ends.
	Do(ctx context.Context, l *Lookup) Outcome
	// Close ends its connections.
	Close()
}

// Outcome is how a lookup ended.
type Outcome struct {
	// Failed is how many keys were answered with neither rows nor the word of a
	// replica that there are none.
	Failed int
	// Missing is how many keys were written and are said not to be there; Wrong how
	// many rows differ from what was written.
	Missing, Wrong int
	// SubQueries were sent to nodes, of which Hedges because a group was late and
	// Failovers because one failed, as far as the target tells.
	SubQueries, Hedges, Failovers int
	// Err is the error of the lookup, or of one of its keys; nil when all keys were
	// answered.
	Err error
}

// The targets.
const (
	// ProxyGRPC and ProxyHTTP ask a proxy; ProxyGRPCCQL takes the cells from it as
	// Cassandra's own bytes.
	ProxyGRPC    = "proxy-grpc"
	ProxyGRPCCQL = "proxy-grpc-cql"
	ProxyHTTP    = "proxy-http"
	// In sends one IN to any coordinator, paged as the driver does it by default,
	// InUnpaged the same without pages.
	In        = "in"
	InUnpaged = "in-unpaged"
	// Single sends one token-aware read for each key, all at once, and
	// SingleSpeculative the same with the driver's speculative execution after
	// 15 ms.
	Single            = "single"
	SingleSpeculative = "single-speculative"
	// Cover sends the keys of each host as one unpaged IN to that host, by the driver
	// alone: the greedy set cover over the replicas, with the fewest hosts.
	Cover = "cover"
	// Grouped runs the proxy's own planner and executor in the client.
	Grouped = "grouped"
)

// Targets are the names of all targets.
var Targets = []string{ProxyGRPC, ProxyGRPCCQL, ProxyHTTP, In, InUnpaged, Single, SingleSpeculative, Cover, Grouped}

// IsProxy reports whether a target asks a proxy.
func IsProxy(target string) bool { return strings.HasPrefix(target, "proxy-") }

// CheckTarget returns an error that names the targets there are when name is not
// one.
func CheckTarget(name string) error {
	if slices.Contains(Targets, name) {
		return nil
	}
	return fmt.Errorf("there is no target %q; use %s", name, strings.Join(Targets, ", "))
}
