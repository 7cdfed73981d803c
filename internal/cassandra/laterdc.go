package cassandra

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// hostFilter restricts the driver to the hosts of the local datacenter and of those to fail over
// to. It is nil, for all hosts, while the local one is not known.
func (c Config) hostFilter(local string) gocql.HostFilter {
	if local == "" {
		return nil
	}
	return gocql.HostFilterFunc(func(h *gocql.HostInfo) bool { return c.asks(local, h.DataCenter()) })
}

// asks reports whether hosts of a datacenter are asked.
func (c Config) asks(local, dc string) bool { return dc == local || slices.Contains(c.LaterDCs, dc) }

// askedLater is how many of the maxAsked nodes of a refresh are reserved for datacenters to fail
// over to: if all local nodes are frozen, each costs a viewTimeout.
const askedLater = 2

// nodes returns the nodes that a refresh can ask: those of the local datacenter in random order,
// with up to askedLater of the others among the first maxAsked.
func (c *Cluster) nodes() []node {
	s := c.session.Load()
	dc := c.keeper.localDC(c.cfg)
	var local, later []node
	for _, h := range s.driver.GetHosts() {
		n := node{s.driver, h, c.cfg.Port}
		switch {
		case !h.IsUp():
		case dc == "" || h.DataCenter() == dc:
			local = append(local, n)
		case c.cfg.asks(dc, h.DataCenter()):
			later = append(later, n)
		}
	}
	for _, of := range [][]node{local, later} {
		rand.Shuffle(len(of), func(i, j int) { of[i], of[j] = of[j], of[i] })
	}
	return slices.Insert(local, min(len(local), maxAsked-min(askedLater, len(later))), later...)
}

// quoted lists names for a message.
func quoted(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = strconv.Quote(n)
	}
	return strings.Join(out, " or ")
}
