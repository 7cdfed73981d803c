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

// Limits bound what the executor asks of one host. The zero Limits means
// DefaultLimits, field by field.
type Limits struct {
	// InflightKeys is the most keys that may be outstanding at one host, abandoned ones
	// included, as CQL has no cancel. A single larger group is sent to an idle host
	// nevertheless.
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
	l.InflightKeys = cmp.Or(max(l.InflightKeys, 0), d.InflightKeys)
	l.EjectAfter = cmp.Or(max(l.EjectAfter, 0), d.EjectAfter)
	l.EjectMin = cmp.Or(max(l.EjectMin, 0), d.EjectMin)
	l.SlowStart = cmp.Or(max(l.SlowStart, 0), d.SlowStart)
	if l.EjectMax < l.EjectMin {
		l.EjectMax = max(d.EjectMax, l.EjectMin)
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
	// Incidents takes the panics of readers; nil only logs them.
	Incidents *incident.Log
	// Avoidance says whether plans spare hosts in trouble; the zero value does.
	Avoidance Avoidance
	// FailoverKeys is the most keys in flight to each datacenter to fail over to, abandoned
	// ones included; 0 asks none. SetFailoverKeys changes it.
	FailoverKeys int
	// GroupSize says how large groups of a query should be. It is asked for every plan,
	// by many goroutines; nil leaves it to the planner.
	GroupSize func(*Query) GroupSize
}

// GroupSize is how large the groups of a table should be, and what that rests on. The
// zero GroupSize is not known.
type GroupSize struct {
	// Keys is how many keys a group may have, where Request.Cap does not say; 0 leaves it
	// to the planner.
	Keys int
	// StatementCost is how long a statement takes besides its keys, KeyCost each key of
	// it; both 0 until they are known.
	StatementCost, KeyCost time.Duration
}

// Avoidance is the policy by which plans treat hosts that are suspect, stalled, ejected,
// full or slow.
type Avoidance int

// The policies of avoidance.
const (
	// AvoidTrouble asks such hosts less, or only for keys that have no other replica.
	AvoidTrouble Avoidance = iota
	// AvoidNothing plans as though all hosts were healthy, idle and equally fast. It
	// shows what avoidance is worth and is not for production.
	AvoidNothing
)

// Executor asks hosts for the groups of a plan, and knows how each host is
// doing. It is safe for concurrent use.
type Executor struct {
	reader   Reader
	current  func() *ring.Ring
	logger   *slog.Logger
	limits   Limits
	policies policies
	metrics  *metrics
	// groupSize is Config.GroupSize, never nil.
	groupSize func(*Query) GroupSize
	// incidents takes the panics of the reader.
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

	// failoverKeys is Config.FailoverKeys; datacenters are by name, behind viewMu.
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

// Close ends the probes that are in flight and waits for them. Lookups end by
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
