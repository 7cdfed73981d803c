package executor

import (
	"math"
	"slices"
	"time"

	"github.com/qosproxy/qosproxy/internal/planner"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// view is the state of each host of one snapshot, by its index. It is immutable,
// but for the states themselves, which the views of later snapshots share.
type view struct {
	ring  *ring.Ring
	hosts []*host
	// data are the indices of the hosts that may be asked: those of the local
	// datacenter that own tokens.
	data []ring.HostIndex
}

// third is how many hosts may be ejected, or avoided as suspects, at a time:
// beyond it the cluster is overloaded, and the rest would be next.
func (v *view) third() int { return max(1, len(v.data)/3) }

// crowded reports whether more hosts are late or in trouble than may be avoided.
func (v *view) crowded(now int64) bool {
	n := 0
	for _, i := range v.data {
		if h := v.hosts[i]; h.late(now) || !h.is(stateHealthy) {
			n++
		}
	}
	return n > v.third()
}

// anyGone reports whether some host that may be asked was last seen to be
// unreachable.
func (v *view) anyGone() bool {
	return slices.ContainsFunc(v.data, func(i ring.HostIndex) bool { return v.hosts[i].gone.Load() })
}

// keptViews is how many snapshots are remembered, for lookups that began before
// the last ones.
const keptViews = 4

// view returns the states of the hosts of a snapshot.
func (e *Executor) view(r *ring.Ring) *view {
	for _, v := range *e.views.Load() {
		if v.ring == r {
			return v
		}
	}
	e.viewMu.Lock()
	defer e.viewMu.Unlock()
	views := *e.views.Load()
	for _, v := range views {
		if v.ring == r {
			return v
		}
	}
	v := e.newView(r, views)
	views = append([]*view{v}, views[:min(len(views), keptViews-1)]...)
	e.views.Store(&views)
	e.metrics.forget(views)
	return v
}

// newView carries over the state of each host that the last snapshot knew under
// the same id and address. A host that was away, or came back elsewhere, is
// another generation and begins anew.
func (e *Executor) newView(r *ring.Ring, views []*view) *view {
	type identity struct{ id, addr string }
	known := make(map[identity]*host)
	if len(views) > 0 {
		for _, h := range views[0].hosts {
			known[identity{h.ID, h.Addr}] = h
		}
	}
	v := &view{ring: r, hosts: make([]*host, r.Len())}
	for i, rh := range r.Hosts() {
		h, ok := known[identity{rh.ID, rh.Addr}]
		if !ok {
			h = e.newHost(rh)
		}
		v.hosts[i] = h
		if len(rh.Tokens) > 0 && (r.LocalDC() == "" || rh.DC == r.LocalDC()) {
			v.data = append(v.data, ring.HostIndex(i))
		}
	}
	return v
}

// survey is what a plan needs to know of the hosts at one moment, by their index.
type survey struct {
	// price is what asking the host costs, relative to a usual idle one; relative is
	// the part of it that its latencies make, and slow says that this is much.
	price    []float64
	relative []float64
	slow     []bool
	avoid    []bool
	stalled  []bool
	// stressed says that so many hosts are late that it is load.
	stressed bool
}

// The parts of a price.
const (
	// keysPerPrice is how many keys in flight double the price of a host: the
	// four groups of eight that keep the read threads of a small node busy.
	keysPerPrice = 32
	// shareLeast and shareMost bound what the recent share does to a price. A
	// host that was away has no share at all, and would be free.
	shareLeast, shareMost = 0.5, 2
	// slowStartPrice is what slow start adds to a price at its beginning.
	slowStartPrice = 4
	// slowRelative is how many times slower than usual a host is that nobody takes for
	// one of many in trouble, nor for one that has had too little. A single stall does
	// not make a host as slow as that.
	slowRelative = 4
)

// look surveys the hosts of a view: what each costs, and which to avoid. It takes no
// locks, except when a host is found to have become suspect.
func (e *Executor) look(v *view, near []bool, s *survey) {
	now := e.now()
	s.reset(len(v.hosts))
	e.findStalled(v, now, s)
	late, recovering, slow := 0, 0, 0
	for _, i := range v.data {
		h := v.hosts[i]
		s.relative[i] = h.relativeNow(now)
		s.slow[i] = s.relative[i] >= slowRelative && !e.without.slow
		recovers := h.is(stateSuspect, stateProbing)
		if s.stalled[i] {
			// Neither a sign of load nor a neighbour's trouble.
		} else if h.late(now) {
			late++
		} else if recovers {
			recovering++
		}
		if recovers && s.slow[i] {
			slow++
		}
	}
	s.stressed = late > v.third()
	crowded := late+recovering > v.third()
	e.findPrices(v, near, now, s)
	for _, i := range v.data {
		// In a crowd the slow are avoided all the same, unless these are a crowd.
		s.avoid[i] = e.avoids(v.hosts[i], now, s.stalled[i], s.stressed, crowded && (!s.slow[i] || slow > v.third()))
	}
}

func (s *survey) reset(n int) {
	s.price = slices.Grow(s.price[:0], n)[:n]
	s.relative = slices.Grow(s.relative[:0], n)[:n]
	s.slow = slices.Grow(s.slow[:0], n)[:n]
	s.avoid = slices.Grow(s.avoid[:0], n)[:n]
	s.stalled = slices.Grow(s.stalled[:0], n)[:n]
	for i := range n {
		s.price[i], s.relative[i], s.slow[i], s.avoid[i], s.stalled[i] = 1, 1, false, false, false
	}
}

// findPrices sets what each host costs. The share of a host is compared with the hosts
// that are as near: were all compared with all, the near ones, which are meant to be
// sent more, would cost more for it. A slow host is compared with none, for it is meant
// to be sent less: it would be cheap for having had little, and the others dear.
func (e *Executor) findPrices(v *view, near []bool, now int64, s *survey) {
	var total, count [2]float64 // of the hosts that are not near, and that are
	lookup := e.lookups.Load()
	for _, i := range v.data {
		s.price[i] = v.hosts[i].sent.at(lookup)
		if c := class(near, i); !s.slow[i] {
			total[c] += s.price[i]
			count[c]++
		}
	}
	for _, i := range v.data {
		share := 1.0
		if c := class(near, i); !s.slow[i] {
			share = balance(s.price[i], total[c]/count[c])
		}
		s.price[i] = v.hosts[i].price(s.relative[i], now) * share
	}
}

// class is 1 for a host that is near, 0 for another.
func class(near []bool, i ring.HostIndex) int {
	if int(i) < len(near) && near[i] {
		return 1
	}
	return 0
}

// stallAfter is how long a host that owes something must have settled nothing,
// while another has answered, to be taken for stalled rather than slow: four hedge
// delays. A host under load answers something in that time.
const stallAfter = int64(60 * time.Millisecond)

// findStalled marks the hosts that are stalled. When nobody has answered for that
// long, none is: then the whole cluster pauses, or the proxy itself did.
func (e *Executor) findStalled(v *view, now int64, s *survey) {
	if e.without.stalls || e.without.suspects {
		return
	}
	for _, i := range v.data {
		s.stalled[i] = e.stalled(v, v.hosts[i], now)
	}
}

// stalled reports whether a host is.
func (e *Executor) stalled(v *view, h *host, now int64) bool {
	return h.lateAt.Load() <= now && now-h.settledAt.Load() >= stallAfter && h.owes(now) >= stallAfter && e.anyAnswered(v, now-stallAfter)
}

// anyAnswered reports whether some host has answered since a moment.
func (e *Executor) anyAnswered(v *view, since int64) bool {
	return slices.ContainsFunc(v.data, func(i ring.HostIndex) bool { return v.hosts[i].settledAt.Load() >= since })
}

// owes returns for how long the host has owed its oldest answer.
func (h *host) owes(now int64) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.oldest == nil {
		return 0
	}
	return now - h.oldest.sent
}

// avoids reports whether a host is asked only when a key has no other replica.
func (e *Executor) avoids(h *host, now int64, stalled, stressed, crowded bool) bool {
	if h.full(1) || h.is(stateEjected) {
		return true
	}
	if stalled {
		h.suspect(now)
		return true
	}
	if e.without.suspects || stressed {
		return false
	}
	if h.late(now) {
		h.suspect(now)
		return true
	}
	return !crowded && h.is(stateSuspect, stateProbing)
}

// balance is the part of a price that keeps the hottest host near the mean.
func balance(sent, mean float64) float64 {
	if mean <= 0 {
		return 1
	}
	x := sent / mean
	return min(max(x*x, shareLeast), shareMost)
}

// Plan groups the keys of a request by the host to ask, as things are at this
// moment. It asks nobody.
func (e *Executor) Plan(req *Request) planner.Plan {
	v := e.view(req.Ring)
	s := e.surveys.Get().(*survey)
	defer e.surveys.Put(s)
	e.look(v, req.Near, s)
	return e.plan(req, v, s)
}

// Why a host is asked only for keys that have no other replica, as in
// Survey.Avoided.
const (
	// AvoidedSuspect means that it owes an answer for too long.
	AvoidedSuspect = "suspect"
	// AvoidedStalled means that it has answered nothing for some hedge delays while
	// others have.
	AvoidedStalled = "stalled"
	// AvoidedProbing means that it was suspect, and has yet to show that it is well.
	AvoidedProbing = "probing"
	// AvoidedEjected means that it failed again and again.
	AvoidedEjected = "ejected"
	// AvoidedFull means that it owes as many answers as it may.
	AvoidedFull = "full"
)

// Survey is what a plan took into account.
type Survey struct {
	// Avoided says why each host of the snapshot was avoided, by its index, one of
	// the Avoided words; empty when it was not.
	Avoided []string
	// Stressed is set when more hosts were late than can be avoided: that is load.
	Stressed bool
}

// Explain is Plan, and says what it took into account. It asks nobody.
func (e *Executor) Explain(req *Request) (planner.Plan, *Survey) {
	v := e.view(req.Ring)
	s := e.surveys.Get().(*survey)
	defer e.surveys.Put(s)
	e.look(v, req.Near, s)
	out := &Survey{Avoided: make([]string, len(v.hosts)), Stressed: s.stressed}
	for i, avoid := range s.avoid {
		if avoid {
			out.Avoided[i] = v.hosts[i].avoidedFor(s.stalled[i])
		}
	}
	return e.plan(req, v, s), out
}

// avoidedFor says why a host is avoided, in the order in which avoids decides.
func (h *host) avoidedFor(stalled bool) string {
	switch {
	case h.is(stateEjected):
		return AvoidedEjected
	case h.full(1):
		return AvoidedFull
	case stalled:
		return AvoidedStalled
	case h.is(stateProbing):
		return AvoidedProbing
	}
	return AvoidedSuspect
}

func (e *Executor) plan(req *Request, v *view, s *survey) planner.Plan {
	return planner.Make(&planner.Input{
		Replicas: req.Replicas,
		Ranges:   req.Ranges,
		Hosts:    len(v.hosts),
		Grouping: req.Grouping,
		Cap:      req.Cap,
		Price:    s.price,
		Avoid:    s.avoid,
		Near:     req.Near,
		Seed:     e.nextSeed(),
	})
}

// nextSeed rotates the ties of plans: multiples of the golden ratio of 2^64.
func (e *Executor) nextSeed() uint64 { return e.seed.Add(0x9e3779b97f4a7c15) }

// fade is the part of a difference that is left after a time.
func fade(passed int64, memory float64) float64 { return math.Exp(-float64(max(passed, 0)) / memory) }
