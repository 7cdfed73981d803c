package experiment

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/lab/bench"
	"github.com/qosproxy/qosproxy/internal/lab/report"
)

func TestOnlyTheConditionsThatAreWantedAreMeasured(t *testing.T) {
	for only, want := range map[string][]string{
		"16 callers":     {many, atOwners, fewApart},
		"columns":        {twoColumns},
		"^LOCAL_ONE, 4 ": {few},
		"":               {few, many, atOwners, atQuorum, steady, alone, clustered, twoColumns, primaryKey, climbing, fewApart, idle},
	} {
		lab := &Lab{Only: regexp.MustCompile(only)}
		got, err := lab.wanted(targetingParts)
		require.NoError(t, err)
		var first []string
		for _, p := range got {
			first = append(first, p.conditions[0])
		}
		assert.Equal(t, want, first, only)
	}
	_, err := (&Lab{Only: regexp.MustCompile("absent")}).wanted(targetingParts)
	require.ErrorContains(t, err, "absent")
	require.ErrorContains(t, err, atOwners)
	lab := &Lab{Only: regexp.MustCompile("absent")}
	r := &report.Report{}
	require.NoError(t, lab.run(t.Context(), r, bench.Comparison{}, bench.Contender{Condition: few}), "nothing is left to measure")
	assert.Empty(t, r.Runs)
}

func TestChangesOfNodesHaveClustersOfTheirOwn(t *testing.T) {
	parts, seen := nodeParts(), 0
	for _, p := range parts {
		seen += len(p.conditions)
	}
	assert.Equal(t, 2*len(nodeChanges), seen, "every change is in one part, with both loads")
	assert.Contains(t, parts[0].conditions, speculating)
	assert.Equal(t, []string{notDynamic, notDynamic + ", 16 callers"}, parts[1].conditions)
	assert.NotContains(t, sixNodes(16).YAML, "dynamic_snitch", "the clusters do not share their settings")
}

func TestNothingIsBootedForConditionsThatDoNotExist(t *testing.T) {
	for name, measure := range map[string]func(context.Context, *Lab, *report.Report) error{"vnodes": measureOwnership, "sizing": measureSizing} {
		lab := &Lab{Only: regexp.MustCompile("absent")}
		err := measure(t.Context(), lab, &report.Report{})
		require.ErrorContains(t, err, "no condition matches absent", name)
	}
}

// flatRun returns a run of one round in which every figure is v.
func flatRun(target, condition string, v float64) report.Run {
	return report.Run{Target: target, Condition: condition, Rounds: []report.Round{{
		Counts: report.Counts{Lookups: 100}, OfferedRate: v, PerLookup: report.Cost{CassandraCPUMillis: &v, ProxyCPUMillis: &v},
		Latency: report.Latency{P50: v / 1000, P99: v / 1000},
	}}}
}

func TestTargetingIsJudgedByWhatWasMeasured(t *testing.T) {
	proxies := []report.Run{
		flatRun(bench.ProxyGRPC, few, 1), flatRun(bench.ProxyGRPCCQL, few, 1), flatRun(bench.ProxyHTTP, few, 1), flatRun(bench.ProxyGRPC, many, 1),
		flatRun(bench.ProxyGRPC, atOwners, 1), flatRun(bench.ProxyGRPC, steady, 1), flatRun(bench.ProxyGRPC, alone, 1), flatRun(bySocket, alone, 1),
		flatRun(bench.ProxyGRPC, clustered, 1), flatRun(bench.ProxyGRPC, twoColumns, 1), flatRun(bench.ProxyGRPC, climbing, 1),
		flatRun(bench.ProxyGRPC, clusteredAtRate, 1), flatRun(bench.ProxyGRPC, twoColumnsAtRate, 1), flatRun(bench.ProxyGRPC, primaryKeyAtRate, 1),
		flatRun(bench.ProxyGRPC, manyAtRate, 1), flatRun(bench.ProxyGRPC, atOwnersAtRate, 1),
		flatRun(bench.ProxyGRPC, fewApart, 1), flatRun(bench.ProxyGRPC, manyApart, 1), flatRun(bench.ProxyGRPC, atOwnersApart, 1),
		flatRun(bench.ProxyGRPC, climbingApart, 1), flatRun(byOwners, climbingApart, 1),
	}
	others := func(v float64) []report.Run {
		return []report.Run{
			flatRun(bench.Cover, few, v), flatRun(bench.InUnpaged, few, v), flatRun(bench.In, few, v), flatRun(bench.Single, few, v),
			flatRun(bench.Cover, many, v), flatRun(reference, atOwners, v), flatRun(bench.InUnpaged, steady, v),
			flatRun(bench.Cover, alone, v), flatRun(bench.Grouped, alone, v), flatRun(bench.Cover, clustered, v), flatRun(bench.Cover, twoColumns, v),
			flatRun(bench.InUnpaged, climbing, 1/v), flatRun(bench.In, climbing, 1/v),
			flatRun(bench.Cover, clusteredAtRate, v), flatRun(bench.Cover, twoColumnsAtRate, v), flatRun(partitioned, primaryKeyAtRate, v),
			flatRun(bench.Cover, manyAtRate, v), flatRun(reference, atOwnersAtRate, v),
			flatRun(bench.Cover, fewApart, v), flatRun(bench.InUnpaged, fewApart, v), flatRun(bench.Cover, manyApart, v),
			flatRun(reference, atOwnersApart, v), flatRun(bench.InUnpaged, climbingApart, 1/v),
		}
	}
	judged := func(runs []report.Run) (held, missed []string) {
		r := &report.Report{Runs: runs}
		judgeTargeting(r)
		for _, f := range r.Findings {
			if f.Holds {
				held = append(held, f.Claim)
			} else {
				missed = append(missed, f.Claim)
			}
		}
		return held, missed
	}
	held, missed := judged(slices.Concat(proxies, others(10)))
	assert.Len(t, held, 30)
	assert.Len(t, missed, 3, "the proxy's own CPU is as before")
	for _, claim := range missed {
		assert.True(t, strings.HasPrefix(claim, "CPU of the proxy"), claim)
	}
	held, _ = judged(slices.Concat(proxies, others(0.3)))
	assert.Empty(t, held)
	held, missed = judged(proxies)
	assert.Empty(t, held)
	assert.Len(t, missed, 3, "without others there is nothing to compare")
}

func TestMessagesAreCountedByLookupOfARound(t *testing.T) {
	counts := []int64{100, 300, 300, 900}
	table := &report.Table{}
	m := &messageCount{table: table, read: func() (int64, error) {
		now := counts[0]
		counts = counts[1:]
		return now, nil
	}}
	at := bench.Progress{Contender: bench.Contender{Target: bench.Cover, As: "cover, by its name", Condition: asTested}}
	m.at(at) // warm-up
	for range 2 {
		at.Round, at.Done = at.Round+1, nil
		m.at(at)
		at.Done = &report.Round{Counts: report.Counts{Lookups: 100}}
		m.at(at)
	}
	assert.Equal(t, [][]string{{asTested, "cover, by its name", "2.0, 6.0"}}, table.Rows)
	assert.Empty(t, counts)
}

func TestQuorumReadsAreJudgedByWhatWasMeasured(t *testing.T) {
	r := &report.Report{Runs: []report.Run{
		flatRun(bench.InUnpaged, allowed, 10), flatRun(byReplicas, allowed, 2.1),
		flatRun(bench.InUnpaged, notDynamic, 9), flatRun(bench.Single, notDynamic, 40), flatRun(byReplicas, notDynamic, 3),
	}}
	judgeQuorum(r)
	holds := map[string]bool{}
	for _, f := range r.Findings {
		holds[f.Claim] = f.Holds
	}
	assert.False(t, holds["cluster CPU per lookup, replicas / in-unpaged, NODE_LOCAL ≤ 0.2"])
	assert.True(t, holds["cluster CPU per lookup, replicas / in-unpaged, dynamic_snitch: false ≤ 0.333"])
	assert.True(t, holds["cluster CPU per lookup, replicas / single, dynamic_snitch: false ≤ 0.1"])
	assert.Contains(t, holds, "cluster CPU per lookup, replicas / in-unpaged, dynamic_snitch: false ≤ 0.333")
	assert.NotContains(t, holds, "cluster CPU per lookup, replicas / single, NODE_LOCAL ≤ 0.1", "single was not measured there")
}
