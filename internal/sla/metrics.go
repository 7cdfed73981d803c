package sla

import (
	"math"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	namespace  = "qosproxy"
	traceLabel = "trace_id"
)

// edges are bucket bounds of interest for every table, in seconds; 0.015 is the usual
// hedge delay. The targets of the tables are added.
var edges = []float64{.0005, .001, .002, .003, .005, .0075, .01, .015, .02, .03, .05, .075, .1, .15, .25, .5, 1, 2.5, 5, 10}

// metrics are the metrics that are updated as lookups end.
type metrics struct {
	keys, groups *prometheus.HistogramVec
	statuses     *prometheus.CounterVec
	judged       *prometheus.CounterVec
	coalesced    *prometheus.CounterVec
}

func newMetrics() *metrics {
	return &metrics{
		keys: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "lookup_keys",
			Help:    "Keys that lookups ask for, duplicates included.",
			Buckets: []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000},
		}, []string{"table"}),
		groups: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "lookup_groups",
			Help:    "Sub-queries that lookups are planned as, before hedges and failovers.",
			Buckets: []float64{1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 64, 128},
		}, []string{"table"}),
		statuses: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "keys_total",
			Help: "Keys asked, by what became of them.",
		}, []string{"table", "status"}),
		judged: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "sla_lookups_total",
			Help: "Lookups that count for the SLO, by outcome: kept was answered in full within the target, broken was not.",
		}, []string{"table", "outcome"}),
		coalesced: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "coalesced_keys_total",
			Help: "Distinct keys of lookups that the read of another lookup answered.",
		}, []string{"table"}),
	}
}

// record returns the empty record of a table.
func (m *metrics) record(name string) *record {
	r := &record{window: &window{begin: time.Now()}, keys: m.keys.WithLabelValues(name), groups: m.groups.WithLabelValues(name)}
	for i, status := range statusNames {
		r.statuses[i] = m.statuses.WithLabelValues(name, status)
	}
	r.coalesced = m.coalesced.WithLabelValues(name)
	r.kept, r.broken = m.judged.WithLabelValues(name, "kept"), m.judged.WithLabelValues(name, "broken")
	return r
}

// forget removes the metrics of a table.
func (m *metrics) forget(name string) {
	m.keys.DeleteLabelValues(name)
	m.groups.DeleteLabelValues(name)
	m.statuses.DeletePartialMatch(prometheus.Labels{"table": name})
	m.coalesced.DeleteLabelValues(name)
	m.judged.DeletePartialMatch(prometheus.Labels{"table": name})
}

// newDurations returns the histograms of lookups by table, keys and code.
func newDurations(edges []float64) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: "lookup_duration_seconds",
		Help:    "Time from the arrival of a lookup to its answer.",
		Buckets: edges,
		// Growth by 10 % per bucket: a percentile is within 5 %.
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  100,
		NativeHistogramMinResetDuration: time.Hour,
	}, []string{"table", "keys", "code"})
}

// durations collects the histograms that are current: the buckets of a histogram are
// fixed when it is made, but targets change.
type durations struct{ recorder *Recorder }

// Describe implements prometheus.Collector.
func (d durations) Describe(ch chan<- *prometheus.Desc) {
	d.recorder.current.Load().histograms.Describe(ch)
}

// Collect implements prometheus.Collector.
func (d durations) Collect(ch chan<- prometheus.Metric) {
	d.recorder.current.Load().histograms.Collect(ch)
}

// edgesWith returns edges and, for each target, itself, half of it and its operating
// point, so that the share of lookups within them is exact. All tables have the same
// edges, or buckets could not be summed over tables.
func edgesWith(edges []float64, targets map[string]Target) []float64 {
	all := slices.Clone(edges)
	for _, t := range targets {
		for _, d := range []time.Duration{t.Target, t.Target / 2, t.OperateAt} {
			if d > 0 {
				all = append(all, d.Seconds())
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

var (
	latencyDesc = prometheus.NewDesc(namespace+"_lookup_latency_seconds",
		"Latency that this share of the lookups of the window did not exceed; NaN without a lookup. Sum and count are since the start.",
		[]string{"table", "window"}, nil)
	targetDesc = prometheus.NewDesc(namespace+"_sla_target_seconds",
		"Latency within which the lookups of the table are to be answered.",
		[]string{"table"}, nil)
	percentileDesc = prometheus.NewDesc(namespace+"_sla_percentile",
		"Share of the lookups of the table that are to be answered within the target, in percent.",
		[]string{"table"}, nil)
	operateDesc = prometheus.NewDesc(namespace+"_sla_operate_at_ratio",
		"Where that percentile is meant to be in normal operation, relative to the target.",
		[]string{"table"}, nil)
	ratioDesc = prometheus.NewDesc(namespace+"_sla_ratio",
		"Share of the lookups of the window that were answered in full within the target; 1 without a lookup.",
		[]string{"table", "window"}, nil)
	burnDesc = prometheus.NewDesc(namespace+"_sla_burn_rate",
		"Share of lookups that missed the SLO relative to the share that may; 1 is just sustainable.",
		[]string{"table", "window"}, nil)
)

// windows are the lengths of the window label.
var windows = []struct {
	name   string
	length time.Duration
}{{"1m", Minute}, {"5m", FiveMinutes}}

// collector computes the metrics of sliding windows when they are scraped.
type collector struct{ recorder *Recorder }

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{latencyDesc, targetDesc, percentileDesc, operateDesc, ratioDesc, burnDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	now := time.Now()
	current := c.recorder.current.Load()
	for _, name := range current.names {
		t := current.tables[name]
		ch <- gauge(targetDesc, t.target.Target.Seconds(), name)
		ch <- gauge(percentileDesc, t.target.Percentile, name)
		ch <- gauge(operateDesc, t.target.OperateAt.Seconds()/t.target.Target.Seconds(), name)
		for _, w := range windows {
			p := t.snapshot(now, w.length)
			ch <- t.latency(p, w.name)
			ch <- gauge(ratioDesc, p.Ratio, name, w.name)
			ch <- gauge(burnDesc, p.Burn, name, w.name)
		}
	}
}

// latency returns the percentiles of a window. They are a summary because the label
// quantile is reserved to summaries and promtool refuses it on a gauge; a query sees the
// same series.
func (t *table) latency(p Percentiles, window string) prometheus.Metric {
	quantiles := map[float64]float64{0.5: p.P50.Seconds(), 0.95: p.P95.Seconds(), 0.99: p.P99.Seconds(), 0.999: p.P999.Seconds()}
	if p.Latencies == 0 {
		for q := range quantiles {
			quantiles[q] = math.NaN()
		}
	}
	sum := time.Duration(t.nanoseconds.Load()).Seconds()
	m, err := prometheus.NewConstSummary(latencyDesc, uint64(t.latencies.Load()), sum, quantiles, t.name, window)
	if err != nil {
		return prometheus.NewInvalidMetric(latencyDesc, err)
	}
	return m
}

func gauge(desc *prometheus.Desc, v float64, labels ...string) prometheus.Metric {
	m, err := prometheus.NewConstMetric(desc, prometheus.GaugeValue, v, labels...)
	if err != nil {
		return prometheus.NewInvalidMetric(desc, err)
	}
	return m
}
