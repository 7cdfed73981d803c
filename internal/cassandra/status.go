package cassandra

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Status is the state of the connection to a cluster.
type Status struct {
	// Ready is whether reads can be served: there are a ring and a schema, and at least one
	// node answered when it was last asked about the cluster.
	Ready bool
	// Reason is why Ready is false, or why the last refresh failed, and what to do; otherwise
	// empty.
	Reason string
	// LastRefresh is when the snapshots were last known to be right: the start of the last refresh
	// whose view was believed. It is zero before the first.
	LastRefresh time.Time
	// ClusterName and Release are the name of the cluster and the Cassandra
	// version of the node last asked; empty before the first answer.
	ClusterName, Release string
	// LocalDC is the datacenter whose replicas are asked; empty until known.
	LocalDC string
	// SchemaVersion is the version of the schema that serves; empty before the first.
	SchemaVersion string
}

// Status returns the current state of the connection to the cluster.
func (c *Cluster) Status() Status { return c.status.get() }

// WaitReady waits until the cluster can be read from. The error is that with which ctx
// ended, or another one after Close.
func (c *Cluster) WaitReady(ctx context.Context) error {
	for {
		s, changed := c.status.watch()
		if s.Ready {
			return nil
		}
		select {
		case <-changed:
		case <-c.stopped:
			return errClosed
		case <-ctx.Done():
			return fmt.Errorf("cassandra is not ready: %s: %w", s.Reason, context.Cause(ctx))
		}
	}
}

// statusBoard holds the status and wakes those who wait for another.
type statusBoard struct {
	mu      sync.Mutex
	now     Status
	changed chan struct{}
}

func (b *statusBoard) init(reason string) {
	b.now.Reason = reason
	b.changed = make(chan struct{})
}

func (b *statusBoard) get() Status {
	s, _ := b.watch()
	return s
}

func (b *statusBoard) watch() (Status, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now, b.changed
}

func (b *statusBoard) update(change func(*Status)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.now)
	close(b.changed)
	b.changed = make(chan struct{})
}

// fail records why a refresh has failed and whether reads can be served nevertheless. It reports
// whether either is new.
func (b *statusBoard) fail(reason string, ready bool) (news bool) {
	b.update(func(s *Status) {
		news = s.Ready != ready || s.Reason != reason
		s.Ready, s.Reason = ready, reason
	})
	return news
}
