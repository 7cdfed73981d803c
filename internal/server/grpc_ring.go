package server

import (
	"context"

	"google.golang.org/grpc/status"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/reasons"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// DescribeRing returns which hosts own what. A client sees the keyspaces in which
// it may read a table, and the hosts with replicas of these; a client that may read
// no table sees nothing.
func (g *grpcService) DescribeRing(ctx context.Context, in *qosproxyv1.DescribeRingRequest) (*qosproxyv1.DescribeRingResponse, error) {
	if err := g.server.mayDescribe(ctx, in.GetKeyspace()); err != nil {
		return nil, grpcError(ctx, err)
	}
	snapshot := g.server.deps.Lookup.Ring()
	if snapshot == nil {
		return nil, grpcError(ctx, g.server.notReady())
	}
	// No lookup waits for this, and a ring with its ranges has a hundred thousand
	// entries and more: so only one is described at a time, and other callers
	// retry.
	if !g.describing.TryLock() {
		busy := shed
		busy.why = reasons.Busy
		return nil, withDetails(status.New(busy.grpc, "another ring is being described; retry in a moment"), outcomeDetails(busy)...)
	}
	defer g.describing.Unlock()
	out, err := ringOf(snapshot, in.GetKeyspace(), in.GetIncludeRanges(), identity.FromContext(ctx).Access)
	if err != nil {
		return nil, grpcError(ctx, err)
	}
	return out, nil
}

// ringOf describes one keyspace, or every keyspace with a placement if the name is
// empty, to a client with that access. It computes only what the client may see.
func ringOf(r *ring.Ring, keyspace string, ranges bool, access *identity.Access) (*qosproxyv1.DescribeRingResponse, error) {
	names := []string{keyspace}
	if keyspace == "" {
		names = r.Keyspaces()
	}
	d := ringDescription{placed: make(map[*ring.Placement]*qosproxyv1.KeyspaceRing)}
	for _, name := range names {
		if !access.Keyspace(name) {
			continue
		}
		p, ok := r.Placement(name)
		if ok {
			d.add(name, p)
		} else if keyspace != "" {
			return nil, &lookup.Error{Reason: reasons.UnknownTable, Field: "keyspace", Message: r.PlacementError(lookup.Clip(name, lookup.MaxName)).Error()}
		}
	}
	out := &qosproxyv1.DescribeRingResponse{Keyspaces: d.keyspaces}
	if access == nil || len(d.keyspaces) > 0 {
		out.LocalDatacenter = r.LocalDC()
	}
	var positions []int32
	out.Hosts, positions = d.hosts(r, access == nil)
	d.fill(positions, len(out.GetHosts()), ranges)
	return out, nil
}

// ringDescription is a set of keyspaces to describe. Keyspaces of equal replication
// share a placement, whose ownership and ranges are computed once and shared as
// well.
type ringDescription struct {
	keyspaces []*qosproxyv1.KeyspaceRing
	// placements are those of keyspaces, by index; placed is the first keyspace of
	// each.
	placements []*ring.Placement
	placed     map[*ring.Placement]*qosproxyv1.KeyspaceRing
}

// add adds a keyspace, with its ownership by ring.HostIndex.
func (d *ringDescription) add(name string, p *ring.Placement) {
	k := &qosproxyv1.KeyspaceRing{Keyspace: name}
	d.keyspaces, d.placements = append(d.keyspaces, k), append(d.placements, p)
	if d.placed[p] == nil {
		d.placed[p] = k
		k.Ownership = p.Ownership()
	}
}

// hosts returns the hosts that hold a replica, or all hosts, and the position of
// each in the result by ring.HostIndex; -1 if it is left out.
func (d *ringDescription) hosts(r *ring.Ring, all bool) (hosts []*qosproxyv1.Host, positions []int32) {
	replica := make([]bool, r.Len())
	for _, k := range d.placed {
		for i, share := range k.GetOwnership() {
			replica[i] = replica[i] || share > 0
		}
	}
	positions = make([]int32, r.Len())
	for i, h := range r.Hosts() {
		positions[i] = -1
		if all || replica[i] {
			positions[i] = int32(len(hosts))
			hosts = append(hosts, hostOf(h))
		}
	}
	return hosts, positions
}

// fill converts the ownership of every keyspace to the positions of hosts, and adds
// the ranges if they are wanted.
func (d *ringDescription) fill(positions []int32, hosts int, ranges bool) {
	for p, k := range d.placed {
		ownership := make([]float64, hosts)
		for i, share := range k.GetOwnership() {
			if positions[i] >= 0 {
				ownership[positions[i]] = share
			}
		}
		k.Ownership = ownership
		if ranges {
			k.Ranges = rangesOf(p, positions)
		}
	}
	for i, k := range d.keyspaces {
		first := d.placed[d.placements[i]]
		k.Ownership, k.Ranges = first.GetOwnership(), first.GetRanges()
	}
}

// rangesOf returns the ranges of a placement, allocated together.
func rangesOf(p *ring.Placement, positions []int32) []*qosproxyv1.TokenRange {
	total := 0
	for t := range p.Ranges() {
		total += len(t.Replicas)
	}
	replicas := make([]int32, 0, total)
	each := make([]qosproxyv1.TokenRange, p.Len())
	out := make([]*qosproxyv1.TokenRange, 0, p.Len())
	for t := range p.Ranges() {
		from := len(replicas)
		for _, h := range t.Replicas {
			replicas = append(replicas, positions[h])
		}
		one := &each[len(out)]
		one.Start, one.End, one.Replicas = t.Start, t.End, replicas[from:len(replicas):len(replicas)]
		out = append(out, one)
	}
	return out
}
