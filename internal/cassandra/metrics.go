package cassandra

import (
	"fmt"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics reads the figures of the ring when it is scraped, so that hosts which
// have left the cluster leave no series behind.
type metrics struct {
	cluster    *Cluster
	registerer prometheus.Registerer
	ownership  *prometheus.Desc
	refreshed  *prometheus.Desc
	local      *prometheus.Desc
	confirmed  *prometheus.Desc
	whole      *prometheus.Desc
}

func newMetrics(c *Cluster, r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		cluster: c, registerer: r,
		ownership: prometheus.NewDesc("qosproxy_ring_ownership_ratio",
			"Share of the token ring that the host owns, before replication; the shares sum to 1.", []string{"host"}, nil),
		refreshed: prometheus.NewDesc("qosproxy_ring_last_refresh_timestamp_seconds",
			"When the ring was last known to be right; 0 before the first time.", nil, nil),
		local: prometheus.NewDesc("qosproxy_node_local_reads_total",
			"Sub-queries of tables at NODE_LOCAL: node_local was asked so, withheld at LOCAL_ONE because NODE_LOCAL was not "+
				"allowed or not safe; reasked are statements that failed at NODE_LOCAL and were asked again at LOCAL_ONE.",
			[]string{"outcome"}, nil),
		confirmed: prometheus.NewDesc("qosproxy_node_local_confirmations_total",
			"Keys without rows at NODE_LOCAL that were asked again at LOCAL_ONE, by what that said. found without writes "+
				"in-flight means that a host lacked rows it should have had.",
			[]string{"outcome"}, nil),
		whole: prometheus.NewDesc("qosproxy_whole_row_reads_total",
			"Sub-queries that read all columns that may be read, because clients ask a table for more sets of columns than "+
				"have prepared statements of their own.", nil, nil),
	}
	if r == nil {
		return m, nil
	}
	if err := r.Register(m); err != nil {
		return nil, fmt.Errorf("register the metrics of the ring: %w", err)
	}
	return m, nil
}

func (m *metrics) unregister() {
	if m.registerer != nil {
		m.registerer.Unregister(m)
	}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.ownership
	ch <- m.refreshed
	ch <- m.local
	ch <- m.confirmed
	ch <- m.whole
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	var at float64
	if t := m.cluster.Status().LastRefresh; !t.IsZero() {
		at = float64(t.UnixMilli()) / 1000
	}
	ch <- prometheus.MustNewConstMetric(m.refreshed, prometheus.GaugeValue, at)
	ch <- prometheus.MustNewConstMetric(m.whole, prometheus.CounterValue, float64(m.cluster.columnSets.whole.Load()))
	if n := m.cluster.nodeLocal; n != nil {
		n.reads.collect(ch, m)
	}
	r := m.cluster.Ring()
	if r == nil {
		return
	}
	shares := r.Ownership()
	for i, h := range r.Hosts() {
		ch <- prometheus.MustNewConstMetric(m.ownership, prometheus.GaugeValue, shares[i], h.Addr)
	}
}

// collect sends the counts.
func (n *nodeLocalReads) collect(ch chan<- prometheus.Metric, m *metrics) {
	for _, c := range []struct {
		desc    *prometheus.Desc
		outcome string
		count   *atomic.Uint64
	}{
		{m.local, "node_local", &n.passed},
		{m.local, "withheld", &n.withheld},
		{m.local, "reasked", &n.reasked},
		{m.confirmed, "not_found", &n.confirmed},
		{m.confirmed, "found", &n.contradicted},
	} {
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.CounterValue, float64(c.count.Load()), c.outcome)
	}
}
