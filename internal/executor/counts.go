package executor

import "sync/atomic"

// hostCounts are what was asked of a host since the proxy knows it. A host that
// comes back at another address begins anew.
type hostCounts struct {
	// subQueries are all that were sent to it, of which hedges because another
	// host was late; hedgedAway are the sub-queries that were hedged because this
	// one was.
	subQueries, hedges, hedgedAway atomic.Int64
}

func (c *hostCounts) sent(kind string) {
	c.subQueries.Add(1)
	if kind == KindHedge {
		c.hedges.Add(1)
	}
}
