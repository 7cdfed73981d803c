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

// count counts a sub-query that was unanswered until a moment, once for each delay that it
// exceeded.
//
// There is no timer: an attempt is counted by its duration once it has ended. One that was
// given up, since others had answered its keys or the lookup was over, is counted twice,
// but not twice for the same delay: when it was given up, and when its host settles it.
// With the first alone nothing would be seen beyond the configured delay plus what a hedge
// takes; with the second alone a stalled host would be seen only when it answers again. The
// mutex of the host is held.
func (o *opportunities) count(f *outstanding, until int64) {
	if f.kind != KindFirst || f.host.dc != nil {
		return
	}
	for took := time.Duration(until - f.sentAt); f.counted < len(hedgeDelays) && took >= hedgeDelays[f.counted].delay; f.counted++ {
		o[f.counted].Inc()
	}
}
