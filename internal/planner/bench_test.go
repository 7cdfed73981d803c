package planner

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func BenchmarkMake(b *testing.B) {
	for _, c := range []struct{ keys, hosts, vnodes int }{
		{50, 6, 16}, {50, 6, 256}, {50, 12, 16}, {50, 24, 16}, {50, 24, 256}, {50, 100, 16}, {50, 100, 256},
		{500, 24, 16}, {5000, 24, 16}, {5000, 100, 16},
	} {
		b.Run(fmt.Sprintf("keys=%d/hosts=%d/vnodes=%d", c.keys, c.hosts, c.vnodes), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			r := newTestRing(c.hosts, c.vnodes, 3, 3, rng)
			ins := make([]Input, 64)
			for i := range ins {
				r.lookup(&ins[i], c.keys, rng)
			}
			groups := 0
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				in := &ins[i%len(ins)]
				in.Seed = uint64(i)
				groups += len(Make(in).Groups)
			}
			b.ReportMetric(float64(groups)/float64(b.N), "groups/op")
		})
	}
}
