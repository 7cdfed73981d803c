package planner

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/qosproxy/qosproxy/internal/ring"
)

// drawInput draws any lookup: few hosts, so that caps are tight and avoidance has an
// effect.
func drawInput(t *rapid.T) *Input {
	n := rapid.IntRange(1, 9).Draw(t, "hosts")
	host := rapid.Map(rapid.IntRange(0, n-1), func(i int) ring.HostIndex { return ring.HostIndex(i) })
	keys := rapid.IntRange(0, 60).Draw(t, "keys")
	in := &Input{Hosts: n, Grouping: rapid.SampledFrom([]Grouping{Cover, Cover, Cover, Owner, Range, Single}).Draw(t, "grouping")}
	in.Replicas = rapid.SliceOfN(rapid.SliceOfNDistinct(host, 0, min(n, 4), rapid.ID), keys, keys).Draw(t, "replicas")
	in.Cap = rapid.IntRange(-1, 12).Draw(t, "cap")
	in.Seed = rapid.Uint64().Draw(t, "seed")
	if rapid.Bool().Draw(t, "priced") {
		in.Price = rapid.SliceOfN(rapid.Float64Range(0.2, 5), n, n).Draw(t, "price")
	}
	if rapid.Bool().Draw(t, "avoiding") {
		in.Avoid = rapid.SliceOfN(rapid.Bool(), n, n).Draw(t, "avoid")
	}
	if rapid.Bool().Draw(t, "racked") {
		in.Near = rapid.SliceOfN(rapid.Bool(), n, n).Draw(t, "near")
	}
	if rapid.Bool().Draw(t, "classed") {
		in.Class = rapid.SliceOfN(rapid.Int32Range(-1, 6), 0, keys).Draw(t, "class")
	}
	if in.Grouping == Range {
		in.Ranges = rapid.SliceOfN(rapid.Int32Range(0, 9), keys, keys).Draw(t, "ranges")
	}
	return in
}

// allowed returns the replicas that a key may be asked of, according to Input.
func allowed(in *Input, key int) []ring.HostIndex {
	var all, well []ring.HostIndex
	for _, h := range in.Replicas[key] {
		if h < 0 || int(h) >= in.Hosts {
			continue
		}
		all = append(all, h)
		if int(h) >= len(in.Avoid) || !in.Avoid[h] {
			well = append(well, h)
		}
	}
	if len(well) > 0 {
		return well
	}
	return all
}

// checkPlan checks a plan for what Make promises of every grouping.
func checkPlan(t require.TestingT, in *Input, p Plan) {
	times := make([]int, len(in.Replicas))
	asked := map[ring.HostIndex]bool{}
	for _, g := range p.Groups {
		require.NotEmpty(t, g.Keys)
		require.True(t, slices.IsSorted(g.Keys))
		if in.Grouping != Range && in.Grouping != Single {
			require.False(t, asked[g.Host], "two groups for host %d", g.Host)
		}
		asked[g.Host] = true
		for _, k := range g.Keys {
			times[k]++
			require.Contains(t, allowed(in, int(k)), g.Host, "key %d", k)
		}
	}
	require.True(t, slices.IsSorted(p.Unplaced))
	for _, k := range p.Unplaced {
		times[k]++
		require.Empty(t, allowed(in, int(k)), "key %d is unplaced", k)
	}
	for k, n := range times {
		require.Equal(t, 1, n, "key %d", k)
	}
}

// feasible is the slow reference of the cap: it reports whether the keys can be assigned to
// those hosts so that none has more than limit, key by key with Kuhn's matching.
func feasible(in *Input, limit int, on func(ring.HostIndex) bool) bool {
	at := map[ring.HostIndex][]int{}
	var place func(key int, tried map[ring.HostIndex]bool) bool
	place = func(key int, tried map[ring.HostIndex]bool) bool {
		for _, h := range allowed(in, key) {
			if tried[h] || !on(h) {
				continue
			}
			tried[h] = true
			if len(at[h]) < limit {
				at[h] = append(at[h], key)
				return true
			}
			for i, other := range at[h] {
				if place(other, tried) {
					at[h][i] = key
					return true
				}
			}
		}
		return false
	}
	for k := range in.Replicas {
		if len(allowed(in, k)) > 0 && !place(k, map[ring.HostIndex]bool{}) {
			return false
		}
	}
	return true
}

func anyHost(ring.HostIndex) bool { return true }

func TestEveryKeyOnceOnAReplicaOfItsOwn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		p := Make(in)
		checkPlan(t, in, p)
		assert.Equal(t, p, Make(in), "the same seed gives the same plan")
	})
}

func TestCapIsRespectedWheneverItCanBe(t *testing.T) {
	held, yielded := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		in.Grouping = Cover
		if in.Cap < 0 {
			in.Cap = 0
		}
		limit := in.Cap
		if limit == 0 {
			s := new(scratch)
			s.index(in)
			limit = int(s.limit(0, 0))
		}
		if !feasible(in, limit, anyHost) {
			yielded++
			return
		}
		held++
		require.LessOrEqual(t, largest(Make(in)), limit)
	})
	assert.Positive(t, held, "no drawn cap could be held")
	if !testing.Short() { // which draws a fifth of the inputs
		assert.Positive(t, yielded, "no drawn cap had to yield")
	}
}

func TestGroupsAreLevel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		in.Grouping, in.Price, in.Near, in.Class = Cover, nil, nil, nil
		p := Make(in)
		of := sizes(p)
		if n := largest(p); n > 0 {
			require.False(t, feasible(in, n-1, func(h ring.HostIndex) bool { return of[h] > 0 }), "the hosts asked could do with groups of %d", n-1)
		}
	})
}

// cheaper reports whether one key could go to another asked host with headroom so that the
// more expensive of both groups gets cheaper.
func cheaper(in *Input, p Plan, limit int) bool {
	price := func(h ring.HostIndex) float64 {
		v := 1.0
		if in.Price != nil {
			v = in.Price[h]
		}
		if in.Near != nil && in.Near[h] {
			v *= nearFactor
		}
		return v
	}
	of := sizes(p)
	for _, g := range p.Groups {
		for _, k := range g.Keys {
			for _, h := range allowed(in, int(k)) {
				n := of[h] + 1
				if of[h] > 0 && (n <= limit || n < len(g.Keys)) && float64(n)*price(h) < float64(len(g.Keys))*price(g.Host) {
					return true
				}
			}
		}
	}
	return false
}

func TestPricedGroupsAreLevel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		in.Grouping, in.Cap, in.Class = Cover, -1, nil
		require.False(t, cheaper(in, Make(in), len(in.Replicas)))
	})
}

func TestReferenceSeesABadPlan(t *testing.T) {
	in := &Input{Replicas: times(4, hosts(0, 1)), Hosts: 2}
	lopsided := Plan{Groups: []Group{{0, []int32{0, 1, 2}}, {1, []int32{3}}}}
	assert.True(t, cheaper(in, lopsided, 4))
	assert.True(t, feasible(in, 2, anyHost))
	assert.False(t, feasible(in, 1, anyHost))
}

func FuzzMake(f *testing.F) {
	f.Add([]byte{3, 0, 0, 1, 3, 0, 1, 2, 3, 0, 1, 2}, uint64(1))
	f.Add([]byte{12, 1, 2, 9, 2, 250, 4, 1, 5, 0}, uint64(2))
	f.Add([]byte{0}, uint64(3))
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		in := fuzzInput(data, seed)
		p := Make(in)
		checkPlan(t, in, p)
		if in.Grouping == Cover && in.Cap > 0 && len(in.Replicas) < 40 && feasible(in, in.Cap, anyHost) {
			require.LessOrEqual(t, largest(p), in.Cap)
		}
	})
}

// fuzzInput reads an input from bytes, invalid hosts, prices and short slices
// included.
func fuzzInput(data []byte, seed uint64) *Input {
	next := func() int {
		if len(data) == 0 {
			return 0
		}
		b := int(data[0])
		data = data[1:]
		return b
	}
	in := &Input{Hosts: next()%70 - 2, Grouping: Grouping(next() % 5), Cap: next()%40 - 2, Seed: seed}
	prices := []float64{0, -1, 1e-300, 0.5, 1, 2, 1e300, math.NaN(), math.Inf(1), math.Inf(-1)}
	for range next() % 16 {
		in.Price = append(in.Price, prices[next()%len(prices)])
		in.Avoid = append(in.Avoid, next()%3 == 0)
		in.Near = append(in.Near, next()%2 == 0)
		in.Ranges = append(in.Ranges, int32(next()-5))
		in.Class = append(in.Class, int32(next()-5))
	}
	for len(data) > 0 {
		var replicas []ring.HostIndex
		for range next() % 6 {
			replicas = append(replicas, ring.HostIndex(next()%80-5))
		}
		in.Replicas = append(in.Replicas, replicas)
	}
	return in
}
