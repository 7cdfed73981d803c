package sla

import (
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
)

// The windows that percentiles, ratio and burn rate are kept for.
const (
	// Minute is the window called 1m.
	Minute = time.Minute
	// FiveMinutes is the window called 5m, the longest.
	FiveMinutes = 5 * time.Minute
)

// Percentiles summarizes the lookups of one table in one window.
type Percentiles struct {
	// P50 to P999 are the latencies that 50 to 99.9 % of the lookups did not exceed, to
	// within 0.1 %, and Max is the longest; all are 0 if there is none. Lookups that
	// failed before their time was over have no latency here. More than a minute counts
	// as a minute, except in Max.
	P50, P95, P99, P999, Max time.Duration
	// Latencies is the number of latencies that these are taken from.
	Latencies int64
	// Count is the number of lookups that count for the SLO. Refusals, failures by the
	// caller's fault, and callers that hung up within the target do not.
	Count int64
	// Ratio is the share of Count that met the SLO, 0 to 1; 1 if Count is 0, since none
	// missed it.
	Ratio float64
	// Burn is the burn rate: the share of Count that missed the SLO over the share that
	// may. At 1 the SLO is just kept; 0 means that none missed it.
	Burn float64
}

// Recorder records finished lookups. It is safe for concurrent use and needs no closing.
type Recorder struct {
	metrics *metrics
	current atomic.Pointer[slos]
	// changing is held while the targets are replaced.
	changing sync.Mutex
}

// slos are the tables that have a target. They never change.
type slos struct {
	tables  map[string]*table
	names   []string // of tables, sorted
	unknown *table
	// edges are the bucket bounds of histograms, which have the durations of all tables.
	edges      []float64
	histograms *prometheus.HistogramVec
}

// table is one target and what is measured against it.
type table struct {
	name   string
	target Target
	*record
	// durations are by class of keys and code, made when first needed: most
	// combinations never happen.
	durations [len(keysLabels)][len(codes)]atomic.Pointer[prometheus.Observer]
}

// record is the part of a table that is kept when its target changes.
type record struct {
	window       *window
	keys, groups prometheus.Observer
	statuses     [len(statusNames)]prometheus.Counter
	kept, broken prometheus.Counter
	coalesced    prometheus.Counter

	// latencies and nanoseconds are the number and the sum of all latencies.
	latencies, nanoseconds atomic.Int64
}

// New returns a recorder for tables, by keyspace.table, and registers its metrics at reg;
// nil registers them nowhere. It fails when reg has metrics of these names already.
func New(reg prometheus.Registerer, tables map[string]Target) (*Recorder, error) {
	r := &Recorder{metrics: newMetrics()}
	r.current.Store(&slos{unknown: &table{name: UnknownTable}, edges: edges, histograms: newDurations(edges)})
	r.SetTargets(tables)
	if reg == nil {
		return r, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{durations{r}, r.metrics.keys, r.metrics.groups, r.metrics.statuses, r.metrics.judged, r.metrics.coalesced, collector{r}} {
		errs = append(errs, reg.Register(c))
	}
	return r, errors.Join(errs...)
}

// SetTargets replaces the tables and their targets, by keyspace.table. What has been
// measured of a table that stays is kept; each lookup in its windows was judged by the
// target of its time. The metrics of a table that is removed are dropped: if they stood
// still, they would look like a table that nobody asks. A target that is new to the
// recorder adds a bucket to lookup_duration_seconds, which then begins anew for all
// tables, as after a restart.
func (r *Recorder) SetTargets(tables map[string]Target) {
	r.changing.Lock()
	defer r.changing.Unlock()
	targets := maps.Clone(tables)
	for name, t := range targets {
		if t.OperateAt <= 0 {
			t.OperateAt = t.Target / 2
			targets[name] = t
		}
	}
	before := r.current.Load()
	next := &slos{
		tables: make(map[string]*table, len(targets)), names: slices.Sorted(maps.Keys(targets)),
		unknown: before.unknown, edges: edgesWith(before.edges, targets), histograms: before.histograms,
	}
	grown := len(next.edges) > len(before.edges)
	if grown {
		next.unknown, next.histograms = &table{name: UnknownTable}, newDurations(next.edges)
	}
	for name, target := range targets {
		old := before.tables[name]
		switch {
		case old == nil:
			next.tables[name] = &table{name: name, target: target, record: r.metrics.record(name)}
		case old.target == target && !grown:
			next.tables[name] = old
		default:
			next.tables[name] = &table{name: name, target: target, record: old.record}
		}
	}
	r.current.Store(next)
	for name := range before.tables {
		if _, stays := next.tables[name]; !stays {
			r.metrics.forget(name)
			next.histograms.DeletePartialMatch(prometheus.Labels{"table": name})
		}
	}
}

// Observe records a lookup that has just ended.
//
// # What counts
//
// A lookup meets the SLO when it ends OK or PARTIAL_OK within the target. If PARTIAL_OK
// were a miss, shedding optional keys to keep the SLO would itself miss it. A lookup
// misses the SLO when it takes longer, when keys are left unanswered (PARTIAL,
// DEADLINE_EXCEEDED), or when it fails (UNAVAILABLE, RESOURCE_EXHAUSTED, INTERNAL). What
// the caller got wrong (INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED,
// FAILED_PRECONDITION) does not count, nor does a caller that hangs up (CANCELLED),
// unless the target had passed by then. Keys that the proxy refused to ask for
// (Lookup.Refused) do not count either: a lookup that was refused as a whole is left out,
// and one whose other keys were answered is judged by those.
func (r *Recorder) Observe(l *Lookup) {
	code, class := codeIndex(l.Code), keysIndex(l.Keys)
	current := r.current.Load()
	t, known := current.tables[l.Table]
	if !known {
		t = current.unknown
	}
	current.observeDuration(t, class, code, l)
	if !known {
		return
	}
	t.keys.Observe(float64(l.Keys))
	if l.Groups > 0 {
		t.groups.Observe(float64(l.Groups))
	}
	t.coalesced.Add(float64(l.Coalesced))
	for i, n := range l.Statuses {
		if n > 0 {
			t.statuses[i].Add(float64(n))
		}
	}
	counts, good, latency := judge(l.verdictOf(code), l.Duration, t.target.Target)
	if !counts {
		return
	}
	if good {
		t.kept.Inc()
	} else {
		t.broken.Inc()
	}
	if latency {
		t.latencies.Add(1)
		t.nanoseconds.Add(int64(max(l.Duration, 0)))
	}
	t.window.record(time.Now(), l.Duration, good, latency)
}

// maxTraceID is the longest trace id with which an exemplar stays within the 128 letters
// that OpenMetrics allows to its labels, including their names.
const maxTraceID = 128 - len(traceLabel)

func (p *slos) observeDuration(t *table, class, code int, l *Lookup) {
	cached := &t.durations[class][code]
	o := cached.Load()
	if o == nil {
		made := p.histograms.WithLabelValues(t.name, keysLabels[class].name, string(codes[code].name))
		o = &made
		cached.Store(o)
	}
	seconds := max(l.Duration, 0).Seconds()
	if l.TraceID != "" && len(l.TraceID) <= maxTraceID && utf8.ValidString(l.TraceID) {
		if e, ok := (*o).(prometheus.ExemplarObserver); ok {
			e.ObserveWithExemplar(seconds, prometheus.Labels{traceLabel: l.TraceID})
			return
		}
	}
	(*o).Observe(seconds)
}

// Snapshot summarizes the lookups of a table in the window that ends now, Minute or
// FiveMinutes. Another length is rounded up to slices of 10 s, at least one and at most
// FiveMinutes. The window forgets 10 s at a time, so that it is up to 10 s shorter than
// length. ok is false for a table without a target.
func (r *Recorder) Snapshot(name string, length time.Duration) (p Percentiles, ok bool) {
	t, ok := r.current.Load().tables[name]
	if !ok {
		return Percentiles{}, false
	}
	return t.snapshot(time.Now(), length), true
}

func (t *table) snapshot(now time.Time, length time.Duration) Percentiles {
	n := int64((length + sliceLength - 1) / sliceLength)
	p := t.window.percentiles(now, min(max(n, 1), slices5m))
	p.Burn = t.target.burn(p.Ratio)
	return p
}

// burn returns the burn rate of lookups of which the share ratio met the SLO.
func (t Target) burn(ratio float64) float64 {
	allowed := 1 - t.Percentile/100
	if allowed <= 0 {
		return 0
	}
	// A ratio of exactly 0.95 must not burn at 1.0000000000000009.
	return math.Round((1-ratio)/allowed*1e9) / 1e9
}

// Tables returns the tables that have a target, sorted.
func (r *Recorder) Tables() []string { return slices.Clone(r.current.Load().names) }

// Target returns the target of a table; ok is false for a table without.
func (r *Recorder) Target(name string) (target Target, ok bool) {
	t, ok := r.current.Load().tables[name]
	if !ok {
		return Target{}, false
	}
	return t.target, true
}
