package cassandra

import (
	"context"
	"fmt"
	"strings"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// When a new session is opened.
const (
	// lostPatience is how long the driver may lack a host of the ring before a
	// new session is opened. The driver adds hosts on events, which can be lost
	// or come before the host is complete in system.peers.
	lostPatience = 10 * time.Second
	// silencePatience is how long no node may answer before a new session is
	// opened from the contact points: all addresses may have changed.
	silencePatience = 20 * time.Second
)

// silence returns an error that says why no node answered. When that has lasted
// for silencePatience, it opens a new session from the contact points.
func (c *Cluster) silence(ctx context.Context, err error) error {
	refused := c.session.Load().watcher.failures()
	if len(refused) > 0 {
		err = c.explain(errNotConnected, refused)
	} else {
		err = fmt.Errorf("no node answered: %w", err)
	}
	if c.keeper.silentSince.IsZero() {
		c.keeper.silentSince = time.Now()
	}
	if time.Since(c.keeper.silentSince) < silencePatience {
		return err
	}
	if fresh := c.replace(ctx); fresh == nil {
		c.keeper.silentSince = time.Now()
		c.log.Info("cassandra session opened anew", "reason", "no node answered")
	}
	return err
}

// mend opens a new session when the driver has lacked a host of the ring for
// lostPatience.
func (c *Cluster) mend(ctx context.Context) error {
	lost := c.lost()
	if len(lost) == 0 {
		c.keeper.lostSince = time.Time{}
		return nil
	}
	if c.keeper.lostSince.IsZero() {
		c.keeper.lostSince = time.Now()
		time.AfterFunc(lostPatience, c.kick)
	}
	if time.Since(c.keeper.lostSince) < lostPatience {
		return nil
	}
	c.keeper.lostSince = time.Time{}
	c.log.Info("cassandra session opened anew", "reason", "the driver lacks hosts", "hosts", strings.Join(lost, ", "))
	return c.replace(ctx)
}

// lost returns the addresses of the hosts to ask that the driver does not know,
// or has as down at another address.
func (c *Cluster) lost() []string {
	known := make(map[string]*gocql.HostInfo)
	for _, h := range c.session.Load().driver.GetHosts() {
		known[h.HostID()] = h
	}
	var out []string
	dc := c.keeper.localDC(c.cfg)
	for _, h := range c.keeper.hosts.hosts {
		k, ok := known[h.ID]
		if c.cfg.asks(dc, h.DC) && (!ok || !k.IsUp() && k.ConnectAddressAndPort() != h.Addr) {
			out = append(out, h.Addr)
		}
	}
	return out
}
