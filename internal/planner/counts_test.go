package planner

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/qosproxy/qosproxy/internal/underrace"
)

// balance prices hosts by what they were recently sent, as a caller should to keep the load
// even: a power of the share over the mean, within [1/2, 2].
type balance struct {
	sent  []float64
	price []float64
	power float64
	near  []bool // hosts whose share is compared among themselves; may be nil
}

const balanceMemory = 500 // lookups

func (b *balance) prices() []float64 {
	var total, hosts [2]float64
	for h, s := range b.sent {
		total[b.class(h)] += s
		hosts[b.class(h)]++
	}
	for h, s := range b.sent {
		b.price[h] = 1
		if c := b.class(h); total[c] > 0 {
			b.price[h] = min(max(math.Pow(s*hosts[c]/total[c], b.power), 0.5), 2)
		}
	}
	return b.price
}

func (b *balance) class(h int) int {
	if b.near != nil && b.near[h] {
		return 1
	}
	return 0
}

func (b *balance) add(p Plan) {
	for h := range b.sent {
		b.sent[h] *= math.Exp(-1.0 / balanceMemory)
	}
	for _, g := range p.Groups {
		b.sent[g.Host] += float64(len(g.Keys))
	}
}

// counts summarizes many lookups on random rings.
type counts struct {
	groups  float64 // per lookup
	largest float64 // largest group, mean over lookups
	hottest float64 // keys of the hottest host over the mean host's, mean over rings
	worst   float64 // the same on the worst ring
	near    float64 // share of keys asked of the first rack
}

// trial is a cluster of three racks at RF 3, and the lookups that it gets.
type trial struct {
	hosts, vnodes, keys int
	grouping            Grouping
	cap, size           int
	power               float64 // of the recent share in the price
	still               bool    // ties are not rotated
	near                bool    // the first rack is the local one
	apart               bool    // shares are compared within near and far hosts
	rings, lookups      int
}

func (c trial) run() counts {
	var out counts
	for n := range c.rings {
		c.ring(&out, rand.New(rand.NewPCG(uint64(n), 7)))
	}
	per := float64(c.rings * c.lookups)
	out.groups /= per
	out.largest /= per
	out.near /= per * float64(c.keys)
	out.hottest /= float64(c.rings)
	return out
}

// ring adds the lookups on one random ring.
func (c trial) ring(out *counts, rng *rand.Rand) {
	r := newTestRing(c.hosts, c.vnodes, 3, 3, rng)
	b := balance{sent: make([]float64, c.hosts), price: make([]float64, c.hosts), power: c.power}
	in := Input{Grouping: c.grouping, Cap: c.cap, Size: c.size}
	for h := range c.hosts {
		in.Near = append(in.Near, c.near && r.rack[h] == 0)
	}
	if c.apart {
		b.near = in.Near
	}
	total := make([]int, c.hosts)
	for range c.lookups {
		r.lookup(&in, c.keys, rng)
		if !c.still {
			in.Seed = rng.Uint64()
		}
		in.Price = b.prices()
		p := Make(&in)
		b.add(p)
		out.groups += float64(len(p.Groups))
		out.largest += float64(largest(p))
		for _, g := range p.Groups {
			total[g.Host] += len(g.Keys)
			if r.rack[g.Host] == 0 {
				out.near += float64(len(g.Keys))
			}
		}
	}
	x := float64(slices.Max(total)) * float64(c.hosts) / float64(c.lookups*c.keys)
	out.hottest += x
	out.worst = max(out.worst, x)
}

func TestGroupCounts(t *testing.T) {
	underrace.Skip(t, underrace.Simulations)
	twelve := trial{hosts: 12, vnodes: 16, keys: 50, rings: 12, lookups: 1000}
	t.Run("at most 6.2 groups with the cap at 10", func(t *testing.T) {
		c := twelve
		c.cap = 10
		got := c.run()
		assert.LessOrEqual(t, got.groups, 6.2)
		assert.LessOrEqual(t, got.largest, 10.0)
		c.power = 2
		assert.LessOrEqual(t, c.run().groups, 6.2, "with the load kept even")
	})
	t.Run("at most 4.5 groups without a cap", func(t *testing.T) {
		c := twelve
		c.cap = -1
		assert.LessOrEqual(t, c.run().groups, 4.5)
		c.power = 2
		assert.LessOrEqual(t, c.run().groups, 4.5, "with the load kept even")
	})
	t.Run("twice as many by owner", func(t *testing.T) {
		c := twelve
		c.grouping = Owner
		assert.Greater(t, c.run().groups, 11.0)
	})
}

func TestHottestHostStaysNearTheMean(t *testing.T) {
	underrace.Skip(t, underrace.Simulations)
	c := trial{hosts: 12, vnodes: 16, keys: 50, power: 2, rings: 6, lookups: 10000}
	assert.LessOrEqual(t, c.run().worst, 1.2)

	// Few large groups of cheap keys are less even, and fewer by far.
	for hosts, groups := range map[int]float64{6: 2.2, 12: 4.4} {
		got := trial{hosts: hosts, vnodes: 16, keys: 50, size: 50, power: 2, rings: 4, lookups: 4000}.run()
		assert.LessOrEqual(t, got.worst, 1.3, "%d hosts", hosts)
		assert.LessOrEqual(t, got.groups, groups, "%d hosts", hosts)
	}

	// The same lookups fail without each of the two rotations.
	c.power, c.rings = 0, 2
	assert.Greater(t, c.run().worst, 1.2, "without the share in the price")
	equal := trial{hosts: 3, vnodes: 16, keys: 5, rings: 2, lookups: 10000}
	assert.LessOrEqual(t, equal.run().worst, 1.2, "ties alone, where all hosts hold all keys")
	equal.still = true
	assert.Greater(t, equal.run().worst, 1.2, "without rotating ties")
}

func TestLocalRackIsPreferred(t *testing.T) {
	underrace.Skip(t, underrace.Simulations)
	c := trial{hosts: 12, vnodes: 16, keys: 50, power: 2, near: true, apart: true, rings: 4, lookups: 2000}
	got := c.run()
	assert.Greater(t, got.near, 0.6)
	assert.LessOrEqual(t, got.groups, 6.2)

	c.near = false
	assert.InDelta(t, 1.0/3, c.run().near, 0.03, "without a local rack")
}

// TestCountsOfDesign prints the tables of DESIGN.md.
func TestCountsOfDesign(t *testing.T) {
	if testing.Short() || !testing.Verbose() {
		t.Skip("prints only: run with -v")
	}
	show := func(name string, c trial) {
		c.rings, c.lookups = 6, 2000
		if c.keys > 50 {
			c.lookups = 200
		}
		g := c.run()
		t.Logf("| %-22s | %3d | %3d | %4d | %5.2f | %5.1f | %.2f (%.2f) | %.0f %% |",
			name, c.hosts, c.vnodes, c.keys, g.groups, g.largest, g.hottest, g.worst, 100*g.near)
	}
	for _, h := range []int{3, 6, 12, 24, 48, 100} {
		for _, v := range []int{16, 256} {
			c := trial{hosts: h, vnodes: v, keys: 50}
			for _, g := range []Grouping{Single, Range, Owner} {
				c.grouping = g
				show(g.String(), c)
			}
			c.grouping, c.cap = Cover, -1
			show("cover, no cap", c)
			c.cap = 0
			show("cover", c)
			for _, p := range []float64{1, 2, 4} {
				c.power = p
				show(fmt.Sprintf("cover, share^%.0f", p), c)
			}
			c.power, c.near, c.apart = 2, true, true
			show("cover, share^2, near", c)
		}
	}
	for _, k := range []int{5, 10, 20, 50, 100, 200, 500, 2000} {
		for _, h := range []int{3, 6, 12, 24} {
			show("cover, share^2", trial{hosts: h, vnodes: 16, keys: k, power: 2})
		}
	}
}
