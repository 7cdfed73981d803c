package sla

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

func BenchmarkObserve(b *testing.B) {
	r := recorder(b)
	l := Lookup{Table: shop, Keys: 50, Code: "OK", Groups: 6, Statuses: Counts{49, 1}}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		l.Duration = time.Duration(i&1023) * 50 * time.Microsecond
		r.Observe(&l)
	}
}

func BenchmarkObserveInParallel(b *testing.B) {
	r := recorder(b)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		l := Lookup{Table: shop, Keys: 50, Code: "OK", Groups: 6, Statuses: Counts{49, 1}}
		for i := 0; pb.Next(); i++ {
			l.Duration = time.Duration(i&1023) * 50 * time.Microsecond
			r.Observe(&l)
		}
	})
}

// BenchmarkScrape scrapes ten tables whose five minutes are full.
func BenchmarkScrape(b *testing.B) {
	reg := prometheus.NewRegistry()
	targets := map[string]Target{}
	for _, name := range []string{"a.0", "a.1", "a.2", "a.3", "a.4", "a.5", "a.6", "a.7", "a.8", "a.9"} {
		targets[name] = slo
	}
	r, err := New(reg, targets)
	require.NoError(b, err)
	begin := time.Now().Add(-FiveMinutes)
	for _, t := range r.current.Load().tables {
		t.window.begin = begin
		for i := range 30_000 {
			t.window.record(begin.Add(time.Duration(i)*10*time.Millisecond), time.Duration(i&1023)*50*time.Microsecond, true, true)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		_, err := reg.Gather()
		require.NoError(b, err)
	}
}
