package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/qosproxy/qosproxy/internal/suggest"
)

// connection finds contact points that do not answer. Those in the local datacenter are left to
// the check nodes.
func connection(e *exam) []Finding {
	var found []Finding
	var reasons, keys []string
	for _, p := range e.Points {
		if p.Failure == "" {
			continue
		}
		reasons, keys = append(reasons, p.Name+": "+p.Failure), append(keys, p.Key)
		if !slices.ContainsFunc(e.local, func(n *Node) bool { return slices.Contains(p.Addrs, n.Addr) }) {
			found = append(found, Finding{Level: Warning, Found: fmt.Sprintf("the contact point %s does not answer: %s", p.Name, p.Failure), Mend: "correct " + p.Key})
		}
	}
	if len(reasons) == len(e.Points) {
		slices.Sort(keys)
		return []Finding{{Level: Problem, Found: "no contact point answers: " + strings.Join(reasons, "; "),
			Why: "Without a contact point the proxy stays not ready.", Mend: "correct " + strings.Join(slices.Compact(keys), ", ")}}
	}
	return orFine(found, count(len(e.Points), "contact point")+" answered")
}

// release finds versions that are not supported, or not the same.
func release(e *exam) []Finding {
	versions := map[string][]*Node{}
	var old []*Node
	tested := true
	for i := range e.Nodes {
		n := &e.Nodes[i]
		versions[n.Release] = append(versions[n.Release], n)
		word, _, _ := strings.Cut(n.Release, ".")
		major, err := strconv.Atoi(word)
		tested = tested && (err != nil || major >= 5)
		if err == nil && major < 4 {
			old = append(old, n)
		}
	}
	all := strings.Join(slices.Sorted(maps.Keys(versions)), ", ")
	switch {
	case len(versions) == 0:
		return nil
	case len(old) > 0:
		return []Finding{{Level: Problem, Found: fmt.Sprintf("%s: Cassandra %s", addresses(old), old[0].Release), Mend: "upgrade the nodes to Cassandra 5.0"}}
	case len(versions) > 1:
		return []Finding{{Level: Warning, Found: "the nodes have several versions: " + all, Mend: "end the upgrade",
			Why: "While versions are mixed the schema cannot change, and what only the newer nodes allow is refused by the others."}}
	case !tested:
		return []Finding{{Level: Note, Found: "Cassandra " + all, Mend: "upgrade the nodes to Cassandra 5.0",
			Why: "Only the core of the tests runs on versions before 5.0. They have neither NODE_LOCAL nor gossip tables."}}
	}
	return fine(fmt.Sprintf("Cassandra %s on %s", all, count(len(e.Nodes), "node")))
}

// partitioner finds a partitioner whose tokens the proxy cannot compute.
func partitioner(e *exam) []Finding {
	if e.Partitioner == "" {
		return nil
	}
	if e.murmur3() {
		return fine("Murmur3Partitioner")
	}
	return []Finding{{Level: Problem, Found: "the cluster uses " + e.Partitioner, Mend: "use a cluster with Murmur3Partitioner: the partitioner of a cluster cannot change"}}
}

func (e *exam) murmur3() bool { return strings.HasSuffix(e.Partitioner, "Murmur3Partitioner") }

// datacenter finds a local_dc or local_rack that does not exist, and contact points in other
// datacenters only.
func datacenter(e *exam) []Finding {
	if len(e.Nodes) == 0 {
		return nil
	}
	dcs, racks, points := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, n := range e.Nodes {
		dcs[n.DC] = true
	}
	for _, n := range e.local {
		racks[n.Rack] = true
	}
	for _, p := range e.Points {
		if p.DC != "" {
			points[p.DC] = true
		}
	}
	dc, rack := e.cfg.Cassandra.LocalDC.Local(), e.cfg.Cassandra.LocalRack
	switch {
	case dc != "" && !dcs[dc]:
		return []Finding{{Level: Problem, Found: fmt.Sprintf("no node is in local_dc %s; the datacenters are %s", dc, sorted(dcs)),
			Mend: "cassandra.local_dc: " + cmp.Or(suggest.Nearest(dc, slices.Sorted(maps.Keys(dcs))), e.LocalDC)}}
	case dc == "" && len(points) > 1:
		return []Finding{{Level: Problem, Found: "the contact points are in several datacenters: " + sorted(points),
			Mend: "cassandra.local_dc: " + e.LocalDC, Why: "The proxy cannot tell which of them is local, and stays not ready."}}
	case dc != "" && len(points) > 0 && !points[dc] && !slices.ContainsFunc(e.cfg.Cassandra.LocalDC.Later(), func(later string) bool { return points[later] }):
		some := e.local[:min(2, len(e.local))]
		return []Finding{{Level: Problem, Found: "no contact point that answers is in local_dc " + dc,
			Mend: "cassandra.contact_points: [" + addresses(some) + "]"}}
	case rack != "" && len(racks) > 0 && !racks[rack]:
		return []Finding{{Level: Warning, Found: fmt.Sprintf("no node of %s is in local_rack %s; the racks are %s", e.LocalDC, rack, sorted(racks)),
			Mend: "cassandra.local_rack: " + cmp.Or(suggest.Nearest(rack, slices.Sorted(maps.Keys(racks))), slices.Min(slices.Collect(maps.Keys(racks)))),
			Why:  "No replica is preferred, and reads go to all zones."}}
	}
	if found := laterDCs(e, dcs, points); found != nil {
		return found
	}
	return fine(fmt.Sprintf("%s: %s in %s", e.LocalDC, count(len(e.local), "node"), count(len(racks), "rack")))
}

// laterDCs finds fail-over datacenters that do not exist, or that have no contact point: a
// proxy that starts while the local one is lost would not find them.
func laterDCs(e *exam, dcs, points map[string]bool) []Finding {
	var found []Finding
	listed := e.cfg.Cassandra.LocalDC
	for _, dc := range listed.Later() {
		switch {
		case !dcs[dc]:
			meant := suggest.Nearest(dc, slices.DeleteFunc(slices.Sorted(maps.Keys(dcs)), func(name string) bool { return slices.Contains(listed, name) }))
			mend := "remove " + dc + " from cassandra.local_dc"
			if meant != "" {
				mend = "write " + meant + " in place of " + dc + " in cassandra.local_dc"
			}
			found = append(found, Finding{Level: Problem, Found: fmt.Sprintf("no node is in %s, to which lookups are to fail over; the datacenters are %s", dc, sorted(dcs)), Mend: mend})
		case len(points) > 0 && !points[dc]:
			found = append(found, Finding{Level: Warning, Found: "no contact point that answers is in " + dc + ", to which lookups are to fail over",
				Mend: "add a node of " + dc + " to cassandra.contact_points",
				Why:  "A proxy that starts while " + listed.Local() + " is lost does not find the cluster."})
		}
	}
	return found
}

// nodes finds nodes of the local datacenter that cannot be reached.
func nodes(e *exam) []Finding {
	var found []Finding
	for _, n := range e.local {
		if n.Asked && n.Failure != "" {
			mend := "correct " + n.Key
			if n.Key == "cassandra.contact_points" { // which do not affect nodes that others report
				mend = "start the node, open its native port to the proxy, or correct its broadcast_rpc_address"
			}
			found = append(found, Finding{Level: Warning, Found: fmt.Sprintf("%s (rack %s) cannot be reached: %s", n.Addr, n.Rack, n.Failure), Mend: mend})
		}
	}
	if len(e.local) == 0 {
		return nil
	}
	return orFine(found, fmt.Sprintf("%s of %s answered", count(len(e.local), "node"), e.LocalDC))
}

// schemaAgreement finds nodes whose schemas differ. Nodes that were not asked have the schema
// that peers report, which may be old, so it is a note.
func schemaAgreement(e *exam) []Finding {
	versions, elsewhere := map[string][]*Node{}, map[string][]*Node{}
	for i := range e.Nodes {
		n := &e.Nodes[i]
		switch {
		case n.Schema == "":
		case n.answers():
			versions[n.Schema] = append(versions[n.Schema], n)
		case !n.Asked:
			elsewhere[n.Schema] = append(elsewhere[n.Schema], n)
		}
	}
	const mend = "nodetool describecluster says who differs; if it stays, nodetool resetlocalschema on the minority"
	if len(versions) > 1 {
		return []Finding{{Level: Warning, Found: fmt.Sprintf("the nodes of %s have %d versions of the schema: %s", e.LocalDC, len(versions), groups(versions)), Mend: mend}}
	}
	for version := range versions {
		delete(elsewhere, version)
	}
	switch {
	case len(versions) == 0:
		return nil
	case len(elsewhere) > 0:
		return []Finding{{Level: Note, Found: "nodes of other datacenters are said to have another schema: " + groups(elsewhere), Mend: mend}}
	}
	return fine("the nodes agree on the schema")
}

// groups lists the addresses of nodes by the value in which they differ.
func groups(of map[string][]*Node) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(of)) {
		out = append(out, addresses(of[key]))
	}
	return strings.Join(out, " | ")
}

// mostSkew is how far clocks may differ without a finding.
const mostSkew = 500 * time.Millisecond

// clocks finds nodes whose clock differs from ours. If several do, and all of them in the same
// direction, ours is at fault.
func clocks(e *exam) []Finding {
	asked := e.answering()
	var off []*Node
	ahead := 0
	for _, n := range asked {
		if n.Ahead.Abs() > mostSkew {
			off = append(off, n)
		}
		if n.Ahead > mostSkew {
			ahead++
		}
	}
	if len(off) > 1 && len(off) == len(asked) && (ahead == 0 || ahead == len(off)) {
		return []Finding{{Level: Warning, Found: fmt.Sprintf("the clock of this machine is %s the clocks of all %d nodes", skew(-off[0].Ahead), len(asked)),
			Mend: "synchronise the clock of this machine, such as with chrony"}}
	}
	var found []Finding
	for _, n := range off {
		found = append(found, Finding{Level: Warning, Found: fmt.Sprintf("the clock of %s is %s ours", n.Addr, skew(n.Ahead)),
			Mend: "synchronise the clock of the node, such as with chrony"})
	}
	if len(asked) == 0 {
		return nil
	}
	return orFine(found, "within "+mostSkew.String()+" of ours")
}

// skew says how a clock differs.
func skew(ahead time.Duration) string {
	if ahead < 0 {
		return (-ahead).Round(time.Millisecond).String() + " behind"
	}
	return ahead.Round(time.Millisecond).String() + " ahead of"
}

// nativeThreads is the default of native_transport_max_threads: how many statements a node
// executes at a time.
const nativeThreads = 128

// Settings are the settings of nodes that checks use.
var Settings = []string{
	concurrentReads, nativeTransportThreads, dynamicSnitch, endpointSnitch,
	inKeys + failThreshold, inKeys + warnThreshold, inProduct + failThreshold, inProduct + warnThreshold,
}

const (
	concurrentReads        = "concurrent_reads"
	nativeTransportThreads = "native_transport_max_threads"
	dynamicSnitch          = "dynamic_snitch"
	endpointSnitch         = "endpoint_snitch"
	inKeys                 = "partition_keys_in_select"
	inProduct              = "in_select_cartesian_product"
	warnThreshold          = "_warn_threshold"
	failThreshold          = "_fail_threshold"
)

// settings finds nodes with fewer threads than the default, and nodes whose settings differ.
// Settings that the role may not read are left to grants.
func settings(e *exam) []Finding {
	var found []Finding
	known := false
	few := map[string][]*Node{} // by their number of threads
	for _, n := range e.answering() {
		known = known || n.Settings != nil
		if n.fewThreads() {
			threads := n.Settings[nativeTransportThreads]
			few[threads] = append(few[threads], n)
		}
	}
	if len(few) > 0 {
		found = append(found, Finding{Level: Note, Found: nativeTransportThreads + " is " + byValue(few),
			Why:  "Statements beyond the threads wait in the node, where they cannot share a statement. 128 is the default of Cassandra.",
			Mend: "cassandra.yaml: " + nativeTransportThreads + ": 128"})
	}
	for _, name := range []string{concurrentReads, nativeTransportThreads, dynamicSnitch, endpointSnitch} {
		values := map[string][]*Node{}
		for _, n := range e.answering() {
			if v, ok := n.Settings[name]; ok && (name != nativeTransportThreads || !n.fewThreads()) {
				values[v] = append(values[v], n)
			}
		}
		if len(values) > 1 {
			found = append(found, Finding{Level: Note, Found: name + " differs: " + byValue(values), Mend: "cassandra.yaml: the same " + name + " on all nodes"})
		}
	}
	found = append(found, snitches(e)...)
	if !known && len(found) == 0 {
		return nil
	}
	return orFine(found, "the nodes are set alike")
}

// fewThreads reports whether the node has fewer threads than the default.
func (n *Node) fewThreads() bool {
	threads, ok := n.number(nativeTransportThreads)
	return ok && threads > 0 && threads < nativeThreads
}

// byValue lists the values of a setting, and the nodes that have each.
func byValue(of map[string][]*Node) string {
	out := make([]string, 0, len(of))
	for _, v := range slices.Sorted(maps.Keys(of)) {
		out = append(out, v+" on "+addresses(of[v]))
	}
	return strings.Join(out, ", ")
}

// mayForward reports whether the node, as a replica, may ask another one instead of its own disk: its
// dynamic snitch is on, or is not known to be off.
func (n *Node) mayForward() bool { return n.Settings[dynamicSnitch] != "false" }

// snitches finds nodes that may ask another replica for what they have themselves, where no
// speculation ends the wait.
func snitches(e *exam) []Finding {
	read := such(e.tables, func(t table) bool { return t.Definition.NoSpeculation && t.mayBeForwarded() })
	var on, unknown []*Node
	for _, n := range e.answering() {
		switch {
		case n.Settings[dynamicSnitch] == "true":
			on = append(on, n)
		case n.mayForward() && !n.SettingsDenied: // which grants reports
			unknown = append(unknown, n)
		}
	}
	if len(read) == 0 || len(on)+len(unknown) == 0 {
		return nil
	}
	mend := []string{"cassandra.yaml: dynamic_snitch: false; or"}
	for i := range read {
		mend = append(mend, read[i].alter("99p"))
	}
	f := Finding{
		Level: Warning, Found: fmt.Sprintf("%s: dynamic_snitch is on, and speculative_retry is NONE for %s", addresses(on), names(read)),
		Why:  "A replica may ask another one for what it has itself, a node that has just started above all, since that has not been slow yet. While that node does not answer no hedge gets around it.",
		Mend: strings.Join(mend, " "),
	}
	if len(on) == 0 {
		f.Level, f.Found = Note, fmt.Sprintf("%s: dynamic_snitch is not known to be off, and speculative_retry is NONE for %s", addresses(unknown), names(read))
	}
	return []Finding{f}
}

// number returns a setting that is a number.
func (n *Node) number(setting string) (int, bool) {
	v, err := strconv.Atoi(n.Settings[setting])
	return v, err == nil
}

// sorted lists the names of a set.
func sorted(set map[string]bool) string { return strings.Join(slices.Sorted(maps.Keys(set)), ", ") }

// count formats a count.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}

// milliseconds returns a duration in milliseconds, to the microsecond.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
