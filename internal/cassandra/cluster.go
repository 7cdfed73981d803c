package cassandra

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// Cluster is the proxy's side of a Cassandra cluster: snapshots of its ring and
// schema, kept up to date in the background, and reads from its hosts. It is
// safe for concurrent use.
type Cluster struct {
	cfg Config
	log *slog.Logger

	session  atomic.Pointer[session]
	ring     atomic.Pointer[ring.Ring]
	schema   atomic.Pointer[schema.Schema]
	status   statusBoard
	metrics  *metrics
	inLimits inLimits
	volumes  volumes
	// nodeLocal is nil when no read wants NODE_LOCAL.
	nodeLocal *nodeLocal

	kicked   chan struct{}
	requests chan chan error
	stop     context.CancelCauseFunc
	stopped  chan struct{}
	closing  sync.WaitGroup

	// keeper is touched by the goroutine of run alone.
	keeper keeper
}

var _ executor.Reader = (*Cluster)(nil)

// session is a session of the driver and what it has told.
type session struct {
	driver  *gocql.Session
	watcher *watcher
}

// Open starts to keep up with a cluster and returns at once. The end of ctx does
// not end what it has started; Close does. The only error is ErrConfig: a cluster that does not
// answer is tried again until Close, and Status says why it is not there.
func Open(ctx context.Context, cfg Config) (*Cluster, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	c := &Cluster{
		cfg: cfg, log: cfg.Logger,
		kicked: make(chan struct{}, 1), requests: make(chan chan error), stopped: make(chan struct{}),
	}
	c.status.init("connecting to " + fmt.Sprint(cfg.endpoints()))
	if cfg.NodeLocal {
		c.nodeLocal = newNodeLocal(c.nodeLocalCluster(), c.log)
	}
	if c.metrics, err = newMetrics(c, cfg.Registerer); err != nil {
		return nil, err
	}
	background, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	c.stop = stop
	go c.run(background)
	if c.nodeLocal != nil {
		c.closing.Go(func() { c.nodeLocal.watch(background) })
	}
	return c, nil
}

// Ring returns the last valid snapshot of the ring, or nil before the first.
func (c *Cluster) Ring() *ring.Ring { return c.ring.Load() }

// Schema returns the last snapshot of the schema, or nil before the first.
func (c *Cluster) Schema() *schema.Schema { return c.schema.Load() }

// Close ends the background work and the connections. Reads under way fail.
// It waits for the driver as far as the driver can be waited for; some of its
// goroutines may linger for a second.
func (c *Cluster) Close() {
	c.stop(gocql.ErrSessionClosed)
	<-c.stopped
	if s := c.session.Swap(nil); s != nil {
		s.driver.Close()
	}
	c.closing.Wait()
	c.metrics.unregister()
}

// Refresh takes new snapshots now and returns when they are there, or why they
// could not be taken. A new ring may still wait for a second node to confirm it.
func (c *Cluster) Refresh(ctx context.Context) error {
	done := make(chan error, 1)
	select {
	case c.requests <- done:
	case <-c.stopped:
		return gocql.ErrSessionClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-done:
		return err
	case <-c.stopped:
		return gocql.ErrSessionClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// run connects and refreshes until ctx ends.
func (c *Cluster) run(ctx context.Context) {
	defer close(c.stopped)
	var (
		waiting []chan error
		pace    pace
	)
	for ctx.Err() == nil {
		out, err := c.step(ctx)
		for _, w := range waiting {
			w <- err
		}
		waiting = nil
		timer := time.NewTimer(pace.pause(out, err, c.cfg.RefreshInterval))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-c.kicked:
			c.settleDown(ctx)
			pace.event()
		case w := <-c.requests:
			waiting = append(waiting, w)
		}
		timer.Stop()
	}
}

// step connects if there is no session yet, and refreshes.
func (c *Cluster) step(ctx context.Context) (settlement, error) {
	var err error
	if c.session.Load() == nil {
		err = c.connect(ctx)
	}
	out := unsettled
	if err == nil {
		out, err = c.refresh(ctx)
	}
	if err == nil || ctx.Err() != nil {
		return out, err
	}
	// Once for each reason, not for each attempt.
	if reason := err.Error(); c.status.fail(reason) {
		c.log.Warn("cassandra is not ready", "reason", reason)
	}
	return out, err
}
