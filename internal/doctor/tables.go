package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/qosproxy/qosproxy/internal/config"
	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/planner"
	"github.com/qosproxy/qosproxy/internal/schema"
	"github.com/qosproxy/qosproxy/internal/suggest"
)

// tables finds configured tables and columns that do not exist.
func tables(e *exam) []Finding {
	if e.SchemaFailure != "" {
		return []Finding{{Level: Problem, Found: "the schema cannot be read: " + e.SchemaFailure, Mend: "see the log of the node",
			Why: "Without a schema the proxy stays not ready."}}
	}
	var found []Finding
	for i := range e.Tables {
		name, definition := e.cfg.Tables[i].Name, e.Tables[i].Definition
		if definition == nil {
			f := Finding{Level: Problem, Found: "there is no table " + name.String(), Mend: "create it, or remove it from tables"}
			if near := suggest.Nearest(name.String(), e.Names); near != "" {
				f.Mend = "tables: - name: " + near
			}
			found = append(found, f)
			continue
		}
		for _, column := range e.cfg.Tables[i].Columns {
			if _, ok := definition.Column(column); ok {
				continue
			}
			f := Finding{Level: Problem, Found: fmt.Sprintf("%s has no column %s", name, column), Mend: "add it to the table, or remove it from columns"}
			if near := suggest.Nearest(column, columnNames(definition)); near != "" {
				f.Mend = fmt.Sprintf("columns of %s: %s in place of %s", name, near, column)
			}
			found = append(found, f)
		}
	}
	switch {
	case len(e.cfg.Tables) == 0 && e.Name != "":
		return []Finding{{Level: Note, Found: "the configuration allows no table", Mend: "tables: - name: keyspace.table", Why: "Only the tables that it lists can be read."}}
	case len(e.Tables) == 0:
		return nil
	}
	return orFine(found, count(len(e.Tables), "table")+", and all columns that are named")
}

// columnNames returns the names of all columns of a table.
func columnNames(t *schema.Table) []string {
	out := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		out[i] = c.Name
	}
	return out
}

// grants finds what the role may not read: tables, gossip, and what the nodes report of settings
// and rows.
func grants(e *exam) []Finding {
	var found []Finding
	grant := func(what string) string {
		return "GRANT SELECT ON " + what + " TO " + cqltype.Identifier(e.cfg.Cassandra.Username) + ";"
	}
	for _, t := range e.tables {
		if t.Denied {
			found = append(found, Finding{Level: Problem, Found: fmt.Sprintf("the role %s may not read %s", e.cfg.Cassandra.Username, t.name),
				Mend: grant("TABLE " + cql(t.name)), Why: "Lookups of the table fail."})
		}
	}
	own := such(e.tables, wantsOwnData)
	if e.GossipDenied && len(own) > 0 {
		found = append(found, Finding{Level: Warning, Found: fmt.Sprintf("the role %s may not read gossip", e.cfg.Cassandra.Username), Mend: grant("system_views.gossip_info"),
			Why: "Nobody else tells that ownership is about to change, so hosts are not asked for their own data: " + names(own) + "."})
	}
	if slices.ContainsFunc(e.answering(), func(n *Node) bool { return n.SettingsDenied }) {
		found = append(found, Finding{Level: Note, Found: fmt.Sprintf("the role %s may not read the settings of the nodes", e.cfg.Cassandra.Username), Mend: grant("system_views.settings"),
			Why: "Settings and guardrails could not be checked. quorum_reads: replicas needs the grant where nodes refuse NODE_LOCAL."})
	}
	if slices.ContainsFunc(e.tables, func(t table) bool { return t.CountsDenied }) {
		found = append(found, Finding{Level: Note, Found: fmt.Sprintf("the role %s may not read how many rows reads return", e.cfg.Cassandra.Username), Mend: grant("system_views.rows_per_read"),
			Why: "The rows of a key could not be checked against max_rows_per_key. Lookups do not need the grant."})
	}
	if len(e.tables) == 0 {
		return found
	}
	return orFine(found, "all tables can be read")
}

// cql returns the name of a table in CQL.
func cql(name config.TableName) string {
	return cqltype.Identifier(name.Keyspace) + "." + cqltype.Identifier(name.Table)
}

// throughCoordinators returns a level at which coordinators choose several replicas of the table;
// empty when there is none.
func (t *table) throughCoordinators() partition.Level {
	for _, l := range t.levels {
		if !l.OneReplica() && !slices.Contains(t.byReplicas, l) {
			return l
		}
	}
	return ""
}

// mayBeForwarded reports whether the table is read at a level at which a replica with a dynamic
// snitch may ask another replica instead of its own disk.
func (t *table) mayBeForwarded() bool {
	return slices.ContainsFunc(t.levels, func(l partition.Level) bool { return l.OneReplica() && l != "NODE_LOCAL" })
}

// wantsOwnData reports whether hosts are asked for their own data of a table.
func wantsOwnData(t table) bool {
	return len(t.byReplicas) > 0 || slices.Contains(t.levels, "NODE_LOCAL")
}

// speculation finds tables whose speculative_retry does not suit how they are read.
func speculation(e *exam) []Finding {
	var found []Finding
	for _, t := range e.tables {
		none := t.Definition.NoSpeculation
		through := t.throughCoordinators()
		switch {
		case through != "" && none:
			found = append(found, Finding{Level: Problem, Found: fmt.Sprintf("%s is read at %s through coordinators, and its speculative_retry is NONE", t.name, through),
				Why:  "A coordinator chooses the second replica. If that one is frozen, only the coordinator's own speculation gets around it: no hedge of the proxy can tell it whom to ask.",
				Mend: t.alter("99p")})
		case len(t.byReplicas) > 0 && slices.ContainsFunc(e.answering(), func(n *Node) bool { return n.NodeLocal == Refused }): // see quorumReads
		case through == "" && !none && (!t.mayBeForwarded() || !slices.ContainsFunc(e.answering(), (*Node).mayForward)):
			found = append(found, Finding{Level: Note, Found: fmt.Sprintf("the speculative_retry of %s is %s, and the proxy hedges already", t.name, t.Speculation),
				Why:  "The two multiply: a coordinator asks another replica, too, from a node that may have been hedged. Mend it where only the proxy reads the table.",
				Mend: t.alter("NONE")})
		}
	}
	if len(e.tables) == 0 {
		return nil
	}
	return orFine(found, "speculative_retry of the tables fits how they are read")
}

// alter returns the statement that sets speculative_retry.
func (t *table) alter(policy string) string {
	kind := "TABLE"
	if t.Definition.View {
		kind = "MATERIALIZED VIEW"
	}
	return fmt.Sprintf("ALTER %s %s WITH speculative_retry = '%s';", kind, cql(t.name), policy)
}

// guardrails finds nodes that refuse, or warn of, groups of the size that the configuration
// allows.
func guardrails(e *exam) []Finding {
	var found []Finding
	known := false
	for _, n := range e.answering() {
		known = known || n.Settings != nil
	}
	if !known || len(e.tables) == 0 {
		return nil
	}
	for _, setting := range []string{inKeys, inProduct} {
		refused, by := e.least(setting + failThreshold)
		if large := e.larger(refused); len(large) > 0 {
			found = append(found, Finding{Level: Warning, Found: fmt.Sprintf("%s refuses an IN of more than %d keys, and groups of %s may have up to %d", by, refused, names(large), groupSize(large)),
				Mend: fmt.Sprintf("max_keys_per_group: %d, or raise %s in cassandra.yaml", refused, setting+failThreshold)})
			continue
		}
		warned, by := e.least(setting + warnThreshold)
		if large := e.larger(warned); len(large) > 0 {
			found = append(found, Finding{Level: Note, Found: fmt.Sprintf("%s warns of an IN of more than %d keys, and groups of %s may have up to %d", by, warned, names(large), groupSize(large)),
				Why:  "Each such statement is a line in the log of the node.",
				Mend: fmt.Sprintf("max_keys_per_group: %d, or raise %s in cassandra.yaml", warned, setting+warnThreshold)})
		}
	}
	return orFine(found, "no node limits an IN below the size of groups")
}

// least returns the smallest value of a threshold, and the node that has it; 0 when no node has
// one.
func (e *exam) least(threshold string) (int, string) {
	least, by := 0, ""
	for _, n := range e.answering() {
		if v, ok := n.number(threshold); ok && v > 0 && (least == 0 || v < least) {
			least, by = v, n.Addr
		}
	}
	return least, by
}

// larger returns the tables whose groups may be larger than a limit; none for a limit of 0.
func (e *exam) larger(limit int) []table {
	return such(e.tables, func(t table) bool { return limit > 0 && groupSize([]table{t}) > limit })
}

// groupSize returns the most keys that a group of some tables may have.
func groupSize(of []table) int {
	most := 0
	for _, t := range of {
		if s := t.settings; s.Grouping == planner.Single {
			most = max(most, 1)
		} else {
			most = max(most, cmp.Or(s.MaxKeysPerGroup, s.MaxKeys))
		}
	}
	return most
}

// sizes finds tables whose partitions are larger than answers may be.
func sizes(e *exam) []Finding {
	var found []Finding
	known := false
	for _, t := range e.tables {
		known = known || t.MeanBytes > 0 || t.MostRows > 0
		most := int64(t.settings.MaxResponseBytes)
		switch {
		case t.MeanBytes > most:
			f := Finding{Level: Warning, Found: fmt.Sprintf("a partition of %s has %s on average, and max_response_bytes is %s", t.name, bytes(t.MeanBytes), t.settings.MaxResponseBytes),
				Mend: fmt.Sprintf("max_response_bytes: %dMiB, or lookups with limit_per_key or fewer columns", t.MeanBytes*2>>20+1)}
			if len(t.columns) > 0 || len(t.Definition.Clustering) > 0 { // a lookup may read less than a partition
				f.Level = Note
			}
			found = append(found, f)
		case t.MeanBytes*int64(t.settings.MaxKeys) > most:
			found = append(found, Finding{Level: Note, Found: fmt.Sprintf("a partition of %s has %s on average, so that about %d keys fill max_response_bytes, and a lookup may have %d",
				t.name, bytes(t.MeanBytes), max(1, most/t.MeanBytes), t.settings.MaxKeys), Mend: fmt.Sprintf("max_keys: %d, or raise max_response_bytes", max(1, most/t.MeanBytes)),
				Why: "Keys beyond max_response_bytes end TOO_LARGE."})
		}
		if t.MostRows > int64(t.settings.MaxRowsPerKey) && len(t.Definition.Clustering) > 0 {
			found = append(found, Finding{Level: Note, Found: fmt.Sprintf("a read of %s has returned about %d rows, and max_rows_per_key is %d", t.name, t.MostRows, t.settings.MaxRowsPerKey),
				Mend: fmt.Sprintf("max_rows_per_key: %d, or lookups with limit_per_key", t.MostRows)})
		}
	}
	if !known && len(found) == 0 {
		return nil
	}
	return orFine(found, "partitions fit into max_rows_per_key and max_response_bytes")
}

// bytes formats a size.
func bytes(n int64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}

// lookups finds replicas that do not answer a lookup of one existing key, or not in time. Tables
// that the role may not read are left to grants.
func lookups(e *exam) []Finding {
	if len(e.answering()) == 0 {
		return nil
	}
	var found []Finding
	for _, t := range e.tables {
		switch {
		case t.Denied:
			continue
		case t.Failure != "":
			found = append(found, Finding{Level: Warning, Found: fmt.Sprintf("no key of %s could be found: %s", t.name, t.Failure),
				Why: "It is looked for by a read of one row of the whole table, which fails when nodes are down or meet too many tombstones.", Mend: "see the log of the nodes"})
			continue
		case len(t.Lookups) == 0:
			found = append(found, Finding{Level: OK, Found: t.name.String() + ": no row, or no replica to ask"})
			continue
		}
		var times []string
		for _, l := range t.Lookups {
			switch {
			case l.Failure != "":
				found = append(found, Finding{Level: Warning, Found: fmt.Sprintf("%s did not answer a lookup of %s: %s", l.Host, t.name, l.Failure), Mend: "see the log of the node"})
			case l.Took > t.settings.Timeout:
				found = append(found, Finding{Level: Warning, Found: fmt.Sprintf("%s took %.1fms for a lookup of %s, whose timeout is %s", l.Host, milliseconds(l.Took), t.name, t.settings.Timeout),
					Mend: "nodetool tablehistograms " + t.name.Keyspace + " " + t.name.Table + " on the node says what takes its time"})
			default:
				times = append(times, fmt.Sprintf("%s %.1fms", l.Host, milliseconds(l.Took)))
			}
		}
		if len(times) > 0 {
			found = append(found, Finding{Level: OK, Found: t.name.String() + ": " + strings.Join(times, ", ")})
		}
	}
	return found
}
