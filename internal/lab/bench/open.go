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

// Open says how targets are reached and how they read.
type Open struct {
	// Data is what was written; required.
	Data *Dataset
	// Mix replaces the mix of the data's profile; nil keeps it.
	Mix []Kind
	// Cassandra is where direct targets connect.
	Cassandra cassandra.Config
	// OnlyContactPoints makes the contact points the only coordinators of direct
	// targets.
	OnlyContactPoints bool
	// Consistency is the level of direct targets, in CQL's words; a proxy's table
	// has its own.
	Consistency string
	// SpeculativeRetry and HedgeBudget (0 to 1) are those of grouped.
	SpeculativeRetry string
	HedgeBudget      float64
	// Timeout is the deadline of every lookup.
	Timeout time.Duration
	// GRPC is the address of the proxy's gRPC listener, and HTTP of its HTTP one,
	// each host:port; TLS is nil for plain connections. GRPC may name several
	// proxies, with commas between them, which then are asked in turns.
	GRPC, HTTP string
	TLS        *tls.Config
	// Token is the bearer token that a proxy with clients knows the caller by; empty
	// for none.
	Token string
	// Explain has proxies over gRPC tell how each lookup was asked. The error of a key
	// that is not answered then says what was tried for it, in further lines.
	Explain bool

	kinds []*kind
}

// Driver measures targets. Make one with NewDriver.
type Driver struct {
	open    Open
	targets map[string]Target
	meter   Meter
}

// NewDriver returns a driver whose targets are opened when first used. The meter
// tells what nodes and proxy spend.
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

// Close ends all connections.
func (d *Driver) Close() {
	for _, t := range d.targets {
		t.Close()
	}
}

// Target opens a target, or returns the one that is open.
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
	case Cover:
		return o.newCover(ctx)
	case Grouped:
		return o.newGrouped(ctx)
	default:
		return o.newPlain(ctx, name)
	}
}

// Contenders returns targets of the driver, to be compared.
func (d *Driver) Contenders(condition string, targets ...string) []Contender {
	out := make([]Contender, len(targets))
	for i, name := range targets {
		out[i] = Contender{Driver: d, Target: name, Condition: condition}
	}
	return out
}

// Answered asks the proxy over gRPC for partitions and says of each whether a
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

// sweepKeys is how many keys a lookup of Answered has.
const sweepKeys = 50
