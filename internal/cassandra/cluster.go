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
	// columnSets bounds the number of statements.
	columnSets columnSets
	// nodeLocal is nil unless Config.NodeLocal is set.
	nodeLocal *nodeLocal

	kicked  chan struct{}
	stop    context.CancelCauseFunc
	stopped chan struct{}
	closing sync.WaitGroup

	// keeper is used only by the goroutine of run.
	keeper keeper
}

var _ executor.Reader = (*Cluster)(nil)

// session is a session of the driver, with the watcher of its events.
type session struct {
	driver  *gocql.Session
	watcher *watcher
}

// Open starts to follow a cluster in the background and returns at once. Only Close ends that, not
// the end of ctx. A cluster that does not answer is no error: it is tried again until Close, and
// Status says why it is not ready. The error is ErrConfig, or that of registering the metrics.
func Open(ctx context.Context, cfg Config) (*Cluster, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	c := &Cluster{
		cfg: cfg, log: cfg.Logger,
		kicked: make(chan struct{}, 1), stopped: make(chan struct{}),
	}
	c.status.init("connecting to " + fmt.Sprint(cfg.endpoints()))
	if cfg.NodeLocal {
		c.nodeLocal = newNodeLocal(c.nodeLocalCluster(), c.log)
		c.nodeLocal.incidents = cfg.Incidents
	}
	if c.metrics, err = newMetrics(c, cfg.Registerer); err != nil {
		return nil, err
	}
	background, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	c.stop = stop
	go func() {
		defer close(c.stopped)
		cfg.Incidents.Keep(background, "refresh of ring and schema", c.run)
	}()
	if c.nodeLocal != nil {
		c.closing.Go(func() { cfg.Incidents.Keep(background, "watch of NODE_LOCAL", c.nodeLocal.watch) })
	}
	return c, nil
}

// Ring returns the last valid snapshot of the ring, or nil before the first.
func (c *Cluster) Ring() *ring.Ring { return c.ring.Load() }

// Schema returns the last snapshot of the schema, or nil before the first.
func (c *Cluster) Schema() *schema.Schema { return c.schema.Load() }

// Close ends the background work and the connections. Reads in-flight fail.
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

// run connects and refreshes until ctx ends.
func (c *Cluster) run(ctx context.Context) {
	var pace pace
	for ctx.Err() == nil {
		out, err := c.step(ctx)
		timer := time.NewTimer(pace.pause(out, err, c.cfg.RefreshInterval))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-c.kicked:
			c.settleDown(ctx)
			pace.event()
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
		out, err = c.guarded(ctx)
	}
	if err == nil || ctx.Err() != nil {
		return out, err
	}
	// Logged once for each reason, not for each attempt.
	reason, ready := err.Error(), c.serves()
	switch news := c.status.fail(reason, ready); {
	case news && ready:
		c.log.Warn("cassandra ring and schema cannot be refreshed; the last ones serve", "reason", reason)
	case news:
		c.log.Warn("cassandra is not ready", "reason", reason)
	}
	return out, err
}

// serves reports whether lookups can be answered although a refresh has failed: there are a ring
// and a schema, and nodes answer. Otherwise a schema that changes while it is read, or a node with
// a strange view, would make all proxies of a cluster not ready at once.
func (c *Cluster) serves() bool {
	return c.ring.Load() != nil && c.schema.Load() != nil && c.keeper.silentSince.IsZero()
}

// guarded refreshes, and turns a panic into an error: the last snapshots keep serving, and the
// refresh is tried again with backoff.
func (c *Cluster) guarded(ctx context.Context) (out settlement, err error) {
	defer c.cfg.Incidents.Catch(ctx, "refresh of ring and schema", &err)
	return c.refresh(ctx)
}
