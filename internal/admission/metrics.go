package admission

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qosproxy/qosproxy/internal/identity"
)

type metrics struct {
	admittedTotal *prometheus.CounterVec
	shedTotal     *prometheus.CounterVec
	clientTotal   *prometheus.CounterVec
	actionsTotal  *prometheus.CounterVec

	admitted [priorities]prometheus.Counter
}

// tableMetrics are the series of one table.
type tableMetrics struct {
	actions [LevelStandard + 1]prometheus.Counter
}

func newMetrics() *metrics {
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &metrics{
		admittedTotal: counters("qosproxy_admission_admitted_total", "Lookups that were let start, by priority of their client.", "priority"),
		shedTotal: counters("qosproxy_admission_shed_total",
			"Lookups that were refused before anyone was asked, by reason and by priority of their client.", "reason", "priority"),
		clientTotal: counters("qosproxy_admission_client_shed_total",
			"Lookups that were refused before anyone was asked, by client of the configuration and by reason.", "client", "reason"),
		actionsTotal: counters("qosproxy_ladder_actions_total",
			"Lookups that a step of the ladder has changed: hedges and optional those let start under it, batch and standard those refused.", "table", "rung"),
	}
	for p := range m.admitted {
		m.admitted[p] = m.admittedTotal.WithLabelValues(identity.Priority(p).String())
		for r := range every { // a rate needs the zero before the first
			m.shedTotal.WithLabelValues(string(r), identity.Priority(p).String())
		}
	}
	return m
}

func (m *metrics) table(name string) tableMetrics {
	var t tableMetrics
	for r := LevelHedges; r <= LevelStandard; r++ {
		t.actions[r] = m.actionsTotal.WithLabelValues(name, r.String())
	}
	return t
}

// forget drops the series of a table that is not served any more.
func (m *metrics) forget(name string) {
	m.actionsTotal.DeletePartialMatch(prometheus.Labels{"table": name})
}

func (m *metrics) shed(client string, class int, reason Reason) {
	m.shedTotal.WithLabelValues(string(reason), identity.Priority(class).String()).Inc()
	m.clientTotal.WithLabelValues(client, string(reason)).Inc()
}

func (m *metrics) register(to prometheus.Registerer, c *Controller) error {
	var errs []error
	for _, one := range []prometheus.Collector{m.admittedTotal, m.shedTotal, m.clientTotal, m.actionsTotal, collector{c}} {
		errs = append(errs, to.Register(one))
	}
	return errors.Join(errs...)
}

// collector reads the state of a controller when it is scraped.
type collector struct{ controller *Controller }

var (
	limitDesc = prometheus.NewDesc("qosproxy_admission_limit_keys",
		"Keys that may be in-flight; max_concurrency unless lookups are late.", nil, nil)
	inflightDesc = prometheus.NewDesc("qosproxy_admission_inflight_keys", "Keys of the lookups in flight.", nil, nil)
	memoryDesc   = prometheus.NewDesc("qosproxy_admission_memory_bytes", "Memory that requests being received, expected answers of hosts and unsent answers take.", nil, nil)
	mostDesc     = prometheus.NewDesc("qosproxy_admission_memory_limit_bytes", "Memory that requests and answers may take; 0 without a limit.", nil, nil)
	evictedDesc  = prometheus.NewDesc("qosproxy_memory_evictions_total",
		"Requests and answers that were given up: there was no memory for them (memory), or their peer took too long to send or to receive them (slow).", []string{"reason"}, nil)
	lookupsDesc = prometheus.NewDesc("qosproxy_admission_inflight_lookups", "Lookups in flight.", []string{"priority"}, nil)
	rungDesc    = prometheus.NewDesc("qosproxy_ladder_rung",
		"What the table gives up to meet its SLO: 0 nothing, 1 hedges, 2 optional keys, 3 batch lookups, 4 standard lookups.", []string{"table"}, nil)
	burnDesc = prometheus.NewDesc("qosproxy_ladder_burn_rate",
		"Share of lookups that were late relative to the share that may be, which moves the ladder; 0 below the least traffic that counts.",
		[]string{"table", "window"}, nil)
)

// Describe implements prometheus.Collector.
func (c collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{limitDesc, inflightDesc, memoryDesc, mostDesc, evictedDesc, lookupsDesc, rungDesc, burnDesc} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	s := c.controller.Status()
	gauge(limitDesc, float64(s.LimitKeys))
	gauge(inflightDesc, float64(s.InflightKeys))
	gauge(memoryDesc, float64(s.MemoryBytes))
	gauge(mostDesc, float64(s.MaxMemoryBytes))
	for reason, n := range c.controller.memory.Usage().Evicted {
		to <- prometheus.MustNewConstMetric(evictedDesc, prometheus.CounterValue, float64(n), reason.String())
	}
	for name, n := range s.InflightLookups {
		gauge(lookupsDesc, float64(n), name)
	}
	for name, t := range s.Tables {
		gauge(rungDesc, float64(t.Level), name)
		gauge(burnDesc, t.ShortBurn, name, "10s")
		gauge(burnDesc, t.LongBurn, name, "1m")
	}
}

// Status is what a controller is doing, for /status; it encodes as JSON.
type Status struct {
	// Enabled is false when nothing is refused.
	Enabled bool `json:"enabled"`
	// LimitKeys is how many keys may be in-flight, of which InflightKeys are.
	LimitKeys    int `json:"limit_keys"`
	InflightKeys int `json:"inflight_keys"`
	// MemoryBytes is what requests being received, expected answers of hosts and unsent
	// answers take, MaxMemoryBytes what they may; 0 without a limit.
	MemoryBytes    int64 `json:"memory_bytes"`
	MaxMemoryBytes int64 `json:"max_memory_bytes"`
	// InflightLookups are the lookups in-flight by priority.
	InflightLookups map[string]int `json:"inflight_lookups"`
	// Tables are the ladders by keyspace.table.
	Tables map[string]TableStatus `json:"tables"`
}

// TableStatus is the ladder of one table.
type TableStatus struct {
	// Level is 0 to 4, and Name what it gives up.
	Level Level  `json:"rung"`
	Name  string `json:"gives_up"`
	// ShortBurn and LongBurn are the burn rates over ten seconds and a minute.
	ShortBurn float64 `json:"burn_rate_10s"`
	LongBurn  float64 `json:"burn_rate_1m"`
}

// Status returns what the controller is doing at this moment.
func (c *Controller) Status() Status {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	s := Status{
		Enabled: c.limits.Enabled, LimitKeys: int(c.load.limit), InflightKeys: c.load.inflight,
		MemoryBytes: c.memory.Usage().Used, MaxMemoryBytes: c.limits.MaxMemory,
		InflightLookups: map[string]int{}, Tables: map[string]TableStatus{},
	}
	for class, n := range c.classes {
		s.InflightLookups[identity.Priority(class).String()] = n
	}
	for name, t := range c.tables {
		// A table that nobody asks for goes down as well.
		t.ladder.step(c.limits.Ladder, now)
		short, long := t.ladder.burns(now)
		s.Tables[name] = TableStatus{Level: t.ladder.level, Name: t.ladder.level.String(), ShortBurn: short, LongBurn: long}
	}
	return s
}
