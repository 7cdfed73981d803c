// Package merge decides which sub-queries of different lookups go to a busy host as one
// statement. While a host works on some like it, a sub-query waits for an answer of these or
// for company, and goes together with what waits then.
package merge

import (
	"context"
	"maps"
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
	// Costs returns what a statement and a key of a query cost; without costs groups may have
	// Keys, or keys may be expensive if that is 0. It is called often and by several goroutines;
	// required.
	Costs func(*executor.Query) executor.GroupSize
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
	hosts atomic.Pointer[map[string]*host]
	grow  sync.Mutex
}

// New returns a Reader. The error is that of the registerer.
func New(cfg Config) (*Reader, error) {
	r := &Reader{cfg: cfg, begin: time.Now()}
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
// A sub-query is passed on as it is, in this goroutine, unless its host has a read like it
// in-flight: of the same statement and priority, of another lookup, and no straggler. Then it
// waits until that is answered, until enough keys wait, or for as long as reads take beyond
// the quickest of the last. Batch work waits for as long as such a read is in-flight, and however
// many keys wait while other work is asked of the host. A sub-query whose ctx ends while it waits returns
// executor.ErrUnsent, and its Settled is not called.
//
// # Sharing
//
// Equal keys are asked once. Each participant gets the results of its own keys, within its
// own MaxBytes; an error or a panic reaches all of them. A participant whose ctx ends
// returns at once. The shared read is cancelled when all of them have.
func (r *Reader) Read(ctx context.Context, q *executor.SubQuery) ([]partition.Result, error) {
	h, priority := r.host(q.Host), identity.FromContext(ctx).Priority
	h.mu.Lock()
	now := r.now()
	if priority != identity.Batch {
		h.urgentUntil = now + int64(urgent)
	}
	if q.Alone {
		h.mu.Unlock()
		r.metrics.observe(q.Query, len(q.Keys))
		return r.cfg.Reader.Read(ctx, q)
	}
	if !h.waits(q, priority, len(q.Keys), now) {
		s := h.start(q, priority, now)
		h.mu.Unlock()
		return s.pass(ctx)
	}
	w := &waiter{ctx: ctx, query: q, priority: priority, until: h.until(q, priority, now), wake: make(chan struct{}, 1)}
	h.queue = append(h.queue, w)
	h.dispatch(now)
	h.mu.Unlock()
	return w.wait(h)
}

// readAlone asks the host without others.
func (r *Reader) readAlone(ctx context.Context, q *executor.SubQuery) ([]partition.Result, error) {
	h := r.host(q.Host)
	h.mu.Lock()
	s := h.start(q, identity.FromContext(ctx).Priority, r.now())
	h.mu.Unlock()
	return s.pass(ctx)
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
	// InFlight is how many statements are in-flight.
	InFlight int
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
	return Queue{InFlight: len(h.inFlight), Waiting: len(h.queue), Sent: h.sent.Load(), SentKeys: h.sentKeys.Load()}, true
}
