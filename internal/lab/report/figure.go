package report

// Figure reads one figure from a round; nil when the round has none.
type Figure func(*Round) *float64

// The figures of a round. Latencies are in milliseconds, costs per lookup.
var (
	Rate         Figure = rate
	P50          Figure = millis(func(l *Latency) float64 { return l.P50 })
	P95          Figure = millis(func(l *Latency) float64 { return l.P95 })
	P99          Figure = millis(func(l *Latency) float64 { return l.P99 })
	P999         Figure = millis(func(l *Latency) float64 { return l.P999 })
	Max          Figure = millis(func(l *Latency) float64 { return l.Max })
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

func millis(of func(*Latency) float64) Figure {
	return func(r *Round) *float64 {
		v := 1000 * of(&r.Latency)
		return &v
	}
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
