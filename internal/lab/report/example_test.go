package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"time"
)

// shape describes a target of the example: milliseconds and counts per lookup.
type shape struct {
	target                   string
	median, tail             float64
	cassandra, proxy, client float64
	subQueries, hedges       float64
}

var shapes = []shape{
	{"in", 21, 0.62, 15.8, 0, 0.31, 1, 0},
	{"in-unpaged", 8.4, 0.55, 5.1, 0, 0.30, 1, 0},
	{"single", 9.8, 0.60, 7.6, 0, 1.92, 50, 0},
	{"grouped", 5.2, 0.40, 2.3, 0, 0.71, 4.6, 0.031},
	{"proxy-grpc", 5.6, 0.36, 2.2, 0.62, 0.28, 4.6, 0.034},
	{"proxy-http", 6.1, 0.37, 2.2, 0.88, 0.35, 4.6, 0.033},
}

// example is a report of all targets under some conditions, three rounds each, with
// figures like those of a real cluster.
func example(name string, conditions ...string) *Report {
	random := rand.New(rand.NewPCG(7, 11))
	start := time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
	r := &Report{
		Name:  name,
		Title: "Ways to read 50 keys from Cassandra, compared",
		Question: "What does a lookup of 50 keys cost the cluster, and how long does it take, " +
			"when it is one IN, 50 single reads, groups planned in the client, or a call of the proxy?",
		Command: "qoslab bench targeting --nodes 6 --vnodes 16 --rounds 3 --round 20s --rate 60 --seed 42",
		Time:    start,
		Seed:    42,
		Machine: Machine{CPUs: 8, MemoryBytes: 32 << 30, Model: "AMD EPYC 7543", Go: "go1.26.9", OS: "linux/amd64"},
		Cluster: "6 nodes, RF 3, 3 racks, 16 vnodes, Cassandra 5.0.9",
		SLA:     &SLA{Percentile: 95, TargetSeconds: 0.025},
		Notes: []string{
			"Nodes and load generator share the machine, so the ratios of targets say more than their milliseconds.",
			"The order of targets is turned by one from round to round.",
		},
	}
	for i, condition := range conditions {
		for _, s := range shapes {
			run := Run{Target: s.target, Condition: condition}
			for round := range 3 {
				at := start.Add(time.Duration(round*len(shapes)) * 20 * time.Second)
				run.Rounds = append(run.Rounds, s.round(at, 1+0.5*float64(i), random))
			}
			r.Runs = append(r.Runs, run)
		}
	}
	r.Tables = []Table{{
		Title:   "Sub-queries by keys per lookup",
		Columns: []string{"keys", "groups", "largest group", "share read by an owner", "statement"},
		Rows: [][]string{
			{"10", "2.10", "5.80", "100 %", "IN ?"},
			{"50", "4.60", "14.2", "100 %", "IN ?"},
			{"1,000", "6.00", "171", "100 %", "IN ?, capped"},
		},
	}}
	r.Charts = []Chart{exampleKeys(), exampleRate()}
	cpu := Ratio(r.run("proxy-grpc"), CassandraCPU, r.run("in"), CassandraCPU)
	r.Findings = []Finding{
		{Claim: "cluster CPU per lookup: proxy-grpc ≤ 1/6 of in", Seen: cpu.String(), Holds: cpu.Median <= 1.0/6},
		{Claim: "p95 of single ≤ 1.5 × p95 of grouped", Seen: Ratio(r.run("single"), P95, r.run("grouped"), P95).String(), Holds: false},
	}
	return r
}

// run returns the first run of a target.
func (r *Report) run(target string) *Run {
	for i := range r.Runs {
		if r.Runs[i].Target == target {
			return &r.Runs[i]
		}
	}
	return nil
}

// round returns a round with lognormal latency and a few per cent of noise; harder is a factor on
// everything.
func (s *shape) round(start time.Time, harder float64, random *rand.Rand) Round {
	noise := func() float64 { return harder * (1 + 0.08*(random.Float64()-0.5)) }
	figure := func(v float64) *float64 {
		if v == 0 {
			return nil
		}
		v *= noise()
		return &v
	}
	median, tail := s.median*noise()/1000, s.tail*(1+0.1*(random.Float64()-0.5))
	l := Latency{Mean: median * math.Exp(tail*tail/2)}
	quantile := func(q float64) float64 { return median * math.Exp(tail*math.Sqrt2*math.Erfinv(2*q-1)) }
	l.P50, l.P95, l.P99, l.P999, l.Max = quantile(.5), quantile(.95), quantile(.99), quantile(.999), quantile(.9996)
	for _, nines := range []float64{0.02, 0.05, 0.1, 0.15, 0.2, 0.25, math.Log10(2), 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.15, 1.3, 1.5, 1.7, 2, 2.3, 2.6, 3} {
		q, _ := strconv.ParseFloat(fmt.Sprintf("%.5f", 1-math.Pow(10, -nines)), 64)
		l.Curve = append(l.Curve, Quantile{Q: q, Seconds: quantile(q)})
	}
	l.Curve = append(l.Curve, Quantile{Q: 1, Seconds: l.Max})
	round := Round{
		Start: start, Seconds: 20, OfferedRate: 60, KeysPerLookup: 50, Latency: l,
		Counts: Counts{Lookups: 1200, OK: 1200},
		PerLookup: Cost{
			CassandraCPUMillis: figure(s.cassandra), ProxyCPUMillis: figure(s.proxy), ClientCPUMillis: figure(s.client),
			SubQueries: &s.subQueries, Hedges: figure(s.hedges), ClientAllocBytes: figure(48 << 10),
		},
	}
	if s.proxy > 0 {
		round.PerLookup.ProxyAllocBytes = figure(61 << 10)
	}
	if s.target == "in" {
		round.Counts = Counts{Lookups: 1200, OK: 1189, Partial: 0, Failed: 11, Late: 470, FailedKeys: 550,
			Errors: map[string]int64{"Operation timed out - received only 0 responses.": 11}}
	}
	if s.target == "single" {
		round.Counts.OK, round.Counts.Partial, round.Counts.FailedKeys = 1198, 2, 3
		round.Counts.Errors = map[string]int64{"TIMED_OUT: no replica answered within 2s\nFIRST of 1 keys to 10.0.0.2:9042 from 0 to 2000: PENDING (budget)": 2}
	}
	return round
}

// exampleKeys is a line chart with two logarithmic axes.
func exampleKeys() Chart {
	c := Chart{Name: "keys", Title: "Cluster CPU by keys per lookup", Kind: Lines, XScale: Log, LogY: true,
		XName: "keys per lookup", YName: "CPU per lookup, ms", X: []string{"1", "10", "50", "100", "500", "1000"}}
	for _, s := range shapes {
		series := Series{Name: s.target}
		for i, keys := range []float64{1, 10, 50, 100, 500, 1000} {
			v := 0.2 + s.cassandra*math.Pow(keys/50, 0.85)
			low, high := v*0.93, v*1.09
			if s.target == "single" && i == 5 {
				series.Values, series.Low, series.High = append(series.Values, nil), append(series.Low, nil), append(series.High, nil)
				continue
			}
			series.Values, series.Low, series.High = append(series.Values, &v), append(series.Low, &low), append(series.High, &high)
		}
		c.Series = append(c.Series, series)
	}
	return c
}

// exampleRate is a line chart over categories, with a marked line.
func exampleRate() Chart {
	c := Chart{Name: "pause", Title: "p99 while a node is paused", Kind: Lines, XName: "second", YName: "p99, ms",
		X: []string{"1", "2", "3", "4", "5", "6", "7", "8"}, Line: &Mark{Name: "hedge delay 15 ms", Value: 15}, LogY: true}
	for i, target := range []string{"in", "proxy-grpc"} {
		series := Series{Name: target}
		for second := range c.X {
			v := 12.0 + 3*float64(second%3)
			if second >= 3 && second < 6 {
				v = []float64{2000, 19}[i] + float64(second)
			}
			series.Values = append(series.Values, &v)
		}
		c.Series = append(c.Series, series)
	}
	return c
}
