package cassandra

import (
	"math/rand/v2"
	"time"
)

// How soon the next refresh follows.
const (
	// firstRetry and lastRetry are the shortest and longest pause between
	// attempts while the cluster does not answer.
	firstRetry = 250 * time.Millisecond
	lastRetry  = 10 * time.Second
	// soon is the pause before a refresh that may see what the last one could not: a change takes
	// about a second to spread over the nodes.
	soon = time.Second
	// eventFollowUps is how many such refreshes follow an event, and soonFollowUps how many follow
	// while nodes disagree. On busy nodes a change may take half a minute, and while a node is down
	// they disagree for good: after these, each pause is twice the one before it, up to the
	// interval.
	eventFollowUps = 2
	soonFollowUps  = 8
)

// pace decides when the next refresh is due.
type pace struct {
	failures, disagreed, pending int
}

// event notes that the cluster may have changed.
func (p *pace) event() { p.disagreed, p.pending = 0, eventFollowUps }

// pause returns how long to wait after a refresh with the given outcome.
func (p *pace) pause(out settlement, err error, interval time.Duration) time.Duration {
	if err != nil {
		p.failures++
		return backoff(p.failures - 1)
	}
	p.failures = 0
	if out == unsettled {
		p.disagreed++
		doublings := max(p.disagreed-soonFollowUps, 0)
		if d := soon << min(doublings, 10); d < interval {
			return d
		}
	} else {
		p.disagreed = 0
	}
	if p.pending > 0 {
		p.pending--
		return soon
	}
	return jitter(interval)
}

// backoff returns the pause after a failure, by the number of failures before it.
func backoff(failures int) time.Duration {
	d := lastRetry
	if failures < 6 {
		d = min(firstRetry<<failures, lastRetry)
	}
	return d/2 + rand.N(d/2+1)
}

// jitter returns d ±10 %, so that proxies started together do not refresh
// together.
func jitter(d time.Duration) time.Duration { return d - d/10 + rand.N(d/5+1) }
