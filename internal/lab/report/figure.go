package report

// Figure reads one figure from a round; nil when the round has none.
type Figure func(*Round) *float64

// The figures of a round. Latencies are in milliseconds, costs per lookup.
var (
	Rate         Figure = rate
	P50          Figure = millis(func(r *Round) *float64 { return r.percentile(50) })
	P95          Figure = millis(func(r *Round) *float64 { return r.percentile(95) })
	P99          Figure = millis(func(r *Round) *float64 { return r.percentile(99) })
	P999         Figure = millis(func(r *Round) *float64 { return r.percentile(99.9) })
	Max          Figure = millis(func(r *Round) *float64 { return &r.Latency.Max })
	CassandraCPU Figure = func(r *Round) *float64 { return r.PerLookup.CassandraCPUMillis }
	CompilerCPU  Figure = func(r *Round) *float64 { return r.PerLookup.CompilerCPUMillis }
	ProxyCPU     Figure = func(r *Round) *float64 { return r.PerLookup.ProxyCPUMillis }
	ClientCPU    Figure = func(r *Round) *float64 { return r.PerLookup.ClientCPUMillis }
	TotalCPU     Figure = totalCPU
	SubQueries   Figure = func(r *Round) *float64 { return r.PerLookup.SubQueries }
	Hedges       Figure = func(r *Round) *float64 { return r.PerLookup.Hedges }
	ProxyAlloc   Figure = func(r *Round) *float64 { return r.PerLookup.ProxyAllocBytes }
	ClientAlloc  Figure = func(r *Round) *float64 { return r.PerLookup.ClientAllocBytes }
)

// rate is how many lookups ended per second; nil for a round that took no time.
func rate(r *Round) *float64 {
	if r.Seconds <= 0 {
		return nil
	}
	v := float64(r.Counts.Lookups) / r.Seconds
	return &v
}

func millis(seconds Figure) Figure {
	return func(r *Round) *float64 {
		v := seconds(r)
		if v == nil {
			return nil
		}
		ms := 1000 * *v
		return &ms
	}
}

// percentile is the latency in seconds at p, above 0 and below 100; nil when the round does not
// say, or has too few lookups for one to lie beyond p: their percentile would be the maximum.
func (r *Round) percentile(p float64) *float64 {
	const rounding = 1e-6 // 1,000 × 0.001 lies below 1 in floating point
	if float64(r.Counts.Lookups)*(1-p/100) < 1-rounding {
		return nil
	}
	return r.Latency.percentile(p)
}

// totalCPU is the CPU time of Cassandra without its compilers, proxy and client
// together, of those that can be seen; nil when none can.
func totalCPU(r *Round) *float64 {
	var sum *float64
	for _, figure := range []Figure{CassandraCPU, ProxyCPU, ClientCPU} {
		if v := figure(r); v != nil {
			if sum == nil {
				sum = new(float64)
			}
			*sum += *v
		}
	}
	return sum
}
