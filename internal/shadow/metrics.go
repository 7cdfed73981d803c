package shadow

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// outcome is the outcome of a sampled lookup, as in metrics.
type outcome string

// The outcomes. A lookup has the first of these that applies to one of its keys.
const (
	outcomeDifferent  outcome = "different"
	outcomeUnsettled  outcome = "unsettled"
	outcomeUnanswered outcome = "unanswered"
	outcomeChanged    outcome = "changed"
	outcomeSame       outcome = "same"
	// outcomeFailed is a lookup that the driver did not read.
	outcomeFailed outcome = "failed"
	// outcomeDropped is a lookup for which there was no room in the queue.
	outcomeDropped outcome = "dropped"
	// outcomeSkipped is a lookup in pages, which is never compared.
	outcomeSkipped outcome = "skipped"
)

type metrics struct {
	lookups     *prometheus.CounterVec
	differences *prometheus.CounterVec
	durations   *prometheus.HistogramVec

	mu sync.Mutex
	// served are the tables that have series, by keyspace.table.
	served map[string]bool
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		lookups: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "qosproxy_shadow_lookups_total",
			Help: "Sampled lookups that the plain driver repeats, by what the comparison has found.",
		}, []string{"table", "outcome"}),
		differences: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "qosproxy_shadow_differences_total",
			Help: "Differences between proxy and plain driver that stayed when both were read again.",
		}, []string{"table", "kind"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "qosproxy_shadow_duration_seconds",
			Help:    "Time of a sampled lookup by the path that read it: proxy or driver.",
			Buckets: []float64{.0005, .001, .002, .003, .005, .0075, .01, .015, .02, .03, .05, .075, .1, .15, .25, .5, 1, 2.5, 5, 10},
		}, []string{"path"}),
	}
	for _, c := range []prometheus.Collector{m.lookups, m.differences, m.durations} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// setTables is Live.SetTables.
func (m *metrics) setTables(tables [][2]string) {
	next := make(map[string]bool, len(tables))
	for _, t := range tables {
		next[t[0]+"."+t[1]] = true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.served {
		if !next[name] {
			m.lookups.DeletePartialMatch(prometheus.Labels{"table": name})
			m.differences.DeletePartialMatch(prometheus.Labels{"table": name})
		}
	}
	m.served = next
}

// count counts a lookup of a table by its outcome, and what differed.
func (m *metrics) count(table string, o outcome, differences []Difference) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.served[table] {
		return
	}
	m.lookups.WithLabelValues(table, string(o)).Inc()
	for _, d := range differences {
		m.differences.WithLabelValues(table, string(d.Kind)).Inc()
	}
}
