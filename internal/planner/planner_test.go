package planner

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/ring"
)

// hosts writes the replicas of one key.
func hosts(h ...ring.HostIndex) []ring.HostIndex { return h }

// times repeats the replicas for so many keys.
func times(n int, replicas []ring.HostIndex) [][]ring.HostIndex {
	return slices.Repeat([][]ring.HostIndex{replicas}, n)
}

// sizes maps the hosts of a plan to the keys asked of them.
func sizes(p Plan) map[ring.HostIndex]int {
	out := map[ring.HostIndex]int{}
	for _, g := range p.Groups {
		out[g.Host] += len(g.Keys)
	}
	return out
}

// The plan of the comment of Make.
func ExampleMake() {
	p := Make(&Input{
		Replicas: [][]ring.HostIndex{{0, 1, 2}, {0, 1, 2}, {0, 2, 3}, {1, 2, 3}, {0, 1, 3}, {0, 2, 3}},
		Hosts:    4,
		Cap:      2,
		Price:    []float64{1, 2, 1, 1},
		Seed:     2,
	})
	for _, g := range p.Groups {
		fmt.Printf("host %d: %v\n", g.Host, g.Keys)
	}
	// Output:
	// host 0: [0 4]
	// host 2: [1 3]
	// host 3: [2 5]
}

func TestMakeCover(t *testing.T) {
	every := hosts(0, 1, 2)
	for name, c := range map[string]struct {
		in   Input
		want map[ring.HostIndex]int
	}{
		"one host that holds all keys is asked for all": {
			Input{Replicas: [][]ring.HostIndex{hosts(0, 1), hosts(1, 2), hosts(2, 1)}, Hosts: 3},
			map[ring.HostIndex]int{1: 3},
		},
		"a group above the cap is parted evenly": {
			Input{Replicas: times(9, every), Hosts: 3, Cap: 3},
			map[ring.HostIndex]int{0: 3, 1: 3, 2: 3},
		},
		"a cap that cannot be held still levels the groups": {
			Input{Replicas: times(12, every), Hosts: 3, Cap: 2},
			map[ring.HostIndex]int{0: 4, 1: 4, 2: 4},
		},
		"a cap that cannot be held for some keys holds for the others": {
			Input{Replicas: append(times(7, hosts(0)), times(6, hosts(1, 2))...), Hosts: 3, Cap: 3},
			map[ring.HostIndex]int{0: 7, 1: 3, 2: 3},
		},
		"room two steps away is found": {
			Input{Replicas: append(append(times(4, hosts(0, 1)), times(2, hosts(1, 2))...), times(3, hosts(0))...), Hosts: 3, Cap: 4, Price: []float64{1, 1.1, 1}},
			map[ring.HostIndex]int{0: 4, 1: 3, 2: 2},
		},
		"a host that later ones make needless is not asked": {
			Input{Replicas: [][]ring.HostIndex{hosts(0, 1), hosts(0, 1), hosts(0, 2), hosts(0, 2), hosts(1), hosts(2)}, Hosts: 3},
			map[ring.HostIndex]int{1: 3, 2: 3},
		},
		"a host is worth no more keys than the cap lets it have": {
			Input{Replicas: append(times(2, hosts(0, 1)), times(2, hosts(0, 2))...), Hosts: 3, Cap: 2, Price: []float64{1.5, 1, 1}},
			map[ring.HostIndex]int{1: 2, 2: 2},
		},
		"an expensive host is not asked while others will do": {
			Input{Replicas: times(4, every), Hosts: 3, Price: []float64{9, 9, 1}},
			map[ring.HostIndex]int{2: 4},
		},
		"hosts at different prices get keys to match": {
			Input{Replicas: times(30, every), Hosts: 3, Cap: 16, Price: []float64{1, 0.9, 0.5}},
			map[ring.HostIndex]int{2: 16, 1: 14},
		},
		"a near host wins at like price": {
			Input{Replicas: times(4, every), Hosts: 3, Near: []bool{false, true, false}},
			map[ring.HostIndex]int{1: 4},
		},
		"a near host loses at a higher price": {
			Input{Replicas: times(4, every), Hosts: 3, Near: []bool{false, true, false}, Price: []float64{1, 1.5, 2}},
			map[ring.HostIndex]int{0: 4},
		},
		"an avoided host is left out": {
			Input{Replicas: times(4, every), Hosts: 3, Avoid: []bool{true, false, true}},
			map[ring.HostIndex]int{1: 4},
		},
		"an avoided host is asked for what nobody else holds, and for nothing more": {
			Input{Replicas: [][]ring.HostIndex{hosts(0), hosts(0, 1), hosts(0, 1)}, Hosts: 2, Avoid: []bool{true, false}},
			map[ring.HostIndex]int{0: 1, 1: 2},
		},
		"a price that is no number counts as 1": {
			Input{Replicas: times(4, hosts(0, 1)), Hosts: 2, Price: []float64{math.NaN(), 0.5}},
			map[ring.HostIndex]int{1: 4},
		},
		"slices shorter than the hosts leave the rest at their defaults": {
			Input{Replicas: times(4, hosts(0, 1)), Hosts: 2, Price: []float64{2}, Avoid: []bool{}, Near: []bool{false}},
			map[ring.HostIndex]int{1: 4},
		},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, sizes(Make(&c.in)))
		})
	}
}

func TestMakeCapZero(t *testing.T) {
	for name, c := range map[string]struct {
		keys, hosts int
		price       []float64
		want        int32
		size        int
	}{
		"ten for 50 keys on twelve hosts":                          {50, 12, nil, 10, 0},
		"a third of the keys on three hosts":                       {50, 3, nil, 17, 0},
		"growing with the root of the keys":                        {500, 24, nil, 32, 0},
		"an even part where the root would be less":                {500, 6, nil, 84, 0},
		"no smaller than what a sub-query costs":                   {8, 12, nil, 6, 0},
		"a host that is 100 times as expensive counts for no host": {50, 3, []float64{1, 1, 100}, 25, 0},
		"a host at twice the price counts for little over half":    {500, 3, []float64{1, 1, 2}, 194, 0},
		"a host whose part is less than a sub-query costs":         {50, 3, []float64{1, 1, 6}, 25, 0},
		"the same of many keys":                                    {500, 3, []float64{1, 1, 6}, 227, 0},
		"by cost, all keys in one group":                           {50, 3, nil, 50, 60},
		"by cost, larger than an even part":                        {50, 12, nil, 25, 25},
		"by cost, with a third of the hosts to choose from":        {50, 12, nil, 8, 3},
		"by cost, but no smaller than by the number":               {50, 6, nil, 10, 3},
		"by cost, less of a host that is more expensive":           {50, 3, []float64{1, 1, 6}, 25, 3},
		"by cost, less of it than its part":                        {50, 3, []float64{1, 1, 6}, 30, 30},
	} {
		t.Run(name, func(t *testing.T) {
			var all []ring.HostIndex
			for h := range c.hosts {
				all = append(all, ring.HostIndex(h))
			}
			s := new(scratch)
			s.index(&Input{Replicas: times(c.keys, all), Hosts: c.hosts, Price: c.price})
			assert.Equal(t, c.want, s.limit(0, c.size))
		})
	}
}

func TestMakePlainGroupings(t *testing.T) {
	replicas := [][]ring.HostIndex{hosts(0, 1), hosts(1, 2), hosts(0, 1), hosts(2, 0), {}}
	for name, c := range map[string]struct {
		in   Input
		want []Group
	}{
		"owner asks the first replica": {
			Input{Grouping: Owner},
			[]Group{{0, []int32{0, 2}}, {1, []int32{1}}, {2, []int32{3}}},
		},
		"owner asks the next replica when the first is avoided": {
			Input{Grouping: Owner, Avoid: []bool{true, false, false}},
			[]Group{{1, []int32{0, 1, 2}}, {2, []int32{3}}},
		},
		"range asks the cheapest replica once for each range": {
			Input{Grouping: Range, Ranges: []int32{7, 8, 7, 9, 9}, Price: []float64{1, 5, 2}},
			[]Group{{0, []int32{0, 2}}, {2, []int32{1}}, {0, []int32{3}}},
		},
		"range keeps ranges apart that fall to one host": {
			Input{Grouping: Range, Ranges: []int32{1, 2, 1, 3, 3}, Avoid: []bool{false, false, true}, Price: []float64{9, 1, 1}},
			[]Group{{1, []int32{0, 2}}, {1, []int32{1}}, {0, []int32{3}}},
		},
		"range parts keys of one range that share no replica": {
			Input{Grouping: Range, Ranges: []int32{1, 1, 1, 1, 1}, Price: []float64{1, 9, 10}},
			[]Group{{0, []int32{0, 2, 3}}, {1, []int32{1}}},
		},
		"range without ranges makes each key its own": {
			Input{Grouping: Range, Price: []float64{1, 9, 900}},
			[]Group{{0, []int32{0}}, {1, []int32{1}}, {0, []int32{2}}, {0, []int32{3}}},
		},
		"single asks once for each key": {
			Input{Grouping: Single, Price: []float64{900, 1, 900}},
			[]Group{{1, []int32{0}}, {1, []int32{1}}, {1, []int32{2}}, {2, []int32{3}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.in.Replicas, c.in.Hosts, c.in.Seed = replicas, 3, 1
			got := Make(&c.in)
			assert.ElementsMatch(t, c.want, got.Groups)
			assert.Equal(t, []int32{4}, got.Unplaced)
		})
	}
}

func TestSingleSpreadsOverReplicas(t *testing.T) {
	got := sizes(Make(&Input{Replicas: times(60, hosts(0, 1, 2)), Hosts: 3, Grouping: Single, Price: []float64{1, 1, 2}}))
	assert.Equal(t, map[ring.HostIndex]int{0: 24, 1: 24, 2: 12}, got)
}

func TestMakeOfNothing(t *testing.T) {
	for _, g := range []Grouping{Cover, Owner, Range, Single, Grouping(99)} {
		assert.Equal(t, Plan{}, Make(&Input{Grouping: g}), g)
		assert.Equal(t, Plan{Unplaced: []int32{0, 1}}, Make(&Input{Grouping: g, Replicas: [][]ring.HostIndex{{}, {4, -1}}, Hosts: 3}), g)
	}
}

func TestSeedRotatesTies(t *testing.T) {
	count := map[ring.HostIndex]int{}
	for seed := range uint64(3000) {
		p := Make(&Input{Replicas: times(4, hosts(0, 1, 2)), Hosts: 3, Seed: seed})
		require.Len(t, p.Groups, 1)
		count[p.Groups[0].Host]++
	}
	for h, n := range count {
		assert.InDelta(t, 1000, n, 120, "host %d", h)
	}
	assert.Len(t, count, 3)
}

func TestMakeIsSafeForConcurrentUse(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	r := newTestRing(12, 16, 3, 3, rng)
	ins := make([]Input, 32)
	want := make([]Plan, len(ins))
	for i := range ins {
		ins[i] = Input{Seed: uint64(i), Grouping: Grouping(i % 4)}
		r.lookup(&ins[i], 1+rng.IntN(100), rng)
		want[i] = Make(&ins[i])
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 20 * len(ins) {
				n := (i*7 + g) % len(ins)
				assert.Equal(t, want[n], Make(&ins[n]))
			}
		})
	}
	wg.Wait()
}

func TestMakeAllocatesThePlanOnly(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	r := newTestRing(100, 256, 3, 3, rng)
	for _, g := range []Grouping{Cover, Owner, Range, Single} {
		in := Input{Grouping: g}
		r.lookup(&in, 50, rng)
		s := new(scratch)
		allocs := testing.AllocsPerRun(100, func() { s.make(&in) })
		assert.LessOrEqual(t, allocs, 2.0, g)
	}
}

func TestParseGrouping(t *testing.T) {
	for _, g := range []Grouping{Cover, Owner, Range, Single} {
		got, err := ParseGrouping(g.String())
		require.NoError(t, err)
		assert.Equal(t, g, got)
	}
	_, err := ParseGrouping("Cover")
	assert.EqualError(t, err, `unknown grouping "Cover": use one of cover, owner, range, single`)
	assert.Equal(t, "grouping(9)", Grouping(9).String())
}
