package cassandra

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/doctor"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
)

func TestAnInspectionTellsWhyNobodyAnswers(t *testing.T) {
	others := goleak.IgnoreCurrent()
	closed := closedPort(t)
	cfg := quiet(closed)
	cfg.ContactPoints = append(cfg.ContactPoints, "cassandra.invalid")
	found, err := Inspect(t.Context(), cfg, []doctor.Question{{Keyspace: "a", Table: "b", Rows: 1}})
	require.NoError(t, err)
	assert.Equal(t, &doctor.Cluster{Points: []doctor.Point{
		{Name: closed, Addrs: []string{closed}, Failure: "connection refused", Key: "cassandra.contact_points"},
		{Name: "cassandra.invalid:9042", Failure: "the name does not resolve", Key: "cassandra.contact_points"},
	}}, found)
	goleak.VerifyNone(t, others)

	cfg.ContactPoints = nil
	_, err = Inspect(t.Context(), cfg, nil)
	require.ErrorIs(t, err, ErrConfig)
}

// fakeCluster is two nodes of one datacenter.
type fakeCluster struct {
	nodes [2]fakeNode
	// release is the version of both, empty for 5.0.9.
	release string
	// refuses maps parts of statements to the codes of the errors that answer them.
	refuses map[string]int
	// schema returns the version of the schema that a node reports; nil for always the same.
	schema func() int
	// token returns the token of the second node; nil for always the same.
	token func() string
	// late is by how much the clock of the second node is behind.
	late time.Duration
	// coordinator makes the first node own no token, in a datacenter of its own.
	coordinator bool
}

// start starts the nodes.
func (c *fakeCluster) start(t *testing.T) {
	for i := range c.nodes {
		c.nodes[i].answer = func(cql string, level gocql.Consistency) fakeAnswer { return c.answer(i, cql, level) }
		c.nodes[i].start(t)
	}
}

// answer returns what one of the nodes answers; the second refuses NODE_LOCAL.
func (c *fakeCluster) answer(i int, cql string, level gocql.Consistency) fakeAnswer {
	for part, code := range c.refuses {
		if strings.Contains(cql, part) {
			return fakeAnswer{code: code, message: "refused"}
		}
	}
	if level == levelNodeLocal && i == 1 {
		return fakeAnswer{code: gocql.ErrCodeInvalid, message: "NODE_LOCAL consistency level is highly unsafe"}
	}
	from := strings.Fields(cql[strings.Index(cql, " FROM ")+6:])[0]
	switch {
	case strings.Contains(cql, "toTimestamp"):
		now := time.Now()
		if i == 1 {
			now = now.Add(-c.late)
		}
		return fakeAnswer{[]fakeColumn{{"moment", fakeMoment}}, [][][]byte{{integer(8, now.UnixMilli())}}, 0, ""}
	case from == "system.local":
		return c.hosts("rpc", i)
	case from == "system.peers_v2":
		return c.hosts("native", 1-i)
	case from == "system_views.settings":
		return textRows("name value", "dynamic_snitch false", "endpoint_snitch org.apache.cassandra.locator.Ec2Snitch", "cluster_name x")
	case from == "system_views.gossip_info" && strings.HasPrefix(c.release, "4."):
		return fakeAnswer{code: gocql.ErrCodeInvalid, message: "table gossip_info does not exist"}
	case from == "system_views.gossip_info":
		return fakeAnswer{
			[]fakeColumn{{"host_id", fakeUUID}, {"address", fakeInet}, {"generation", fakeInt}, {"status_with_port", fakeText}},
			[][][]byte{{hostID(0), {10, 0, 0, 1}, integer(4, 1), []byte("NORMAL,0")}, {hostID(1), {10, 0, 0, 2}, integer(4, 1), []byte("LEAVING,1")}}, 0, "",
		}
	case from == "system_schema.keyspaces":
		return fakeAnswer{[]fakeColumn{{"keyspace_name", fakeText}, {"replication", fakeTextMap}}, [][][]byte{{[]byte("shop"), textCollection(
			2, "class", "org.apache.cassandra.locator.NetworkTopologyStrategy", "dc1", "2")}}, 0, ""}
	case from == "system_schema.tables":
		return fakeAnswer{[]fakeColumn{{"keyspace_name", fakeText}, {"table_name", fakeText}, {"id", fakeUUID}, {"speculative_retry", fakeText}},
			[][][]byte{{[]byte("shop"), []byte("carts"), hostID(7), []byte("99p")}, {[]byte("system"), []byte("local"), hostID(8), []byte("99p")}}, 0, ""}
	case from == "system_schema.columns":
		return fakeAnswer{
			[]fakeColumn{{"keyspace_name", fakeText}, {"table_name", fakeText}, {"column_name", fakeText}, {"kind", fakeText}, {"position", fakeInt}, {"type", fakeText}},
			[][][]byte{cartColumn("id", "partition_key", 0), cartColumn("item", "clustering", 0)}, 0, "",
		}
	case from == "system.size_estimates":
		return fakeAnswer{[]fakeColumn{{"mean_partition_size", fakeBigInt}, {"partitions_count", fakeBigInt}}, [][][]byte{{integer(8, 300), integer(8, 5)}}, 0, ""}
	case from == "system_views.rows_per_read":
		return fakeAnswer{[]fakeColumn{{"max", fakeBigInt}}, [][][]byte{{integer(8, 42)}}, 0, ""}
	case strings.HasSuffix(cql, `"shop"."carts" LIMIT 1`):
		return textRows("id", "a")
	case from == `"shop"."carts"`:
		return textRows("id item", "a 1", "a 2")
	}
	return fakeAnswer{} // views and types
}

// hosts returns what nodes say of themselves and of others.
func (c *fakeCluster) hosts(prefix string, i int) fakeAnswer {
	_, port, _ := net.SplitHostPort(c.nodes[i].addr)
	number, _ := strconv.Atoi(port)
	version, token := 9, strconv.Itoa(i*1000)
	if c.schema != nil {
		version = c.schema()
	}
	if i == 1 && c.token != nil {
		token = c.token()
	}
	dc, tokens := "dc1", textCollection(1, token)
	if i == 0 && c.coordinator {
		dc, tokens = "front", textCollection(1)
	}
	return fakeAnswer{
		[]fakeColumn{{"host_id", fakeUUID}, {"data_center", fakeText}, {"rack", fakeText}, {"release_version", fakeText}, {prefix + "_address", fakeInet},
			{prefix + "_port", fakeInt}, {"tokens", fakeTexts}, {"schema_version", fakeUUID}, {"partitioner", fakeText}, {"cluster_name", fakeText}},
		[][][]byte{{hostID(i), []byte(dc), []byte("r1"), []byte(cmp.Or(c.release, "5.0.9")), {127, 0, 0, 1},
			integer(4, int64(number)), tokens, hostID(version), []byte("org.apache.cassandra.dht.Murmur3Partitioner"), []byte("fake")}}, 0, "",
	}
}

func hostID(i int) []byte { return append(make([]byte, 15), byte(i+1)) }

// integer serializes an integer in size bytes.
func integer(size int, v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v))[8-size:] }

// textCollection serializes texts, per for each entry.
func textCollection(per int, words ...string) []byte {
	out := integer(4, int64(len(words)/per))
	for _, w := range words {
		out = append(append(out, integer(4, int64(len(w)))...), w...)
	}
	return out
}

// textRows returns an answer of texts. Words in names are the columns, words in a row its cells.
func textRows(names string, rows ...string) (a fakeAnswer) {
	for name := range strings.FieldsSeq(names) {
		a.columns = append(a.columns, fakeColumn{name, fakeText})
	}
	for _, row := range rows {
		var cells [][]byte
		for word := range strings.FieldsSeq(row) {
			cells = append(cells, []byte(word))
		}
		a.rows = append(a.rows, cells)
	}
	return a
}

func cartColumn(name, kind string, position int64) [][]byte {
	return [][]byte{[]byte("shop"), []byte("carts"), []byte(name), []byte(kind), integer(4, position), []byte("text")}
}

func TestAnInspectionAsksEveryNode(t *testing.T) {
	c := &fakeCluster{late: time.Minute}
	c.start(t)
	others := goleak.IgnoreCurrent()
	cfg := quiet(c.nodes[0].addr)
	cfg.LocalDC = "elsewhere"
	found, err := Inspect(t.Context(), cfg, []doctor.Question{{Keyspace: "shop", Table: "carts", Rows: 5}, {Keyspace: "shop", Table: "absent", Rows: 5}})
	require.NoError(t, err)
	require.Eventually(t, func() bool { err = goleak.Find(others); return err == nil }, 15*time.Second, 50*time.Millisecond, "%v", err)

	assert.Equal(t, []doctor.Point{{Name: c.nodes[0].addr, Addrs: []string{c.nodes[0].addr}, DC: "dc1"}}, found.Points)
	assert.Equal(t, "fake", found.Name)
	assert.Equal(t, "dc1", found.LocalDC, "that of the contact point")
	assert.Equal(t, "10.0.0.2 is LEAVING", found.Moving)
	assert.Empty(t, found.RingFailure+found.GossipFailure+found.SchemaFailure)
	assert.Equal(t, []string{"shop.carts"}, found.Names)
	assert.Equal(t, 2, found.Keyspaces["shop"].Factors["dc1"])
	require.Len(t, found.Nodes, 2)
	assert.True(t, slices.IsSortedFunc(found.Nodes, byAddress))
	for _, n := range found.Nodes {
		i := 0
		if n.Addr == c.nodes[1].addr {
			i = 1
		}
		assert.Equal(t, c.nodes[i].addr, n.Addr)
		assert.True(t, n.Asked)
		assert.Empty(t, n.Failure)
		assert.Equal(t, []doctor.Consent{doctor.Allowed, doctor.Refused}[i], n.NodeLocal)
		assert.True(t, n.Direct)
		assert.Equal(t, map[string]string{"dynamic_snitch": "false", "endpoint_snitch": "org.apache.cassandra.locator.Ec2Snitch"}, n.Settings)
		assert.NotEmpty(t, n.Schema)
		assert.InDelta(t, []float64{0, -60}[i], n.Ahead.Seconds(), 5)
	}
	require.Len(t, found.Tables, 2)
	carts := found.Tables[0]
	assert.Equal(t, "99p", carts.Speculation)
	assert.Equal(t, []int64{300, 42}, []int64{carts.MeanBytes, carts.MostRows})
	require.Len(t, carts.Lookups, 2)
	for _, l := range carts.Lookups {
		assert.Empty(t, l.Failure)
		assert.Positive(t, l.Took)
	}
	assert.Nil(t, found.Tables[1].Definition)
}

func TestAnInspectionTellsWhatItCouldNotRead(t *testing.T) {
	inspect := func(c *fakeCluster) *doctor.Cluster {
		c.start(t)
		found, err := Inspect(t.Context(), quiet(c.nodes[0].addr), []doctor.Question{{Keyspace: "shop", Table: "carts", Rows: 5}})
		require.NoError(t, err)
		return found
	}
	const denied = gocql.ErrCodeUnauthorized
	found := inspect(&fakeCluster{refuses: map[string]int{"gossip_info": denied, "settings": denied, `"shop"."carts"`: denied}})
	assert.True(t, found.GossipDenied)
	assert.True(t, found.Nodes[1].SettingsDenied)
	assert.Nil(t, found.Nodes[1].Settings)
	assert.True(t, found.Tables[0].Denied)
	assert.Empty(t, found.GossipFailure+found.Tables[0].Failure)
	assert.Empty(t, found.Tables[0].Lookups)

	found = inspect(&fakeCluster{refuses: map[string]int{"system_schema": denied, "peers_v2": denied}})
	assert.Equal(t, "SELECT * FROM system.peers_v2: refused", found.RingFailure)
	assert.Contains(t, found.SchemaFailure, "refused")
	assert.Empty(t, found.Tables)

	found = inspect(&fakeCluster{release: "4.1.3", refuses: map[string]int{
		"rows_per_read": gocql.ErrCodeInvalid, "size_estimates": gocql.ErrCodeServer, " WHERE \"id\"": gocql.ErrCodeServer,
	}})
	assert.True(t, found.GossipMissing)
	assert.False(t, found.GossipDenied)
	assert.Empty(t, found.GossipFailure+found.Moving)
	assert.Equal(t, doctor.Refused, found.Nodes[0].NodeLocal, "it would allow it, and is not asked")
	assert.Zero(t, found.Tables[0].MeanBytes+found.Tables[0].MostRows)
	require.Len(t, found.Tables[0].Lookups, 2)
	assert.ElementsMatch(t, []doctor.Lookup{{Host: found.Nodes[0].Addr, Failure: "refused"}, {Host: found.Nodes[1].Addr, Failure: "refused"}}, found.Tables[0].Lookups)

	found = inspect(&fakeCluster{refuses: map[string]int{"gossip_info": gocql.ErrCodeInvalid, "carts\" LIMIT 1": gocql.ErrCodeServer}})
	assert.False(t, found.GossipMissing)
	assert.Contains(t, found.GossipFailure, "refused", "an error that is not about the table")
	assert.Equal(t, "refused", found.Tables[0].Failure)
	assert.False(t, found.Tables[0].Denied)
}

func TestAnInspectionIsOfTheDatacenterWithTokens(t *testing.T) {
	c := &fakeCluster{coordinator: true}
	c.start(t)
	found, err := Inspect(t.Context(), quiet(c.nodes[0].addr), nil)
	require.NoError(t, err)
	assert.Equal(t, "front", found.Points[0].DC)
	assert.Equal(t, "dc1", found.LocalDC)
	require.Len(t, found.Nodes, 1)
	assert.True(t, found.Nodes[0].Asked)
}

func TestAClockIsAheadByWhatNoDelayExplains(t *testing.T) {
	begin := time.UnixMilli(1_700_000_000_000)
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	for name, tc := range map[string]struct{ moment, want int }{
		"within":                        {30, 0},
		"at the begin":                  {0, 0},
		"a moment without its fraction": {-1, 0},
		"at the end":                    {50, 0},
		"ahead":                         {750, 700},
		"behind":                        {-701, -700},
	} {
		assert.Equal(t, time.Duration(tc.want)*time.Millisecond, ahead(at(tc.moment), begin, at(50)), name)
	}
}

func TestTheMeanOfEstimatesIsWeighed(t *testing.T) {
	estimate := func(mean, partitions int64) row {
		return row{"mean_partition_size": mean, "partitions_count": partitions}
	}
	assert.EqualValues(t, 175, meanOf([]row{estimate(100, 3), estimate(400, 1)}))
	assert.Zero(t, meanOf([]row{estimate(100, 0)}))
	assert.Zero(t, meanOf(nil))
}

func TestAnInspectionKnowsARefusalByItsCode(t *testing.T) {
	assert.True(t, denied(fmt.Errorf("read: %w", answer{gocql.ErrCodeUnauthorized, "User reader has no SELECT permission"})))
	assert.False(t, denied(answer{gocql.ErrCodeInvalid, "unconfigured table"}))
	assert.False(t, denied(nil))
}

func TestATableIsMissingByTheTextOfTheError(t *testing.T) {
	for _, text := range []string{"table peers_v2 does not exist", "Keyspace system_views does not exist", "unconfigured table peers_v2"} {
		assert.True(t, missing(fmt.Errorf("read: %w", answer{gocql.ErrCodeInvalid, text})), text)
	}
	for _, err := range []error{
		nil, errNoColumn, errRefused, errInTooBig, errNoGrant, answer{gocql.ErrCodeServer, "table peers_v2 does not exist"},
	} {
		assert.False(t, missing(err), err)
	}
}

func TestAnInspectionReadsTheColumnsThatMayBeRead(t *testing.T) {
	text := &cqltype.Type{Kind: cqltype.Text}
	table := schema.NewTable("a", "b", "", []schema.Column{{Name: "id", Type: text, Kind: schema.PartitionKey}, {Name: "v", Type: text, Kind: schema.Regular}})
	names := func(columns ...string) (out []string) {
		for _, c := range readable(doctor.Question{Columns: columns}, table) {
			out = append(out, c.Name)
		}
		return out
	}
	assert.Equal(t, []string{"v"}, names("v", "w"))
	assert.Equal(t, []string{"id", "v"}, names())
	assert.Equal(t, []string{"id", "v"}, names("w"), "what is misspelt is told of by another check")
}

func TestNodesAreToldOfByAddress(t *testing.T) {
	var nodes []doctor.Node
	for _, a := range []string{"[2001:db8::1]:9042", "10.0.0.10:9042", "cassandra-1:9042", "10.0.0.9:9142", "10.0.0.9:9042"} {
		nodes = append(nodes, doctor.Node{Host: ring.Host{Addr: a}})
	}
	slices.SortFunc(nodes, byAddress)
	var got []string
	for _, n := range nodes {
		got = append(got, n.Addr)
	}
	assert.Equal(t, []string{"cassandra-1:9042", "10.0.0.9:9042", "10.0.0.9:9142", "10.0.0.10:9042", "[2001:db8::1]:9042"}, got)
}
