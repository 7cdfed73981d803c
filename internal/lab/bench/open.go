package bench

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/credentials"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/cassandra"
)

// Open says how a Driver connects to targets and how they read.
type Open struct {
	// Data is the data set that lookups read; required.
	Data *Dataset
	// Mix replaces the mix of the data's profile; nil keeps it.
	Mix []Kind
	// Cassandra configures the connections of direct targets, which ask no proxy.
	Cassandra cassandra.Config
	// OnlyContactPoints makes the contact points the only coordinators of direct
	// targets.
	OnlyContactPoints bool
	// Consistency is the consistency level of direct targets, as CQL spells it. A proxy's table has
	// its own.
	Consistency string
	// SpeculativeRetry and HedgeBudget (0 to 1) are the settings of the target grouped.
	SpeculativeRetry string
	HedgeBudget      float64
	// Timeout is how long a lookup may take; above 0.
	Timeout time.Duration
	// GRPC and HTTP are the addresses of the proxy's listeners, each host:port. GRPC may list several
	// proxies, separated by commas, which are then asked in turn. TLS is nil for plain connections.
	GRPC, HTTP string
	TLS        *tls.Config
	// Token is the bearer token that identifies the caller to a proxy with clients; empty for none.
	Token string
	// Explain asks proxies over gRPC to explain each lookup. The error of a key that is not answered
	// then lists the attempts for it, one a line.
	Explain bool

	kinds []*kind
}

// Driver measures targets. Make one with NewDriver.
type Driver struct {
	open    Open
	targets map[string]Target
	meter   Meter
}

// NewDriver returns a driver that opens each target when it is first used. The meter reads the cost
// of nodes and proxy.
func NewDriver(o Open, meter Meter) (*Driver, error) {
	mix := o.Mix
	if mix == nil {
		mix = o.Data.Profile.Mix
	}
	if o.Timeout <= 0 {
		return nil, errors.New("the timeout of a lookup must be above 0")
	}
	o.kinds = o.Data.resolve(mix)
	return &Driver{open: o, targets: map[string]Target{}, meter: meter}, nil
}

// Close closes all open targets.
func (d *Driver) Close() {
	for _, t := range d.targets {
		t.Close()
	}
}

// Target returns a target by its name, and opens it if it is not open yet.
func (d *Driver) Target(ctx context.Context, name string) (Target, error) {
	if t := d.targets[name]; t != nil {
		return t, nil
	}
	t, err := d.open.target(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("target %s: %w", name, err)
	}
	d.targets[name] = t
	return t, nil
}

// target opens a target.
func (o *Open) target(ctx context.Context, name string) (Target, error) {
	if err := CheckTarget(name); err != nil {
		return nil, err
	}
	if o.Data.Profile.KeyPrefix != nil && (name == In || name == InUnpaged) {
		return nil, fmt.Errorf("a profile with key_prefix has no IN over the whole key; use %s, %s or a proxy", Cover, Single)
	}
	if name != ProxyGRPC && name != ProxyGRPCCQL && slices.ContainsFunc(o.kinds, func(k *kind) bool { return k.Rows }) {
		return nil, fmt.Errorf("it makes no lookups by full primary key (rows); use %s or %s", ProxyGRPC, ProxyGRPCCQL)
	}
	var secure credentials.TransportCredentials
	scheme := "http://"
	if o.TLS != nil {
		secure, scheme = credentials.NewTLS(o.TLS), "https://"
	}
	switch name {
	case ProxyGRPC:
		return o.newGRPC(secure, qosproxyv1.Encoding_ENCODING_VALUES)
	case ProxyGRPCCQL:
		return o.newGRPC(secure, qosproxyv1.Encoding_ENCODING_CQL)
	case ProxyHTTP:
		return o.newHTTP(scheme + o.HTTP), nil
	case Cover, QuorumCover:
		return o.newCover(ctx, name == QuorumCover)
	case Grouped:
		return o.newGrouped(ctx)
	default:
		return o.newPlain(ctx, name)
	}
}

// Contenders returns a contender for each of the targets, with the same condition.
func (d *Driver) Contenders(condition string, targets ...string) []Contender {
	out := make([]Contender, len(targets))
	for i, name := range targets {
		out[i] = Contender{Driver: d, Target: name, Condition: condition}
	}
	return out
}

// Answered asks the proxy over gRPC for partitions, by number, and reports for each whether a
// replica has answered.
func (d *Driver) Answered(ctx context.Context, keys []int) ([]bool, error) {
	target, err := d.Target(ctx, ProxyGRPC)
	if err != nil {
		return nil, err
	}
	answered := make([]bool, len(keys))
	for from := 0; from < len(keys); from += sweepKeys {
		part := keys[from:min(from+sweepKeys, len(keys))]
		resp, err := target.(*grpcTarget).get(ctx, &Lookup{Keys: part, row: noRow, kind: d.open.kinds[0]})
		if err != nil {
			return nil, err
		}
		for i, r := range resp.GetResults() {
			answered[from+i] = answeredStatus(r.GetStatus())
		}
	}
	return answered, nil
}

// sweepKeys is the most keys in one lookup of Answered.
const sweepKeys = 50
