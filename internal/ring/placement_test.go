package ring

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestListsOfEqualHashAreToldApart(t *testing.T) {
	// Found by search: these two have the same FNV-1a hash.
	one, other := []HostIndex{26137, 29461, 0}, []HostIndex{26222, 21, 2838719}
	b := setBuilder{known: make(map[uint64]span)}
	first, second := b.add(one), b.add(other)
	require.Len(t, b.known, 1, "the hashes are equal")
	assert.Equal(t, one, b.sets[first.from:first.to])
	assert.Equal(t, other, b.sets[second.from:second.to])
}

func TestEqualListsAreKeptOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	hosts := make([]Host, 3)
	for i := range hosts {
		name := string(rune('a' + i))
		hosts[i] = Host{ID: name, Addr: name, DC: "dc1", Rack: name, Tokens: make([]int64, 256)}
		for v := range hosts[i].Tokens {
			hosts[i].Tokens[v] = int64(random.Uint64())
		}
	}
	r, err := New(Topology{Hosts: hosts, Keyspaces: map[string]Replication{"ks": {Strategy: SimpleStrategy, Factor: 3}}})
	require.NoError(t, err)
	p, _ := r.Placement("ks")
	assert.Len(t, p.all, 768)
	assert.Len(t, p.sets, 6*3, "three hosts have six orders")
}
