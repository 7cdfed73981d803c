package acceptance

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// contractMetrics are the metrics that dashboards depend on, with their labels.
var contractMetrics = map[string][]string{
	"qosproxy_lookup_duration_seconds":             {"table", "keys", "code"},
	"qosproxy_lookup_latency_seconds":              {"table", "quantile", "window"},
	"qosproxy_sla_target_seconds":                  {"table"},
	"qosproxy_sla_percentile":                      {"table"},
	"qosproxy_sla_operate_at_ratio":                {"table"},
	"qosproxy_sla_ratio":                           {"table", "window"},
	"qosproxy_sla_burn_rate":                       {"table", "window"},
	"qosproxy_subquery_duration_seconds":           {"host", "attempt"},
	"qosproxy_subqueries_total":                    nil,
	"qosproxy_hedges_total":                        {"outcome"},
	"qosproxy_hedge_opportunities_total":           {"delay"},
	"qosproxy_failovers_total":                     {"reason"},
	"qosproxy_lookup_keys":                         {"table"},
	"qosproxy_lookup_groups":                       {"table"},
	"qosproxy_keys_total":                          {"table", "status"},
	"qosproxy_host_state":                          {"host"},
	"qosproxy_host_inflight":                       {"host"},
	"qosproxy_statement_keys":                      {"table"},
	"qosproxy_host_latency_seconds":                {"host"},
	"qosproxy_ring_ownership_ratio":                {"host"},
	"qosproxy_ring_last_refresh_timestamp_seconds": nil,
	"qosproxy_node_local_reads_total":              {"outcome"},
	"qosproxy_node_local_confirmations_total":      {"outcome"},
	"qosproxy_build_info":                          {"version"},
	"go_goroutines":                                nil,
	"process_cpu_seconds_total":                    nil,
}

// testMetrics scrapes the metrics and parses them strictly, compares them with the contract, and
// runs promtool where it is installed.
func testMetrics(t *testing.T, p *proxy) {
	code, text := p.get(t, "/metrics")
	require.Equal(t, 200, code)
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	require.NoError(t, err)
	for name, labels := range contractMetrics {
		family, ok := families[name]
		if !assert.True(t, ok, "%s is missing", name) {
			continue
		}
		got := map[string]bool{}
		for _, pair := range family.GetMetric()[0].GetLabel() {
			got[pair.GetName()] = true
		}
		got["quantile"] = len(family.GetMetric()[0].GetSummary().GetQuantile()) > 0
		for _, label := range labels {
			assert.True(t, got[label], "%s has no label %s", name, label)
		}
	}
	assert.NotContains(t, text, plainKey(1)[:6], "no label holds a key")

	_, open := p.get(t, "/metrics", "Accept", "application/openmetrics-text; version=1.0.0")
	assert.True(t, strings.HasSuffix(open, "# EOF\n"), "OpenMetrics")

	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Log("promtool is not installed; its lint is left out")
		return
	}
	lint := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	lint.Stdin = strings.NewReader(text)
	out, err := lint.CombinedOutput()
	assert.NoError(t, err, string(out))
}

// testAdmin reads the other pages of the admin listener.
func testAdmin(t *testing.T, p *proxy) {
	for _, path := range []string{"/livez", "/readyz"} {
		code, text := p.get(t, path)
		assert.Equal(t, 200, code, text)
	}
	code, status := p.get(t, "/status")
	assert.Equal(t, 200, code)
	assert.True(t, json.Valid([]byte(status)), status)
	for i := 1; i <= 6; i++ {
		assert.Contains(t, status, "127.0.0."+string(rune('0'+i))+":9042")
	}
	code, ring := p.get(t, "/ring")
	assert.Equal(t, 200, code)
	assert.Contains(t, ring, "rack3")
}
