package simulate

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestVnodesAndRacks(t *testing.T) {
	sizes := Sizes{Nodes: []int{3, 12}, Tokens: []int{1, 16}, Rings: 2, Lookups: 100}
	if long() {
		sizes = Sizes{Nodes: []int{3, 6, 12, 24, 48, 100}, Tokens: []int{1, 3, 16, 256}, Rings: 5, Lookups: 400}
	}
	r, err := VnodesAndRacks(Options{Seed: 7, Command: "make bench-vnodes", Progress: func(line string) { t.Log(line) }}, sizes)
	require.NoError(t, err)
	write(t, r)
	for _, f := range r.Findings {
		assert.True(t, f.Holds, "%s: %s", f.Claim, f.Seen)
	}
}

// Cassandra 5.0.9's own generatetokens, one rack, RF 3, came to these least and
// greatest shares, in the same definition.
func TestAllocatedTokensAreAsEvenAsThoseOfCassandra(t *testing.T) {
	for name, tt := range map[string]struct {
		layout      layout
		least, most float64
	}{
		"12 nodes, 16 tokens": {layout{nodes: 12, vnodes: 16}, 0.99, 1.02},
		"24 nodes, 3 tokens":  {layout{nodes: 24, vnodes: 3}, 0.88, 1.11},
		"48 nodes, 16 tokens": {layout{nodes: 48, vnodes: 16}, 0.96, 1.02},
	} {
		t.Run(name, func(t *testing.T) {
			tt.layout.racks, tt.layout.choice = 1, allocated
			_, p, err := tt.layout.build(rand.New(rand.NewPCG(1, 2)))
			require.NoError(t, err)
			b := p.Balance("")
			assert.InDelta(t, tt.least, b.Min, 0.05)
			assert.InDelta(t, tt.most, b.Max, 0.05)
			tt.layout.choice = random
			_, p, err = tt.layout.build(rand.New(rand.NewPCG(1, 2)))
			require.NoError(t, err)
			assert.Greater(t, p.Balance("").Max, b.Max+0.05, "control: random tokens")
		})
	}
}

func TestRacksAsManyAsReplicasAreRingsOfTheirOwn(t *testing.T) {
	l := layout{nodes: 12, racks: 3, vnodes: 16, choice: allocated}
	r, p, err := l.build(rand.New(rand.NewPCG(1, 2)))
	require.NoError(t, err)
	b := p.Balance("")
	assert.InDelta(t, 1, b.Min, 0.01)
	assert.InDelta(t, 1, b.Max, 0.01)
	for _, h := range r.Hosts() {
		assert.Len(t, h.Tokens, 16)
	}
}
