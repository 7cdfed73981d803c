package executor

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/planner"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// Limits bound what the executor asks of one host. The zero Limits means
// DefaultLimits, field by field.
type Limits struct {
	// InflightKeys is the most keys that one host may owe an answer for,
	// abandoned ones included, as CQL has no cancel. A single larger group is
	// sent to an idle host nevertheless.
	InflightKeys int
	// EjectAfter is after how many consecutive failures a host is ejected.
	EjectAfter int
	// EjectMin and EjectMax are the shortest and the longest ejection; it
	// doubles from the one to the other with each probe that fails.
	EjectMin, EjectMax time.Duration
	// SlowStart is how long a host that was ejected is preferred less, fading.
	SlowStart time.Duration
}

// DefaultLimits returns the limits that suit Cassandra's own defaults: 1024 keys
// are some 50 ms of work for one node, the longest backlog that a node which was
// frozen should have to work off.
func DefaultLimits() Limits {
	return Limits{
		InflightKeys: 1024,
		EjectAfter:   5,
		EjectMin:     time.Second,
		EjectMax:     30 * time.Second,
		SlowStart:    10 * time.Second,
	}
}

func (l Limits) orDefault() Limits {
	d := DefaultLimits()
	if l.InflightKeys <= 0 {
		l.InflightKeys = d.InflightKeys
	}
	if l.EjectAfter <= 0 {
		l.EjectAfter = d.EjectAfter
	}
	if l.EjectMin <= 0 {
		l.EjectMin = d.EjectMin
	}
	if l.EjectMax < l.EjectMin {
		l.EjectMax = max(d.EjectMax, l.EjectMin)
	}
	if l.SlowStart <= 0 {
		l.SlowStart = d.SlowStart
	}
	return l
}

// Config is what an Executor works with.
type Config struct {
	// Reader asks one host; required.
	Reader Reader
	// Ring returns the current snapshot, nil before the first; required by
	// Health and the metrics of hosts. A lookup brings its own snapshot.
	Ring func() *ring.Ring
	// Logger gets the changes of state of hosts; nil logs nothing.
	Logger *slog.Logger
	// Registerer gets the metrics; nil measures for nobody.
	Registerer prometheus.Registerer
	// Limits bound what is asked of one host.
	Limits Limits

	// without switches a safeguard off, for the test that shows it is needed.
	without safeguards
}

// safeguards are named after what they turn off.
type safeguards struct {
	budgets, reserve, suspects, failover, cancel, ejection, overtaking, stalls, gone, warming, sparing, standing, slow, rescue bool
}

// Executor asks hosts for the groups of a plan, and knows how each host is
// doing. It is safe for concurrent use.
type Executor struct {
	reader  Reader
	current func() *ring.Ring
	logger  *slog.Logger
	limits  Limits
	without safeguards
	metrics *metrics

	begin   time.Time
	ctx     context.Context
	stop    context.CancelFunc
	probes  sync.WaitGroup
	closing sync.RWMutex

	viewMu   sync.Mutex
	views    atomic.Pointer[[]*view]
	tables   sync.Map // name → *TableState
	lookups  atomic.Uint32
	seed     atomic.Uint64
	surveys  sync.Pool
	ejecting sync.Mutex
}

// New returns an executor. Close it to end its probes.
func New(cfg Config) *Executor {
	logger := cfg.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	e := &Executor{
		reader:  cfg.Reader,
		current: cfg.Ring,
		logger:  logger,
		limits:  cfg.Limits.orDefault(),
		without: cfg.without,
		begin:   time.Now(),
	}
	e.ctx, e.stop = context.WithCancel(context.Background())
	e.surveys.New = func() any { return new(survey) }
	e.views.Store(&[]*view{})
	e.metrics = newMetrics()
	if cfg.Registerer != nil {
		if err := e.metrics.register(cfg.Registerer, e); err != nil {
			logger.Error("metrics of the executor are incomplete; give each executor a registry of its own", "error", err)
		}
	}
	return e
}

// Close ends the probes that are under way and waits for them. Lookups end by
// their own contexts; end them first.
func (e *Executor) Close() {
	e.stop()
	// A probe that saw the executor open has been counted once the lock is free.
	e.closing.Lock()
	e.closing.Unlock() //nolint:staticcheck // The empty section is the point.
	e.probes.Wait()
}

// now is the time since the executor was made, which fits into an atomic.
func (e *Executor) now() int64 { return int64(time.Since(e.begin)) }

// Request is one lookup, as the executor sees it. It is read, never changed, and
// must not change until every host asked has settled.
type Request struct {
	// Query is what to read of each key.
	Query *Query
	// Ring is the snapshot that the host indices refer to.
	Ring *ring.Ring
	// Keys are the partitions to read, without duplicates.
	Keys []partition.Key
	// Replicas are the hosts that may be asked for each key, in ring order.
	Replicas [][]ring.HostIndex
	// Ranges is the token range of each key; needed by planner.Range alone.
	Ranges []int32
	// Grouping and Cap are as in planner.Input.
	Grouping planner.Grouping
	Cap      int
	// Policy says when a late group is hedged.
	Policy hedge.Policy
	// Table is the state of the table, from Executor.Table.
	Table *TableState
	// Near is as in planner.Input.
	Near []bool
	// FewHedges hedges only away from hosts that stand still. It does not bear on
	// ALWAYS.
	FewHedges bool
	// Trace records every sub-query in Stats.Attempts.
	Trace bool
	// TraceID is the trace to which the exemplars of sub-query durations link; empty
	// for none.
	TraceID string
}

// Stats are the counts of one lookup.
type Stats struct {
	// Groups are the groups of the plan; SubQueries all sub-queries sent for the
	// lookup, of which Hedges because a group was late and Failovers because one
	// failed.
	Groups, SubQueries, Hedges, Failovers int
	// Attempts are the sub-queries in the order they were sent; only with
	// Request.Trace.
	Attempts []Attempt
}

// The kinds of an attempt, as in Attempt.Kind and in metric labels.
const (
	// KindFirst is the attempt that the plan asked for.
	KindFirst = "first"
	// KindHedge is an attempt made because another is late.
	KindHedge = "hedge"
	// KindFailover is an attempt made because another has failed.
	KindFailover = "failover"
	// KindProbe is a few keys asked of an avoided host to see whether it is well, and
	// to warm it up.
	// It belongs to no lookup and occurs in metrics alone.
	KindProbe = "probe"
)

// The outcomes of an attempt, as in Attempt.Outcome.
const (
	// OutcomeWon means that some key was answered first here.
	OutcomeWon = "won"
	// OutcomeLost means that it answered when all its keys had been answered.
	OutcomeLost = "lost"
	// OutcomeFailed means that it failed; Attempt.Err says why.
	OutcomeFailed = "failed"
	// OutcomeCancelled means that all its keys were answered elsewhere while it
	// was on its way.
	OutcomeCancelled = "cancelled"
	// OutcomePending means that it was on its way when the deadline passed.
	OutcomePending = "pending"
)

// Attempt is one sub-query of a traced lookup.
type Attempt struct {
	// Host is the address that was asked.
	Host string
	// Kind is one of the kinds first, hedge and failover.
	Kind string
	// Keys are indices into Request.Keys.
	Keys []int32
	// Start and End are relative to the call of Execute. End is when the attempt
	// was of no more use to the lookup.
	Start, End time.Duration
	// Outcome is one of the outcomes.
	Outcome string
	// Err is the Reason of a failure, empty otherwise.
	Err string
	// HedgeAfter is after what time from Start the attempt was to be hedged;
	// negative for never.
	HedgeAfter time.Duration
	// NotHedged is why no hedge was sent when the attempt was late, one of the
	// NotHedged words; empty when one was, or when it was not late.
	NotHedged string
}

// Why a late attempt was not hedged, as in Attempt.NotHedged.
const (
	// NotHedgedBudget means that the hedge budget of the table was spent.
	NotHedgedBudget = "budget"
	// NotHedgedLoad means that so many hosts or attempts were late that it was taken
	// for load, which hedges would add to.
	NotHedgedLoad = "load"
	// NotHedgedDeadline means that too little time was left for another replica to
	// answer.
	NotHedgedDeadline = "deadline"
	// NotHedgedReplicas means that every other replica had been asked, or owed too
	// many answers.
	NotHedgedReplicas = "replicas"
)
