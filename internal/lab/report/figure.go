package report

// Figure returns one figure of a round, or nil when the round does not have it.
type Figure func(*Round) *float64

// The figures of a round. Times are in milliseconds, costs per lookup.
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

// rate returns the lookups per second; nil for a round without duration.
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

// percentile returns the latency in seconds at p, above 0 and below 100. It is nil when the round
// does not have it, or has too few lookups for one to lie beyond p: the percentile would be the
// maximum.
func (r *Round) percentile(p float64) *float64 {
	const rounding = 1e-6 // 1,000 × 0.001 lies below 1 in floating point
	if float64(r.Counts.Lookups)*(1-p/100) < 1-rounding {
		return nil
	}
	return r.Latency.percentile(p)
}

// totalCPU returns the sum of the CPU times of Cassandra without its compilers, proxy and client,
// as far as they were measured; nil when none was.
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
