package merge

import (
	"errors"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qosproxy/qosproxy/internal/executor"
)

// metrics are the metrics of a Reader. They collect the state of its hosts, so that a host that
// has left the ring leaves no series behind.
type metrics struct {
	reader *Reader
	keys   *prometheus.HistogramVec
	// tables has the series of keys by keyspace and table; the map is never changed, only replaced.
	tables atomic.Pointer[map[[2]string]prometheus.Observer]
}

var (
	statementsDesc = prometheus.NewDesc("qosproxy_host_statements",
		"Reads in-flight at the host: each is a sub-query, or several that were merged.", []string{"host"}, nil)
	waitingDesc = prometheus.NewDesc("qosproxy_host_waiting",
		"Sub-queries that wait for an answer of the host, or for others, to be sent together.", []string{"host"}, nil)
)

func newMetrics(r *Reader) *metrics {
	m := &metrics{
		reader: r,
		keys: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "qosproxy_statement_keys",
			Help:    "Keys of one read as sent to a node, merged ones included.",
			Buckets: []float64{1, 2, 5, 10, 15, 20, 30, 50, 75, 100, 150, 200, 500},
		}, []string{"table"}),
	}
	m.tables.Store(&map[[2]string]prometheus.Observer{})
	return m
}

func (m *metrics) register(to prometheus.Registerer) error {
	return errors.Join(to.Register(m.keys), to.Register(m))
}

// setTables is Reader.SetTables.
func (m *metrics) setTables(tables [][2]string) {
	next := make(map[[2]string]prometheus.Observer, len(tables))
	for _, t := range tables {
		next[t] = m.keys.WithLabelValues(t[0] + "." + t[1])
	}
	for t := range *m.tables.Swap(&next) {
		if _, stays := next[t]; !stays {
			m.keys.DeleteLabelValues(t[0] + "." + t[1])
		}
	}
}

// observe records the number of keys of a read that is sent.
func (m *metrics) observe(q *executor.Query, keys int) {
	if o := (*m.tables.Load())[tableOf(q)]; o != nil {
		o.Observe(float64(keys))
	}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- statementsDesc
	ch <- waitingDesc
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	current := m.reader.ring()
	if current == nil {
		return
	}
	for _, h := range current.Hosts() {
		if q, ok := m.reader.Queue(h.ID); ok {
			ch <- prometheus.MustNewConstMetric(statementsDesc, prometheus.GaugeValue, float64(q.InFlight), h.Addr)
			ch <- prometheus.MustNewConstMetric(waitingDesc, prometheus.GaugeValue, float64(q.Waiting), h.Addr)
		}
	}
}
