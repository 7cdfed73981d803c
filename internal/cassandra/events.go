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
	// eventQuiet is how long no further event must come before a refresh: a
	// change of the schema announces itself once per node and table.
	eventQuiet = 100 * time.Millisecond
	// eventPatience is how long a stream of events can delay a refresh.
	eventPatience = time.Second
)

// eventStream is the stream id of events of the server; see section 2.3 of the
// native protocol's specification.
const eventStream = -1

// watcher observes the driver on behalf of a Cluster. The driver's own listeners
// report tables only if it may keep a second copy of the whole schema, and hosts
// only after seconds; the frame of an event reports everything at once.
type watcher struct {
	// announced is called for every event of the server, changed when a host
	// begins or ceases to take connections.
	announced, changed func()
	log                *slog.Logger
	// incidents records panics: goroutines of the driver call the watcher.
	incidents *incident.Log

	// live is whether the session serves. While it is being opened, whoever opens
	// it handles its failures.
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

// failures returns the last error of each address whose last attempt failed.
func (w *watcher) failures() map[string]error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.refused)
}

// kick requests a refresh soon. It does not block.
func (c *Cluster) kick() {
	select {
	case c.kicked <- struct{}{}:
	default:
	}
}

// announced handles an event of the server.
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
