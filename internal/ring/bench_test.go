package ring_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/ring"
)

// cluster returns a topology of three racks with random tokens.
func cluster(hosts, vnodes int) ring.Topology {
	random := rand.New(rand.NewPCG(1, 2))
	t := ring.Topology{LocalDC: "dc1", Keyspaces: map[string]ring.Replication{"ks": network(map[string]int{"dc1": 3})}}
	for i := range hosts {
		h := ring.Host{
			ID:     fmt.Sprintf("00000000-0000-0000-0000-%012d", i),
			Addr:   fmt.Sprintf("10.0.%d.%d:9042", i/250, i%250),
			DC:     "dc1",
			Rack:   fmt.Sprint("r", i%3),
			Tokens: make([]int64, vnodes),
		}
		for v := range h.Tokens {
			h.Tokens[v] = int64(random.Uint64())
		}
		t.Hosts = append(t.Hosts, h)
	}
	return t
}

// sizes are the clusters that benchmarks run on: hosts × vnodes.
var sizes = [][2]int{{6, 16}, {12, 16}, {100, 16}, {100, 256}}

func BenchmarkToken(b *testing.B) {
	for _, n := range []int{4, 8, 15, 16, 36, 1024} {
		b.Run(fmt.Sprintf("%d bytes", n), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(n))
			key := make([]byte, n)
			for b.Loop() {
				ring.Token(key)
			}
		})
	}
}

// BenchmarkReadKey is the lower bound for BenchmarkToken: no hash of a key can
// take less than reading its words.
func BenchmarkReadKey(b *testing.B) {
	const size = 1024
	b.SetBytes(size)
	key, sum := make([]byte, size), uint64(0)
	for b.Loop() {
		sum ^= readKey(key)
	}
	require.Zero(b, sum)
}

// readKey joins the words of the key. It is not inlined, because the compiler
// keeps all variables of a loop over B.Loop in memory, which makes reading slower
// than hashing.
//
//go:noinline
func readKey(key []byte) uint64 {
	sum := uint64(0)
	for ; len(key) >= 8; key = key[8:] {
		sum ^= binary.LittleEndian.Uint64(key)
	}
	return sum
}

// BenchmarkReplicas measures what a lookup of 50 keys asks of the ring.
func BenchmarkReplicas(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprintf("50 keys on %d x %d", size[0], size[1]), func(b *testing.B) {
			r, err := ring.New(cluster(size[0], size[1]))
			require.NoError(b, err)
			p, _ := r.Placement("ks")
			random := rand.New(rand.NewPCG(3, 4))
			// Other tokens each time, so that the CPU caches are cold.
			tokens := make([]int64, 50*1000)
			for i := range tokens {
				tokens[i] = int64(random.Uint64())
			}
			b.ReportAllocs()
			at, found := 0, 0
			for b.Loop() {
				for _, token := range tokens[at : at+50] {
					found += len(p.Local(token))
				}
				at = (at + 50) % len(tokens)
			}
			require.NotZero(b, found)
		})
	}
}

// live is the size of the heap that is in use, in bytes.
func live() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkNew also reports how much memory a snapshot keeps.
func BenchmarkNew(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprintf("%d x %d", size[0], size[1]), func(b *testing.B) {
			topology := cluster(size[0], size[1])
			topology.Keyspaces["auth"] = network(map[string]int{"dc1": 5})
			topology.Keyspaces["traces"] = simple(2)
			b.ReportAllocs()
			before := live()
			var r *ring.Ring
			for b.Loop() {
				var err error
				r, err = ring.New(topology)
				require.NoError(b, err)
			}
			b.ReportMetric(float64(live()-before)/(1<<10), "live-KiB")
			runtime.KeepAlive(r)
		})
	}
}
