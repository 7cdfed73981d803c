package experiment

import (
	"testing"
	"time"

	pprof "github.com/google/pprof/profile"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/lab/bench"
	"github.com/qosproxy/qosproxy/internal/lab/report"
)

// sampled returns a profile of one function, sampled at two addresses of one line.
func sampled() *pprof.Profile {
	m := &pprof.Mapping{ID: 1, File: "/home/somebody/bin/qosproxy", BuildID: "abc", HasFunctions: true, HasFilenames: true, HasLineNumbers: true}
	f := &pprof.Function{ID: 1, Name: "main.main", Filename: "github.com/qosproxy/qosproxy/cmd/qosproxy/main.go", StartLine: 10}
	at := func(id, address uint64) *pprof.Location {
		return &pprof.Location{ID: id, Mapping: m, Address: address, Line: []pprof.Line{{Function: f, Line: 12}}}
	}
	a, b := at(1, 0x10), at(2, 0x20)
	return &pprof.Profile{
		SampleType: []*pprof.ValueType{{Type: "samples", Unit: "count"}}, PeriodType: &pprof.ValueType{Type: "cpu", Unit: "nanoseconds"}, TimeNanos: time.Now().UnixNano(), Comments: []string{"of a machine"},
		Mapping: []*pprof.Mapping{m}, Function: []*pprof.Function{f}, Location: []*pprof.Location{a, b},
		Sample: []*pprof.Sample{{Location: []*pprof.Location{a}, Value: []int64{3}}, {Location: []*pprof.Location{b}, Value: []int64{4}}},
	}
}

func TestAPortableProfileIsOfNoMachine(t *testing.T) {
	p, err := portable([]*pprof.Profile{sampled(), sampled()})
	require.NoError(t, err)
	require.NoError(t, p.CheckValid())
	require.Len(t, p.Mapping, 1)
	assert.Equal(t, "qosproxy", p.Mapping[0].File)
	assert.Empty(t, p.Mapping[0].BuildID)
	assert.Zero(t, p.TimeNanos)
	assert.Empty(t, p.Comments)
	require.Len(t, p.Sample, 1, "a line is a line at any address")
	assert.Equal(t, []int64{14}, p.Sample[0].Value)
	line := p.Sample[0].Location[0].Line[0]
	assert.EqualValues(t, 12, line.Line)
	assert.EqualValues(t, 10, line.Function.StartLine, "the compiler counts lines from that of the function")
}

func TestBuildsAreJudgedTargetByTarget(t *testing.T) {
	r := &report.Report{Runs: []report.Run{
		flatRun(bench.ProxyGRPC, few, 1), flatRun(otherBuild(bench.ProxyGRPC), few, 1.1),
		flatRun(bench.ProxyHTTP, few, 1.1), flatRun(otherBuild(bench.ProxyHTTP), few, 1),
	}}
	judgeBuilds(r)
	require.Len(t, r.Findings, 2, "what was measured")
	assert.True(t, r.Findings[0].Holds, r.Findings[0].Claim)
	assert.False(t, r.Findings[1].Holds, r.Findings[1].Claim)
	require.ErrorIs(t, measureBuilds(t.Context(), &Lab{}, r), ErrNoOtherBuild)
}
