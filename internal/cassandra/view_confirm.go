package cassandra

import (
	"slices"
	"time"

	"github.com/qosproxy/qosproxy/internal/ring"
)

// How long a view waits for confirmation.
const (
	// repeatDelay is after how long another answer of the same node counts as a
	// second opinion, when no other node answers.
	repeatDelay = 5 * time.Second
	// firstRepeatDelay is the same while there is no ring at all.
	firstRepeatDelay = time.Second
	// firstPatience is how long nodes may disagree while there is no ring at
	// all. After that the view with most hosts serves.
	firstPatience = 15 * time.Second
)

// confirmation decides when the hosts that one node lists may replace those that
// serve.
//
// A node's list is sometimes wrong for a while: just restarted, it may list
// itself alone; a peer it has just heard of has no tokens or host id yet; one
// that is replaced is listed twice or not at all. A ring built from that would
// send keys to nodes that do not hold them, and at LOCAL_ONE such a node says
// "not found" of data that exists. So:
//
//   - The first view, and any that differs from what serves, must be confirmed: by
//     a second node, or by the same one repeatDelay later when no other answers.
//     That holds for added hosts, too: some nodes go on listing a peer that has
//     left.
//   - Views that contradict themselves (ring.New refuses them) are never
//     believed; the hosts that serve go on serving.
//
// The zero value has no hosts yet.
type confirmation struct {
	// hosts are those that serve, sorted by id; nil before the first.
	hosts []ring.Host
	// unconfirmed is the last view that was not believed, and since when.
	unconfirmed      []ring.Host
	unconfirmedFrom  string
	unconfirmedSince time.Time
	// largest is the largest view while there are no hosts, and started when the
	// first one came.
	largest []ring.Host
	started time.Time
}

// judge decides on a view that ring.New accepts. It reports whether its hosts, or
// those of a larger one before it, are now those that serve.
func (c *confirmation) judge(v view, now time.Time) bool {
	switch {
	case c.hosts != nil && sameHosts(v.hosts, c.hosts),
		c.unconfirmed != nil && sameHosts(v.hosts, c.unconfirmed) && (v.from != c.unconfirmedFrom || now.Sub(c.unconfirmedSince) >= c.repeat()):
		c.believe(v.hosts)
		return true
	}
	if c.unconfirmed == nil || !sameHosts(v.hosts, c.unconfirmed) {
		c.unconfirmed, c.unconfirmedFrom, c.unconfirmedSince = v.hosts, v.from, now
	}
	if c.hosts != nil {
		return false
	}
	if c.started.IsZero() {
		c.started = now
	}
	if len(v.hosts) >= len(c.largest) {
		c.largest = v.hosts
	}
	if now.Sub(c.started) < firstPatience {
		return false
	}
	c.believe(c.largest)
	return true
}

func (c *confirmation) believe(hosts []ring.Host) {
	*c = confirmation{hosts: hosts}
}

func (c *confirmation) repeat() time.Duration {
	if c.hosts == nil {
		return firstRepeatDelay
	}
	return repeatDelay
}

func sameHosts(a, b []ring.Host) bool { return slices.EqualFunc(a, b, sameHost) }

// sameHost ignores the release: an upgrade does not move data.
func sameHost(a, b ring.Host) bool {
	return a.ID == b.ID && a.Addr == b.Addr && a.DC == b.DC && a.Rack == b.Rack && slices.Equal(a.Tokens, b.Tokens)
}
