package doctor_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/config"
	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/doctor"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// goodConfig reads a table in each of the ways that checks distinguish.
const goodConfig = `
cassandra: {contact_points: [10.1.0.1, 10.1.0.2], local_dc: dc1, local_rack: r1, username: qosproxy, password_file: secret}
tables:
  - {name: shop.products, columns: [id, name]}
  - {name: shop.orders, consistency: LOCAL_QUORUM}
  - {name: shop.features, consistency: NODE_LOCAL}
  - {name: shop.accounts, consistency: LOCAL_QUORUM, quorum_reads: replicas}
`

// The positions of the tables.
const (
	products = iota
	orders
	features
	accounts
)

// patient is a configuration and the cluster that it is checked against.
type patient struct {
	*config.Config
	*doctor.Cluster
}

// healthy returns a patient without a fault.
func healthy(t *testing.T) patient {
	t.Helper()
	cfg, err := config.Parse([]byte(goodConfig), "good.yaml")
	require.NoError(t, err)
	c := &doctor.Cluster{
		Name: "good", Partitioner: "org.apache.cassandra.dht.Murmur3Partitioner", LocalDC: "dc1",
		Points: []doctor.Point{
			{Name: "10.1.0.1:9042", Addrs: []string{"10.1.0.1:9042"}, DC: "dc1"},
			{Name: "10.1.0.2:9042", Addrs: []string{"10.1.0.2:9042"}, DC: "dc1"},
		},
		Keyspaces: replicated(3),
		Names:     []string{"shop.accounts", "shop.features", "shop.orders", "shop.products"},
	}
	for i := range 6 {
		dc, n := i/3+1, i%3+1
		c.Nodes = append(c.Nodes, doctor.Node{Host: ring.Host{
			ID: strconv.Itoa(i), Addr: fmt.Sprintf("10.%d.0.%d:9042", dc, n), DC: fmt.Sprintf("dc%d", dc), Rack: fmt.Sprintf("r%d", n), Release: "5.0.9",
		}, Schema: "one"})
		if dc == 1 {
			ask(&c.Nodes[i])
		}
	}
	for _, name := range []string{"products", "orders", "features", "accounts"} {
		table := doctor.Table{Definition: define(name, "id", "name", "price"), Speculation: "NEVER", MeanBytes: 400, MostRows: 1}
		table.Definition.NoSpeculation = true
		for _, n := range c.Nodes[:3] {
			table.Lookups = append(table.Lookups, doctor.Lookup{Host: n.Addr, Took: 1200 * time.Microsecond})
		}
		c.Tables = append(c.Tables, table)
	}
	c.Tables[orders].Speculation, c.Tables[orders].Definition.NoSpeculation = "99p", false
	return patient{cfg, c}
}

// ask makes a node answer as a good one does.
func ask(n *doctor.Node) {
	n.Asked, n.NodeLocal = true, doctor.Allowed
	n.Settings = map[string]string{
		"concurrent_reads": "32", "native_transport_max_threads": "128", "dynamic_snitch": "false", "endpoint_snitch": "GossipingPropertyFileSnitch",
		"partition_keys_in_select_fail_threshold": "-1", "partition_keys_in_select_warn_threshold": "-1",
		"in_select_cartesian_product_fail_threshold": "-1", "in_select_cartesian_product_warn_threshold": "-1",
	}
}

// define returns a table of text columns, of which the first is the key.
func define(name string, columns ...string) *schema.Table {
	text := &cqltype.Type{Kind: cqltype.Text}
	all := []schema.Column{{Name: columns[0], Type: text, Kind: schema.PartitionKey}}
	for _, c := range columns[1:] {
		all = append(all, schema.Column{Name: c, Type: text, Kind: schema.Regular})
	}
	return schema.NewTable("shop", name, "", all)
}

// clustered adds a clustering column to a table.
func clustered(t *doctor.Table) {
	columns := slices.Clone(t.Definition.Columns)
	columns[1].Kind = schema.Clustering
	none := t.Definition.NoSpeculation
	t.Definition = schema.NewTable("shop", t.Definition.Name, "", columns)
	t.Definition.NoSpeculation = none
}

// replicated returns a keyspace with factor replicas in both datacenters.
func replicated(factor int) map[string]ring.Replication {
	return map[string]ring.Replication{"shop": {Strategy: ring.NetworkTopologyStrategy, Factors: map[string]int{"dc1": factor, "dc2": 3}}}
}

// faults are planted one at a time. Each is found by its own check alone, and its mend says what
// to do.
var faults = map[string]struct {
	plant func(patient)
	check string
	level doctor.Level
	found string
	mend  string
}{
	"no contact point answers": {func(p patient) {
		*p.Cluster = doctor.Cluster{Points: []doctor.Point{
			{Name: "a:9042", Failure: "the name does not resolve", Key: "cassandra.contact_points"},
			{Name: "b:9042", Failure: "bad credentials", Key: "cassandra.username and cassandra.password_file"},
		}}
	}, "connection", doctor.Problem, "no contact point answers: a:9042: the name does not resolve; b:9042: bad credentials", "cassandra.username"},
	"a contact point is gone": {func(p patient) {
		p.Points = append(p.Points, doctor.Point{Name: "10.1.0.9:9042", Addrs: []string{"10.1.0.9:9042"}, Failure: "connection refused", Key: "cassandra.contact_points"})
	}, "connection", doctor.Warning, "10.1.0.9:9042 does not answer: connection refused", "cassandra.contact_points"},
	"a version that is too old": {func(p patient) { p.Nodes[4].Release = "3.11.19" },
		"release", doctor.Problem, "10.2.0.2:9042: Cassandra 3.11.19", "upgrade"},
	"several versions": {func(p patient) { p.Nodes[4].Release = "4.1.3" },
		"release", doctor.Warning, "4.1.3, 5.0.9", "end the upgrade"},
	"a version that is not tested": {func(p patient) {
		for i := range p.Nodes {
			p.Nodes[i].Release = "4.1.3"
		}
	}, "release", doctor.Note, "4.1.3", "5.0"},
	"another partitioner": {func(p patient) {
		p.Partitioner, p.Nodes, p.Cluster.Tables, p.RingFailure = "org.apache.cassandra.dht.ByteOrderedPartitioner", nil, nil, "no host owns a token"
	}, "partitioner", doctor.Problem, "ByteOrderedPartitioner", "Murmur3Partitioner"},
	"a local_dc that does not exist": {func(p patient) { p.Cassandra.LocalDC = config.Datacenters{"dc3"} },
		"datacenter", doctor.Problem, "no node is in local_dc dc3; the datacenters are dc1, dc2", "cassandra.local_dc: dc1"},
	"a datacenter to fail over to that does not exist": {func(p patient) { p.Cassandra.LocalDC = config.Datacenters{"dc1", "dc9"} },
		"datacenter", doctor.Problem, "no node is in dc9, to which lookups are to fail over; the datacenters are dc1, dc2", "write dc2 in place of dc9"},
	"a datacenter to fail over to without a contact point": {func(p patient) { p.Cassandra.LocalDC = config.Datacenters{"dc1", "dc2"} },
		"datacenter", doctor.Warning, "no contact point that answers is in dc2", "add a node of dc2 to cassandra.contact_points"},
	"contact points in several datacenters": {func(p patient) { p.Cassandra.LocalDC, p.Points[1].DC = nil, "dc2" },
		"datacenter", doctor.Problem, "several datacenters: dc1, dc2", "cassandra.local_dc: dc1"},
	"contact points in another datacenter": {func(p patient) {
		p.Cassandra.LocalDC, p.LocalDC = config.Datacenters{"dc2"}, "dc2"
		for i := range p.Nodes[3:] {
			ask(&p.Nodes[3+i])
		}
	}, "datacenter", doctor.Problem, "no contact point that answers is in local_dc dc2", "[10.2.0.1:9042, 10.2.0.2:9042]"},
	"a local_rack that does not exist": {func(p patient) { p.Cassandra.LocalRack = "rack3" },
		"datacenter", doctor.Warning, "no node of dc1 is in local_rack rack3; the racks are r1, r2, r3", "cassandra.local_rack: r"},
	"a node that is down, and a contact point": {func(p patient) {
		p.Points[1].Failure, p.Points[1].DC, p.Points[1].Key = "connection refused", "", "cassandra.contact_points"
		n := &p.Nodes[1]
		*n = doctor.Node{Host: n.Host, Schema: "old", Asked: true, Failure: "connection refused", Key: "cassandra.contact_points"}
	}, "nodes", doctor.Warning, "10.1.0.2:9042 (rack r2) cannot be reached: connection refused", "native port"},
	"a node that refuses the password": {func(p patient) {
		n := &p.Nodes[2]
		*n = doctor.Node{Host: n.Host, Asked: true, Failure: "bad credentials", Key: "cassandra.username and cassandra.password_file"}
	}, "nodes", doctor.Warning, "10.1.0.3:9042", "correct cassandra.username"},
	"a node with another schema": {func(p patient) { p.Nodes[2].Schema = "two" },
		"schema", doctor.Warning, "2 versions of the schema: 10.1.0.1:9042, 10.1.0.2:9042 | 10.1.0.3:9042", "nodetool describecluster"},
	"a remote node that is said to have another schema": {func(p patient) { p.Nodes[4].Schema = "two" },
		"schema", doctor.Note, "10.2.0.2:9042", "nodetool"},
	"a ring that cannot be built": {func(p patient) { p.RingFailure = "a token is claimed twice" },
		"ownership", doctor.Problem, "a token is claimed twice", "nodetool ring"},
	"a node that joins": {func(p patient) { p.Moving = "10.1.0.4 is BOOT" },
		"ownership", doctor.Warning, "10.1.0.4 is BOOT", "nodetool status"},
	"a node that joins while nobody asks for own data": {func(p patient) {
		p.Moving = "10.1.0.4 is BOOT"
		p.Config.Tables = p.Config.Tables[:features]
		p.Cluster.Tables = p.Cluster.Tables[:features]
	}, "ownership", doctor.Note, "10.1.0.4 is BOOT", "nodetool status"},
	"nodes without a table of gossip": {func(p patient) { p.GossipMissing = true },
		"ownership", doctor.Warning, "no table system_views.gossip_info", "5.0"},
	"gossip that cannot be read": {func(p patient) { p.GossipFailure = "read timeout" },
		"ownership", doctor.Warning, "gossip cannot be read: read timeout", "log"},
	"a node whose clock is ahead": {func(p patient) { p.Nodes[0].Ahead = 700 * time.Millisecond },
		"clocks", doctor.Warning, "the clock of 10.1.0.1:9042 is 700ms ahead of ours", "the node"},
	"a node whose clock is behind": {func(p patient) { p.Nodes[1].Ahead = -2 * time.Second },
		"clocks", doctor.Warning, "the clock of 10.1.0.2:9042 is 2s behind ours", "the node"},
	"a clock of our own": {func(p patient) {
		for i := range p.Nodes[:3] {
			p.Nodes[i].Ahead = 3 * time.Second
		}
	}, "clocks", doctor.Warning, "the clock of this machine is 3s behind the clocks of all 3 nodes", "this machine"},
	"a schema that cannot be read": {func(p patient) { p.Cluster.Tables, p.SchemaFailure = nil, "no answer" },
		"tables", doctor.Problem, "the schema cannot be read: no answer", "log"},
	"a table that is misspelt": {func(p patient) {
		p.Config.Tables[products].Name.Table = "product"
		p.Cluster.Tables[products] = doctor.Table{}
	}, "tables", doctor.Problem, "there is no table shop.product", "name: shop.products"},
	"a table that is like no other": {func(p patient) {
		p.Config.Tables[products].Name.Table = "warehouse_positions"
		p.Cluster.Tables[products] = doctor.Table{}
	}, "tables", doctor.Problem, "there is no table shop.warehouse_positions", "create it"},
	"a column that is misspelt": {func(p patient) { p.Config.Tables[products].Columns = []string{"id", "nam"} },
		"tables", doctor.Problem, "shop.products has no column nam", "name in place of nam"},
	"no table at all": {func(p patient) { p.Config.Tables, p.Cluster.Tables = nil, nil },
		"tables", doctor.Note, "allows no table", "keyspace.table"},
	"a grant that is missing": {func(p patient) {
		p.Cluster.Tables[orders].Denied, p.Cluster.Tables[orders].Lookups = true, nil
	}, "grants", doctor.Problem, "qosproxy may not read shop.orders", "GRANT SELECT ON TABLE shop.orders TO qosproxy;"},
	"a grant that is missing, with odd names": {func(p patient) {
		p.Cassandra.Username = `My "role"`
		p.Config.Tables[orders].Name.Table = "Orders"
		p.Cluster.Tables[orders].Denied, p.Cluster.Tables[orders].Lookups = true, nil
	}, "grants", doctor.Problem, "may not read", `GRANT SELECT ON TABLE shop."Orders" TO "My ""role""";`},
	"a grant that is missing, with a reserved word": {func(p patient) {
		p.Config.Tables[orders].Name.Table = "order"
		p.Cluster.Tables[orders].Denied, p.Cluster.Tables[orders].Lookups = true, nil
	}, "grants", doctor.Problem, "may not read", `GRANT SELECT ON TABLE shop."order" TO qosproxy;`},
	"gossip that may not be read": {func(p patient) { p.GossipDenied = true },
		"grants", doctor.Warning, "may not read gossip", "GRANT SELECT ON system_views.gossip_info TO qosproxy;"},
	"settings that may not be read": {func(p patient) {
		for i := range p.Nodes[:3] {
			p.Nodes[i].Settings, p.Nodes[i].SettingsDenied = nil, true
		}
	}, "grants", doctor.Note, "may not read the settings", "GRANT SELECT ON system_views.settings TO qosproxy;"},
	"counts that may not be read": {func(p patient) { p.Cluster.Tables[orders].CountsDenied = true },
		"grants", doctor.Note, "may not read how many rows reads return", "GRANT SELECT ON system_views.rows_per_read TO qosproxy;"},
	"one replica": {func(p patient) { p.Keyspaces = replicated(1) },
		"replication", doctor.Warning, "replication factor 1 in dc1", "{'class': 'NetworkTopologyStrategy', 'dc1': '3', 'dc2': '3'}"},
	"two replicas at a quorum": {func(p patient) { p.Keyspaces = replicated(2) },
		"replication", doctor.Warning, "has 2 replicas, of which LOCAL_QUORUM needs 2 for shop.orders", "ALTER KEYSPACE shop"},
	"no replica in the local datacenter": {func(p patient) { p.Keyspaces = replicated(0) },
		"replication", doctor.Problem, "is not replicated in dc1", "'dc1': '3'"},
	"SimpleStrategy with two datacenters": {func(p patient) {
		p.Keyspaces = map[string]ring.Replication{"shop": {Strategy: ring.SimpleStrategy, Factor: 3}}
	}, "replication", doctor.Warning, "SimpleStrategy, and the cluster 2 datacenters", "NetworkTopologyStrategy"},
	"more replicas than nodes": {func(p patient) { p.Keyspaces = replicated(5) },
		"replication", doctor.Warning, "replication factor 5, and dc1 has 3 nodes", "'dc1': '3'"},
	"a strategy of one's own": {func(p patient) { p.Keyspaces = map[string]ring.Replication{"shop": {Strategy: "MyStrategy"}} },
		"replication", doctor.Problem, "strategy MyStrategy", "ALTER KEYSPACE"},
	"transient replication": {func(p patient) {
		p.Keyspaces = map[string]ring.Replication{"shop": {Strategy: ring.NetworkTopologyStrategy, Err: errors.New("transient replication is not supported")}}
	}, "replication", doctor.Problem, "transient", "ALTER KEYSPACE"},
	"a level that nothing reaches": {func(p patient) {
		p.Keyspaces = map[string]ring.Replication{"shop": {Strategy: ring.NetworkTopologyStrategy, Factors: map[string]int{"dc1": 2}}}
		p.Config.Tables = p.Config.Tables[:features]
		p.Cluster.Tables = p.Cluster.Tables[:features]
		p.Config.Tables[orders].Consistency = new(config.Consistency("THREE"))
	}, "replication", doctor.Problem, "has 2 replicas, of which THREE needs 3 for shop.orders", "ALTER KEYSPACE"},
	"ALL": {func(p patient) { p.Config.Tables[orders].Consistency = new(config.Consistency("ALL")) },
		"replication", doctor.Warning, "has 6 replicas, of which ALL needs 6", "ALTER KEYSPACE"},
	"no speculation of coordinators at a quorum": {func(p patient) {
		p.Cluster.Tables[orders].Speculation, p.Cluster.Tables[orders].Definition.NoSpeculation = "NEVER", true
	}, "speculation", doctor.Problem, "shop.orders is read at LOCAL_QUORUM through coordinators", "ALTER TABLE shop.orders WITH speculative_retry = '99p';"},
	"no speculation at a quorum of all datacenters": {func(p patient) { p.Config.Tables[accounts].Consistency = new(config.Consistency("QUORUM")) },
		"speculation", doctor.Problem, "shop.accounts is read at QUORUM through coordinators", "'99p'"},
	"no speculation at a quorum that a request may ask for": {func(p patient) {
		p.Config.Tables[products].Consistencies = &[]config.Consistency{"LOCAL_QUORUM"}
	}, "speculation", doctor.Problem, "shop.products is read at LOCAL_QUORUM through coordinators", "'99p'"},
	"a level that a request may ask for and nothing reaches": {func(p patient) {
		p.Keyspaces = map[string]ring.Replication{"shop": {Strategy: ring.NetworkTopologyStrategy, Factors: map[string]int{"dc1": 2}}}
		p.Config.Tables[orders].Consistencies = &[]config.Consistency{"LOCAL_ONE", "THREE"}
	}, "replication", doctor.Problem, "has 2 replicas, of which THREE needs 3 for shop.orders", "ALTER KEYSPACE"},
	"speculation behind a proxy that hedges": {func(p patient) {
		p.Cluster.Tables[products].Speculation, p.Cluster.Tables[products].Definition.NoSpeculation = "99p", false
	}, "speculation", doctor.Note, "speculative_retry of shop.products is 99p", "ALTER TABLE shop.products WITH speculative_retry = 'NONE';"},
	"a view with speculation": {func(p patient) {
		p.Cluster.Tables[products].Speculation, p.Cluster.Tables[products].Definition.NoSpeculation = "99p", false
		p.Cluster.Tables[products].Definition.View = true
	}, "speculation", doctor.Note, "shop.products", "ALTER MATERIALIZED VIEW shop.products"},
	"a node with few threads": {func(p patient) { p.Nodes[1].Settings["native_transport_max_threads"] = "4" },
		"settings", doctor.Note, "native_transport_max_threads is 4 on 10.1.0.2:9042", "128"},
	"nodes with few threads, not equally many": {func(p patient) {
		p.Nodes[0].Settings["native_transport_max_threads"], p.Nodes[1].Settings["native_transport_max_threads"] = "64", "4"
	}, "settings", doctor.Note, "native_transport_max_threads is 4 on 10.1.0.2:9042, 64 on 10.1.0.1:9042", "128"},
	"nodes that are not set alike": {func(p patient) { p.Nodes[1].Settings["concurrent_reads"] = "4" },
		"settings", doctor.Note, "concurrent_reads differs: 32 on 10.1.0.1:9042, 10.1.0.3:9042, 4 on 10.1.0.2:9042", "concurrent_reads"},
	"a node that asks others for its own data": {func(p patient) {
		p.Nodes[1].Settings["dynamic_snitch"], p.Nodes[0].Settings, p.Nodes[2].Settings = "true", nil, nil
	},
		"settings", doctor.Warning, "10.1.0.2:9042: dynamic_snitch is on, and speculative_retry is NONE for shop.products",
		"dynamic_snitch: false; or ALTER TABLE shop.products WITH speculative_retry = '99p';"},
	"a node that may ask others for its own data, since nobody knows": {func(p patient) { delete(p.Nodes[1].Settings, "dynamic_snitch") },
		"settings", doctor.Note, "10.1.0.2:9042: dynamic_snitch is not known to be off, and speculative_retry is NONE for shop.products",
		"dynamic_snitch: false; or ALTER TABLE shop.products WITH speculative_retry = '99p';"},
	"nodes of which no setting can be read": {func(p patient) {
		for i := range p.Nodes[:3] {
			p.Nodes[i].Settings = nil
		}
	}, "settings", doctor.Note, "10.1.0.1:9042, 10.1.0.2:9042, 10.1.0.3:9042: dynamic_snitch is not known to be off", "dynamic_snitch: false"},
	"a node that refuses NODE_LOCAL": {func(p patient) { p.Nodes[2].NodeLocal, p.Nodes[2].Direct = doctor.Refused, true },
		"node_local", doctor.Warning, "10.1.0.3:9042: NODE_LOCAL is refused, at which shop.features", "enable_nodelocal_queries"},
	"a node that does not say whether it allows NODE_LOCAL": {func(p patient) { p.Nodes[2].NodeLocal, p.Nodes[2].Direct = doctor.Unknown, true },
		"node_local", doctor.Note, "10.1.0.3:9042: it is not known whether NODE_LOCAL is allowed, at which shop.features", "run the doctor again"},
	"a node that may ask others, for all that is known": {func(p patient) {
		p.Config.Tables[features].Consistency = nil
		p.Nodes[2].NodeLocal = doctor.Unknown
	}, "quorum_reads", doctor.Note, "it is not known whether 10.1.0.3:9042 can be made to answer for shop.accounts", "run the doctor again"},
	"a node that may ask others": {func(p patient) {
		p.Config.Tables[features].Consistency = nil
		p.Nodes[2].NodeLocal = doctor.Refused
	}, "quorum_reads", doctor.Warning, "10.1.0.3:9042 cannot be made to answer for shop.accounts", "dynamic_snitch: false"},
	"speculation of nodes that answer directly otherwise": {func(p patient) {
		p.Config.Tables[features].Consistency = nil
		p.Nodes[2].NodeLocal, p.Nodes[2].Direct = doctor.Refused, true
		p.Cluster.Tables[accounts].Speculation, p.Cluster.Tables[accounts].Definition.NoSpeculation = "99p", false
	}, "quorum_reads", doctor.Warning, "10.1.0.3:9042 cannot be made to answer for shop.accounts", "ALTER TABLE shop.accounts WITH speculative_retry = 'NONE';"},
	"a table that replicas cannot be compared of": {func(p patient) { clustered(&p.Cluster.Tables[accounts]) },
		"quorum_reads", doctor.Note, "shop.accounts", "quorum_reads: coordinator"},
	"a guardrail that refuses, and warns before": {func(p patient) {
		p.Nodes[1].Settings["partition_keys_in_select_fail_threshold"] = "25"
		p.Nodes[1].Settings["partition_keys_in_select_warn_threshold"] = "10"
	}, "guardrails", doctor.Warning, "10.1.0.2:9042 refuses an IN of more than 25 keys", "max_keys_per_group: 25"},
	"a guardrail that warns": {func(p patient) { p.Nodes[1].Settings["in_select_cartesian_product_warn_threshold"] = "25" },
		"guardrails", doctor.Note, "10.1.0.2:9042 warns of an IN of more than 25 keys", "in_select_cartesian_product_warn_threshold"},
	"a partition that is too large": {func(p patient) { p.Cluster.Tables[orders].MeanBytes = 5 << 20 },
		"sizes", doctor.Warning, "shop.orders has 5.0 MiB on average, and max_response_bytes is 4MiB", "max_response_bytes: 11MiB"},
	"a partition that is too large if all of it is read": {func(p patient) { p.Cluster.Tables[products].MeanBytes = 5 << 20 },
		"sizes", doctor.Note, "shop.products has 5.0 MiB", "fewer columns"},
	"keys that are too large together": {func(p patient) { p.Cluster.Tables[orders].MeanBytes = 40 << 10 },
		"sizes", doctor.Note, "about 102 keys fill max_response_bytes", "max_keys: 102"},
	"more rows than a key may have": {func(p patient) {
		p.Config.Tables[orders].Consistency = nil
		p.Cluster.Tables[orders].Definition.NoSpeculation = true
		clustered(&p.Cluster.Tables[orders])
		p.Cluster.Tables[orders].MostRows = 5000
	}, "sizes", doctor.Note, "about 5000 rows, and max_rows_per_key is 1000", "max_rows_per_key: 5000"},
	"a replica that fails": {func(p patient) {
		p.Cluster.Tables[products].Lookups[1] = doctor.Lookup{Host: "10.1.0.2:9042", Failure: "read failure"}
	}, "lookups", doctor.Warning, "10.1.0.2:9042 did not answer a lookup of shop.products: read failure", "log"},
	"a replica that is late": {func(p patient) { p.Cluster.Tables[products].Lookups[1].Took = 300 * time.Millisecond },
		"lookups", doctor.Warning, "10.1.0.2:9042 took 300.0ms for a lookup of shop.products, whose timeout is 125ms", "nodetool tablehistograms shop products"},
	"a table of which no row can be read": {func(p patient) {
		p.Cluster.Tables[products].Failure, p.Cluster.Tables[products].Lookups = "read timeout", nil
	}, "lookups", doctor.Warning, "no key of shop.products could be found: read timeout", "log"},
}

// wrong returns the findings of a report that are not OK.
func wrong(r *doctor.Report) []doctor.Finding {
	return slices.DeleteFunc(slices.Clone(r.Findings), func(f doctor.Finding) bool { return f.Level == doctor.OK })
}

func TestEachFaultIsFoundByItsOwnCheckAlone(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			p := healthy(t)
			fault.plant(p)
			r := doctor.Diagnose(p.Config, p.Cluster)
			found := wrong(r)
			require.Len(t, found, 1)
			assert.Equal(t, fault.check, found[0].Check)
			assert.Equal(t, fault.level, found[0].Level)
			assert.Contains(t, found[0].Found, fault.found)
			assert.NotEmpty(t, found[0].Why)
			assert.Contains(t, found[0].Mend, fault.mend)
			assert.Equal(t, fault.level != doctor.Note, r.Wrong())
			assert.Equal(t, 1, r.Counts[fault.level])
			assert.Equal(t, found[0], r.Findings[0], "what is wrong comes first")
		})
	}
}

func TestAGoodClusterHasNoFinding(t *testing.T) {
	p := healthy(t)
	r := doctor.Diagnose(p.Config, p.Cluster)
	assert.Empty(t, wrong(r))
	assert.False(t, r.Wrong())

	// Each check has run, and faults has one that it finds.
	var checks, planted []string
	for _, f := range r.Findings {
		checks = append(checks, f.Check)
		assert.Empty(t, f.Why+f.Mend, f.Check)
	}
	for _, f := range faults {
		planted = append(planted, f.check)
	}
	slices.Sort(planted)
	slices.Sort(checks)
	assert.Equal(t, slices.Compact(planted), slices.Compact(checks))
	assert.Len(t, r.Lookups, 12)
	assert.Equal(t, doctor.TimedLookup{Table: "shop.products", Host: "10.1.0.1:9042", Milliseconds: 1.2}, r.Lookups[0])
}

func TestANodeWithFewThreadsIsComparedInOtherSettings(t *testing.T) {
	p := healthy(t)
	p.Nodes[1].Settings["native_transport_max_threads"], p.Nodes[1].Settings["concurrent_reads"] = "4", "8"
	found := wrong(doctor.Diagnose(p.Config, p.Cluster))
	require.Len(t, found, 2)
	assert.Equal(t, "native_transport_max_threads is 4 on 10.1.0.2:9042", found[0].Found)
	assert.Equal(t, "concurrent_reads differs: 32 on 10.1.0.1:9042, 10.1.0.3:9042, 8 on 10.1.0.2:9042", found[1].Found)
}

// What is no fault for how a table is read is not reported.
func TestNoFaultIsFoundWhereThereIsNone(t *testing.T) {
	for name, plant := range map[string]func(patient){
		"groups below a guardrail": func(p patient) {
			p.Defaults.MaxKeysPerGroup = 25
			p.Nodes[1].Settings["partition_keys_in_select_fail_threshold"] = "25"
		},
		"hosts that answer directly": func(p patient) {
			p.Config.Tables[features].Consistency = nil
			for i := range p.Nodes[:3] {
				p.Nodes[i].NodeLocal, p.Nodes[i].Direct = doctor.Refused, true
			}
		},
		"nodes that refuse NODE_LOCAL, which nobody wants": func(p patient) {
			p.Config.Tables[features].Consistency, p.Config.Tables[accounts].Consistency = nil, nil
			for i := range p.Nodes[:3] {
				p.Nodes[i].NodeLocal = doctor.Refused
			}
			p.GossipDenied = true
		},
		"speculation of replicas that may ask each other": func(p patient) {
			for i := range p.Nodes[:3] {
				p.Nodes[i].Settings["dynamic_snitch"] = "true"
			}
			p.Cluster.Tables[products].Speculation, p.Cluster.Tables[products].Definition.NoSpeculation = "99p", false
		},
		"speculation of replicas of which nobody knows whether they ask each other": func(p patient) {
			for i := range p.Nodes[:3] {
				p.Nodes[i].Settings = nil
			}
			p.Cluster.Tables[products].Speculation, p.Cluster.Tables[products].Definition.NoSpeculation = "99p", false
		},
		"clocks within half a second": func(p patient) { p.Nodes[1].Ahead = -500 * time.Millisecond },
		"two replicas at LOCAL_ONE": func(p patient) {
			p.Keyspaces = replicated(2)
			p.Config.Tables, p.Cluster.Tables = p.Config.Tables[:orders], p.Cluster.Tables[:orders]
		},
		"a table without rows":      func(p patient) { p.Cluster.Tables[orders].Lookups = nil },
		"the datacenter by default": func(p patient) { p.Cassandra.LocalDC = nil },
		"contact points of the next datacenter, while those of the local one are down": func(p patient) {
			p.Cassandra.LocalDC = config.Datacenters{"dc1", "dc2"}
			p.Points = []doctor.Point{{Name: "10.2.0.1:9042", Addrs: []string{"10.2.0.1:9042"}, DC: "dc2"}}
		},
		"a contact point that is a name": func(p patient) { p.Points[0].Name = "cassandra.example.com:9042" },
	} {
		t.Run(name, func(t *testing.T) {
			p := healthy(t)
			plant(p)
			assert.Empty(t, wrong(doctor.Diagnose(p.Config, p.Cluster)))
		})
	}
}

func TestClocksThatDifferInBothDirectionsAreThoseOfTheNodes(t *testing.T) {
	p := healthy(t)
	p.Nodes[0].Ahead, p.Nodes[1].Ahead, p.Nodes[2].Ahead = time.Second, -time.Second, time.Second
	found := wrong(doctor.Diagnose(p.Config, p.Cluster))
	require.Len(t, found, 3)
	assert.Equal(t, "the clock of 10.1.0.1:9042 is 1s ahead of ours", found[0].Found)
}

func TestATableThatMayNotBeReadIsNotSaidToBeEmpty(t *testing.T) {
	p := healthy(t)
	faults["a grant that is missing"].plant(p)
	for _, f := range doctor.Diagnose(p.Config, p.Cluster).Findings {
		assert.False(t, f.Check == "lookups" && strings.Contains(f.Found, "shop.orders"), f.Found)
	}
}

func TestAReportFitsATerminal(t *testing.T) {
	p := healthy(t)
	p.Cassandra.LocalRack = strings.Repeat("r", 100)
	p.Cluster.Tables[products].Speculation, p.Cluster.Tables[products].Definition.NoSpeculation = "99p", false
	p.Cluster.Tables[orders].Denied, p.Cluster.Tables[orders].Lookups = true, nil
	p.Keyspaces = replicated(1)
	r := doctor.Diagnose(p.Config, p.Cluster)
	var out bytes.Buffer
	require.NoError(t, r.Print(&out, false))
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	for _, line := range lines {
		assert.LessOrEqual(t, utf8.RuneCountInString(line), 80, line)
		assert.Equal(t, strings.TrimRight(line, " "), line)
	}
	assert.Equal(t, []string{
		"problem  grants        the role qosproxy may not read shop.orders",
		"         why   Lookups of the table fail.",
		"         mend  GRANT SELECT ON TABLE shop.orders TO qosproxy;",
	}, lines[:3])
	var begin []string
	for _, line := range lines {
		if word, _, _ := strings.Cut(line, " "); word != "" {
			begin = append(begin, word)
		}
	}
	assert.Equal(t, []string{"problem", "warning", "note", "ok", "1"}, slices.Compact(begin), "the worst first, and the counts last")
	assert.Equal(t, fmt.Sprintf("1 problem, 2 warnings, 1 note, %d ok", r.Counts[doctor.OK]), lines[len(lines)-1])

	out.Reset()
	require.NoError(t, r.Print(&out, true))
	assert.Contains(t, out.String(), "\x1b[1;31mproblem")
}

func TestAReportIsJSON(t *testing.T) {
	p := healthy(t)
	p.Cluster.Tables[products].Lookups[1] = doctor.Lookup{Host: "10.1.0.2:9042", Failure: "read failure"}
	text, err := json.Marshal(doctor.Diagnose(p.Config, p.Cluster))
	require.NoError(t, err)
	var got struct {
		Cluster  string              `json:"cluster"`
		LocalDC  string              `json:"local_dc"`
		Findings []map[string]string `json:"findings"`
		Lookups  []map[string]any    `json:"lookups"`
		Counts   map[string]int      `json:"counts"`
	}
	require.NoError(t, json.Unmarshal(text, &got))
	assert.Equal(t, "good", got.Cluster)
	assert.Equal(t, "dc1", got.LocalDC)
	assert.Equal(t, "warning", got.Findings[0]["level"])
	assert.Equal(t, "lookups", got.Findings[0]["check"])
	assert.NotEmpty(t, got.Findings[0]["why"])
	assert.Equal(t, map[string]any{"table": "shop.products", "host": "10.1.0.2:9042", "error": "read failure"}, got.Lookups[1])
	assert.Equal(t, map[string]int{"problem": 0, "warning": 1, "note": 0, "ok": len(got.Findings) - 1}, got.Counts)

	text, err = json.Marshal(doctor.Diagnose(p.Config, &doctor.Cluster{Points: []doctor.Point{{Name: "a:9042", Failure: "no answer"}}}))
	require.NoError(t, err)
	assert.Contains(t, string(text), `"lookups":[]`, "a script need not look for null")
}

func TestQuestionsAreTheTablesOfTheConfiguration(t *testing.T) {
	p := healthy(t)
	rows := 7
	p.Config.Tables[orders].MaxRowsPerKey = &rows
	q := doctor.Questions(p.Config)
	require.Len(t, q, 4)
	assert.Equal(t, doctor.Question{Keyspace: "shop", Table: "products", Columns: []string{"id", "name"}, Rows: 100}, q[products])
	assert.Equal(t, 7, q[orders].Rows)
}
