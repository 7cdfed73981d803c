package coalesce

import (
	"fmt"
	"testing"
	"time"

	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/schema"
)

func benchKeys(n, from int) []partition.Key {
	out := make([]partition.Key, n)
	for i := range out {
		out[i], _ = partition.NewKey(fmt.Appendf(nil, "user-%08d", from+i))
	}
	return out
}

func benchQuery() *partition.Query {
	columns := []schema.Column{{Name: "id"}, {Name: "name"}, {Name: "price"}}
	return &partition.Query{Table: schema.NewTable("shop", "products", "1", columns), Columns: columns, Consistency: "LOCAL_ONE", Limit: 1000, Strict: true}
}

var found = partition.Result{Status: partition.Found}

// BenchmarkNothingCoincides measures what coalescing adds to each lookup of 50 keys.
func BenchmarkNothingCoincides(b *testing.B) {
	for _, busy := range []int{0, 2_500, 100_000} {
		b.Run(fmt.Sprintf("busy=%d", busy), func(b *testing.B) {
			g, q := New(0), benchQuery()
			defer g.Begin(q, benchKeys(busy, 1000), time.Time{}, time.Hour, identity.Standard).Close()
			keys, deadline := benchKeys(50, 0), time.Now().Add(time.Hour)
			b.ReportAllocs()
			for b.Loop() {
				c := g.Begin(q, keys, deadline, time.Minute, identity.Standard)
				for i := range keys {
					c.Share(i, found)
				}
				c.Close()
			}
		})
	}
}

// BenchmarkNothingCoincidesParallel is the same on all processors.
func BenchmarkNothingCoincidesParallel(b *testing.B) {
	g, q := New(0), benchQuery()
	b.ReportAllocs()
	from := make(chan int, 1)
	from <- 0
	b.RunParallel(func(pb *testing.PB) {
		n := <-from
		from <- n + 50
		keys, deadline := benchKeys(50, n), time.Now().Add(time.Hour)
		for pb.Next() {
			c := g.Begin(q, keys, deadline, time.Minute, identity.Standard)
			for i := range keys {
				c.Share(i, found)
			}
			c.Close()
		}
	})
}

// BenchmarkEverythingCoincides measures a lookup whose 50 keys another one reads.
func BenchmarkEverythingCoincides(b *testing.B) {
	g, q := New(0), benchQuery()
	keys, deadline := benchKeys(50, 0), time.Now().Add(time.Hour)
	b.ReportAllocs()
	for b.Loop() {
		reader := g.Begin(q, keys, deadline, time.Minute, identity.Standard)
		waiter := g.Begin(q, keys, deadline, time.Minute, identity.Standard)
		for i := range keys {
			reader.Share(i, found)
		}
		answers, _ := waiter.Next()
		if len(answers) != len(keys) {
			b.Fatal(len(answers))
		}
		waiter.Close()
		reader.Close()
	}
}
