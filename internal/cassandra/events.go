package cassandra

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/qosproxy/qosproxy/internal/incident"
)

const (
	// eventQuiet is how long to wait for the next event before acting on those
	// that came; a change of the schema announces itself once per node and table.
	eventQuiet = 100 * time.Millisecond
	// eventPatience is the most that a stream of events can put a refresh off.
	eventPatience = time.Second
)

// eventStream is the stream that events of the server come on; see section 2.3 of
// the native protocol's specification.
const eventStream = -1

// watcher listens to the driver on behalf of a Cluster. The driver's own
// listeners tell of tables only to those that let it keep a second copy of the
// whole schema, and of hosts only after seconds; the frame itself tells of
// everything at once.
type watcher struct {
	// announced is called for every event of the server, changed when a host
	// begins or ceases to take connections.
	announced, changed func()
	log                *slog.Logger
	// incidents takes panics: goroutines of the driver call the watcher.
	incidents *incident.Log

	// live is whether the session serves. While it is being opened, its failures
	// are for whoever opens it.
	live atomic.Bool

	mu sync.Mutex
	// refused is the last failure to connect to each address.
	refused map[string]error
}

// ObserveFrameHeader is called for every frame that arrives.
func (w *watcher) ObserveFrameHeader(ctx context.Context, f gocql.ObservedFrameHeader) {
	defer w.incidents.Catch(ctx, "event of the cluster", nil)
	if f.Stream == eventStream && w.live.Load() {
		w.announced()
	}
}

// ObserveConnect is called for every attempt to connect.
func (w *watcher) ObserveConnect(o gocql.ObservedConnect) {
	defer w.incidents.Catch(context.Background(), "connection to a host", nil)
	addr := o.Host.ConnectAddressAndPort()
	w.mu.Lock()
	before := w.refused[addr]
	if o.Err == nil {
		delete(w.refused, addr)
	} else {
		if w.refused == nil {
			w.refused = make(map[string]error)
		}
		w.refused[addr] = o.Err
	}
	w.mu.Unlock()
	switch {
	case !w.live.Load():
	case o.Err != nil && before == nil:
		w.log.Warn("cassandra host does not take connections", "host", addr, "error", o.Err)
		w.changed()
	case o.Err == nil && before != nil:
		w.log.Info("cassandra host takes connections again", "host", addr)
		w.changed()
	}
}

// failures returns the last failure to connect to each address that refuses.
func (w *watcher) failures() map[string]error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.refused)
}

// kick asks for a refresh soon.
func (c *Cluster) kick() {
	select {
	case c.kicked <- struct{}{}:
	default:
	}
}

// announced takes an event of the server.
func (c *Cluster) announced() {
	if c.nodeLocal != nil {
		c.nodeLocal.disturb("the cluster has announced a change")
	}
	c.kick()
}

// settleDown waits until no event has come for eventQuiet, but not longer than
// eventPatience.
func (c *Cluster) settleDown(ctx context.Context) {
	patience := time.NewTimer(eventPatience)
	defer patience.Stop()
	for {
		quiet := time.NewTimer(eventQuiet)
		select {
		case <-c.kicked:
			quiet.Stop()
			continue
		case <-quiet.C:
			return
		case <-patience.C:
		case <-ctx.Done():
		}
		quiet.Stop()
		return
	}
}
