package executor

import (
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The outcomes of a hedge, as a metric label.
const (
	hedgeWon    = "won"
	hedgeLost   = "lost"
	hedgeDenied = "denied"
)

type metrics struct {
	durations  *prometheus.HistogramVec
	subQueries *prometheus.CounterVec
	hedges     *prometheus.CounterVec
	failovers  *prometheus.CounterVec
	changes    *prometheus.CounterVec

	// dcKeys and dcDenied are by datacenter to fail over to.
	dcKeys, dcDenied *prometheus.CounterVec

	hedgeOpportunities *prometheus.CounterVec
	opportunities      opportunities

	sent map[Kind]prometheus.Counter

	mu    sync.Mutex
	addrs map[string]bool
}

func newMetrics() *metrics {
	m := &metrics{
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "qosproxy_subquery_duration_seconds",
			Help: "Time from sending a sub-query to the answer of its host, abandoned ones included, failed ones not.",
			Buckets: []float64{.0005, .001, .002, .003, .005, .0075, .010, .015, .020, .030, .050,
				.0625, .075, .1, .125, .25, .5, 1, 2.5, 5, 10, 30},
			NativeHistogramBucketFactor:     1.1,
			NativeHistogramMaxBucketNumber:  100,
			NativeHistogramMinResetDuration: time.Hour,
		}, []string{"host", "attempt"}),
		subQueries: counters("qosproxy_subqueries_total", "Sub-queries sent: first, hedge, failover, reread after replicas were compared, and probes of avoided hosts.", "attempt"),
		hedges: counters("qosproxy_hedges_total",
			"Hedges by outcome: won answered some key first, lost did not, denied were not sent for want of budget or for overload.", "outcome"),
		failovers: counters("qosproxy_failovers_total", "Sub-queries sent for keys that another has lost, by the reason for which they were lost.", "reason"),
		changes:   counters("qosproxy_host_state_changes_total", "Times a host has entered a state.", "host", "state"),
		dcKeys: counters("qosproxy_dc_failover_keys_total",
			"Keys asked of another datacenter since too few local replicas could be reached, by that datacenter.", "dc"),
		dcDenied: counters("qosproxy_dc_failover_denied_keys_total",
			"Keys not asked of another datacenter when they were due to be, since dc_failover_keys were in flight there.", "dc"),
		sent:  make(map[Kind]prometheus.Counter),
		addrs: make(map[string]bool),
	}
	m.hedgeOpportunities, m.opportunities = newOpportunities()
	for _, kind := range []Kind{KindFirst, KindHedge, KindFailover, KindReread, KindProbe} {
		m.sent[kind] = m.subQueries.WithLabelValues(string(kind))
	}
	// A rate needs a zero before the first event.
	for _, outcome := range []string{hedgeWon, hedgeLost, hedgeDenied} {
		m.hedges.WithLabelValues(outcome)
	}
	m.failovers.WithLabelValues(string(reasonFull))
	for _, r := range readReasons {
		m.failovers.WithLabelValues(string(r))
	}
	return m
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func (m *metrics) register(to prometheus.Registerer, e *Executor) error {
	var errs []error
	for _, c := range []prometheus.Collector{m.durations, m.subQueries, m.hedges, m.failovers, m.changes, m.dcKeys, m.dcDenied, m.hedgeOpportunities, hostCollector{e}, quorumCollector{e}} {
		errs = append(errs, to.Register(c))
	}
	return errors.Join(errs...)
}

// hostMetrics are the series of one host, looked up once.
type hostMetrics struct {
	durations map[Kind]prometheus.Observer
	states    [Ejected + 1]prometheus.Counter
}

func (m *metrics) host(addr string) hostMetrics {
	m.mu.Lock()
	m.addrs[addr] = true
	m.mu.Unlock()
	h := hostMetrics{durations: make(map[Kind]prometheus.Observer, len(m.sent))}
	for kind := range m.sent {
		h.durations[kind] = m.durations.WithLabelValues(addr, string(kind))
	}
	for _, s := range []State{Healthy, Probing, Suspect, Ejected} {
		h.states[s] = m.changes.WithLabelValues(addr, s.String())
	}
	return h
}

// forget drops the series of addresses that no kept snapshot has: otherwise a cluster whose
// nodes are replaced day by day would fill the registry.
func (m *metrics) forget(views []*view) {
	m.mu.Lock()
	defer m.mu.Unlock()
	gone := maps.Clone(m.addrs)
	for _, v := range views {
		for _, h := range v.hosts {
			delete(gone, h.Addr)
		}
	}
	for addr := range gone {
		delete(m.addrs, addr)
		m.durations.DeletePartialMatch(prometheus.Labels{"host": addr})
		m.changes.DeletePartialMatch(prometheus.Labels{"host": addr})
	}
}

// hostCollector reads the state of the hosts when it is scraped, so that it is
// never stale and a host that has left leaves no series behind.
type hostCollector struct{ executor *Executor }

var (
	hostStateDesc = prometheus.NewDesc("qosproxy_host_state",
		"State of the host: 0 healthy, 1 slow_start, 2 probing, 3 suspect, 4 ejected.", []string{"host"}, nil)
	hostInflightDesc = prometheus.NewDesc("qosproxy_host_inflight",
		"Keys outstanding at the host, abandoned ones included.", []string{"host"}, nil)
	dcActiveDesc = prometheus.NewDesc("qosproxy_dc_active",
		"1 for the datacenter that keys are asked of: the first in the order of local_dc of which some host can be reached; 0 for the others.", []string{"dc"}, nil)
	hostLatencyDesc = prometheus.NewDesc("qosproxy_host_latency_seconds",
		"Moving average of the latency of the host's answers.", []string{"host"}, nil)
)

// Describe sends the descriptions of the metrics of hosts.
func (c hostCollector) Describe(to chan<- *prometheus.Desc) {
	to <- hostStateDesc
	to <- hostInflightDesc
	to <- hostLatencyDesc
	to <- dcActiveDesc
}

// Collect sends the metrics of each host of the current snapshot.
func (c hostCollector) Collect(to chan<- prometheus.Metric) {
	for _, h := range c.executor.Health() {
		addr := h.Host.Addr
		to <- prometheus.MustNewConstMetric(hostStateDesc, prometheus.GaugeValue, float64(h.State), addr)
		to <- prometheus.MustNewConstMetric(hostInflightDesc, prometheus.GaugeValue, float64(h.InflightKeys), addr)
		to <- prometheus.MustNewConstMetric(hostLatencyDesc, prometheus.GaugeValue, h.Latency.Seconds(), addr)
	}
	for _, d := range c.executor.Datacenters() {
		active := 0.0
		if d.Active {
			active = 1
		}
		to <- prometheus.MustNewConstMetric(dcActiveDesc, prometheus.GaugeValue, active, d.Name)
	}
}

// observe records a duration, with the trace as its exemplar if there is one.
func observe(o prometheus.Observer, took time.Duration, traceID string) {
	if traceID != "" {
		if e, ok := o.(prometheus.ExemplarObserver); ok {
			e.ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": traceID})
			return
		}
	}
	o.Observe(took.Seconds())
}
