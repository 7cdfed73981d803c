package report

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// cpuRounds returns a run with these CPU times of Cassandra; below 0 is none.
func cpuRounds(figures ...float64) *Run {
	r := &Run{Target: "in"}
	for _, v := range figures {
		round := Round{Seconds: 10, Counts: Counts{Lookups: 100, OK: 100}}
		if v >= 0 {
			round.PerLookup.CassandraCPUMillis = &v
		}
		r.Rounds = append(r.Rounds, round)
	}
	return r
}

func TestMergeIsTheMedianOfTheRounds(t *testing.T) {
	for name, test := range map[string]struct {
		run  *Run
		want Spread
	}{
		"an odd number of rounds":       {cpuRounds(9, 1, 3), Spread{Median: 3, Min: 1, Max: 9, Rounds: 3}},
		"an even number of rounds":      {cpuRounds(4, 1, 2, 9), Spread{Median: 3, Min: 1, Max: 9, Rounds: 4}},
		"a round without the figure":    {cpuRounds(4, -1), Spread{Median: 4, Min: 4, Max: 4, Rounds: 1}},
		"no round with the figure":      {cpuRounds(-1), Spread{}},
		"the order of rounds is no sum": {cpuRounds(1, 100, 100), Spread{Median: 100, Min: 1, Max: 100, Rounds: 3}},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, test.want, test.run.Merge(CassandraCPU)) })
	}
}

func TestRatioPairsRoundByRound(t *testing.T) {
	// Both runs meet a machine that is twice as slow in the second round, so the
	// ratio has no noise though the figures have.
	assert.Equal(t, Spread{Median: 0.5, Min: 0.5, Max: 0.5, Rounds: 3}, Ratio(cpuRounds(1, 2, 1), CassandraCPU, cpuRounds(2, 4, 2), CassandraCPU))
	assert.Equal(t, Spread{Median: 3, Min: 3, Max: 3, Rounds: 1}, Ratio(cpuRounds(3, 5, 7, 9), CassandraCPU, cpuRounds(1, -1, 0), CassandraCPU),
		"rounds without a partner, a figure or a divisor are left out")
}

func TestSpreadInWords(t *testing.T) {
	assert.Equal(t, "–", Spread{}.String())
	assert.Equal(t, "0.140", Spread{Median: 0.14, Min: 0.14, Max: 0.14, Rounds: 3}.String())
	assert.Equal(t, "0.140 (0.130–0.150)", Spread{Median: 0.14, Min: 0.13, Max: 0.15, Rounds: 3}.String())
}

func TestNumbersHaveThreeSignificantDigits(t *testing.T) {
	for want, v := range map[string]float64{
		"0": 0, "0.000123": 0.0001234, "0.0123": 0.01234, "1.00": 1, "1.23": 1.234, "10.0": 9.996, "12.3": 12.34,
		"999": 999.4, "1,000": 999.6, "1,235": 1234.6, "1,234,568": 1234567.8, "-12,346": -12345.6, "1.23e-06": 0.000001234,
	} {
		assert.Equal(t, want, number(v))
	}
}

func TestPass(t *testing.T) {
	sla := &SLA{Percentile: 95, TargetSeconds: 0.1}
	run := func(change func(*Round)) *Run {
		r := cpuRounds(1, 1, 1)
		for i, p95 := range []float64{0.09, 0.1, 0.5} {
			r.Rounds[i].Latency = Latency{P95: p95, Curve: []Quantile{{0.9, 0.05}, {1, 0.15}}}
			if i == 0 {
				change(&r.Rounds[i])
			}
		}
		return r
	}
	for name, test := range map[string]struct {
		change func(*Round)
		sla    *SLA
		why    string
	}{
		"the median meets the target":                {func(*Round) {}, sla, ""},
		"the median is above":                        {func(r *Round) { r.Latency.P95 = 0.2 }, sla, "p95 is 200 ms"},
		"as many fail as the percentile leaves over": {func(r *Round) { r.Counts.Failed = 15 }, sla, ""},
		"more fail":      {func(r *Round) { r.Counts.Failed = 16 }, sla, "16 failed lookups"},
		"a wrong row":    {func(r *Round) { r.Counts.WrongRows = 1 }, sla, "1 wrong row"},
		"a missing key":  {func(r *Round) { r.Counts.MissingKeys = 1 }, sla, "1 missing key"},
		"from the curve": {func(*Round) {}, &SLA{Percentile: 97, TargetSeconds: 0.1}, "p97 is 120 ms"},
		"not measured":   {func(*Round) {}, &SLA{Percentile: 80, TargetSeconds: 1}, "p80 was not measured"},
	} {
		t.Run(name, func(t *testing.T) {
			verdict := Pass(run(test.change), test.sla)
			assert.Equal(t, test.why, verdict.Why)
			assert.Equal(t, test.why == "", verdict.Pass)
		})
	}
}

func TestColumnsWithoutFiguresAreDropped(t *testing.T) {
	r := &Report{Name: "x", Runs: []Run{*cpuRounds(1)}}
	var heads []string
	for _, c := range r.columns() {
		heads = append(heads, c.head)
	}
	assert.Contains(t, heads, "Cass.")
	assert.NotContains(t, heads, "hedges")
	assert.NotContains(t, heads, "client")
}

// A percentile needs a lookup beyond it; without one it would be the maximum.
func TestPercentilesThatTheSampleCannotHave(t *testing.T) {
	for p, least := range map[float64]int64{50: 2, 95: 20, 99: 100, 99.9: 1000} {
		r := Round{Latency: Latency{P50: 1, P95: 1, P99: 1, P999: 1}, Counts: Counts{Lookups: least}}
		assert.NotNil(t, r.percentile(p), "p%g of %d", p, least)
		r.Counts.Lookups--
		assert.Nil(t, r.percentile(p), "p%g of %d", p, least-1)
	}
	few := cpuRounds(1)
	few.Rounds[0].Counts.Lookups = 19
	assert.Equal(t, "p95 was not measured", Pass(few, &SLA{Percentile: 95, TargetSeconds: 1}).Why)
}

func TestWhatWasNotMeasuredIsSaid(t *testing.T) {
	r := &Report{Name: "x", Runs: []Run{*cpuRounds(1)}, Notes: []string{"a note"}}
	assert.Equal(t, []string{"a note"}, r.allNotes())
	r.Runs[0].Rounds[0].PerLookup.CassandraCPUMillis = nil
	require.Len(t, r.allNotes(), 2)
	assert.Contains(t, r.allNotes()[0], "CPU of Cassandra was not measured")
	assert.Equal(t, []string{"a note"}, (&Report{Notes: r.Notes}).allNotes(), "without runs there is nothing to miss")
}

func TestValidateNamesEveryMistake(t *testing.T) {
	v := 1.0
	chart := Chart{Name: "c", Kind: Lines, X: []string{"1"}, Series: []Series{{Name: "s", Values: []*float64{&v}}}}
	require.NoError(t, (&Report{Name: "x", Charts: []Chart{chart}}).Validate())
	for want, change := range map[string]func(*Report){
		`name "a/b" does not fit a file`: func(r *Report) { r.Name = "a/b" },
		`percentile 100 is not between`:  func(r *Report) { r.SLA = &SLA{Percentile: 100} },
		`run "in, ONE": no rounds`:       func(r *Report) { r.Runs = []Run{{Target: "in", Condition: "ONE"}} },
		`row 1 has 1 cells for 2`:        func(r *Report) { r.Tables = []Table{{Columns: []string{"a", "b"}, Rows: [][]string{{"1"}}}} },
		`unknown kind "pie"`:             func(r *Report) { r.Charts[0].Kind = "pie" },
		`has 0 values for 1 points`:      func(r *Report) { r.Charts[0].Series[0].Values = nil },
		`has 2 values for 1 points`: func(r *Report) {
			r.Charts[0].Series[0].Low, r.Charts[0].Series[0].High = []*float64{&v}, []*float64{&v, &v}
		},
		`low without high`:              func(r *Report) { r.Charts[0].Series[0].Low = []*float64{&v} },
		`unknown x_scale "cubic"`:       func(r *Report) { r.Charts[0].XScale = "cubic" },
		`x "0" does not fit the scale`:  func(r *Report) { r.Charts[0].XScale, r.Charts[0].X = Log, []string{"0"} },
		`x "99" does not fit the scale`: func(r *Report) { r.Charts[0].XScale, r.Charts[0].X = Nines, []string{"99"} },
	} {
		broken := chart
		broken.Series = []Series{chart.Series[0]}
		r := &Report{Name: "x", Charts: []Chart{broken}}
		change(r)
		assert.ErrorContains(t, r.Validate(), want)
	}
}
