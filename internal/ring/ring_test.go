package ring_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/ring"
)

// host returns a host of dc1, rack r1.
func host(id string, tokens ...int64) ring.Host {
	return ring.Host{ID: id, Addr: id + ":9042", DC: "dc1", Rack: "r1", Release: "5.0.9", Tokens: tokens}
}

// simple returns SimpleStrategy with a factor.
func simple(factor int) ring.Replication {
	return ring.Replication{Strategy: ring.SimpleStrategy, Factor: factor}
}

func network(factors map[string]int) ring.Replication {
	return ring.Replication{Strategy: ring.NetworkTopologyStrategy, Factors: factors}
}

func TestNewRefusesHalfARing(t *testing.T) {
	half := func(clear func(*ring.Host)) []ring.Host {
		h := host("b", 2)
		clear(&h)
		return []ring.Host{host("a", 1), h}
	}
	twin := host("b", 2)
	twin.Addr = "a:9042"
	for name, tc := range map[string]struct {
		hosts   []ring.Host
		localDC string
		err     error
		says    string
	}{
		"no host":                           {err: ring.ErrNoTokens},
		"hosts without a token":             {hosts: []ring.Host{host("a"), host("b")}, err: ring.ErrNoTokens, says: "2 hosts"},
		"two hosts with one token":          {hosts: []ring.Host{host("a", 1, 7), host("b", 7)}, err: ring.ErrDuplicateToken, says: "7 by a:9042 and by b:9042"},
		"one host with a token twice":       {hosts: []ring.Host{host("a", 1, 1)}, err: ring.ErrDuplicateToken},
		"two hosts with one id":             {hosts: []ring.Host{host("a", 1), host("a", 2)}, err: ring.ErrDuplicateHost, says: "id a"},
		"two hosts at one address":          {hosts: []ring.Host{host("a", 1), twin}, err: ring.ErrDuplicateHost, says: "address a:9042"},
		"a host without id":                 {hosts: half(func(h *ring.Host) { h.ID = "" }), err: ring.ErrIncompleteHost},
		"a host without address":            {hosts: half(func(h *ring.Host) { h.Addr = "" }), err: ring.ErrIncompleteHost},
		"a host without datacenter":         {hosts: half(func(h *ring.Host) { h.DC = "" }), err: ring.ErrIncompleteHost, says: "b:9042"},
		"a host without rack":               {hosts: half(func(h *ring.Host) { h.Rack = "" }), err: ring.ErrIncompleteHost},
		"an unknown local datacenter":       {hosts: []ring.Host{host("a", 1)}, localDC: "dc2", err: ring.ErrUnknownDC, says: `"dc2"; the datacenters that own tokens are dc1`},
		"a local datacenter without tokens": {hosts: []ring.Host{host("a", 1), {ID: "c", Addr: "c:9042", DC: "dc2", Rack: "r1"}}, localDC: "dc2", err: ring.ErrUnknownDC},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := ring.New(ring.Topology{Hosts: tc.hosts, LocalDC: tc.localDC})
			require.ErrorIs(t, err, tc.err)
			assert.ErrorContains(t, err, tc.says)
			assert.Nil(t, r)
		})
	}
}

func TestOneOddKeyspaceDoesNotCostTheRing(t *testing.T) {
	for name, tc := range map[string]struct {
		replication ring.Replication
		err         error
		says        string
	}{
		"a strategy of the user's own":            {ring.Replication{Strategy: "MyStrategy"}, ring.ErrUnknownStrategy, `"MyStrategy"`},
		"LocalStrategy":                           {ring.Replication{Strategy: ring.LocalStrategy}, ring.ErrLocalStrategy, "no replicas"},
		"a factor of zero":                        {simple(0), ring.ErrNoReplicas, "factor is 0"},
		"a negative factor":                       {simple(math.MinInt), ring.ErrNoReplicas, ""},
		"a datacenter that is not in the cluster": {network(map[string]int{"dc9": 3}), ring.ErrNoReplicas, "'dc9': '3'"},
		"a negative factor of a datacenter":       {network(map[string]int{"dc1": -3}), ring.ErrNoReplicas, ""},
		"no datacenter":                           {network(nil), ring.ErrNoReplicas, ""},
		"an option that cannot be read":           {ring.ParseReplication(map[string]string{"class": "SimpleStrategy", "replication_factor": "3/1"}), ring.ErrTransient, `"3/1"`},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := ring.New(ring.Topology{
				Hosts:     []ring.Host{host("a", 1), host("b", 2)},
				Keyspaces: map[string]ring.Replication{"odd": tc.replication, "shop": simple(2)},
			})
			require.NoError(t, err)
			p, ok := r.Placement("odd")
			assert.False(t, ok)
			assert.Nil(t, p)
			require.ErrorIs(t, r.PlacementError("odd"), tc.err)
			assert.ErrorContains(t, r.PlacementError("odd"), "keyspace odd: ")
			assert.ErrorContains(t, r.PlacementError("odd"), tc.says)

			_, ok = r.Placement("shop")
			assert.True(t, ok)
			assert.NoError(t, r.PlacementError("shop"))
			assert.ErrorIs(t, r.PlacementError("unheard"), ring.ErrUnknownKeyspace)
			assert.Equal(t, []string{"odd", "shop"}, r.Keyspaces())
			got, ok := r.Replication("shop")
			assert.True(t, ok)
			assert.True(t, got.Equal(simple(2)))
		})
	}
}

func TestHostsAreOrderedByDatacenterRackAndAddress(t *testing.T) {
	want := []ring.Host{
		{ID: "1", Addr: "10.0.0.9:9042", DC: "ap", Rack: "r1", Tokens: []int64{-5, 5}},
		{ID: "2", Addr: "10.0.0.10:9042", DC: "ap", Rack: "r1", Tokens: []int64{6}},
		{ID: "3", Addr: "[fe80::1]:9042", DC: "ap", Rack: "r1", Tokens: []int64{7}},
		{ID: "4", Addr: "cassandra-1:9042", DC: "ap", Rack: "r1"},
		{ID: "5", Addr: "cassandra-2:9042", DC: "ap", Rack: "r1"},
		{ID: "6", Addr: "10.0.0.1:9042", DC: "ap", Rack: "r2"},
		{ID: "7", Addr: "10.0.0.2:9042", DC: "eu", Rack: "r1", Tokens: []int64{0}},
	}
	in := slices.Clone(want)
	slices.Reverse(in)
	in[len(in)-1].Tokens = []int64{5, -5}
	r, err := ring.New(ring.Topology{Hosts: in, LocalDC: "eu"})
	require.NoError(t, err)
	assert.Equal(t, want, r.Hosts())
	assert.Equal(t, []int64{5, -5}, in[len(in)-1].Tokens, "what the caller passed is left alone")
	assert.Equal(t, 7, r.Len())
	assert.Equal(t, want[2], r.Host(2))
	assert.Equal(t, "eu", r.LocalDC())
	assert.Equal(t, []string{"ap", "eu"}, r.Datacenters())
	i, ok := r.Index("7")
	assert.True(t, ok)
	assert.Equal(t, ring.HostIndex(6), i)
	_, ok = r.Index("8")
	assert.False(t, ok)
}

func TestSnapshotDoesNotChangeWithItsInput(t *testing.T) {
	factors := map[string]int{"dc1": 1}
	topology := ring.Topology{
		Hosts:     []ring.Host{host("a", 1, 3), host("b", 2)},
		Keyspaces: map[string]ring.Replication{"shop": network(factors)},
	}
	r, err := ring.New(topology)
	require.NoError(t, err)
	same, err := ring.New(topology)
	require.NoError(t, err)
	topology.Hosts[0].Tokens[0] = 99
	factors["dc1"] = 2
	assert.True(t, r.Equal(same))
	assert.Equal(t, []int64{1, 3}, r.Host(0).Tokens)
	replication, _ := r.Replication("shop")
	assert.Equal(t, map[string]int{"dc1": 1}, replication.Factors)
}

func TestEqual(t *testing.T) {
	build := func(change func(*ring.Topology)) *ring.Ring {
		topology := ring.Topology{
			Hosts:     []ring.Host{host("a", 1, 3), host("b", 2)},
			Keyspaces: map[string]ring.Replication{"shop": simple(2)},
		}
		change(&topology)
		r, err := ring.New(topology)
		require.NoError(t, err)
		return r
	}
	base := build(func(*ring.Topology) {})
	for name, change := range map[string]func(*ring.Topology){
		"the order of hosts":  func(t *ring.Topology) { slices.Reverse(t.Hosts) },
		"the order of tokens": func(t *ring.Topology) { slices.Reverse(t.Hosts[0].Tokens) },
	} {
		t.Run(name+" does not matter", func(t *testing.T) {
			other := build(change)
			assert.True(t, base.Equal(other))
		})
	}
	for name, change := range map[string]func(*ring.Topology){
		"a token":       func(t *ring.Topology) { t.Hosts[0].Tokens[0] = 4 },
		"an address":    func(t *ring.Topology) { t.Hosts[0].Addr = "c:9042" },
		"an id":         func(t *ring.Topology) { t.Hosts[0].ID = "c" },
		"a rack":        func(t *ring.Topology) { t.Hosts[0].Rack = "r2" },
		"a datacenter":  func(t *ring.Topology) { t.Hosts[0].DC = "dc2" },
		"a release":     func(t *ring.Topology) { t.Hosts[0].Release = "5.1.0" },
		"a new host":    func(t *ring.Topology) { t.Hosts = append(t.Hosts, host("c")) },
		"a factor":      func(t *ring.Topology) { t.Keyspaces["shop"] = simple(1) },
		"a keyspace":    func(t *ring.Topology) { t.Keyspaces["new"] = simple(2) },
		"a renaming":    func(t *ring.Topology) { t.Keyspaces = map[string]ring.Replication{"new": simple(2)} },
		"the local one": func(t *ring.Topology) { t.LocalDC = "dc1" },
	} {
		t.Run(name+" makes a difference", func(t *testing.T) {
			assert.False(t, base.Equal(build(change)))
		})
	}
	var none *ring.Ring
	assert.False(t, base.Equal(none))
	assert.False(t, none.Equal(base))
	assert.True(t, none.Equal(nil))
}

func TestEverywhereStrategyAsksTheOwnerFirst(t *testing.T) {
	r, err := ring.New(ring.Topology{
		Hosts:     []ring.Host{host("a", 10), host("b", 20), host("c", 30), host("d")},
		Keyspaces: map[string]ring.Replication{"ks": {Strategy: ring.EverywhereStrategy}},
	})
	require.NoError(t, err)
	p, ok := r.Placement("ks")
	require.True(t, ok)
	for token, want := range map[int64]string{10: "abc", 11: "bac", 30: "cab", 31: "abc"} {
		assert.Equal(t, want, names(r, p.Replicas(token)), "token %d", token)
	}
}

func TestLocalReplicas(t *testing.T) {
	topology := ring.Topology{
		Hosts: []ring.Host{
			{ID: "a", Addr: "a", DC: "dc1", Rack: "r1", Tokens: []int64{10}},
			{ID: "b", Addr: "b", DC: "dc2", Rack: "r1", Tokens: []int64{20}},
			{ID: "c", Addr: "c", DC: "dc1", Rack: "r1", Tokens: []int64{30}},
			{ID: "d", Addr: "d", DC: "dc2", Rack: "r1", Tokens: []int64{40}},
		},
		Keyspaces: map[string]ring.Replication{
			"both":   network(map[string]int{"dc1": 2, "dc2": 1}),
			"remote": network(map[string]int{"dc2": 2}),
			"simple": simple(2),
		},
	}
	all := map[string]string{"both": "bca", "remote": "bd", "simple": "bc"}
	for localDC, want := range map[string]map[string]string{
		"":    all,
		"dc1": {"both": "ca", "remote": "", "simple": "c"},
		"dc2": {"both": "b", "remote": "bd", "simple": "b"},
	} {
		t.Run(fmt.Sprintf("local datacenter %q", localDC), func(t *testing.T) {
			topology.LocalDC = localDC
			r, err := ring.New(topology)
			require.NoError(t, err)
			for keyspace, hosts := range want {
				p, ok := r.Placement(keyspace)
				require.True(t, ok)
				assert.Equal(t, hosts, names(r, p.Local(15)), keyspace)
				assert.Equal(t, hosts, names(r, p.LocalAt(p.Range(15))), keyspace)
				assert.Equal(t, all[keyspace], names(r, p.Replicas(15)), keyspace)
			}
		})
	}
}

func TestKeyspacesOfEqualReplicationShareAPlacement(t *testing.T) {
	r, err := ring.New(ring.Topology{
		Hosts:     []ring.Host{host("a", 1), host("b", 2)},
		Keyspaces: map[string]ring.Replication{"x": simple(2), "y": simple(2), "z": simple(1)},
	})
	require.NoError(t, err)
	x, _ := r.Placement("x")
	y, _ := r.Placement("y")
	z, _ := r.Placement("z")
	assert.Same(t, x, y)
	assert.NotSame(t, x, z)
}
