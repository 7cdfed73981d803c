package admission

import "github.com/prometheus/client_golang/prometheus"

type metrics struct{ admitted, shed, clientShed, actions *prometheus.CounterVec }

func newMetrics() *metrics {
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &metrics{
		admitted: counters("qosproxy_admission_admitted_total", "Lookups that were let start, by priority of their client.", "priority"),
		shed: counters("qosproxy_admission_shed_total",
			"Lookups that were refused before anyone was asked, by reason and by priority of their client.", "reason", "priority"),
		clientShed: counters("qosproxy_admission_client_shed_total",
			"Lookups that were refused before anyone was asked, by client of the configuration and by reason.", "client", "reason"),
		actions: counters("qosproxy_ladder_actions_total",
			"Lookups that a brown-out step has changed: hedges and optional those that came at its level or above, batch and standard those refused.", "table", "rung"),
	}
	for p := range priorities { // rate() needs the zero before the first
		m.admitted.WithLabelValues(priorityName(p))
		for r := range every {
			m.shed.WithLabelValues(string(r), priorityName(p))
		}
	}
	return m
}

// begin has the series of a table start at zero.
func (m *metrics) begin(table string) {
	for level := LevelHedges; level <= LevelStandard; level++ {
		m.actions.WithLabelValues(table, level.String())
	}
}

// forget drops the series of a table that is not served any more.
func (m *metrics) forget(table string) {
	m.actions.DeletePartialMatch(prometheus.Labels{"table": table})
}

func (m *metrics) register(to prometheus.Registerer, c *Controller) error {
	for _, one := range []prometheus.Collector{m.admitted, m.shed, m.clientShed, m.actions, collector{c}} {
		if err := to.Register(one); err != nil {
			return err
		}
	}
	return nil
}

// collector reads the state of a controller when it is scraped.
type collector struct{ controller *Controller }

// Describe implements prometheus.Collector. It sends nothing, as tables come and go.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(to chan<- prometheus.Metric) {
	metric := func(kind prometheus.ValueType, name, help string, v float64, labels prometheus.Labels) {
		to <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, labels), kind, v)
	}
	gauge := func(name, help string, v float64, labels prometheus.Labels) {
		metric(prometheus.GaugeValue, name, help, v, labels)
	}
	s := c.controller.Status()
	gauge("qosproxy_admission_limit_keys", "Keys that may be in-flight; max_concurrency unless lookups are late.", float64(s.LimitKeys), nil)
	gauge("qosproxy_admission_inflight_keys", "Keys of the lookups in flight.", float64(s.InflightKeys), nil)
	gauge("qosproxy_admission_memory_bytes",
		"Memory that requests being received, expected answers of hosts and unsent answers take.", float64(s.MemoryBytes), nil)
	gauge("qosproxy_admission_memory_limit_bytes",
		"Memory that requests and answers may take; 0 without a limit.", float64(s.MaxMemoryBytes), nil)
	for reason, n := range c.controller.memory.Usage().Evicted {
		metric(prometheus.CounterValue, "qosproxy_memory_evictions_total",
			"Requests and answers that were given up: there was no memory for them (memory), or their peer took too long to send or to receive them (slow).",
			float64(n), prometheus.Labels{"reason": reason.String()})
	}
	for name, n := range s.InflightLookups {
		gauge("qosproxy_admission_inflight_lookups", "Lookups in flight.", float64(n), prometheus.Labels{"priority": name})
	}
	for name, t := range s.Tables {
		gauge("qosproxy_ladder_rung",
			"What the table gives up to meet its SLO: 0 nothing, 1 hedges, 2 optional keys, 3 batch lookups, 4 standard lookups.",
			float64(t.Level), prometheus.Labels{"table": name})
		for window, burn := range map[string]float64{"10s": t.ShortBurn, "1m": t.LongBurn} {
			gauge("qosproxy_ladder_burn_rate",
				"Share of lookups that were late relative to the share that may be, which moves the ladder; 0 below the least traffic that counts.",
				burn, prometheus.Labels{"table": name, "window": window})
		}
	}
}
