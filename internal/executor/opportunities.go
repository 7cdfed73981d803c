package executor

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// hedgeDelays are the delays of qosproxy_hedge_opportunities_total, ascending, under
// the names that speculative_retry has for them. They are counted whatever the
// configured delay is.
var hedgeDelays = [...]struct {
	name  string
	delay time.Duration
}{
	{"5ms", 5 * time.Millisecond}, {"10ms", 10 * time.Millisecond}, {"15ms", 15 * time.Millisecond}, {"25ms", 25 * time.Millisecond},
}

// opportunities count the first attempts that were unanswered at each of hedgeDelays.
type opportunities [len(hedgeDelays)]prometheus.Counter

func newOpportunities() (*prometheus.CounterVec, opportunities) {
	vec := counters("qosproxy_hedge_opportunities_total",
		"First sub-queries that were unanswered so long after they were sent, whatever the hedge delay: what a hedge at that delay would have been for.", "delay")
	var o opportunities
	for i, d := range hedgeDelays {
		o[i] = vec.WithLabelValues(d.name)
	}
	return vec, o
}

// count takes a sub-query that was unanswered until a moment, and each delay once.
//
// No timer runs for it: an attempt counts by the time that it took, once it has
// ended. One that was cancelled since others had answered its keys, or since the
// lookup was over, counts twice, without counting a delay twice: by the time until
// it was given up, at once, and then by the time until its host settled it. With the
// first alone nothing would ever be seen beyond the configured delay plus what a
// hedge takes; with the second alone a host that is stalled would be seen when it
// answers again. The mutex of the host is held.
func (o *opportunities) count(f *outstanding, until int64) {
	if f.kind != KindFirst || f.host.dc != nil {
		return
	}
	for took := time.Duration(until - f.sentAt); f.counted < len(hedgeDelays) && took >= hedgeDelays[f.counted].delay; f.counted++ {
		o[f.counted].Inc()
	}
}
