package cassandra

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// errLocalDC means that the local datacenter must be configured.
var errLocalDC = errors.New("the contact points are not in one datacenter; set cassandra.local_dc")

// findLocalDC finds the local datacenter, which is that of the contact points, if
// none is configured.
func (c *Cluster) findLocalDC(ctx context.Context) error {
	if c.keeper.localDC(c.cfg) != "" {
		return nil
	}
	hosts := c.keeper.hosts.hosts
	all, near := map[string]bool{}, map[string]bool{}
	points := c.resolve(ctx)
	for _, h := range hosts {
		all[h.DC] = true
		if a, err := netip.ParseAddrPort(h.Addr); err == nil && points[a.Addr()] {
			near[h.DC] = true
		}
	}
	if len(near) == 0 {
		near = all
	}
	if len(near) != 1 {
		return fmt.Errorf("%w to one of %s", errLocalDC, strings.Join(sortedKeys(all), ", "))
	}
	c.keeper.dc = sortedKeys(near)[0]
	if len(all) > 1 {
		// The session was opened before the datacenter was known, and keeps
		// connections to all of them.
		if err := c.replace(ctx); err != nil {
			c.keeper.dc = ""
			return err
		}
	}
	return nil
}

// resolve returns the addresses of the contact points.
func (c *Cluster) resolve(ctx context.Context) map[netip.Addr]bool {
	out := make(map[netip.Addr]bool)
	for _, e := range c.cfg.endpoints() {
		name, _, err := net.SplitHostPort(e)
		if err != nil {
			continue
		}
		// An error means a name that does not resolve now; the other contact
		// points suffice.
		addrs, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
		for _, a := range addrs {
			out[a.Unmap()] = true
		}
	}
	return out
}

func sortedKeys(m map[string]bool) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
