package ring

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Errors of New. Each names the host or datacenter in its text.
var (
	// ErrNoTokens means that no host owns a token.
	ErrNoTokens = errors.New("no host owns a token")
	// ErrTooManyTokens means more tokens or replicas than a snapshot can count.
	ErrTooManyTokens = errors.New("too many tokens")
	// ErrDuplicateToken means that two hosts claim the same token, as they do
	// for a moment when one replaces the other.
	ErrDuplicateToken = errors.New("a token is claimed twice")
	// ErrDuplicateHost means that two hosts have the same id or address.
	ErrDuplicateHost = errors.New("a host is listed twice")
	// ErrIncompleteHost means a host without id, address, datacenter or rack, as
	// peers describe one they have just heard of.
	ErrIncompleteHost = errors.New("a host is only half known")
	// ErrUnknownDC means that no host of the local datacenter owns a token.
	ErrUnknownDC = errors.New("the local datacenter is not in the cluster")
)

// Ring is a snapshot of the cluster: its hosts, their tokens, and the placement
// of every keyspace. It is immutable and safe for concurrent use. All it returns
// is shared and must not be modified.
type Ring struct {
	hosts     []Host
	localDC   string
	laterDCs  []string
	table     *tokenTable
	byID      map[string]HostIndex
	keyspaces map[string]keyspace
}

// keyspace has either a placement or an error.
type keyspace struct {
	replication Replication
	placement   *Placement
	err         error
}

// New builds the snapshot of a topology, which it copies. It returns one of the errors above and no
// ring when the topology is incomplete or contradicts itself; the caller is expected to keep the
// ring it has. A keyspace that cannot be placed fails alone, see PlacementError.
func New(t Topology) (*Ring, error) {
	hosts, byID, err := sortHosts(t.Hosts)
	if err != nil {
		return nil, err
	}
	table, err := newTokenTable(hosts)
	if err != nil {
		return nil, err
	}
	r := &Ring{
		hosts:     hosts,
		localDC:   t.LocalDC,
		laterDCs:  slices.Clone(t.LaterDCs),
		table:     table,
		byID:      byID,
		keyspaces: make(map[string]keyspace, len(t.Keyspaces)),
	}
	if dcs := r.Datacenters(); t.LocalDC != "" && !slices.Contains(dcs, t.LocalDC) {
		return nil, fmt.Errorf("%w: %q; the datacenters that own tokens are %s", ErrUnknownDC, t.LocalDC, strings.Join(dcs, ", "))
	}
	r.place(t.Keyspaces)
	return r, nil
}

// sortHosts copies the hosts into the order of HostIndex, and checks them.
func sortHosts(in []Host) ([]Host, map[string]HostIndex, error) {
	hosts := slices.Clone(in)
	slices.SortFunc(hosts, compareHosts)
	byID := make(map[string]HostIndex, len(hosts))
	addrs := make(map[string]string, len(hosts))
	for i := range hosts {
		h := &hosts[i]
		if h.ID == "" || h.Addr == "" || h.DC == "" || h.Rack == "" {
			return nil, nil, fmt.Errorf("%w: id %q, address %q, datacenter %q, rack %q", ErrIncompleteHost, h.ID, h.Addr, h.DC, h.Rack)
		}
		if other, ok := byID[h.ID]; ok {
			return nil, nil, fmt.Errorf("%w: id %s at %s and %s", ErrDuplicateHost, h.ID, hosts[other].Addr, h.Addr)
		}
		if other, ok := addrs[h.Addr]; ok {
			return nil, nil, fmt.Errorf("%w: address %s of ids %s and %s", ErrDuplicateHost, h.Addr, other, h.ID)
		}
		byID[h.ID], addrs[h.Addr] = HostIndex(i), h.ID
		h.Tokens = slices.Sorted(slices.Values(h.Tokens))
	}
	return hosts, byID, nil
}

// compareHosts orders hosts by datacenter, rack and address.
func compareHosts(a, b Host) int {
	return cmp.Or(
		cmp.Compare(a.DC, b.DC),
		cmp.Compare(a.Rack, b.Rack),
		compareAddrs(a.Addr, b.Addr),
		cmp.Compare(a.ID, b.ID),
	)
}

// compareAddrs orders addresses by number, so that 10.0.0.2 comes before
// 10.0.0.10, and names after them.
func compareAddrs(a, b string) int {
	x, errX := netip.ParseAddrPort(a)
	y, errY := netip.ParseAddrPort(b)
	switch {
	case errX == nil && errY == nil:
		return cmp.Or(x.Compare(y), cmp.Compare(a, b))
	case errX == nil:
		return -1
	case errY == nil:
		return 1
	default:
		return cmp.Compare(a, b)
	}
}

// place fills r.keyspaces. Each distinct replication is placed once: most keyspaces of a cluster
// share a few.
func (r *Ring) place(replications map[string]Replication) {
	placed := make(map[string]keyspace)
	for name, replication := range replications {
		replication.Factors = maps.Clone(replication.Factors)
		key := replication.String()
		k, ok := placed[key]
		if !ok {
			var s strategy
			if s, k.err = newStrategy(replication, r.hosts); k.err == nil {
				k.placement, k.err = newPlacement(r, s)
			}
			placed[key] = k
		}
		k.replication = replication
		r.keyspaces[name] = k
	}
}

// locals marks the hosts of the local datacenter. It reports false when all
// hosts count as local.
func (r *Ring) locals() ([]bool, bool) {
	if r.localDC == "" {
		return nil, false
	}
	mark, filter := make([]bool, len(r.hosts)), false
	for i, h := range r.hosts {
		mark[i] = h.DC == r.localDC
		filter = filter || !mark[i]
	}
	return mark, filter
}

// Hosts returns all hosts, those without tokens included, by datacenter, rack and
// address. The tokens of each are ascending.
func (r *Ring) Hosts() []Host { return r.hosts }

// Host returns the host with an index from this snapshot.
func (r *Ring) Host(i HostIndex) Host { return r.hosts[i] }

// Index returns the index of the host with that id, and whether there is one.
func (r *Ring) Index(id string) (HostIndex, bool) {
	i, ok := r.byID[id]
	return i, ok
}

// Len returns the number of hosts; every HostIndex is below it.
func (r *Ring) Len() int { return len(r.hosts) }

// LocalDC returns the datacenter whose replicas are asked; empty means all.
func (r *Ring) LocalDC() string { return r.localDC }

// LaterDCs returns the datacenters to fail over to, in order, when no replica of LocalDC can be
// asked.
func (r *Ring) LaterDCs() []string { return r.laterDCs }

// Datacenters returns the names of the datacenters that own tokens, sorted.
func (r *Ring) Datacenters() []string {
	var dcs []string
	for _, h := range r.hosts {
		if len(h.Tokens) > 0 {
			dcs = append(dcs, h.DC)
		}
	}
	return slices.Compact(dcs)
}

// Keyspaces returns the names of all keyspaces, sorted, those without a placement
// included.
func (r *Ring) Keyspaces() []string { return slices.Sorted(maps.Keys(r.keyspaces)) }

// Replication returns the replication of a keyspace, and whether the cluster has
// the keyspace.
func (r *Ring) Replication(keyspace string) (Replication, bool) {
	k, ok := r.keyspaces[keyspace]
	return k.replication, ok
}

// Placement returns where the replicas of a keyspace lie. It reports false when
// that is unknown; PlacementError says why.
func (r *Ring) Placement(keyspace string) (*Placement, bool) {
	p := r.keyspaces[keyspace].placement
	return p, p != nil
}

// PlacementError returns why a keyspace has no placement; nil when it has one. It wraps
// ErrUnknownKeyspace, ErrUnknownStrategy, ErrLocalStrategy, ErrNoReplicas, ErrTooManyTokens or the
// Err of the replication.
func (r *Ring) PlacementError(keyspace string) error {
	k, ok := r.keyspaces[keyspace]
	if !ok {
		return fmt.Errorf("keyspace %s: %w", keyspace, ErrUnknownKeyspace)
	}
	if k.err != nil {
		return fmt.Errorf("keyspace %s: %w", keyspace, k.err)
	}
	return nil
}

// Equal reports whether both snapshots describe the same topology, so that the older one may be
// kept.
func (r *Ring) Equal(o *Ring) bool {
	if r == nil || o == nil {
		return r == o
	}
	return r.localDC == o.localDC && slices.Equal(r.laterDCs, o.laterDCs) &&
		slices.EqualFunc(r.hosts, o.hosts, Host.equal) &&
		maps.EqualFunc(r.keyspaces, o.keyspaces, func(a, b keyspace) bool { return a.replication.Equal(b.replication) })
}

func (h Host) equal(o Host) bool {
	return h.ID == o.ID && h.Addr == o.Addr && h.DC == o.DC && h.Rack == o.Rack && h.Release == o.Release &&
		slices.Equal(h.Tokens, o.Tokens)
}
