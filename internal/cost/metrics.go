package cost

import "github.com/prometheus/client_golang/prometheus"

var (
	statementDesc = prometheus.NewDesc("qosproxy_statement_cost_seconds",
		"What a statement takes besides its keys, as learned from answers of hosts that had nothing else in flight.", []string{"table"}, nil)
	keyDesc = prometheus.NewDesc("qosproxy_key_cost_seconds",
		"What each key adds to the time of a statement, as learned in the same way.", []string{"table"}, nil)
	sizeDesc = prometheus.NewDesc("qosproxy_group_size_keys",
		"How many keys a group may have by these costs; max_keys_per_group overrides it.", []string{"table"}, nil)
)

// Describe implements prometheus.Collector.
func (m *Meter) Describe(to chan<- *prometheus.Desc) {
	to <- statementDesc
	to <- keyDesc
	to <- sizeDesc
}

// Collect implements prometheus.Collector for tables of which enough is known.
func (m *Meter) Collect(to chan<- prometheus.Metric) {
	for table, s := range m.GroupSizes() {
		to <- prometheus.MustNewConstMetric(statementDesc, prometheus.GaugeValue, s.StatementCost.Seconds(), table)
		to <- prometheus.MustNewConstMetric(keyDesc, prometheus.GaugeValue, s.KeyCost.Seconds(), table)
		to <- prometheus.MustNewConstMetric(sizeDesc, prometheus.GaugeValue, float64(s.Keys), table)
	}
}
