package doctor

import (
	"time"

	"github.com/qosproxy/qosproxy/internal/config"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// Cluster is what an inspection has found out about a cluster. What it could not find out is the
// zero value; where that would be mistaken for an answer, a field beside it says so.
type Cluster struct {
	// Points are the contact points.
	Points []Point
	// Name and Partitioner are those of the node that was asked about the cluster; empty when
	// no contact point answers, and then nothing below is known.
	Name, Partitioner string
	// LocalDC is the datacenter whose nodes were asked: the configured one, or that of the
	// first contact point where there is no such datacenter.
	LocalDC string
	// Nodes are those that own tokens, of all datacenters, by address.
	Nodes []Node
	// RingFailure is why no ring can be built of them; empty when one can.
	RingFailure string
	// Moving says which node joins, leaves or moves; empty when none does or nobody could tell.
	Moving string
	// GossipDenied is whether the role may not read gossip, and GossipFailure why it could not
	// be read otherwise.
	GossipDenied  bool
	GossipFailure string
	// Keyspaces is the replication of each keyspace.
	Keyspaces map[string]ring.Replication
	// Names are all tables and views, as keyspace.table.
	Names []string
	// Tables answer the questions, by position; none when the schema could not be read, and
	// SchemaFailure says why.
	Tables        []Table
	SchemaFailure string
}

// Point is a contact point.
type Point struct {
	// Name is host:port as configured, and Addrs are those that it resolves to.
	Name  string
	Addrs []string
	// DC is the datacenter of the node that answered.
	DC string
	// Failure is why none of the addresses answered, and Key the configuration that decides
	// about it; both empty when one did.
	Failure, Key string
}

// Node is a node of the cluster. What is below its Failure is known of nodes that were asked and
// answered.
type Node struct {
	ring.Host
	// Schema is the version of its schema.
	Schema string
	// Asked is whether a connection was tried: to the nodes of LocalDC.
	Asked bool
	// Failure and Key are those of a Point.
	Failure, Key string
	// Ahead is by how much its clock is ahead of ours at least; negative when it is behind.
	Ahead time.Duration
	// Settings are those of cassandra.yaml that checks look at, nil when they could not be read;
	// SettingsDenied is whether the role may not read them.
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

// Consent is whether a node does something.
type Consent int

// Whether a node does something.
const (
	Unknown Consent = iota
	Allowed
	Refused
)

// Question is a table that an inspection looks at.
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

// Table is what was found of a table.
type Table struct {
	// Definition is nil when the cluster has no such table.
	Definition *schema.Table
	// Speculation is its speculative_retry in Cassandra's words; it writes NONE as NEVER.
	Speculation string
	// Denied is whether the role may not read it, and Failure why it could not be read
	// otherwise; of an empty table neither is set.
	Denied  bool
	Failure string
	// MeanBytes is the mean size of a partition, and MostRows the most rows that one read has
	// returned, as the nodes have counted; 0 when unknown.
	MeanBytes, MostRows int64
	// CountsDenied is whether the role may not read MostRows. Every role may read MeanBytes.
	CountsDenied bool
	// Lookups are reads of one existing key, one by each local replica that could be reached;
	// none of an empty table.
	Lookups []Lookup
}

// Lookup is a timed read of one key by one replica.
type Lookup struct {
	// Host is the replica, host:port.
	Host string
	// Took is how long the answer took.
	Took time.Duration
	// Failure is why there was none.
	Failure string
}
