package doctor

import (
	"time"

	"github.com/qosproxy/qosproxy/internal/config"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// Cluster is what an inspection has found out about a cluster. What it could not find out has
// its zero value; where that could be mistaken for an answer, another field says so.
type Cluster struct {
	// Points are the contact points.
	Points []Point
	// Name and Partitioner are as reported by the node that was asked about the cluster. They
	// are empty when no contact point answers; then nothing below is known.
	Name, Partitioner string
	// LocalDC is the datacenter whose nodes were asked: the configured one, or that of the
	// first contact point where there is no such datacenter.
	LocalDC string
	// Nodes are the nodes that own tokens, in all datacenters, by address.
	Nodes []Node
	// RingFailure is why no ring can be built of Nodes; empty when one can.
	RingFailure string
	// Moving says which node joins, leaves or moves; empty when none does or it is not known.
	Moving string
	// GossipDenied is whether the role may not read gossip, GossipMissing whether the nodes have no
	// table of it, and GossipFailure another reason why it could not be read.
	GossipDenied, GossipMissing bool
	GossipFailure               string
	// Keyspaces is the replication of each keyspace.
	Keyspaces map[string]ring.Replication
	// Names are all tables and views, as keyspace.table.
	Names []string
	// Tables are the answers to Questions, by position. They are empty when the schema could not
	// be read; SchemaFailure says why.
	Tables        []Table
	SchemaFailure string
}

// Point is a contact point.
type Point struct {
	// Name is host:port as configured, and Addrs are the addresses that it resolves to.
	Name  string
	Addrs []string
	// DC is the datacenter of the node that answered.
	DC string
	// Failure is why none of the addresses answered, and Key the configuration key to correct;
	// both empty when one did.
	Failure, Key string
}

// Node is a node of the cluster. The fields below Failure are known only for nodes that were
// asked and answered.
type Node struct {
	ring.Host
	// Schema is the version of its schema.
	Schema string
	// Asked is whether a connection was tried, as it is to the nodes of LocalDC.
	Asked bool
	// Failure and Key are as in a Point.
	Failure, Key string
	// Ahead is how far at least its clock is ahead of ours; negative when it is behind.
	Ahead time.Duration
	// Settings are the settings of cassandra.yaml that checks use, nil when they could not be
	// read; SettingsDenied is whether the role may not read them.
	Settings       map[string]string
	SettingsDenied bool
	// NodeLocal is whether the node answers at NODE_LOCAL.
	NodeLocal Consent
	// Direct is whether it answers at LOCAL_ONE from its own disk, as long as the table has no
	// speculation.
	Direct bool
}

// answers reports whether the node was asked and has answered.
func (n *Node) answers() bool { return n.Asked && n.Failure == "" }

// Consent is whether a node allows something.
type Consent int

// The values of Consent.
const (
	Unknown Consent = iota
	Allowed
	Refused
)

// Question is a table that an inspection examines.
type Question struct {
	Keyspace, Table string
	// Columns are those that may be read; empty for all.
	Columns []string
	// Rows is the most rows that a timed lookup reads of a key, 1 or more.
	Rows int
}

// mostRows bounds the rows of a timed lookup.
const mostRows = 100

// Questions returns the tables of a configuration, in its order.
func Questions(cfg *config.Config) []Question {
	out := make([]Question, len(cfg.Tables))
	for i := range cfg.Tables {
		t := &cfg.Tables[i]
		out[i] = Question{Keyspace: t.Name.Keyspace, Table: t.Name.Table, Columns: t.Columns, Rows: min(mostRows, cfg.Effective(t).MaxRowsPerKey)}
	}
	return out
}

// Table is what was found out about a table.
type Table struct {
	// Definition is nil when the cluster has no such table.
	Definition *schema.Table
	// Speculation is its speculative_retry as Cassandra writes it, with NEVER for NONE.
	Speculation string
	// Denied is whether the role may not read it, and Failure another reason why it could not be
	// read. Neither is set for an empty table.
	Denied  bool
	Failure string
	// MeanBytes is the mean size of a partition, and MostRows the most rows that one read has
	// returned, as counted by the nodes; 0 when unknown.
	MeanBytes, MostRows int64
	// CountsDenied is whether the role may not read MostRows. Every role may read MeanBytes.
	CountsDenied bool
	// Lookups are reads of one existing key, one by each local replica that could be reached;
	// none for an empty table.
	Lookups []Lookup
}

// Lookup is a timed read of one key by one replica.
type Lookup struct {
	// Host is the replica, host:port.
	Host string
	// Took is how long the answer took.
	Took time.Duration
	// Failure is why there was no answer; empty when there was one.
	Failure string
}
