package cassandra

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/qosproxy/qosproxy/internal/ring"
)

const (
	// viewTimeout and definitionsTimeout bound what is asked of one node, so that
	// one that is frozen does not stop the refresh.
	viewTimeout        = 3 * time.Second
	definitionsTimeout = 15 * time.Second
	// maxAsked is how many nodes a refresh asks for a view that is believed.
	maxAsked = 5
)

// settlement says whether a refresh is worth repeating soon.
type settlement bool

const (
	settled   settlement = true
	unsettled settlement = false
)

// keeper is what the refreshes know from each other.
type keeper struct {
	hosts       confirmation
	definitions definitions
	// version is that of definitions; cluster the name of the cluster.
	version, cluster string
	// dc is the local datacenter once it is known.
	dc string
	// lostSince and silentSince are when the driver began to lack a host, and
	// when nodes began not to answer; zero when they do not.
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
	v, n, state, err := c.ask(ctx)
	if err != nil {
		return unsettled, c.silence(ctx, err)
	}
	c.keeper.silentSince = time.Time{}
	if c.keeper.hosts.hosts == nil {
		return unsettled, fmt.Errorf("the nodes do not yet agree on who is in the cluster%s", partial(v))
	}
	if !v.agreed {
		state = unsettled
	}
	changed, err := c.define(ctx, n, v.schema)
	if err != nil {
		return unsettled, err
	}
	if err := c.findLocalDC(ctx); err != nil {
		return unsettled, err
	}
	r, err := c.build(c.keeper.hosts.hosts)
	if err != nil {
		return unsettled, fmt.Errorf("build the ring: %w", err)
	}
	c.publish(r, changed)
	if err := c.mend(ctx); err != nil {
		c.log.Warn("cassandra session", "error", err)
	}
	c.keeper.cluster = v.cluster
	now := Status{Ready: true, LastRefresh: time.Now(), ClusterName: v.cluster, Release: v.release, LocalDC: r.LocalDC()}
	var before Status
	c.status.update(func(s *Status) { before, *s = *s, now })
	if !before.Ready {
		c.log.Info("cassandra is ready", "cluster", now.ClusterName, "release", now.Release, "local_dc", now.LocalDC)
	}
	return state, nil
}

// ask asks nodes for their view until one is believed. It returns the last view
// and the node it came from, and an error when no node answered at all.
func (c *Cluster) ask(ctx context.Context) (last view, from node, state settlement, err error) {
	var errs []error
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
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", n.host.ConnectAddressAndPort(), err))
			continue
		}
		last, from = v, n
		if c.keeper.hosts.judge(v, time.Now()) {
			return last, from, state, nil
		}
		state = unsettled
	}
	if from.host == nil {
		if len(errs) == 0 {
			errs = append(errs, errNotConnected)
		}
		return view{}, node{}, unsettled, errors.Join(errs...)
	}
	return last, from, unsettled, nil
}

// plausible returns why a view cannot be that of this cluster at any time.
func (c *Cluster) plausible(v view) error {
	if c.keeper.cluster != "" && v.cluster != c.keeper.cluster {
		return fmt.Errorf("the node belongs to cluster %q, not to %q", v.cluster, c.keeper.cluster)
	}
	if _, err := ring.New(ring.Topology{Hosts: v.hosts}); err != nil {
		return fmt.Errorf("%w%s", err, partial(v))
	}
	return nil
}

// partial describes the hosts that are not whole in a view, for messages.
func partial(v view) string {
	if len(v.partial) == 0 {
		return ""
	}
	return " (" + strings.Join(v.partial, "; ") + ")"
}

// nodes returns the nodes that can be asked, in random order.
func (c *Cluster) nodes() []node {
	s := c.session.Load()
	dc := c.keeper.localDC(c.cfg)
	var out []node
	for _, h := range s.driver.GetHosts() {
		if h.IsUp() && (dc == "" || h.DataCenter() == dc) {
			out = append(out, node{s.driver, h, c.cfg.Port})
		}
	}
	rand.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// define reads the definitions if the schema has another version than they.
func (c *Cluster) define(ctx context.Context, n node, version string) (bool, error) {
	if version == c.keeper.version && version != "" {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, definitionsTimeout)
	defer cancel()
	d, version, err := n.definitions(ctx, version)
	if err != nil {
		return false, fmt.Errorf("read the schema from %s: %w", n.host.ConnectAddressAndPort(), err)
	}
	c.keeper.definitions, c.keeper.version = d, version
	return true, nil
}

// build returns the ring of hosts and the keyspaces of the definitions.
func (c *Cluster) build(hosts []ring.Host) (*ring.Ring, error) {
	return ring.New(ring.Topology{
		Hosts: hosts, Keyspaces: c.keeper.definitions.replications(), LocalDC: c.keeper.localDC(c.cfg),
	})
}

// publish swaps the snapshots for new ones where these differ.
func (c *Cluster) publish(r *ring.Ring, schemaChanged bool) {
	if schemaChanged {
		c.schema.Store(c.keeper.definitions.schema())
	}
	old := c.ring.Load()
	if old != nil && old.Equal(r) {
		return
	}
	c.ring.Store(r)
	c.log.Info("cassandra ring", "hosts", r.Len(), "local_dc", r.LocalDC(), "keyspaces", len(r.Keyspaces()))
}
