// Package doctor decides what is wrong between a configuration and its cluster. Its checks judge a
// snapshot of the cluster, which internal/cassandra collects. For each finding it says why it
// matters and what mends it.
package doctor

import (
	"cmp"
	"slices"
	"strings"

	"github.com/qosproxy/qosproxy/internal/config"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// Level is how bad a finding is.
type Level string

// The levels, the worst first.
const (
	// Problem means that lookups fail or will fail, or that the proxy does not start to serve.
	Problem Level = "problem"
	// Warning means that the configuration does not have its intended effect, or that the next
	// fault will not be survived.
	Warning Level = "warning"
	// Note means that something could be better, but is not wrong.
	Note Level = "note"
	// OK means that a check has found nothing.
	OK Level = "ok"
)

var levels = []Level{Problem, Warning, Note, OK}

// Finding is what a check has found.
type Finding struct {
	// Check is the name of the check.
	Check string `json:"check"`
	// Level is how bad it is.
	Level Level `json:"level"`
	// Found is what the check has found.
	Found string `json:"found"`
	// Why is why it matters, and Mend the command or the line of configuration that mends it;
	// both empty at OK.
	Why  string `json:"why,omitempty"`
	Mend string `json:"mend,omitempty"`
}

// Report is what all checks have found.
type Report struct {
	// Cluster is the name of the cluster, and LocalDC the datacenter that was inspected; empty when
	// no contact point answers.
	Cluster string `json:"cluster,omitempty"`
	LocalDC string `json:"local_dc,omitempty"`
	// Findings are sorted by level, the worst first, and within a level in the order of the checks.
	Findings []Finding `json:"findings"`
	// Lookups are the timed lookups.
	Lookups []TimedLookup `json:"lookups"`
	// Counts is the number of findings of each level; it has all levels.
	Counts map[Level]int `json:"counts"`
}

// TimedLookup is a Lookup in a report.
type TimedLookup struct {
	// Table is keyspace.table, and Host the replica that was asked.
	Table string `json:"table"`
	Host  string `json:"host"`
	// Milliseconds is how long the answer took; 0 when there was none.
	Milliseconds float64 `json:"milliseconds,omitempty"`
	// Error is why there was no answer.
	Error string `json:"error,omitempty"`
}

// Wrong reports whether something is wrong: a problem or a warning.
func (r *Report) Wrong() bool { return r.Counts[Problem]+r.Counts[Warning] > 0 }

// check looks for one thing that goes wrong in practice.
type check struct {
	name string
	// why is the Why of findings that have none of their own.
	why string
	// look returns the findings: none where there is nothing to check, and one of level OK where
	// nothing is wrong. Each fault is reported by one check alone, so a check leaves out what
	// follows from the finding of another.
	look func(*exam) []Finding
}

// checks are all checks, in the order in which a proxy would run into their faults.
var checks = []check{
	{"connection", "The proxy begins at any contact point. One that does not answer is missing when others fail.", connection},
	{"release", "The proxy is tested with Cassandra 5.0, and needs the system tables and the protocol of 4.0.", release},
	{"partitioner", "The proxy computes tokens itself, and knows those of Murmur3Partitioner alone. It stays not ready.", partitioner},
	{"datacenter", "The proxy connects to the nodes of local_dc and to no others.", datacenter},
	{"nodes", "Keys of this node are read from their other replicas, which have its load besides their own.", nodes},
	{"schema", "Nodes with another schema refuse statements, or answer without columns that were added.", schemaAgreement},
	{"ownership", "The proxy reads a key from the hosts that own it.", ownership},
	{"clocks", "Writes are ordered by the clocks of whoever makes them, and quorum_reads: replicas compares when cells expire.", clocks},
	{"tables", "Lookups of what does not exist are refused with NOT_FOUND or INVALID_ARGUMENT.", tables},
	{"grants", "The role of the proxy needs SELECT on what it reads.", grants},
	{"replication", "A hedge, a fail-over and a quorum need replicas in the local datacenter.", replication},
	{"speculation", "The speculative_retry of a table is Cassandra's own hedge, on the node that coordinates a read.", speculation},
	{"settings", "The slowest nodes of a cluster make its tail.", settings},
	{"node_local", "Nodes that refuse NODE_LOCAL are read at LOCAL_ONE, which costs them more CPU.", nodeLocal},
	{"quorum_reads", "Without hosts that answer for themselves alone, coordinators read the quorum, at their full cost.", quorumReads},
	{"guardrails", "A group that a guardrail refuses is asked again in halves, which takes one more round trip.", guardrails},
	{"sizes", "A key beyond max_rows_per_key or max_response_bytes ends TOO_LARGE.", sizes},
	{"lookups", "A replica that is late or fails is hedged or avoided, at the cost of the others.", lookups},
}

// Diagnose runs all checks of a configuration against the cluster that an inspection has found. It
// changes neither.
func Diagnose(cfg *config.Config, found *Cluster) *Report {
	r := &Report{Cluster: found.Name, LocalDC: found.LocalDC, Findings: []Finding{}, Lookups: []TimedLookup{}, Counts: map[Level]int{}}
	e := newExam(cfg, found)
	for _, c := range checks {
		for _, f := range c.look(e) {
			f.Check = c.name
			if f.Level != OK {
				f.Why = cmp.Or(f.Why, c.why)
			}
			r.Findings = append(r.Findings, f)
		}
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Compare(slices.Index(levels, a.Level), slices.Index(levels, b.Level))
	})
	for _, l := range levels {
		r.Counts[l] = 0
	}
	for _, f := range r.Findings {
		r.Counts[f.Level]++
	}
	for _, t := range e.tables {
		for _, l := range t.Lookups {
			r.Lookups = append(r.Lookups, TimedLookup{Table: t.name.String(), Host: l.Host, Milliseconds: milliseconds(l.Took), Error: l.Failure})
		}
	}
	return r
}

// exam is the input of the checks.
type exam struct {
	*Cluster
	cfg *config.Config
	// local are the nodes of the local datacenter.
	local []*Node
	// tables are the configured tables that exist.
	tables []table
}

// table is a configured table that exists.
type table struct {
	*Table
	// name and columns are as configured, and settings are those in effect.
	name     config.TableName
	columns  []string
	settings config.Settings
	// levels are those at which it may be read: its own and those that a request may ask for.
	levels []partition.Level
	// byReplicas are the levels at which the proxy itself asks a quorum of the replicas.
	byReplicas []partition.Level
}

func newExam(cfg *config.Config, found *Cluster) *exam {
	e := &exam{Cluster: found, cfg: cfg}
	for i := range found.Nodes {
		if n := &found.Nodes[i]; n.DC == found.LocalDC {
			e.local = append(e.local, n)
		}
	}
	for i := range found.Tables {
		if found.Tables[i].Definition == nil {
			continue
		}
		c := &cfg.Tables[i]
		t := table{Table: &found.Tables[i], name: c.Name, columns: c.Columns, settings: cfg.Effective(c)}
		local, total, _ := e.replicas(found.Keyspaces[c.Name.Keyspace])
		for _, level := range append([]config.Consistency{t.settings.Consistency}, t.settings.Consistencies...) {
			l := partition.Level(level)
			t.levels = append(t.levels, l)
			if t.settings.QuorumReads == config.QuorumReplicas && (l == "LOCAL_QUORUM" || l == "QUORUM" && local == total) {
				t.byReplicas = append(t.byReplicas, l)
			}
		}
		e.tables = append(e.tables, t)
	}
	return e
}

// answering returns the local nodes that have answered.
func (e *exam) answering() []*Node {
	return slices.DeleteFunc(slices.Clone(e.local), func(n *Node) bool { return !n.answers() })
}

// fine returns the result of a check that has found nothing wrong.
func fine(text string) []Finding { return []Finding{{Level: OK, Found: text}} }

// orFine returns findings, or one of level OK if there are none.
func orFine(found []Finding, text string) []Finding {
	if len(found) == 0 {
		return fine(text)
	}
	return found
}

// addresses lists nodes.
func addresses(of []*Node) string {
	out := make([]string, len(of))
	for i, n := range of {
		out[i] = n.Addr
	}
	return strings.Join(out, ", ")
}

// names lists tables.
func names(of []table) string {
	out := make([]string, len(of))
	for i, t := range of {
		out[i] = t.name.String()
	}
	return strings.Join(out, ", ")
}

// such returns the tables for which a condition is true.
func such(of []table, is func(table) bool) []table {
	return slices.DeleteFunc(slices.Clone(of), func(t table) bool { return !is(t) })
}
