package executor

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qosproxy/qosproxy/internal/incident"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// Limits bounds what the executor asks of one host. A field that is zero or negative takes
// its default from DefaultLimits.
type Limits struct {
	// InflightKeys is the most keys that may be outstanding at one host, including
	// abandoned ones, as CQL cannot cancel a read. An idle host is sent a single larger
	// group nevertheless.
	InflightKeys int
	// EjectAfter is the number of consecutive failures after which a host is ejected.
	EjectAfter int
	// EjectMin and EjectMax are the shortest and the longest ejection. Its length doubles
	// with each probe that fails.
	EjectMin, EjectMax time.Duration
	// SlowStart is how long a host costs more after an ejection. The surcharge fades over
	// this time.
	SlowStart time.Duration
}

// DefaultLimits returns the limits that suit Cassandra's own defaults: 1024 keys are some
// 50 ms of work for one node, the longest backlog that it should have to work off after it
// was frozen.
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
	l.InflightKeys = cmp.Or(max(l.InflightKeys, 0), d.InflightKeys)
	l.EjectAfter = cmp.Or(max(l.EjectAfter, 0), d.EjectAfter)
	l.EjectMin = cmp.Or(max(l.EjectMin, 0), d.EjectMin)
	l.SlowStart = cmp.Or(max(l.SlowStart, 0), d.SlowStart)
	if l.EjectMax < l.EjectMin {
		l.EjectMax = max(d.EjectMax, l.EjectMin)
	}
	return l
}

// Config holds the dependencies and settings of an Executor.
type Config struct {
	// Reader reads from one host. It is required.
	Reader Reader
	// Ring returns the current snapshot, or nil before the first. Health, Datacenters and
	// the metrics of hosts need it. A lookup brings its own snapshot.
	Ring func() *ring.Ring
	// Logger logs the state changes of hosts; nil logs nothing.
	Logger *slog.Logger
	// Registerer registers the metrics; nil exports none.
	Registerer prometheus.Registerer
	// Limits bounds what is asked of one host.
	Limits Limits
	// Incidents records panics of readers; nil only logs them.
	Incidents *incident.Log
	// Avoidance says whether plans avoid hosts that are not healthy; by default they do.
	Avoidance Avoidance
	// FailoverKeys is the most keys outstanding in each datacenter to fail over to,
	// including abandoned ones; 0 disables this fail-over. SetFailoverKeys changes it.
	FailoverKeys int
	// GroupSize returns how large the groups of a query should be. It is called for every
	// plan, concurrently; nil leaves the size to the planner.
	GroupSize func(*Query) GroupSize
}

// GroupSize is how large the groups of a table should be, and the costs that this is
// derived from. The zero GroupSize means unknown.
type GroupSize struct {
	// Keys is how many keys a group may have if Request.Cap is 0; 0 leaves it to the
	// planner.
	Keys int
	// StatementCost is how long a statement takes in addition to its keys, and KeyCost how
	// long each key takes. Both are 0 until they are known.
	StatementCost, KeyCost time.Duration
}

// Avoidance is the policy by which plans treat hosts that are suspect, stalled, ejected,
// full or slow.
type Avoidance int

// The policies of avoidance.
const (
	// AvoidUnhealthy asks such hosts less, or only for keys that have no other replica.
	AvoidUnhealthy Avoidance = iota
	// AvoidNothing plans as though all hosts were healthy, idle and equally fast. It
	// shows what avoidance is worth and is not for production.
	AvoidNothing
)

// Executor asks hosts for the groups of a plan, and keeps track of the health of each host.
// It is safe for concurrent use.
type Executor struct {
	reader   Reader
	current  func() *ring.Ring
	logger   *slog.Logger
	limits   Limits
	policies policies
	metrics  *metrics
	// groupSize is Config.GroupSize, never nil.
	groupSize func(*Query) GroupSize
	// incidents records panics of the reader.
	incidents *incident.Log

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

	// failoverKeys is Config.FailoverKeys. datacenters is by name, and guarded by viewMu.
	failoverKeys atomic.Int64
	datacenters  map[string]*datacenter
}

// New returns an executor. Close it to end its probes.
func New(cfg Config) *Executor {
	p := defaultPolicies()
	if cfg.Avoidance == AvoidNothing {
		p.survey = surveyNothing
	}
	return newExecutor(cfg, p)
}

func newExecutor(cfg Config, p policies) *Executor {
	logger := cfg.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	e := &Executor{
		reader:    cfg.Reader,
		current:   cfg.Ring,
		logger:    logger,
		limits:    cfg.Limits.orDefault(),
		policies:  p,
		incidents: cfg.Incidents,
		groupSize: cfg.GroupSize,
		begin:     time.Now(),
	}
	if e.groupSize == nil {
		e.groupSize = func(*Query) GroupSize { return GroupSize{} }
	}
	e.ctx, e.stop = context.WithCancel(context.Background())
	e.surveys.New = func() any { return new(survey) }
	e.views.Store(&[]*view{})
	e.datacenters = make(map[string]*datacenter)
	e.SetFailoverKeys(cfg.FailoverKeys)
	e.metrics = newMetrics()
	if cfg.Registerer != nil {
		if err := e.metrics.register(cfg.Registerer, e); err != nil {
			logger.Error("metrics of the executor are incomplete; give each executor a registry of its own", "error", err)
		}
	}
	return e
}

// Close ends the probes that are in flight and waits for them. Lookups end by their own
// contexts; end them before.
func (e *Executor) Close() {
	e.stop()
	// Once the lock is free, every probe that saw the executor open has been counted.
	e.closing.Lock()
	e.closing.Unlock() //nolint:staticcheck // The empty section is the point.
	e.probes.Wait()
}

// now returns the time since the executor was made, in nanoseconds, which fit into an
// atomic.
func (e *Executor) now() int64 { return int64(time.Since(e.begin)) }
