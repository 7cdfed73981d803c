package simulate

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/qosproxy/qosproxy/internal/lab/report"
	"github.com/qosproxy/qosproxy/internal/underrace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The environment of the long forms, as make bench-tail and bench-vnodes set it.
const (
	// reportsVariable names the folder for reports.
	reportsVariable = "QOSPROXY_REPORTS"
	// longVariable, when not empty, makes the simulations long.
	longVariable = "QOSPROXY_LONG"
)

func long() bool { return os.Getenv(longVariable) != "" }

// virtual returns a Bubble that runs in synctest.
func virtual(t *testing.T) Bubble {
	return func(f func()) { synctest.Test(t, func(*testing.T) { f() }) }
}

func options(t *testing.T, command string) Options {
	t.Helper()
	underrace.Skip(t, underrace.Simulations)
	return Options{Seed: 7, Command: command, Progress: func(line string) { t.Log(line) }}
}

// write writes a report where the environment says.
func write(t *testing.T, r *report.Report) {
	t.Helper()
	for _, f := range r.Findings {
		t.Logf("holds %v: %s: %s", f.Holds, f.Claim, f.Seen)
	}
	folder := os.Getenv(reportsVariable)
	if folder == "" {
		return
	}
	text, err := json.MarshalIndent(r, "", "\t")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(folder, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(folder, r.Name+".json"), append(text, '\n'), 0o644))
}

func TestTailAtScale(t *testing.T) {
	lookups := 1000
	if long() {
		lookups = 10_000
	}
	r, err := TailAtScale(options(t, "make bench-tail"), lookups, virtual(t))
	require.NoError(t, err)
	write(t, r)
	require.Len(t, r.Runs, 8)
	none, ours := r.Runs[0].Rounds[0].Latency, r.Runs[2].Rounds[0].Latency
	// p99 stands for p99.9, which 1,000 lookups do not show: the tail through the
	// paper's points gives 370 ms.
	assert.InDelta(t, 0.37, none.P99, 0.15)
	assert.Less(t, ours.P99, none.P99/8)
	for _, run := range r.Runs {
		assert.Zero(t, run.Rounds[0].Counts.FailedKeys, run.Target)
	}
}

func TestPausesAndLimpingNodes(t *testing.T) {
	if long() {
		var clusters []Cluster
		for nodes, draws := range map[int]int{3: 6, 12: 3, 48: 1, 100: 1} {
			for _, load := range []float64{0.3, 0.5, 0.7} {
				clusters = append(clusters, Cluster{Nodes: nodes, Load: load, Lookups: 20_000, Draws: draws})
			}
		}
		slices.SortStableFunc(clusters, func(a, b Cluster) int { return a.Nodes - b.Nodes })
		r, err := PausesAndLimpingNodes(options(t, "make bench-tail"), clusters, virtual(t))
		require.NoError(t, err)
		write(t, r)
		return
	}
	c := Cluster{Nodes: 12, Load: 0.5, Lookups: 10_000, Draws: 1}
	r, err := PausesAndLimpingNodes(options(t, "make bench-tail"), []Cluster{c}, virtual(t))
	require.NoError(t, err)
	write(t, r)
	plain, ours := r.Runs[0].Rounds[0].Latency, r.Runs[3].Rounds[0].Latency
	assert.Less(t, ours.P999, 0.04)
	assert.Less(t, ours.P999, plain.P999/8)
}
