package ring_test

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/qosproxy/qosproxy/internal/ring"
)

// drawTopology draws a valid topology with a keyspace of each strategy. Tokens
// cluster, as they do in a ring laid out by hand, or spread over the space.
func drawTopology(t *rapid.T) ring.Topology {
	token := rapid.Int64()
	if rapid.Bool().Draw(t, "clustered") {
		token = rapid.Int64Range(-200, 200)
	}
	all := rapid.SliceOfNDistinct(token, 1, 120, rapid.ID[int64]).Draw(t, "tokens")
	hosts := make([]ring.Host, rapid.IntRange(1, 14).Draw(t, "hosts"))
	for i := range hosts {
		hosts[i] = ring.Host{
			ID:   strconv.Itoa(i),
			Addr: fmt.Sprintf("10.0.0.%d:9042", i),
			DC:   rapid.SampledFrom([]string{"dc1", "dc2", "dc3"}).Draw(t, "dc"),
			Rack: rapid.SampledFrom([]string{"r1", "r2", "r3", "r4"}).Draw(t, "rack"),
		}
	}
	for _, token := range all {
		h := &hosts[rapid.IntRange(0, len(hosts)-1).Draw(t, "owner")]
		h.Tokens = append(h.Tokens, token)
	}
	factor := rapid.IntRange(1, 8)
	topology := ring.Topology{
		Hosts: hosts,
		Keyspaces: map[string]ring.Replication{
			"simple":     simple(factor.Draw(t, "factor")),
			"network":    network(map[string]int{"dc1": factor.Draw(t, "dc1"), "dc2": factor.Draw(t, "dc2")}),
			"everywhere": {Strategy: ring.EverywhereStrategy},
		},
	}
	if i := slices.IndexFunc(hosts, func(h ring.Host) bool { return len(h.Tokens) > 0 }); rapid.Bool().Draw(t, "local") {
		topology.LocalDC = hosts[i].DC
	}
	return topology
}

// check fails unless every placement of the ring obeys the rules of its strategy.
func check(t require.TestingT, r *ring.Ring) {
	for _, keyspace := range r.Keyspaces() {
		p, ok := r.Placement(keyspace)
		if !ok {
			require.Error(t, r.PlacementError(keyspace))
			continue
		}
		require.NoError(t, r.PlacementError(keyspace))
		replication, _ := r.Replication(keyspace)
		end, sum := int64(math.MinInt64), 0.0
		i := int32(0)
		for rg := range p.Ranges() {
			require.True(t, i == 0 || end < rg.End, "ranges ascend")
			require.True(t, i == 0 || end == rg.Start, "a range starts where the last one ends")
			end = rg.End
			require.Equal(t, i, p.Range(rg.End))
			require.Equal(t, rg.Replicas, p.Replicas(rg.End))
			checkReplicas(t, r, replication, rg.Replicas)
			checkLocal(t, r, rg.Replicas, p.LocalAt(i))
			sum += float64(len(rg.Replicas))
			i++
		}
		require.Equal(t, p.Len(), int(i))
		require.InDelta(t, sum/float64(i), total(p.Ownership()), 1e-6, "effective ownership sums to the number of replicas")
		require.InDelta(t, 1, total(p.Primary()), 1e-6)
	}
	require.InDelta(t, 1, total(r.Ownership()), 1e-6)
}

// checkReplicas fails unless the replicas are distinct owners of tokens, as many
// as there should be, and on as many racks as there can be.
func checkReplicas(t require.TestingT, r *ring.Ring, replication ring.Replication, replicas []ring.HostIndex) {
	sorted := slices.Sorted(slices.Values(replicas))
	require.Len(t, slices.Compact(sorted), len(replicas), "replicas are distinct")
	owners, racks := map[string]int{}, map[string]map[string]bool{}
	for _, h := range r.Hosts() {
		if len(h.Tokens) > 0 {
			owners[h.DC]++
			if racks[h.DC] == nil {
				racks[h.DC] = map[string]bool{}
			}
			racks[h.DC][h.Rack] = true
		}
	}
	got, gotRacks := map[string]int{}, map[string]map[string]bool{}
	for _, i := range replicas {
		h := r.Host(i)
		require.NotEmpty(t, h.Tokens, "a host without tokens is never a replica")
		got[h.DC]++
		if gotRacks[h.DC] == nil {
			gotRacks[h.DC] = map[string]bool{}
		}
		gotRacks[h.DC][h.Rack] = true
	}
	hosts := 0
	for _, n := range owners {
		hosts += n
	}
	switch replication.Strategy {
	case ring.SimpleStrategy:
		require.Len(t, replicas, min(replication.Factor, hosts))
	case ring.EverywhereStrategy:
		require.Len(t, replicas, hosts)
	case ring.NetworkTopologyStrategy:
		for dc, n := range owners {
			factor := max(0, replication.Factors[dc])
			require.Equal(t, min(factor, n), got[dc], "replicas in %s", dc)
			require.Len(t, gotRacks[dc], min(factor, len(racks[dc])), "racks in %s", dc)
		}
	}
}

// checkLocal fails unless local are the hosts of all that lie in the local
// datacenter.
func checkLocal(t require.TestingT, r *ring.Ring, all, local []ring.HostIndex) {
	want := slices.DeleteFunc(slices.Clone(all), func(i ring.HostIndex) bool {
		return r.LocalDC() != "" && r.Host(i).DC != r.LocalDC()
	})
	require.True(t, slices.Equal(want, local), "local replicas are %v, want %v", local, want)
}

func total(shares []float64) (sum float64) {
	for _, s := range shares {
		sum += s
	}
	return sum
}

func TestPlacementKeepsTheRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, err := ring.New(drawTopology(t))
		require.NoError(t, err)
		check(t, r)
	})
}

func TestARangeHoldsTheTokensUpToItsEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, err := ring.New(drawTopology(t))
		require.NoError(t, err)
		p, _ := r.Placement("simple")
		var ends []int64
		for rg := range p.Ranges() {
			ends = append(ends, rg.End)
		}
		for _, edge := range append(slices.Clone(ends), rapid.SliceOf(rapid.Int64()).Draw(t, "probes")...) {
			// At the extremes one of the neighbours wraps around, which is
			// harmless.
			for _, token := range []int64{edge - 1, edge, edge + 1, math.MinInt64, math.MaxInt64} {
				want := slices.IndexFunc(ends, func(end int64) bool { return end >= token })
				require.EqualValues(t, max(0, want), p.Range(token), "token %d in %v", token, ends)
			}
		}
	})
}

func TestTheOrderOfHostsDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		topology := drawTopology(t)
		one, err := ring.New(topology)
		require.NoError(t, err)
		topology.Hosts = rapid.Permutation(topology.Hosts).Draw(t, "order")
		other, err := ring.New(topology)
		require.NoError(t, err)
		require.True(t, one.Equal(other))
		for _, keyspace := range one.Keyspaces() {
			a, ok := one.Placement(keyspace)
			b, also := other.Placement(keyspace)
			require.Equal(t, ok, also)
			if ok {
				assert.Equal(t, slices.Collect(a.Ranges()), slices.Collect(b.Ranges()))
			}
		}
	})
}
