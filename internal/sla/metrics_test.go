package sla

import (
	"bytes"
	"math"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/lookup"
)

// registered returns the registry of a recorder that has observed some lookups.
func registered(t *testing.T) *prometheus.Registry {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	r, err := New(reg, map[string]Target{shop: slo, "shop.idle": {Percentile: 99, Target: 44 * time.Millisecond, OperateAt: 33 * time.Millisecond}})
	require.NoError(t, err)
	for i := range 20 {
		code := lookup.CodeOK
		if i == 0 {
			code = lookup.CodePartial
		}
		r.Observe(&Lookup{Table: shop, Keys: 50, Code: code, Duration: 10 * time.Millisecond, Groups: 6, Coalesced: 2, Statuses: Counts{40, 9, 1},
			TraceID: "4bf92f3577b34da6a3ce929d0e0e4736"})
	}
	r.Observe(&Lookup{Table: "no.such", Keys: 1, Code: "NOT_FOUND", Duration: time.Millisecond, Statuses: Counts{1}})
	r.Observe(&Lookup{Table: shop, Keys: 900, Code: "INVALID_ARGUMENT", Duration: time.Millisecond})
	return reg
}

// find returns the metric of a family that has the labels.
func find(t *testing.T, reg prometheus.Gatherer, family string, labels map[string]string) *dto.Metric {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			have := map[string]string{}
			for _, l := range m.GetLabel() {
				have[l.GetName()] = l.GetValue()
			}
			if f.GetName() == family && assert.ObjectsAreEqual(labels, have) {
				return m
			}
		}
	}
	require.Fail(t, "no such series", "%s%v", family, labels)
	return nil
}

func TestSeries(t *testing.T) {
	reg := registered(t)
	gaugeOf := func(name string, labels map[string]string) float64 {
		return find(t, reg, name, labels).GetGauge().GetValue()
	}

	d := find(t, reg, "qosproxy_lookup_duration_seconds", map[string]string{"table": shop, "keys": "11-50", "code": "OK"}).GetHistogram()
	assert.Equal(t, uint64(19), d.GetSampleCount())
	assert.InDelta(t, 0.19, d.GetSampleSum(), 1e-9)
	assert.NotEmpty(t, d.GetPositiveSpan(), "the native histogram")
	find(t, reg, "qosproxy_lookup_duration_seconds", map[string]string{"table": shop, "keys": "101+", "code": "INVALID_ARGUMENT"})
	find(t, reg, "qosproxy_lookup_duration_seconds", map[string]string{"table": UnknownTable, "keys": "1", "code": "NOT_FOUND"})

	assert.Equal(t, uint64(21), find(t, reg, "qosproxy_lookup_keys", map[string]string{"table": shop}).GetHistogram().GetSampleCount())
	assert.Equal(t, uint64(20), find(t, reg, "qosproxy_lookup_groups", map[string]string{"table": shop}).GetHistogram().GetSampleCount(),
		"a refused lookup has no plan")
	for status, want := range map[string]float64{"FOUND": 800, "NOT_FOUND": 180, "TIMED_OUT": 20, "FAILED": 0} {
		assert.InDelta(t, want, find(t, reg, "qosproxy_keys_total", map[string]string{"table": shop, "status": status}).GetCounter().GetValue(), 0)
	}
	for outcome, want := range map[string]float64{"kept": 19, "broken": 1} {
		assert.InDelta(t, want, find(t, reg, "qosproxy_sla_lookups_total", map[string]string{"table": shop, "outcome": outcome}).GetCounter().GetValue(), 0)
	}
	assert.InDelta(t, 40, find(t, reg, "qosproxy_coalesced_keys_total", map[string]string{"table": shop}).GetCounter().GetValue(), 0)
	for _, w := range []string{"1m", "5m"} {
		busy, idle := map[string]string{"table": shop, "window": w}, map[string]string{"table": "shop.idle", "window": w}
		assert.InDelta(t, 0.95, gaugeOf("qosproxy_sla_ratio", busy), 1e-12)
		assert.InDelta(t, 1, gaugeOf("qosproxy_sla_burn_rate", busy), 1e-9)
		assert.InDelta(t, 1, gaugeOf("qosproxy_sla_ratio", idle), 0)
		assert.InDelta(t, 0, gaugeOf("qosproxy_sla_burn_rate", idle), 0)
		for i, quantile := range find(t, reg, "qosproxy_lookup_latency_seconds", busy).GetSummary().GetQuantile() {
			assert.InDelta(t, []float64{0.5, 0.95, 0.99, 0.999}[i], quantile.GetQuantile(), 0)
			assert.InEpsilon(t, 0.01, quantile.GetValue(), 0.001)
		}
		summary := find(t, reg, "qosproxy_lookup_latency_seconds", idle).GetSummary()
		require.Len(t, summary.GetQuantile(), 4)
		assert.True(t, math.IsNaN(summary.GetQuantile()[0].GetValue()))
	}
	assert.InDelta(t, 0.125, gaugeOf("qosproxy_sla_target_seconds", map[string]string{"table": shop}), 0)
	assert.InDelta(t, 95, gaugeOf("qosproxy_sla_percentile", map[string]string{"table": shop}), 0)
	assert.InDelta(t, 0.5, gaugeOf("qosproxy_sla_operate_at_ratio", map[string]string{"table": shop}), 0)
	assert.InDelta(t, 0.75, gaugeOf("qosproxy_sla_operate_at_ratio", map[string]string{"table": "shop.idle"}), 1e-9)
}

func TestEdgesHoldTheTargetsOfEveryTable(t *testing.T) {
	reg := registered(t)
	h := find(t, reg, "qosproxy_lookup_duration_seconds", map[string]string{"table": shop, "keys": "11-50", "code": "OK"}).GetHistogram()
	var have []float64
	for _, b := range h.GetBucket() {
		have = append(have, b.GetUpperBound())
	}
	for _, want := range []float64{0.015, 0.0625, 0.125, 0.022, 0.033, 0.044} {
		assert.Contains(t, have, want)
	}
	assert.IsIncreasing(t, have)
}

func TestANameIsTakenOnlyOnce(t *testing.T) {
	reg := prometheus.NewRegistry()
	_, err := New(reg, nil)
	require.NoError(t, err)
	_, err = New(reg, nil)
	require.ErrorContains(t, err, "duplicate")
}

func TestLinters(t *testing.T) {
	reg := registered(t)
	problems, err := testutil.GatherAndLint(reg)
	require.NoError(t, err)
	assert.Empty(t, problems)

	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed")
	}
	families, err := reg.Gather()
	require.NoError(t, err)
	var text bytes.Buffer
	for _, f := range families {
		_, err := expfmt.MetricFamilyToText(&text, f)
		require.NoError(t, err)
	}
	check := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	check.Stdin = &text
	out, err := check.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Empty(t, strings.TrimSpace(string(out)))
}

func TestOpenMetricsShowsTheTraceOfALookup(t *testing.T) {
	req := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	req.Header.Set("Accept", "application/openmetrics-text")
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registered(t), promhttp.HandlerOpts{EnableOpenMetrics: true}).ServeHTTP(w, req)
	assert.Contains(t, w.Body.String(), `# {trace_id="4bf92f3577b34da6a3ce929d0e0e4736"} 0.01`)
	assert.True(t, strings.HasSuffix(w.Body.String(), "# EOF\n"))
}

func TestAnImpossibleTraceIsLeftOut(t *testing.T) {
	for _, trace := range []string{strings.Repeat("a", maxTraceID+1), "\xff", strings.Repeat("a", maxTraceID)} {
		r := recorder(t)
		assert.NotPanics(t, func() { r.Observe(&Lookup{Table: shop, Code: "OK", TraceID: trace}) })
		assert.Equal(t, int64(1), snapshot(t, r, Minute).Count)
	}
}

// series returns the names of the families that have the table.
func series(t *testing.T, reg prometheus.Gatherer, table string) map[string]bool {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	names := map[string]bool{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "table" && l.GetValue() == table {
					names[f.GetName()] = true
				}
			}
		}
	}
	return names
}

func TestTablesComeAndGo(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	r, err := New(reg, map[string]Target{shop: slo})
	require.NoError(t, err)
	ask := func(table string) {
		r.Observe(&Lookup{Table: table, Keys: 3, Code: "OK", Duration: time.Millisecond, Groups: 1, Statuses: Counts{3}})
	}
	ask(shop)
	all := series(t, reg, shop)
	assert.Len(t, all, 12)

	r.SetTargets(map[string]Target{shop: slo, "shop.new": slo})
	ask("shop.new")
	assert.Equal(t, all, series(t, reg, "shop.new"))
	d := find(t, reg, "qosproxy_lookup_duration_seconds", map[string]string{"table": shop, "keys": "2-10", "code": "OK"}).GetHistogram()
	assert.Equal(t, uint64(1), d.GetSampleCount(), "no new target, so nothing begins anew")

	r.SetTargets(map[string]Target{"shop.new": slo})
	assert.Empty(t, series(t, reg, shop), "what is gone shows nothing")
	ask(shop)
	assert.Empty(t, series(t, reg, shop), "a lookup that ends late does not bring it back")
	_, known := r.Snapshot(shop, Minute)
	assert.False(t, known)
}

func TestANewTargetIsAnEdgeAndKeepsTheWindows(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	r, err := New(reg, map[string]Target{shop: slo})
	require.NoError(t, err)
	observe(r, 80*time.Millisecond)
	r.SetTargets(map[string]Target{shop: {Percentile: 99, Target: 77 * time.Millisecond}})
	observe(r, 80*time.Millisecond)
	p := snapshot(t, r, Minute)
	assert.Equal(t, int64(2), p.Count)
	assert.InDelta(t, 0.5, p.Ratio, 0, "the first was judged by the target of its time")
	target, _ := r.Target(shop)
	assert.Equal(t, 77*time.Millisecond, target.Target)
	var have []float64
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "qosproxy_lookup_duration_seconds" {
			for _, b := range f.GetMetric()[0].GetHistogram().GetBucket() {
				have = append(have, b.GetUpperBound())
			}
		}
	}
	for _, edge := range []float64{0.077, 0.0385, 0.125} {
		assert.Contains(t, have, edge)
	}
}
