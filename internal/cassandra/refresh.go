package cassandra

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
)

const (
	// viewTimeout and definitionsTimeout bound the requests to one node, so that a frozen one does
	// not stop the refresh.
	viewTimeout        = 3 * time.Second
	definitionsTimeout = 15 * time.Second
	// maxAsked is how many nodes a refresh asks at most until a view is believed.
	maxAsked = 5
	// maxReplaced is how many replaced versions of the schema are remembered.
	maxReplaced = 16
	// lagPatience is how long nodes may take to hear of a schema: it spreads within seconds.
	lagPatience = 30 * time.Second
)

// settlement says whether a refresh is worth repeating soon.
type settlement bool

const (
	settled   settlement = true
	unsettled settlement = false
)

// keeper is the state that one refresh passes to the next.
type keeper struct {
	hosts confirmation
	// replications and version are those of the published schema, nil and empty before the first.
	// since is when that version began to serve, and replaced are the last versions before it.
	replications map[string]ring.Replication
	version      string
	since        time.Time
	replaced     []string
	// cluster is the name of the cluster.
	cluster string
	// dc is the local datacenter once it is known.
	dc string
	// lostSince is when the driver began to lack a host, and silentSince when the nodes ceased to
	// answer; zero while that is not so. A new session restarts silentSince.
	lostSince, silentSince time.Time
}

func (k *keeper) localDC(cfg Config) string {
	if cfg.LocalDC != "" {
		return cfg.LocalDC
	}
	return k.dc
}

// refresh brings the snapshots up to date.
func (c *Cluster) refresh(ctx context.Context) (settlement, error) {
	began := time.Now()
	v, n, state, err := c.ask(ctx)
	if err != nil && !errors.Is(err, errImplausible) {
		return unsettled, c.silence(ctx, err)
	}
	c.keeper.silentSince = time.Time{}
	if err != nil {
		return unsettled, err
	}
	if c.keeper.hosts.hosts == nil {
		return unsettled, fmt.Errorf("the nodes do not yet agree on who is in the cluster%s", partial(v))
	}
	if !v.agreed {
		state = unsettled
	}
	next, err := c.next(ctx, v, n.define)
	if err != nil {
		return unsettled, err
	}
	c.publish(next)
	if err := c.mend(ctx); err != nil {
		c.log.Warn("cassandra session", "error", err)
	}
	c.keeper.cluster = v.cluster
	now := Status{Ready: true, LastRefresh: began, ClusterName: v.cluster, Release: v.release, LocalDC: next.ring.LocalDC(), SchemaVersion: next.version}
	var before Status
	c.status.update(func(s *Status) {
		if !v.believed {
			now.LastRefresh = s.LastRefresh
		}
		before, *s = *s, now
	})
	if before.Reason != "" {
		c.log.Info("cassandra is ready", "cluster", now.ClusterName, "release", now.Release, "local_dc", now.LocalDC)
	}
	return state, nil
}

// ask asks nodes for their view until one is believed. It returns the last view
// and the node it came from, and an error when there was no plausible one: errImplausible if
// nodes of this cluster have answered.
func (c *Cluster) ask(ctx context.Context) (last view, from node, state settlement, err error) {
	var (
		errs     []error
		answered bool
	)
	state = settled
	for i, n := range c.nodes() {
		if i == maxAsked {
			break
		}
		asking, cancel := context.WithTimeout(ctx, viewTimeout)
		v, err := n.view(asking)
		cancel()
		if err == nil {
			err = c.plausible(v)
			answered = answered || !errors.Is(err, errForeign)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", n.host.ConnectAddressAndPort(), err))
			continue
		}
		last, from = v, n
		if last.believed = c.keeper.hosts.judge(v, time.Now()); last.believed {
			return last, from, state, nil
		}
		state = unsettled
	}
	if from.host == nil {
		if len(errs) == 0 {
			errs = append(errs, errNotConnected)
		}
		err = errors.Join(errs...)
		if answered {
			err = fmt.Errorf("%w: %w", errImplausible, err)
		}
		return view{}, node{}, unsettled, err
	}
	return last, from, unsettled, nil
}

var (
	// errImplausible means that nodes have answered, but none with a plausible view.
	errImplausible = errors.New("what the nodes tell of the cluster cannot be right")
	// errForeign means that a node at an address of this cluster belongs to another.
	errForeign = errors.New("the node belongs to another cluster")
)

// plausible returns why a view cannot be one of this cluster; nil if it can.
func (c *Cluster) plausible(v view) error {
	if c.keeper.cluster != "" && v.cluster != c.keeper.cluster {
		return fmt.Errorf("%w: %q, not %q", errForeign, v.cluster, c.keeper.cluster)
	}
	if _, err := ring.New(ring.Topology{Hosts: v.hosts}); err != nil {
		return fmt.Errorf("%w%s", err, partial(v))
	}
	return nil
}

// partial describes the incomplete hosts of a view, for messages.
func partial(v view) string {
	if len(v.partial) == 0 {
		return ""
	}
	return " (" + strings.Join(v.partial, "; ") + ")"
}

// snapshots are a ring and a schema that are published together.
type snapshots struct {
	ring *ring.Ring
	// schema is nil when the published one already has that version.
	schema       *schema.Schema
	replications map[string]ring.Replication
	version      string
}

// lags reports whether a view comes from a node that has not heard of the schema that serves: its
// version is one that was replaced, and other nodes have another. Nothing says which of two
// versions is newer, and a node that came back with an old one may have been asked last. So a
// version that most nodes still have after lagPatience does not lag.
func (k *keeper) lags(v view) bool {
	return !v.agreed && slices.Contains(k.replaced, v.schema) && (!v.shared || time.Since(k.since) < lagPatience)
}

// replace makes a version the one that serves.
func (k *keeper) replace(version string) {
	if version == k.version {
		return
	}
	k.replaced = slices.DeleteFunc(append(k.replaced, k.version), func(old string) bool { return old == version || old == "" })
	k.replaced = k.replaced[max(len(k.replaced)-maxReplaced, 0):]
	k.version, k.since = version, time.Now()
}

// definer reads the definitions of a schema, and returns them with the version that they are of.
// The given version is the expected one.
type definer func(ctx context.Context, version string) (definitions, string, error)

// next returns the snapshots that a view leads to. It publishes nothing, so a refresh that fails
// halfway is repeated as a whole: changes are judged against what was published, not against what
// was read.
func (c *Cluster) next(ctx context.Context, v view, define definer) (snapshots, error) {
	out := snapshots{replications: c.keeper.replications, version: c.keeper.version}
	if c.schema.Load() == nil || v.schema == "" || v.schema != c.keeper.version && !c.keeper.lags(v) {
		d, version, err := define(ctx, v.schema)
		if err != nil {
			return snapshots{}, err
		}
		out.schema, out.replications, out.version = d.schema(), d.replications(), version
	}
	if err := c.findLocalDC(ctx); err != nil {
		return snapshots{}, err
	}
	var err error
	if out.ring, err = ring.New(ring.Topology{
		Hosts: c.keeper.hosts.hosts, Keyspaces: out.replications, LocalDC: c.keeper.localDC(c.cfg), LaterDCs: c.cfg.LaterDCs,
	}); err != nil {
		return snapshots{}, fmt.Errorf("build the ring: %w", err)
	}
	return out, nil
}

// define reads the definitions from the node.
func (n node) define(ctx context.Context, version string) (definitions, string, error) {
	ctx, cancel := context.WithTimeout(ctx, definitionsTimeout)
	defer cancel()
	d, version, err := n.definitions(ctx, version)
	if err != nil {
		return definitions{}, "", fmt.Errorf("read the schema from %s: %w", n.host.ConnectAddressAndPort(), err)
	}
	return d, version, nil
}

// publish replaces the snapshots that have changed. The ring goes first, so that the replicas of a
// table's keyspace are known before the table is.
func (c *Cluster) publish(next snapshots) {
	if old := c.ring.Load(); old == nil || !old.Equal(next.ring) {
		c.ring.Store(next.ring)
		c.log.Info("cassandra ring", "hosts", next.ring.Len(), "local_dc", next.ring.LocalDC(), "keyspaces", len(next.ring.Keyspaces()))
	}
	if next.schema != nil {
		c.schema.Store(next.schema)
	}
	c.keeper.replications = next.replications
	c.keeper.replace(next.version)
}
