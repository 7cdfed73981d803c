package doctor

import (
	"fmt"
	"maps"
	"slices"

	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/quorum"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// replication finds keyspaces whose replication does not suit how their tables are read.
func replication(e *exam) []Finding {
	var found []Finding
	var done []string
	for _, t := range e.tables {
		if keyspace := t.name.Keyspace; !slices.Contains(done, keyspace) {
			done = append(done, keyspace)
			found = append(found, e.keyspace(keyspace)...)
		}
	}
	if len(done) == 0 || len(e.local) == 0 {
		return nil
	}
	return orFine(found, "the keyspaces have replicas enough in "+e.LocalDC)
}

// keyspace returns only the worst finding about the replication of a keyspace.
func (e *exam) keyspace(name string) []Finding {
	r := e.Keyspaces[name]
	one := func(level Level, found, why string) []Finding {
		return []Finding{{Level: level, Found: "keyspace " + name + " " + found, Why: why, Mend: e.replicate(name, r)}}
	}
	local, total, dcs := e.replicas(r)
	switch {
	case r.Err != nil:
		return one(Problem, "has a replication that cannot be read: "+r.Err.Error(), "The proxy does not know its replicas, and lookups fail.")
	case local < 0:
		return one(Problem, "has the strategy "+r.Strategy, "The proxy does not know where its replicas are, and lookups fail.")
	case r.Strategy == ring.SimpleStrategy && len(dcs) > 1:
		return one(Warning, fmt.Sprintf("has SimpleStrategy, and the cluster %d datacenters", len(dcs)),
			"SimpleStrategy knows no datacenters: some keys may have no replica in the local one.")
	case local == 0:
		return one(Problem, "is not replicated in "+e.LocalDC, "No key has a local replica, and lookups end UNAVAILABLE.")
	case local > len(e.local):
		return one(Warning, fmt.Sprintf("has the replication factor %d, and %s has %s", local, e.LocalDC, count(len(e.local), "node")),
			"There are fewer replicas than the factor says, and a quorum is counted by the factor.")
	case local == 1:
		return one(Warning, "has the replication factor 1 in "+e.LocalDC, "No hedge and no fail-over is possible: a late or failed node is a late or failed key.")
	}
	return e.survives(name, local, total, one)
}

// survives finds a table of a keyspace that can be read only while all replicas are up, or
// never.
func (e *exam) survives(keyspace string, local, total int, one func(Level, string, string) []Finding) []Finding {
	var fragile string
	for _, t := range e.tables {
		if t.name.Keyspace != keyspace {
			continue
		}
		for _, level := range t.levels {
			needed, have := needs(level, local, total)
			what := fmt.Sprintf("has %d replicas, of which %s needs %d for %s", have, level, needed, t.name)
			if needed > have {
				return one(Problem, what, "The level can never be reached, and lookups end UNAVAILABLE.")
			}
			if needed == have && fragile == "" {
				fragile = what
			}
		}
	}
	if fragile != "" {
		return one(Warning, fragile, "No fault is survived: while one replica is down or late, so are its keys.")
	}
	return nil
}

// replicas returns how many replicas of each key a keyspace has in the local datacenter and in
// total, and how many nodes each datacenter has. local is below 0 for an unknown strategy.
func (e *exam) replicas(r ring.Replication) (local, total int, dcs map[string]int) {
	dcs = map[string]int{}
	for _, n := range e.Nodes {
		dcs[n.DC]++
	}
	switch r.Strategy {
	case ring.SimpleStrategy:
		return r.Factor, r.Factor, dcs
	case ring.NetworkTopologyStrategy:
		for dc := range dcs {
			total += r.Factors[dc]
		}
		return r.Factors[e.LocalDC], total, dcs
	case ring.EverywhereStrategy:
		return len(e.local), len(e.Nodes), dcs
	}
	return -1, 0, dcs
}

// needs returns how many replicas a level needs, and how many count for it.
func needs(level partition.Level, local, total int) (needed, have int) {
	switch level {
	case "LOCAL_QUORUM", "EACH_QUORUM":
		return quorum.Of(local), local
	case "QUORUM":
		return quorum.Of(total), total
	case "ALL":
		return total, total
	case "TWO":
		return 2, total
	case "THREE":
		return 3, total
	default:
		return 1, local
	}
}

// replicate returns the statement that gives a keyspace three replicas in the local datacenter.
func (e *exam) replicate(keyspace string, r ring.Replication) string {
	to := ring.Replication{Strategy: ring.NetworkTopologyStrategy, Factors: map[string]int{}}
	if r.Strategy == ring.NetworkTopologyStrategy {
		maps.Copy(to.Factors, r.Factors)
	}
	to.Factors[e.LocalDC] = 3
	more := ""
	if len(e.local) < 3 {
		more = "have three nodes or more, and "
	}
	return fmt.Sprintf("%sALTER KEYSPACE %s WITH replication = %s; then nodetool repair -full %s on its nodes", more, cqltype.Identifier(keyspace), to, keyspace)
}

// ownership finds a ring that cannot be built or is changing, and gossip that cannot be read
// although hosts are to be asked for their own data. Gossip that the role may not read is left
// to grants.
func ownership(e *exam) []Finding {
	own := such(e.tables, wantsOwnData)
	const more = " Hosts are not asked for their own data meanwhile: NODE_LOCAL is read at LOCAL_ONE, and quorums through coordinators."
	switch {
	case e.RingFailure != "" && !e.murmur3(): // which partitioner reports
		return nil
	case e.RingFailure != "":
		return []Finding{{Level: Problem, Found: "no ring can be built: " + e.RingFailure, Mend: "nodetool ring; nodetool removenode for nodes that are gone",
			Why: "Without a ring the proxy stays not ready."}}
	case e.Moving != "" && len(own) > 0:
		return []Finding{{Level: Warning, Found: e.Moving, Mend: "wait until nodetool status has no node that joins, leaves or moves", Why: "Ownership is about to change." + more}}
	case e.Moving != "":
		return []Finding{{Level: Note, Found: e.Moving, Mend: "wait until nodetool status has no node that joins, leaves or moves", Why: "Ownership is about to change, and what is found here with it."}}
	case e.GossipMissing && len(own) > 0:
		return []Finding{{Level: Warning, Found: "the nodes have no table system_views.gossip_info", Mend: "upgrade the nodes to Cassandra 5.0",
			Why: "That table alone tells that ownership is about to change." + more}}
	case e.GossipFailure != "" && len(own) > 0:
		return []Finding{{Level: Warning, Found: "gossip cannot be read: " + e.GossipFailure, Mend: "see the log of the nodes",
			Why: "Gossip alone tells that ownership is about to change." + more}}
	case len(e.Nodes) == 0 || e.GossipDenied || e.GossipMissing || e.GossipFailure != "":
		return nil
	}
	return fine("no node joins, leaves or moves")
}

// allowNodeLocal is the advice on nodes that refuse NODE_LOCAL.
const allowNodeLocal = "start the nodes with -Dcassandra.enable_nodelocal_queries=true"

// nodeLocal finds nodes that refuse NODE_LOCAL, if a table may be read at it.
func nodeLocal(e *exam) []Finding {
	at := such(e.tables, func(t table) bool { return slices.Contains(t.levels, "NODE_LOCAL") })
	if len(at) == 0 {
		return nil
	}
	var found []Finding
	if refusing := e.nodeLocal(Refused); len(refusing) > 0 {
		found = append(found, Finding{Level: Warning, Found: fmt.Sprintf("%s: NODE_LOCAL is refused, at which %s is to be read", addresses(refusing), names(at)), Mend: allowNodeLocal})
	}
	if unknown := e.nodeLocal(Unknown); len(unknown) > 0 {
		found = append(found, Finding{Level: Note, Found: fmt.Sprintf("%s: it is not known whether NODE_LOCAL is allowed, at which %s is to be read", addresses(unknown), names(at)),
			Why: "The query that tries the level was not answered.", Mend: askAgain})
	}
	return orFine(found, "all nodes allow NODE_LOCAL")
}

// askAgain is the advice on what a node has not told.
const askAgain = "run the doctor again, and see the log of the nodes if it stays so"

// nodeLocal returns the answering nodes with that consent to NODE_LOCAL.
func (e *exam) nodeLocal(consent Consent) []*Node {
	return slices.DeleteFunc(e.answering(), func(n *Node) bool { return n.NodeLocal != consent })
}

// quorumReads finds tables with quorum_reads: replicas that are read through coordinators
// nevertheless.
func quorumReads(e *exam) []Finding {
	by := such(e.tables, func(t table) bool { return len(t.byReplicas) > 0 })
	var found []Finding
	for _, t := range by {
		readable := slices.Clone(t.Definition.Columns)
		if len(t.columns) > 0 {
			readable = readable[:0]
			for _, name := range t.columns {
				if c, ok := t.Definition.Column(name); ok {
					readable = append(readable, c)
				}
			}
		}
		if !quorum.Comparable(t.Definition, quorum.Comparables(readable)) {
			found = append(found, Finding{Level: Note, Found: fmt.Sprintf("%s has clustering columns, is a view or has no column to compare, so that quorum_reads: replicas has no effect", t.name),
				Why: "CQL does not tell of such rows what replicas differ in; they are read through coordinators.", Mend: "quorum_reads: coordinator"})
			continue
		}
		direct := func(n *Node) bool { return n.Direct && t.Definition.NoSpeculation }
		if refusing := slices.DeleteFunc(e.nodeLocal(Refused), direct); len(refusing) > 0 {
			found = append(found, Finding{Level: Warning, Found: fmt.Sprintf("%s cannot be made to answer for %s from their own disk alone", addresses(refusing), t.name),
				Mend: allowNodeLocal + "; or dynamic_snitch: false on the nodes, with an endpoint_snitch other than SimpleSnitch, and " + t.alter("NONE")})
		}
		if unknown := slices.DeleteFunc(e.nodeLocal(Unknown), direct); len(unknown) > 0 {
			found = append(found, Finding{Level: Note, Found: fmt.Sprintf("it is not known whether %s can be made to answer for %s from their own disk alone", addresses(unknown), t.name),
				Why: "The query that tries NODE_LOCAL was not answered.", Mend: askAgain})
		}
	}
	if len(by) == 0 {
		return nil
	}
	return orFine(found, "all nodes answer from their own disk: "+names(by))
}
