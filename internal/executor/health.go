package executor

import (
	"math"
	"time"

	"github.com/qosproxy/qosproxy/internal/ring"
)

// HostHealth is how one host is doing at one moment.
type HostHealth struct {
	// Host is the host as the ring describes it.
	Host ring.Host
	// State is its state.
	State State
	// InflightKeys are the keys outstanding at it, and InflightSubQueries
	// the sub-queries these came in; abandoned ones are included.
	InflightKeys, InflightSubQueries int
	// Latency is the moving average of its answers; 0 before the first.
	Latency time.Duration
	// Price is the price of the host in the next plan, relative to 1 for a usual idle one,
	// but without the factor of its recent share.
	Price float64
	// OldestOutstanding is for how long its oldest sub-query has been outstanding; 0 for
	// none.
	OldestOutstanding time.Duration
	// Failures are the failures since its last answer.
	Failures int
	// ProbeIn is the time until it may be probed; 0 if it may be now, or need not be.
	ProbeIn time.Duration
	// SubQueries are all that were sent to it but for probes, and Hedges those because another
	// host was late. HedgedAway are the sub-queries that were hedged because this host was late.
	// All begin anew when the host comes back at another address.
	SubQueries, Hedges, HedgedAway int64
	// Lost is set if keys that may go to another datacenter are planned without it.
	Lost bool
}

// Health returns how each host of the current snapshot is doing, in the order of
// its hosts, those of the datacenters to fail over to last; nil before the first snapshot.
// Hosts that hold no data for this proxy (no tokens, or another datacenter) are left out.
func (e *Executor) Health() []HostHealth {
	if e.current == nil {
		return nil
	}
	r := e.current()
	if r == nil {
		return nil
	}
	v := e.view(r)
	out := make([]HostHealth, 0, len(v.all))
	for _, i := range v.all {
		out = append(out, v.hosts[i].health(e.now()))
	}
	return out
}

func (h *host) health(now int64) HostHealth {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := HostHealth{
		Host:               h.Host,
		State:              h.state(now),
		InflightKeys:       int(h.keys.Load()),
		InflightSubQueries: int(h.subQueries.Load()),
		Latency:            time.Duration(math.Float64frombits(h.latency.Load()) * float64(time.Second)),
		Price:              h.price(h.relativeNow(now), now),
		Failures:           h.history.failures,
		SubQueries:         h.counts.subQueries.Load(),
		Hedges:             h.counts.hedges.Load(),
		HedgedAway:         h.counts.hedgedAway.Load(),
		Lost:               h.out(),
	}
	if h.oldest != nil {
		out.OldestOutstanding = time.Duration(now - h.oldest.sentAt)
	}
	if at := h.probeAt.Load(); at != unset {
		out.ProbeIn = time.Duration(max(at-now, 0))
	}
	return out
}
