// Package merge decides which sub-queries of different lookups are sent to a busy host as one
// statement. While a read like it is in-flight there, a sub-query waits for its end or until
// enough keys wait, and is then sent together with what waits.
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

// Config holds the dependencies of a Reader.
type Config struct {
	// Reader asks one host; required.
	Reader executor.Reader
	// Costs returns what a statement and each key of a query cost. If both are 0 they are
	// unknown; if Keys is 0 too, keys may be expensive, and nothing waits. It is called often and
	// by several goroutines; required.
	Costs func(*executor.Query) executor.GroupSize
	// Ring returns the current snapshot, nil before the first. Idle hosts that it lacks are
	// forgotten; a nil Ring forgets none.
	Ring func() *ring.Ring
	// Registerer registers the metrics; nil registers none.
	Registerer prometheus.Registerer
	// Incidents records the panics of shared reads; nil only logs them.
	Incidents *incident.Log
}

// Reader is an executor.Reader that merges sub-queries. It is safe for concurrent use.
type Reader struct {
	cfg     Config
	begin   time.Time
	metrics *metrics
	// hosts is by host id; the map is never changed, only replaced.
	hosts atomic.Pointer[map[string]*host]
	grow  sync.Mutex
}

// New returns a Reader. The error is that of the Registerer.
func New(cfg Config) (*Reader, error) {
	r := &Reader{cfg: cfg, begin: time.Now()}
	r.hosts.Store(&map[string]*host{})
	r.metrics = newMetrics(r)
	if cfg.Registerer == nil {
		return r, nil
	}
	return r, r.metrics.register(cfg.Registerer)
}

// SetTables sets the tables that have series of statement_keys, by keyspace and name; there are
// none before. The series of a table that is removed are dropped, and a read of it that is still
// sent does not bring them back. SetTables must not be called concurrently.
func (r *Reader) SetTables(tables [][2]string) { r.metrics.setTables(tables) }

// now returns the nanoseconds since the Reader was made.
func (r *Reader) now() int64 { return int64(time.Since(r.begin)) }

// Read implements executor.Reader.
//
// # Waiting
//
// A sub-query is sent at once, in this goroutine, unless a read like it is in-flight at its host:
// one of the same statement and priority, of another lookup, and no straggler. Then it waits
// until there is none, until enough keys wait, or for as long as reads take beyond the quickest
// recent one. Batch work also waits for reads of its own lookup, as long as there are any, and
// however many keys wait while other work is asked of the host. If ctx ends while the sub-query
// waits, Read returns executor.ErrUnsent and does not call Settled.
//
// # Sharing
//
// Equal keys are asked once. Each participant receives the results of its own keys, within its
// own MaxBytes; an error or a panic reaches all of them. A participant whose ctx ends returns at
// once. The shared read is cancelled once all of them have ended.
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

// readAlone sends a sub-query at once and unmerged.
func (r *Reader) readAlone(ctx context.Context, q *executor.SubQuery) ([]partition.Result, error) {
	h := r.host(q.Host)
	h.mu.Lock()
	s := h.start(q, identity.FromContext(ctx).Priority, r.now())
	h.mu.Unlock()
	return s.pass(ctx)
}

// host returns the state of a host. Adding one forgets those that have left the ring.
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

// Queue is the state of one host at one moment, without queries that are Alone.
type Queue struct {
	// InFlight is the number of statements in-flight.
	InFlight int
	// Waiting is the number of sub-queries that wait.
	Waiting int
	// Sent is the number of statements sent since the host is known, SentKeys that of their keys.
	Sent, SentKeys int64
}

// Queue returns the state of the host with an id; false if it was never asked.
func (r *Reader) Queue(id string) (Queue, bool) {
	h := (*r.hosts.Load())[id]
	if h == nil {
		return Queue{}, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return Queue{InFlight: len(h.inFlight), Waiting: len(h.queue), Sent: h.sent.Load(), SentKeys: h.sentKeys.Load()}, true
}
