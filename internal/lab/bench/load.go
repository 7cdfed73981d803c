package bench

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/qosproxy/qosproxy/internal/lab/report"
)

// Load says how lookups arrive. Exactly one of Rate and Concurrency is above 0.
type Load struct {
	// Rate, in lookups per second, makes an open loop: arrivals are a Poisson process that does not
	// wait for answers, and latency counts from the moment a lookup was due.
	Rate float64
	// Concurrency is the number of callers of a closed loop. Each makes its next lookup when the
	// previous one has been answered.
	Concurrency int
	// Until ends the load early when it is closed; nil for never.
	Until <-chan struct{}
}

// over reports whether the load ends early.
func (l *Load) over() bool {
	select {
	case <-l.Until:
		return true
	default:
		return false
	}
}

// maxInFlight is the largest number of lookups in-flight in an open loop. A lookup beyond it counts
// as failed and is not sent: by then the target has fallen hopelessly behind.
const maxInFlight = 4096

// The range of the histogram of latencies, in microseconds, and its significant decimal digits.
const (
	leastMicros  = 1
	mostMicros   = 120_000_000
	latencyExact = 3
)

// sums are counts over the lookups of a round.
type sums struct{ subQueries, hedges, failovers int64 }

// tally collects the outcomes of a round. It is safe for concurrent use.
type tally struct {
	begin     time.Time
	mu        sync.Mutex
	latencies *hdrhistogram.Histogram
	counts    report.Counts
	sent      sums
	late      time.Duration // latency above which a lookup is late; 0 for never
}

func newTally(late time.Duration) *tally {
	return &tally{begin: time.Now(), latencies: hdrhistogram.New(leastMicros, mostMicros, latencyExact), late: late, counts: report.Counts{Errors: map[string]int64{}}}
}

// mostErrors is how many different error texts a round keeps. mostBad is for how many lookups that
// were not right or not in time it keeps the moment when they ended.
const (
	mostErrors = 10
	mostBad    = 20
)

// add counts the outcome of a lookup with its number of keys and its latency.
func (t *tally) add(o *Outcome, keys int, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_ = t.latencies.RecordValue(min(max(took.Microseconds(), leastMicros), mostMicros))
	c := &t.counts
	c.Lookups++
	switch {
	case o.Failed == 0 && o.Err == nil:
		c.OK++
	case o.Failed < keys:
		c.Partial++
	default:
		c.Failed++
	}
	late := t.late > 0 && took > t.late
	if late {
		c.Late++
	}
	right := o.Failed+o.Missing+o.Wrong == 0 && o.Err == nil
	if right {
		c.Right++
	}
	switch {
	case right && !late:
		c.Good++
	case len(c.BadAt) < mostBad:
		c.BadAt = append(c.BadAt, time.Since(t.begin).Seconds())
	}
	c.FailedKeys += int64(o.Failed)
	c.MissingKeys += int64(o.Missing)
	c.WrongRows += int64(o.Wrong)
	t.sent.subQueries += int64(o.SubQueries)
	t.sent.hedges += int64(o.Hedges)
	t.sent.failovers += int64(o.Failovers)
	if o.Err != nil {
		text := o.Err.Error()
		if _, known := c.Errors[text]; !known && len(c.Errors) >= mostErrors {
			text = "other"
		}
		c.Errors[text]++
	}
}

// errOverrun is the error of a lookup that was not sent because of maxInFlight.
var errOverrun = errors.New("not sent: too many lookups are under way")

// drive loads a target for length. It returns the time from its beginning to the last answer.
func drive(ctx context.Context, target Target, load Load, w *workload, length, timeout time.Duration, t *tally) time.Duration {
	one := func(l *Lookup, due time.Time) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		o := target.Do(ctx, l)
		t.add(&o, len(l.Keys), time.Since(due))
	}
	begin := time.Now()
	if load.Concurrency > 0 {
		closedLoop(ctx, load, w, begin.Add(length), one)
	} else {
		openLoop(ctx, load, w, begin, length, one, t)
	}
	return time.Since(begin)
}

func closedLoop(ctx context.Context, load Load, w *workload, end time.Time, one func(*Lookup, time.Time)) {
	var (
		all  sync.WaitGroup
		turn sync.Mutex
	)
	next := func() *Lookup {
		turn.Lock()
		defer turn.Unlock()
		return w.next()
	}
	for range load.Concurrency {
		all.Go(func() {
			for time.Now().Before(end) && ctx.Err() == nil && !load.over() {
				l := next()
				one(l, time.Now())
			}
		})
	}
	all.Wait()
}

func openLoop(ctx context.Context, load Load, w *workload, begin time.Time, length time.Duration, one func(*Lookup, time.Time), t *tally) {
	var all sync.WaitGroup
	defer all.Wait()
	room := make(chan struct{}, maxInFlight)
	arrivals := rand.New(rand.NewPCG(w.random.Uint64(), 1))
	for due := begin; ; {
		due = due.Add(time.Duration(arrivals.ExpFloat64() / load.Rate * float64(time.Second)))
		if due.Sub(begin) > length {
			return
		}
		l := w.next()
		select {
		case <-ctx.Done():
			return
		case <-load.Until:
			return
		case <-time.After(time.Until(due)):
		}
		select {
		case room <- struct{}{}:
		default:
			t.add(&Outcome{Failed: len(l.Keys), Err: errOverrun}, len(l.Keys), time.Since(due))
			continue
		}
		all.Go(func() {
			defer func() { <-room }()
			one(l, due)
		})
	}
}

// round loads a contender for length and measures it.
func (o *Contender) round(ctx context.Context, load Load, length time.Duration, seed uint64, late time.Duration) (report.Round, error) {
	d := o.Driver
	target, err := d.Target(ctx, o.Target)
	if err != nil {
		return report.Round{}, err
	}
	w, t := newWorkload(d.open.Data, d.open.kinds, seed), newTally(late)
	before, err := d.meter.read(ctx)
	if err != nil {
		return report.Round{}, err
	}
	start := time.Now()
	took := drive(ctx, target, load, w, length, d.open.Timeout, t)
	after, err := d.meter.read(ctx)
	if err != nil {
		return report.Round{}, err
	}
	r := report.Round{
		Start: start, Seconds: took.Seconds(), OfferedRate: load.Rate, Concurrency: load.Concurrency,
		KeysPerLookup: d.open.keysPerLookup(), Counts: t.counts, Latency: latency(t.latencies),
	}
	r.PerLookup, r.NodeCPUMillis = d.meter.cost(before, after, o.Target, t.counts.Lookups, t.sent)
	return r, ctx.Err()
}

// keysPerLookup returns the mean number of keys of the mix, weighted and rounded.
func (o *Open) keysPerLookup() int {
	keys, weight := 0, 0
	for _, k := range o.kinds {
		keys += k.Keys * k.Weight
		weight += k.Weight
	}
	return (keys + weight/2) / weight
}

// latency converts a histogram into the form of a report.
func latency(h *hdrhistogram.Histogram) report.Latency {
	seconds := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) / 1e6 }
	l := report.Latency{
		Mean: h.Mean() / 1e6, P50: seconds(50), P95: seconds(95), P99: seconds(99), P999: seconds(99.9), Max: float64(h.Max()) / 1e6,
	}
	for _, q := range curve {
		l.Curve = append(l.Curve, report.Quantile{Q: q, Seconds: seconds(q * 100)})
	}
	for _, bar := range h.Distribution() {
		if bar.Count > 0 {
			l.Samples = append(l.Samples, report.Sample{Micros: bar.To, Count: bar.Count})
		}
	}
	return l
}

// curve lists the quantiles at which a distribution is drawn.
var curve = []float64{0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.975, 0.99, 0.995, 0.9975, 0.999, 0.9995, 0.9999, 1}
