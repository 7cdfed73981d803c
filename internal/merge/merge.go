// Package merge decides which sub-queries of different lookups go to a busy host as one
// statement. It bounds how many of our statements a host has in-flight; what comes while
// it has that many waits, and when an answer comes, compatible ones go together.
package merge

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/incident"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// Config is what a Reader works with.
type Config struct {
	// Reader asks one host; required.
	Reader executor.Reader
	// Expected returns how long a host that has nothing else to do takes for so many keys
	// of a query; false while that is not known. It is called often and by several
	// goroutines. Nil knows it of none; after how long a read is overdue is then fixed.
	Expected func(q *executor.Query, keys int) (time.Duration, bool)
	// Ring returns the current snapshot, nil before the first. Hosts that it lacks are
	// forgotten; a nil Ring forgets none.
	Ring func() *ring.Ring
	// Registerer gets the metrics; nil measures for nobody.
	Registerer prometheus.Registerer
	// Incidents takes the panics of shared reads; nil only logs them.
	Incidents *incident.Log
}

// Reader is an executor.Reader that merges. It is safe for concurrent use.
type Reader struct {
	cfg     Config
	begin   time.Time
	metrics *metrics
	// hosts are by id; the map is never changed, but replaced.
	hosts    atomic.Pointer[map[string]*host]
	grow     sync.Mutex
	policies policies
}

// policies decide how many statements a host may have in-flight.
type policies struct {
	// limit makes the limit of a host.
	limit func() limiting
	// overdue is after how long a read of which so much is expected does not count any more.
	overdue func(usual *spread, expected time.Duration) time.Duration
}

// limiting is how many statements a host may have in-flight.
type limiting interface {
	// most is how many may be.
	most() int
	// sent is told of a statement with which so many are in-flight, waits for how long the
	// sub-query has waited that goes next, and took of a statement that was settled: how
	// many sub-queries it was of, the sum of the time since they were asked, and of what
	// was to be expected of a host with nothing else to do.
	sent(inFlight int)
	waits(since time.Duration)
	took(subQueries int, sum, expected time.Duration)
}

// New returns a Reader. The error is that of the registerer.
func New(cfg Config) (*Reader, error) {
	r := &Reader{cfg: cfg, begin: time.Now(),
		policies: policies{limit: func() limiting { return newLimiter() }, overdue: (*spread).most}}
	r.hosts.Store(&map[string]*host{})
	r.metrics = newMetrics(r)
	if cfg.Registerer == nil {
		return r, nil
	}
	return r, r.metrics.register(cfg.Registerer)
}

// now is the time since the reader was made.
func (r *Reader) now() int64 { return int64(time.Since(r.begin)) }

// Read implements executor.Reader.
//
// # Waiting
//
// Below the limit of its host a sub-query is passed on as it is, in this goroutine.
// Otherwise it waits, and is sent alone or as a part of a shared read. One whose ctx ends
// while it waits returns executor.ErrUnsent, and its Settled is not called.
//
// # Sharing
//
// Equal keys are asked once. Each participant gets the results of its own keys, within its
// own MaxBytes; an error or a panic reaches all of them. A participant whose ctx ends
// returns at once. The shared read is cancelled when all of them have.
func (r *Reader) Read(ctx context.Context, q *executor.SubQuery) ([]partition.Result, error) {
	if q.Alone {
		r.metrics.observe(q.Query, len(q.Keys))
		return r.cfg.Reader.Read(ctx, q)
	}
	return r.read(ctx, q, true)
}

// read asks the host, together with others only if share is set.
func (r *Reader) read(ctx context.Context, q *executor.SubQuery, share bool) ([]partition.Result, error) {
	h := r.host(q.Host)
	h.mu.Lock()
	now := r.now()
	if len(h.queue) == 0 && h.free(now) {
		s := h.start(q.Query, len(q.Keys), now)
		h.mu.Unlock()
		return s.pass(ctx, q)
	}
	w := &waiter{
		ctx: ctx, query: q, share: share, askedAt: now, priority: identity.FromContext(ctx).Priority, deadline: math.MaxInt64,
		wake: make(chan struct{}, 1),
	}
	if at, ok := ctx.Deadline(); ok {
		w.deadline = int64(at.Sub(r.begin))
	}
	h.enqueue(w)
	h.dispatch(now)
	h.mu.Unlock()
	return w.wait(h)
}

// host returns the state of a host.
func (r *Reader) host(of ring.Host) *host {
	if h := (*r.hosts.Load())[of.ID]; h != nil {
		return h
	}
	r.grow.Lock()
	defer r.grow.Unlock()
	known := *r.hosts.Load()
	if h := known[of.ID]; h != nil {
		return h
	}
	next := maps.Clone(known)
	if current := r.ring(); current != nil {
		maps.DeleteFunc(next, func(id string, h *host) bool {
			return h.idle() && !slices.ContainsFunc(current.Hosts(), func(c ring.Host) bool { return c.ID == id })
		})
	}
	h := newHost(r)
	next[of.ID] = h
	r.hosts.Store(&next)
	return h
}

func (r *Reader) ring() *ring.Ring {
	if r.cfg.Ring == nil {
		return nil
	}
	return r.cfg.Ring()
}

// Queue is what waits for one host at one moment.
type Queue struct {
	// Limit is how many statements may be in-flight, InFlight how many are; those that are
	// overdue count for the second, not against the first.
	Limit, InFlight int
	// Waiting are the sub-queries that wait.
	Waiting int
	// Sent are all statements that were sent since the reader knows the host, SentKeys their
	// keys.
	Sent, SentKeys int64
}

// Queue returns what waits for a host, by id; false when it was never asked.
func (r *Reader) Queue(id string) (Queue, bool) {
	h := (*r.hosts.Load())[id]
	if h == nil {
		return Queue{}, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return Queue{Limit: h.limit.most(), InFlight: len(h.inFlight), Waiting: len(h.queue), Sent: h.sent.Load(), SentKeys: h.sentKeys.Load()}, true
}
