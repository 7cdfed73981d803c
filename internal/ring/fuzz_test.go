package ring_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/ring"
)

// hostile makes a topology of arbitrary bytes. Names and tokens are drawn from
// few values, so that duplicates, empty names and unknown datacenters are common.
type hostile []byte

func (b *hostile) byte() byte {
	if len(*b) == 0 {
		return 0
	}
	c := (*b)[0]
	*b = (*b)[1:]
	return c
}

func (b *hostile) pick(from ...string) string { return from[int(b.byte())%len(from)] }

func (b *hostile) int64() int64 {
	switch c := b.byte(); {
	case c < 8:
		return []int64{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, math.MaxInt64 - 1, math.MaxInt64, 1 << 32}[c]
	case c < 128:
		return int64(c)
	default:
		var word [8]byte
		*b = (*b)[copy(word[:], *b):]
		return int64(binary.LittleEndian.Uint64(word[:]))
	}
}

func (b *hostile) topology() ring.Topology {
	t := ring.Topology{
		LocalDC:   b.pick("", "", "dc1", "dc2", "dc9"),
		Keyspaces: map[string]ring.Replication{},
	}
	for range b.byte() % 6 {
		name := b.pick("", "ks", "ks2", "ks3", "ks4")
		switch b.byte() % 3 {
		case 0:
			t.Keyspaces[name] = ring.Replication{
				Strategy: b.pick(ring.SimpleStrategy, ring.NetworkTopologyStrategy, ring.EverywhereStrategy, ring.LocalStrategy, "", "Odd"),
				Factor:   int(b.int64()),
				Factors:  map[string]int{b.pick("", "dc1"): int(b.int64()), b.pick("dc2", "dc9"): int(b.int64())},
			}
		default:
			n := min(len(*b), int(b.byte()%24))
			n = min(n, len(*b))
			factor := string((*b)[:n])
			*b = (*b)[n:]
			t.Keyspaces[name] = ring.ParseReplication(map[string]string{
				"class":              b.pick("a.b.SimpleStrategy", "NetworkTopologyStrategy", factor),
				"replication_factor": factor,
				b.pick("dc1", ""):    b.pick("1", "2", "3", factor),
			})
		}
	}
	for len(*b) > 0 && len(t.Hosts) < 40 {
		h := ring.Host{
			ID:   string(rune('A' + b.byte()%64)),
			Addr: b.pick("10.0.0.", "[::1]:", "host", "") + string(rune('0'+b.byte()%64)),
			DC:   b.pick("dc1", "dc1", "dc2", "dc3"),
			Rack: b.pick("r1", "r2", "r3"),
		}
		if c := b.byte(); c >= 250 {
			h.ID, h.DC = "", ""
		}
		for range b.byte() % 12 {
			h.Tokens = append(h.Tokens, b.int64())
		}
		t.Hosts = append(t.Hosts, h)
	}
	return t
}

func FuzzNew(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x00\x01\x01\x00\x00\x03\x01\x03\x00\x03\x01\x02\x00\x00\x00\x00\x02\x10\x11\x02\x00\x03\x01\x01\x00\x02\x12\x13"))
	f.Add([]byte("\x02\x02\x01\x00\x01\x03\x01\x07\x00\x06\x02\x00\x02\x04\x05\x01\x02\x00\x00\x00\x00\x03\x20\x21\x22\x02\x00\x04\x00\x01\x00\x01\x30\x03\x00\x05\x02\x00\x00\x02\x31\x32"))
	f.Add([]byte("\x00\x00\x01\x00\x00\x00\x00\x00\x02\x10\x10\x01\x00\x01\x00\x00\x00\x01\x10"))
	f.Fuzz(func(t *testing.T, data []byte) {
		b := hostile(data)
		r, err := ring.New(b.topology())
		if err != nil {
			require.Nil(t, r)
			return
		}
		check(t, r)
		for _, keyspace := range r.Keyspaces() {
			if p, ok := r.Placement(keyspace); ok {
				for _, token := range []int64{math.MinInt64, -1, 0, math.MaxInt64, ring.Token(data)} {
					require.NotEmpty(t, p.Replicas(token))
					p.Local(token)
				}
				p.Balance("dc1")
			}
		}
	})
}
