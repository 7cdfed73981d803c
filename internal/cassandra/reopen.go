package cassandra

import (
	"context"
	"fmt"
	"strings"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// When the session is opened anew.
const (
	// lostPatience is how long the driver may lack a host of the ring before its
	// session is opened anew. It adds hosts by events, which can be lost or come
	// before the host is whole in system.peers.
	lostPatience = 10 * time.Second
	// silencePatience is how long no node may answer before the contact points
	// are tried afresh: all addresses may have changed.
	silencePatience = 20 * time.Second
)

// silence says why no node answered. When that lasts, it tries the contact
// points afresh.
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

// mend opens the session anew when the driver has lacked a host of the ring for
// too long.
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
// or knows at an address where they do not answer.
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
