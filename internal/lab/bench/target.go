package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Target makes lookups in one way, through a proxy or not. It is safe for concurrent use.
type Target interface {
	// Do makes a lookup, checks its answer and returns soon after ctx ends.
	Do(ctx context.Context, l *Lookup) Outcome
	// Close closes the connections of the target.
	Close()
}

// Outcome is how a lookup ended.
type Outcome struct {
	// Failed is the number of keys that were not answered: neither with rows, nor with the answer of a
	// replica that there are none.
	Failed int
	// Missing is the number of written keys that were not found; Wrong is the number of rows that
	// differ from what was written.
	Missing, Wrong int
	// SubQueries is the number of attempts, Hedges and Failovers those of them that are hedges and
	// fail-overs, as far as the target reports them.
	SubQueries, Hedges, Failovers int
	// Err is the error of the lookup, or of one of its keys; nil when all keys were
	// answered.
	Err error
}

// The targets.
const (
	// ProxyGRPC and ProxyHTTP ask a proxy. ProxyGRPCCQL is ProxyGRPC with cells in CQL's own encoding.
	ProxyGRPC    = "proxy-grpc"
	ProxyGRPCCQL = "proxy-grpc-cql"
	ProxyHTTP    = "proxy-http"
	// In sends one IN to any coordinator, with the driver's default page size; InUnpaged is the same
	// without paging.
	In        = "in"
	InUnpaged = "in-unpaged"
	// Single sends one token-aware read for each key, all at once; SingleSpeculative adds the driver's
	// speculative execution after 15 ms.
	Single            = "single"
	SingleSpeculative = "single-speculative"
	// Cover sends each host of a greedy set cover one unpaged IN for its keys, with the driver alone.
	Cover = "cover"
	// QuorumCover sends as many covers as a quorum has replicas, each to other replicas of a key, and
	// compares what they answer, with write times and TTLs. Its Open.Consistency is a level of one
	// replica.
	QuorumCover = "quorum-cover"
	// Grouped runs the proxy's own planner and executor in the client.
	Grouped = "grouped"
)

// Targets are the names of all targets.
var Targets = []string{ProxyGRPC, ProxyGRPCCQL, ProxyHTTP, In, InUnpaged, Single, SingleSpeculative, Cover, QuorumCover, Grouped}

// IsProxy reports whether a target asks a proxy.
func IsProxy(target string) bool { return strings.HasPrefix(target, "proxy-") }

// CheckTarget returns an error that lists all targets unless name is one of them.
func CheckTarget(name string) error {
	if slices.Contains(Targets, name) {
		return nil
	}
	return fmt.Errorf("there is no target %q; use %s", name, strings.Join(Targets, ", "))
}
