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

// Percentiles are the lookups of one table in one window.
type Percentiles struct {
	// P50 to P999 are the latencies that this share of the lookups did not
	// exceed, to 0.1 %, and Max is the longest; 0 when there is none. Lookups
	// that failed before their time was over are not among them, and more than a
	// minute counts as a minute but for Max.
	P50, P95, P99, P999, Max time.Duration
	// Latencies is the number of lookups that these are of.
	Latencies int64
	// Count is the number of lookups that count for the SLO: all but those
	// that failed by the caller's fault.
	Count int64
	// Ratio is the share of Count that were answered in full within the target,
	// 0 to 1; 1 when there was none, for none missed the target.
	Ratio float64
	// Burn is how fast the SLO uses up the failures that it allows: 1 is
	// just as fast as it may for ever, and 0 not at all.
	Burn float64
}

// Recorder takes every finished lookup. Safe for concurrent use; it needs no
// closing.
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
	// edges are those of histograms, in which the durations of all tables are.
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

// record is what stays when the target of a table changes.
type record struct {
	window       *window
	keys, groups prometheus.Observer
	statuses     [len(statusNames)]prometheus.Counter
	kept, broken prometheus.Counter
	coalesced    prometheus.Counter

	// latencies and nanoseconds are the number and the sum of all latencies.
	latencies, nanoseconds atomic.Int64
}

// New returns a recorder for tables, by keyspace.table, whose metrics are at
// reg; nil registers them nowhere. It fails when reg has metrics of these names
// already.
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

// SetTargets replaces the tables and their targets, by keyspace.table. What has
// been measured of a table that stays is kept; each lookup in its windows was
// judged by the target of its time. The metrics of a table that is gone go with
// it: standing still they would look like a table that nobody asks. A target that
// is new to the recorder is an edge more for lookup_duration_seconds, which then
// begins anew for all tables, as after a restart.
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

// Observe takes a lookup that has just ended.
//
// # What counts
//
// A lookup meets the SLO when it ends OK or PARTIAL_OK within the target: were
// what its caller agreed to do without a loss, shedding optional keys to save the
// SLO would itself miss it. It misses it
// when it takes longer, when keys are left unanswered (PARTIAL,
// DEADLINE_EXCEEDED), or when it fails (UNAVAILABLE, RESOURCE_EXHAUSTED,
// INTERNAL). What the caller got wrong (INVALID_ARGUMENT, NOT_FOUND,
// PERMISSION_DENIED) does not count, nor does a caller that hangs up
// (CANCELLED), unless the target had passed by then. Keys that the proxy refused
// to ask for (Lookup.Refused) do not count either: a lookup that was refused as a
// whole is left out, and one of which the other keys were answered is judged by
// those.
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

// maxTraceID keeps the exemplar within the 128 letters that OpenMetrics allows
// to its labels; the name of the label is one of them.
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

// Snapshot returns the lookups of a table in the window that ends now, Minute or
// FiveMinutes; another length is rounded up to slices of 10 s and held between
// one slice and FiveMinutes. The window forgets 10 s at a time, so that it is up
// to 10 s shorter than it is called. ok is false for a table without a target.
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

// burn is how fast lookups of which this share met the SLO use up what it allows.
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
