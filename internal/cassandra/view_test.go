package cassandra

import (
	"net"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// id returns a host id that ends in n.
func id(n byte) gocql.UUID { return gocql.UUID{15: n} }

// localRow is the row of system.local of host 1.
func localRow(change row) row {
	r := row{
		"host_id": id(1), "data_center": "dc1", "rack": "r1", "release_version": "5.0.9", "cluster_name": "shop",
		"partitioner": "org.apache.cassandra.dht.Murmur3Partitioner", "schema_version": id(200),
		"rpc_address": net.IPv4(10, 0, 0, 1), "rpc_port": 9142, "tokens": []string{"-5", "100"},
	}
	return with(r, change)
}

// peerRow is the row of system.peers_v2 of host n.
func peerRow(n byte, change row) row {
	return with(row{
		"peer": net.IPv4(192, 168, 0, n), "host_id": id(n), "data_center": "dc1", "rack": "r1", "release_version": "5.0.9",
		"native_address": net.IPv4(10, 0, 0, n), "native_port": 9142, "schema_version": id(200),
		"tokens": []string{string('0' + rune(n))},
	}, change)
}

func with(r, change row) row {
	for k, v := range change {
		if v == nil {
			delete(r, k)
			continue
		}
		r[k] = v
	}
	return r
}

func TestViewIsWhatTheSystemTablesSay(t *testing.T) {
	v, err := newView(localRow(nil), []row{peerRow(3, nil), peerRow(2, row{"data_center": "dc2"})}, 9042)
	require.NoError(t, err)
	assert.Equal(t, id(1).String(), v.from)
	assert.Equal(t, "shop", v.cluster)
	assert.Equal(t, "5.0.9", v.release)
	assert.Equal(t, id(200).String(), v.schema)
	assert.True(t, v.agreed)
	assert.Empty(t, v.partial)
	require.Len(t, v.hosts, 3)
	assert.Equal(t, "10.0.0.1:9142", v.hosts[0].Addr)
	assert.Equal(t, []int64{-5, 100}, v.hosts[0].Tokens)
	assert.Equal(t, "dc2", v.hosts[1].DC)
	assert.Equal(t, "10.0.0.3:9142", v.hosts[2].Addr)
}

func TestViewLeavesOutHostsThatAreNotWhole(t *testing.T) {
	for name, test := range map[string]struct {
		change  row
		partial string
	}{
		"a peer without tokens is joining":            {row{"tokens": []string(nil)}, "10.0.0.2:9142 lacks tokens"},
		"a peer without host id was just heard of":    {row{"host_id": gocql.UUID{}}, "10.0.0.2:9142 lacks host_id"},
		"a peer without rack was just heard of":       {row{"rack": ""}, "10.0.0.2:9142 lacks rack"},
		"a peer without datacenter was just heard of": {row{"data_center": nil}, "10.0.0.2:9142 lacks data_center"},
		"a peer without any address":                  {row{"native_address": nil, "peer": nil}, "host " + id(2).String() + " lacks address"},
		"a peer with tokens of another partitioner":   {row{"tokens": []string{"cafe"}}, "10.0.0.2:9142 lacks readable tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := newView(localRow(nil), []row{peerRow(2, test.change), peerRow(3, nil)}, 9042)
			require.NoError(t, err)
			assert.Len(t, v.hosts, 2)
			assert.Equal(t, []string{test.partial}, v.partial)
		})
	}
	t.Run("a coordinator without tokens describes the others", func(t *testing.T) {
		v, err := newView(localRow(row{"tokens": []string(nil)}), []row{peerRow(2, nil)}, 9042)
		require.NoError(t, err)
		require.Len(t, v.hosts, 1)
		assert.Equal(t, id(2).String(), v.hosts[0].ID)
	})
}

func TestViewFindsTheAddressThatClientsUse(t *testing.T) {
	for name, test := range map[string]struct {
		change row
		addr   string
	}{
		"native_address and native_port":                       {nil, "10.0.0.2:9142"},
		"rpc_address of servers before 4.0, at the usual port": {row{"native_address": nil, "native_port": nil, "rpc_address": net.IPv4(10, 9, 0, 2)}, "10.9.0.2:9042"},
		"all interfaces means the peer's own address":          {row{"native_address": net.IPv4zero}, "192.168.0.2:9142"},
		"IPv6":                  {row{"native_address": net.ParseIP("fd00::2")}, "[fd00::2]:9142"},
		"an address as text":    {row{"native_address": "10.0.0.77"}, "10.0.0.77:9142"},
		"a port that is absurd": {row{"native_port": 0}, "10.0.0.2:9042"},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := newView(localRow(nil), []row{peerRow(2, test.change)}, 9042)
			require.NoError(t, err)
			require.Len(t, v.hosts, 2)
			assert.Equal(t, test.addr, v.hosts[1].Addr)
		})
	}
}

func TestViewIsRefused(t *testing.T) {
	_, err := newView(localRow(row{"partitioner": "org.apache.cassandra.dht.RandomPartitioner"}), nil, 9042)
	require.ErrorIs(t, err, errPartitioner)
	_, err = newView(localRow(row{"host_id": gocql.UUID{}}), nil, 9042)
	require.ErrorContains(t, err, "host_id")
}

func TestViewTellsWhetherSchemasAgree(t *testing.T) {
	v, err := newView(localRow(nil), []row{peerRow(2, row{"schema_version": id(201)})}, 9042)
	require.NoError(t, err)
	assert.False(t, v.agreed)
}
