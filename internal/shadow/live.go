package shadow

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qosproxy/qosproxy/internal/incident"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// Lookups is the service that Live samples. *lookup.Service is one.
type Lookups interface {
	Table(keyspace, table string) (*lookup.Table, error)
	Tables() []*lookup.Table
	Get(ctx context.Context, req *lookup.Request) (*lookup.Response, error)
	Stream(ctx context.Context, req *lookup.Request, emit func(i int, r partition.Result) error) (lookup.Stats, error)
	Explain(ctx context.Context, req *lookup.Request) (*lookup.Plan, error)
	Ring() *ring.Ring
}

// LiveConfig configures a Live. Registerer, Driver and Sample are required.
type LiveConfig struct {
	// Sample is the share of lookups that are repeated, 0 to 1.
	Sample float64
	// Concurrency is how many lookups are compared at a time; at least 1.
	Concurrency int
	// Driver repeats the sampled lookups. If it returns an error, the comparison has failed.
	Driver Path
	// Pauses are the Pauses of the Judge; nil means DefaultPauses.
	Pauses []time.Duration
	// Registerer receives the metrics.
	Registerer prometheus.Registerer
	// Log receives differences, without keys and values; nil discards them.
	Log *slog.Logger
	// Incidents records panics; nil only logs them.
	Incidents *incident.Log
}

// Live decorates Lookups. A share of the lookups, once answered, is read again by the plain
// driver and compared in the background. A lookup never waits for that: if the queue has no
// room, the lookup is not compared. Live is safe for concurrent use.
type Live struct {
	Lookups
	cfg     LiveConfig
	judge   Judge
	metrics *metrics
	queue   chan *sampled
	// bytes is the memory of the lookups in the queue.
	bytes  atomic.Int64
	counts liveCounts
	logged atomic.Int64 // when a difference was logged last, in Unix nanoseconds
}

// sampled is an answered lookup that waits to be compared.
type sampled struct {
	req    *lookup.Request
	answer *Answer
	bytes  int64
}

const (
	// waitingPerWorker is how many lookups may wait for each worker.
	waitingPerWorker = 8
	// waitingBytes is how many bytes of keys and rows may wait.
	waitingBytes = 16 << 20
	// logInterval is the least time between two log records of differences.
	logInterval = 10 * time.Second
)

// Status is what was compared since the start; it encodes as JSON.
type Status struct {
	Sample    float64 `json:"sample"`
	Compared  int64   `json:"compared_lookups"`
	Different int64   `json:"different_lookups"`
	Dropped   int64   `json:"dropped_lookups"`
	Failed    int64   `json:"failed_lookups"`
}

type liveCounts struct{ compared, different, dropped, failed atomic.Int64 }

// NewLive returns a Live that samples next. Comparisons are made while Run runs. The error
// is that of the registerer.
func NewLive(next Lookups, cfg LiveConfig) (*Live, error) {
	m, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Pauses == nil {
		cfg.Pauses = DefaultPauses
	}
	cfg.Concurrency = max(cfg.Concurrency, 1)
	l := &Live{Lookups: next, cfg: cfg, metrics: m, queue: make(chan *sampled, waitingPerWorker*cfg.Concurrency)}
	l.judge = Judge{Driver: cfg.Driver, Pauses: cfg.Pauses, Proxy: PathFunc(func(ctx context.Context, req *lookup.Request) (*Answer, error) {
		resp, err := next.Get(ctx, req)
		if err != nil {
			return nil, err
		}
		return &Answer{Results: resp.Results, Elapsed: resp.Stats.Elapsed}, nil
	})}
	return l, nil
}

// SetTables sets the tables that have series, by keyspace and name; there are none before. The
// series of a table that is removed are dropped, and a comparison that ends later does not bring
// them back.
func (l *Live) SetTables(tables [][2]string) { l.metrics.setTables(tables) }

// Get answers a lookup, and may have it compared.
func (l *Live) Get(ctx context.Context, req *lookup.Request) (*lookup.Response, error) {
	resp, err := l.Lookups.Get(ctx, req)
	if err == nil && l.chosen() {
		// A copy: the listener writes into the results when a cell cannot be decoded.
		l.offer(req, append([]partition.Result(nil), resp.Results...), resp.Stats)
	}
	return resp, err
}

// Stream answers a lookup key by key, and may have it compared.
func (l *Live) Stream(ctx context.Context, req *lookup.Request, emit func(i int, r partition.Result) error) (lookup.Stats, error) {
	if !l.chosen() {
		return l.Lookups.Stream(ctx, req, emit)
	}
	results := make([]partition.Result, len(req.Keys))
	stats, err := l.Lookups.Stream(ctx, req, func(i int, r partition.Result) error {
		results[i] = r
		return emit(i, r)
	})
	if err == nil {
		l.offer(req, results, stats)
	}
	return stats, err
}

// chosen draws whether a lookup is sampled.
func (l *Live) chosen() bool {
	return rand.Float64() < l.cfg.Sample
}

// offer queues a lookup for comparison if there is room, and drops it otherwise.
func (l *Live) offer(req *lookup.Request, results []partition.Result, stats lookup.Stats) {
	table := req.Table.Schema.String()
	if req.Paging {
		l.metrics.count(table, outcomeSkipped, nil)
		return
	}
	all := make([]int, len(req.Keys))
	s := &sampled{answer: &Answer{Results: results, Sent: stats.SubQueries, Elapsed: stats.Elapsed}}
	for i := range results {
		all[i] = i
		s.bytes += int64(results[i].Memory())
		for _, c := range req.Keys[i].Components() {
			s.bytes += int64(len(c))
		}
	}
	s.req = Only(req, all)
	if l.bytes.Add(s.bytes) <= waitingBytes {
		select {
		case l.queue <- s:
			return
		default:
		}
	}
	l.bytes.Add(-s.bytes)
	l.counts.dropped.Add(1)
	l.metrics.count(table, outcomeDropped, nil)
}

// Run compares queued lookups until ctx ends.
func (l *Live) Run(ctx context.Context) {
	var workers sync.WaitGroup
	for range l.cfg.Concurrency {
		workers.Go(func() {
			for {
				select {
				case s := <-l.queue:
					l.bytes.Add(-s.bytes)
					l.guarded(ctx, s)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	workers.Wait()
}

// guarded compares one lookup. A panic is recorded as an incident and affects nothing else.
func (l *Live) guarded(ctx context.Context, s *sampled) {
	defer l.cfg.Incidents.Catch(ctx, "comparison with the plain driver", nil)
	l.compare(ctx, s)
}

// compare repeats a lookup by the driver and counts the outcome.
func (l *Live) compare(ctx context.Context, s *sampled) {
	table := s.req.Table.Schema.String()
	driver, err := l.cfg.Driver.Read(ctx, s.req)
	if err != nil {
		l.counts.failed.Add(1)
		l.metrics.count(table, outcomeFailed, nil)
		return
	}
	v := l.judge.Compare(ctx, s.req, driver, s.answer)
	if ctx.Err() != nil {
		return
	}
	l.metrics.durations.WithLabelValues(ProxySide.String()).Observe(s.answer.Elapsed.Seconds())
	l.metrics.durations.WithLabelValues(DriverSide.String()).Observe(driver.Elapsed.Seconds())
	l.counts.compared.Add(1)
	l.metrics.count(table, outcomeOf(v), v.Differences)
	if v.Different > 0 {
		l.counts.different.Add(1)
		l.log(ctx, v)
	}
}

// outcomeOf returns the outcome of a lookup.
func outcomeOf(v *Verdict) outcome {
	switch {
	case v.Different > 0:
		return outcomeDifferent
	case v.Unsettled > 0:
		return outcomeUnsettled
	case len(v.Unanswered[DriverSide]) > 0 || len(v.Unanswered[ProxySide]) > 0:
		return outcomeUnanswered
	case v.Changed > 0:
		return outcomeChanged
	}
	return outcomeSame
}

// log logs a difference, at most one in every logInterval. The token identifies the
// partition without its key in the log.
func (l *Live) log(ctx context.Context, v *Verdict) {
	last, now := l.logged.Load(), time.Now().UnixNano()
	if last != 0 && now-last < int64(logInterval) || !l.logged.CompareAndSwap(last, now) {
		return
	}
	d := v.Differences[0]
	l.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "the plain driver reads something else than the proxy has answered",
		slog.String("table", d.Table), slog.String("kind", string(d.Kind)), slog.String("column", d.Column),
		slog.Int64("token", d.token), slog.Int("keys", v.Different), slog.Int64("different_lookups", l.counts.different.Load()))
}

// Status returns what was compared so far.
func (l *Live) Status() Status {
	return Status{
		Sample: l.cfg.Sample, Compared: l.counts.compared.Load(), Different: l.counts.different.Load(),
		Dropped: l.counts.dropped.Load(), Failed: l.counts.failed.Load(),
	}
}
