package experiment

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/lab/bench"
	"github.com/qosproxy/qosproxy/internal/lab/report"
)

func runOf(target, condition string, seconds ...float64) report.Run {
	run := report.Run{Target: target, Condition: condition}
	for _, s := range seconds {
		run.Rounds = append(run.Rounds, report.Round{Counts: report.Counts{Lookups: 100}, Latency: report.Latency{P95: s, P99: s}})
	}
	return run
}

func TestOverviewHasARowForEachPlace(t *testing.T) {
	r := &report.Report{Runs: []report.Run{
		runOf(bench.ProxyGRPC, "15ms, all well", 0.002, 0.001, 0.003), runOf(bench.Single, "all well", 0.004),
		runOf(bench.ProxyGRPC, "15ms, one node slow", 0.005), runOf(bench.Single, "one node slow"),
	}}
	speculation.overview.draw(r)
	require.Len(t, r.Charts, 1)
	c := r.Charts[0]
	assert.Equal(t, []string{"15ms", bench.Single}, c.X)
	require.Len(t, c.Series, 2)
	assert.Equal(t, "all well", c.Series[0].Name)
	assert.InDelta(t, 2, *c.Series[0].Values[0], 1e-9)
	assert.InDelta(t, 1, *c.Series[0].Low[0], 1e-9)
	assert.InDelta(t, 3, *c.Series[0].High[0], 1e-9)
	assert.InDelta(t, 5, *c.Series[1].Values[0], 1e-9)
	assert.Nil(t, c.Series[1].Values[1], "a run without rounds")
}

func TestPlaces(t *testing.T) {
	x, series := byLast(&report.Run{Condition: "3 nodes, ONE, 100 bytes, 4 callers"})
	assert.Equal(t, "3 nodes, ONE, 100 bytes", x)
	assert.Equal(t, "4 callers", series)
	_, series = byCallers(&report.Run{Condition: "3 nodes, ONE, 100 bytes, 1 caller"})
	assert.Equal(t, "1 caller", series)
	_, series = byCallers(&report.Run{Condition: "3 nodes, ONE, 100 bytes, 8 callers"})
	assert.Empty(t, series, "not drawn")
	_, series = byTarget("capacity")(&report.Run{Target: bench.In, Condition: "capacity"})
	assert.Empty(t, series, "left out")
	empty := &report.Report{}
	sizing.overview.draw(empty)
	assert.Empty(t, empty.Charts, "nothing to show")
}
