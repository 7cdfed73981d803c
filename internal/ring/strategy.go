package ring

import (
	"errors"
	"fmt"
)

// Errors of Ring.PlacementError.
var (
	// ErrUnknownKeyspace means a keyspace the snapshot does not have.
	ErrUnknownKeyspace = errors.New("the cluster has no such keyspace")
	// ErrUnknownStrategy means a strategy whose placement is not known, such as a
	// user-defined class.
	ErrUnknownStrategy = errors.New("the replication strategy is not known")
	// ErrLocalStrategy means a keyspace in which every host has rows of its own,
	// so that no host is the replica of a key.
	ErrLocalStrategy = errors.New("a keyspace of LocalStrategy has no replicas")
	// ErrNoReplicas means a replication that places no key on any host.
	ErrNoReplicas = errors.New("the replication gives no key a replica")
)

// strategy is how a replication chooses hosts.
type strategy interface {
	// place appends to set the replicas of the range at which the walk begins.
	place(w *walk, set []HostIndex) []HostIndex
}

// newStrategy returns the strategy of a replication over the hosts of a ring, or
// why it has none.
func newStrategy(r Replication, hosts []Host) (strategy, error) {
	if r.Err != nil {
		return nil, r.Err
	}
	switch r.Strategy {
	case SimpleStrategy:
		if r.Factor <= 0 {
			return nil, fmt.Errorf("%w: its factor is %d", ErrNoReplicas, r.Factor)
		}
		return simple{factor: r.Factor}, nil
	case NetworkTopologyStrategy:
		return newNetworkTopology(r, hosts)
	case EverywhereStrategy:
		return everywhere{hosts: hosts}, nil
	case LocalStrategy:
		return nil, ErrLocalStrategy
	default:
		return nil, fmt.Errorf("%w: %q; only SimpleStrategy, NetworkTopologyStrategy and EverywhereStrategy can be read",
			ErrUnknownStrategy, r.Strategy)
	}
}

// simple is SimpleStrategy: the next distinct hosts, whatever their datacenter.
type simple struct{ factor int }

func (s simple) place(w *walk, set []HostIndex) []HostIndex {
	for h := w.begin(); h != w.end() && len(set) < s.factor; h = w.next[h] {
		set = append(set, h)
	}
	return set
}

// everywhere is EverywhereStrategy: the owner of the range, then all others in
// the order of the snapshot. Any order would do; this one has no more distinct
// lists than hosts.
type everywhere struct{ hosts []Host }

func (e everywhere) place(w *walk, set []HostIndex) []HostIndex {
	owner := w.begin()
	set = append(set, owner)
	for i, h := range e.hosts {
		if HostIndex(i) != owner && len(h.Tokens) > 0 {
			set = append(set, HostIndex(i))
		}
	}
	return set
}

// networkTopology is NetworkTopologyStrategy as of calculateNaturalReplicas in
// Cassandra 4.0 and later. One walk fills all datacenters. Its state is kept in
// left and spare, by number of the datacenter, and in seen, by number of the
// rack.
type networkTopology struct {
	dc, rack []int // numbers, by host; dc is -1 where no replicas go
	want     []int // replicas of each datacenter
	repeats  []int // replicas of each datacenter on racks that have one already
	total    int   // of want

	left, spare []int // of want and repeats, in this walk
	seen        []int // the walk that last took a host of the rack
	walks       int
}

// newNetworkTopology counts hosts and racks. Hosts without tokens count for
// neither, as in Cassandra.
func newNetworkTopology(r Replication, hosts []Host) (*networkTopology, error) {
	type rackName struct{ dc, rack string }
	var (
		n     = &networkTopology{dc: make([]int, len(hosts)), rack: make([]int, len(hosts))}
		dcs   = map[string]int{}
		racks = map[rackName]int{}
	)
	for i, h := range hosts {
		n.dc[i] = -1
		factor := r.Factors[h.DC]
		if len(h.Tokens) == 0 || factor <= 0 {
			continue
		}
		d, ok := dcs[h.DC]
		if !ok {
			d = len(dcs)
			dcs[h.DC] = d
			n.want, n.repeats = append(n.want, 0), append(n.repeats, factor)
		}
		k, ok := racks[rackName{h.DC, h.Rack}]
		if !ok {
			k = len(racks)
			racks[rackName{h.DC, h.Rack}] = k
			n.repeats[d]--
		}
		n.dc[i], n.rack[i] = d, k
		if n.want[d] < factor {
			n.want[d]++
			n.total++
		}
	}
	if n.total == 0 {
		return nil, fmt.Errorf("%w: no datacenter of %s has a host with tokens", ErrNoReplicas, r)
	}
	n.left, n.spare, n.seen = make([]int, len(dcs)), make([]int, len(dcs)), make([]int, len(racks))
	return n, nil
}

// place takes the first host of each rack that the walk meets. It takes further
// hosts of a rack only if the datacenter has fewer racks than replicas: the
// surplus goes to the first such hosts, not to the last.
func (n *networkTopology) place(w *walk, set []HostIndex) []HostIndex {
	n.walks++
	copy(n.left, n.want)
	copy(n.spare, n.repeats)
	total := n.total
	for h := w.begin(); h != w.end() && total > 0; h = w.next[h] {
		d, k := n.dc[h], n.rack[h]
		if d < 0 || n.left[d] == 0 {
			continue
		}
		if n.seen[k] == n.walks {
			if n.spare[d] <= 0 {
				continue
			}
			n.spare[d]--
		}
		n.seen[k] = n.walks
		n.left[d]--
		total--
		set = append(set, h)
	}
	return set
}
