// Package ring decides which hosts are replicas of a key. A ring is an immutable
// snapshot: the hosts of a cluster, the Murmur3 token of a partition key, and the
// replicas that the replication strategy of a keyspace places on that token.
package ring

// HostIndex is the position of a host in Ring.Hosts. It is meaningful only
// together with the snapshot it came from.
type HostIndex int32

// Host is one node of the cluster as its peers describe it.
type Host struct {
	// ID is the host id, a UUID that survives a change of address.
	ID string
	// Addr is the address of the native transport, host:port.
	Addr string
	// DC and Rack are its datacenter and rack.
	DC, Rack string
	// Release is the Cassandra version, such as 5.0.9.
	Release string
	// Tokens are the tokens the host owns, unsorted. A host without tokens (a
	// coordinator-only node, or one that is still joining) owns no data and is
	// never a replica.
	Tokens []int64
}

// Replication is the replication option of a keyspace.
type Replication struct {
	// Strategy is the class name without its package, such as SimpleStrategy
	// or NetworkTopologyStrategy.
	Strategy string
	// Factor is the replication factor of SimpleStrategy.
	Factor int
	// Factors is the replication factor of each datacenter, for
	// NetworkTopologyStrategy.
	Factors map[string]int
	// Err says why the option could not be read, see ParseReplication; nil when
	// it could. A keyspace with an Err has no placement.
	Err error
}

// Topology is what a Ring is built from.
type Topology struct {
	// Hosts are all hosts of the cluster, in any order.
	Hosts []Host
	// Keyspaces is the replication of each keyspace, by name as stored.
	Keyspaces map[string]Replication
	// LocalDC is the datacenter whose replicas are asked; empty means all.
	LocalDC string
	// LaterDCs are the datacenters to fail over to, in order, when no replica of LocalDC can be
	// asked; may be nil. A datacenter that is not in the cluster has no replicas.
	LaterDCs []string
}
