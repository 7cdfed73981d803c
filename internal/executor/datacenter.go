package executor

import (
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/quorum"
	"github.com/qosproxy/qosproxy/internal/reasons"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// How a key leaves the local datacenter. Its replicas there come first. Those of the next
// datacenter are asked when too few local ones are left for its level:
//
//	when                        a local replica does not count if it              func
//	the plan                    is lost or ejected                                reroute
//	an attempt is late          is also unreachable, or overdue and silent        leave
//	half of the time is gone    has also settled nothing since the lookup began   leave
//	an attempt has failed       as when one is late                               untried
//
// A host is lost when it is silent while another host, in any datacenter, has answered. It
// stays lost until probes find that it is healthy again.

// datacenter is one to which lookups fail over.
type datacenter struct {
	name string
	// keys is how many are outstanding at its hosts, and most how many may be.
	keys atomic.Int64
	most *atomic.Int64
	// sent and denied count keys. total is what sent counts.
	sent, denied prometheus.Counter
	total        atomic.Int64
}

// count counts n keys that are sent.
func (d *datacenter) count(n int) {
	if d != nil {
		d.sent.Add(float64(n))
		d.total.Add(int64(n))
	}
}

// reserve counts n keys as outstanding, unless they are too many. The local datacenter, nil,
// has no limit.
func (d *datacenter) reserve(n int) bool {
	if d == nil {
		return true
	}
	if d.keys.Add(int64(n)) <= d.most.Load() {
		return true
	}
	d.keys.Add(-int64(n))
	return false
}

// add counts n keys as outstanding, or as not outstanding any more.
func (d *datacenter) add(n int) {
	if d != nil {
		d.keys.Add(int64(n))
	}
}

// later is a datacenter to fail over to in one snapshot.
type later struct {
	*datacenter
	// hosts are those that own tokens.
	hosts []ring.HostIndex
}

// laterOf returns the datacenters to fail over to of a snapshot.
func (e *Executor) laterOf(r *ring.Ring) []later {
	out := make([]later, len(r.LaterDCs()))
	for d, name := range r.LaterDCs() {
		out[d].datacenter = e.datacenterOf(name)
		for i, h := range r.Hosts() {
			if h.DC == name && len(h.Tokens) > 0 {
				out[d].hosts = append(out[d].hosts, ring.HostIndex(i))
			}
		}
	}
	return out
}

// datacenterOf returns the state of a datacenter to fail over to, made on first use. viewMu
// is held.
func (e *Executor) datacenterOf(name string) *datacenter {
	if d, ok := e.datacenters[name]; ok {
		return d
	}
	d := &datacenter{
		name: name, most: &e.failoverKeys,
		sent: e.metrics.dcKeys.WithLabelValues(name), denied: e.metrics.dcDenied.WithLabelValues(name),
	}
	e.datacenters[name] = d
	return d
}

// mayLeave reports whether keys of a request may be asked of another datacenter.
func (e *Executor) mayLeave(v *view, req *Request) bool {
	return req.Elsewhere != nil && len(v.later) > 0 && e.failoverKeys.Load() > 0
}

// SetFailoverKeys changes Config.FailoverKeys. It does not affect keys in flight.
func (e *Executor) SetFailoverKeys(keys int) { e.failoverKeys.Store(int64(keys)) }

// out reports whether plans of keys with Request.Elsewhere do without the host.
func (h *host) out() bool { return h.lost.Load() || h.is(Ejected) }

// loseStalled marks a stalled host as lost. That matters only where there is another
// datacenter.
func (v *view) loseStalled(h *host) {
	if len(v.later) == 0 {
		return
	}
	h.mu.Lock() // or it might become healthy, and not lost, in between
	defer h.mu.Unlock()
	if h.is(Suspect, Probing) {
		h.lost.Store(true)
	}
}

// loseSilent marks as lost the local replicas of some keys that were silent until another
// datacenter answered.
func (r *run) loseSilent(keys []int32) {
	now, after := r.executor.now(), int64(r.executor.policies.stallAfter)
	for _, k := range keys {
		for _, i := range r.req.Replicas[k] {
			h := r.view.hosts[i]
			if !h.lost.Load() && h.overdueAt.Load() <= now && now-h.settledAt.Load() >= after && h.oldestAge(now) >= after {
				h.suspect(now)
				r.view.loseStalled(h)
			}
		}
	}
}

// anyOut reports whether plans do without some local host.
func (v *view) anyOut() bool {
	return slices.ContainsFunc(v.data, func(i ring.HostIndex) bool { return v.hosts[i].out() })
}

// cutOff reports whether too few of replicas are left for the level of a request, not
// counting those that are gone. It is false if there are none at all: the keyspace is not
// for this datacenter.
func (r *Request) cutOff(v *view, replicas []ring.HostIndex, gone func(*host) bool) bool {
	left := 0
	for _, i := range replicas {
		if !gone(v.hosts[i]) {
			left++
		}
	}
	return len(replicas) > 0 && left < r.Query.Consistency.Required(len(replicas))
}

// reroute returns the replicas to plan over: for keys that are cut off from the local
// datacenter those of the next, as long as more keys may be in flight there.
func (e *Executor) reroute(v *view, req *Request) [][]ring.HostIndex {
	if !e.mayLeave(v, req) || !v.anyOut() {
		return req.Replicas
	}
	out := slices.Clone(req.Replicas)
	taken := make([]int, len(v.later))
	for k, local := range out {
		if !req.cutOff(v, local, (*host).out) {
			continue
		}
		for d, dc := range v.later {
			replicas := req.Elsewhere.LaterAt(req.Ranges[k], d)
			if len(replicas) > 0 && !req.cutOff(v, replicas, (*host).out) && dc.keys.Load()+int64(taken[d]) < dc.most.Load() {
				out[k] = replicas
				taken[d]++
				break
			}
		}
	}
	return out
}

// surveyLater looks at the hosts to fail over to: what each costs, and which to avoid.
func (e *Executor) surveyLater(v *view, now int64, s *survey) {
	for _, dc := range v.later {
		for _, i := range dc.hosts {
			h := v.hosts[i]
			s.relative[i] = h.relativeNow(now)
			s.price[i] = h.price(s.relative[i], now)
			if h.overdue(now) {
				h.suspect(now)
			}
			s.avoid[i] = h.full(1) || !h.is(Healthy)
		}
	}
}

// where says which replicas of a key may be asked next.
type where uint8

const (
	// anywhere means local replicas, or others for keys that are cut off from them.
	anywhere where = iota
	// elsewhere means only the others.
	elsewhere
)

// deaf reports whether a host does not count as a local replica that could answer the lookup.
func (r *run) deaf(h *host) bool {
	now := r.executor.now()
	switch {
	case h.gone.Load(), h.out():
		return true
	case h.overdueAt.Load() <= now && h.silentFor(hedge.Fallback):
		return true
	}
	return r.rescueAt <= now && h.settledAt.Load() < r.begin
}

// cutOff reports whether a key may be asked of another datacenter now. Its callers see to
// it that compared replicas are all of one datacenter.
func (r *run) cutOff(k int32) bool {
	if !r.mayLeave {
		return false
	}
	return r.keys[k].last == ReasonUnavailable || r.req.cutOff(r.view, r.req.Replicas[k], r.deaf)
}

// untriedElsewhere is untried for the first datacenter to fail over to that has such
// replicas and can serve the level of the key. full is also set if no more keys may be in
// flight there.
func (r *run) untriedElsewhere(k int32, tooFull, into []ring.HostIndex) (open []ring.HostIndex, full bool) {
	ks, at := &r.keys[k], len(r.req.Replicas[k])
	for d, dc := range r.view.later {
		replicas := r.req.Elsewhere.LaterAt(r.req.Ranges[k], d)
		first := at
		at += len(replicas)
		if len(replicas) == 0 || r.req.cutOff(r.view, replicas, func(h *host) bool { return h.gone.Load() || h.out() }) {
			continue
		}
		var busy bool
		if open, busy = r.untriedOf(k, replicas, first, tooFull, into); len(open) == len(into) {
			full = full || busy
			continue
		}
		if dc.keys.Load()+int64(r.taken[d]) < dc.most.Load() {
			r.taken[d]++
			return open, false
		}
		full = true
		if !ks.refused {
			ks.refused = true
			dc.denied.Inc()
		}
	}
	return into, full
}

// leave asks the next datacenter for keys of an attempt that are cut off from the local
// one. The hedge budget is not asked, since the hosts here answer nobody.
func (r *run) leave(a *attempt) {
	if !r.mayLeave || a.sent.host.dc != nil {
		return
	}
	var keys []int32
	for _, k := range slices.Clone(a.keys) {
		switch ks := &r.keys[k]; {
		case ks.done || ks.away || !r.cutOff(k):
		case ks.need > 0:
			r.reread(k, quorum.Replicas)
		default:
			keys = append(keys, k)
		}
	}
	groups, _, _ := r.place(keys, elsewhere)
	r.sendHedges(a, groups)
	r.failoverLost()
}

// leaveDue asks other datacenters for all keys that are cut off. It is due when half of the
// time is gone, and when three quarters are.
func (r *run) leaveDue() {
	r.leaveAt = unset
	if r.executor.now() < r.urgentAt {
		r.leaveAt = r.urgentAt
	}
	for _, a := range slices.Clone(r.pending) {
		r.leave(a)
	}
}

// refuse ends the keys that are still waited for and were not sent to another datacenter
// for its limit.
func (r *run) refuse() {
	r.unanswered(func(k int32) bool { return r.keys[k].refused && !r.keys[k].away },
		partition.Unanswered(reasons.HostsFull, errElsewhereFull))
}

// position returns the place of a host among the replicas of a key, those of the datacenters
// to fail over to behind the local ones; negative when it is none.
func (r *Request) position(k int32, of ring.HostIndex) int {
	if i := slices.Index(r.Replicas[k], of); i >= 0 || r.Elsewhere == nil {
		return i
	}
	at := len(r.Replicas[k])
	for d := range r.Ring.LaterDCs() {
		replicas := r.Elsewhere.LaterAt(r.Ranges[k], d)
		if i := slices.Index(replicas, of); i >= 0 {
			return at + i
		}
		at += len(replicas)
	}
	return -1
}

// Datacenter is how a datacenter of the fail-over order is doing at one moment.
type Datacenter struct {
	// Name is its name.
	Name string `json:"dc"`
	// Active is set for the first in the order of which some host can be asked.
	Active bool `json:"active"`
	// Hosts is how many hosts own tokens. Lost of these cannot be asked: they answer
	// nobody, or have failed again and again.
	Hosts int `json:"hosts"`
	Lost  int `json:"lost"`
	// InflightKeys is how many keys are outstanding, of at most MostKeys. Keys is how many
	// were ever sent there instead of to the local datacenter, for which all three are 0.
	InflightKeys int   `json:"inflight_keys,omitempty"`
	MostKeys     int   `json:"most_keys,omitempty"`
	Keys         int64 `json:"failover_keys,omitempty"`
}

// Datacenters returns those of the fail-over order, the local one first; nil where there is
// no other, or no snapshot yet.
func (e *Executor) Datacenters() []Datacenter {
	if e.current == nil {
		return nil
	}
	r := e.current()
	if r == nil || len(r.LaterDCs()) == 0 {
		return nil
	}
	v := e.view(r)
	out := []Datacenter{v.describe(r.LocalDC(), v.data)}
	for _, dc := range v.later {
		d := v.describe(dc.name, dc.hosts)
		d.InflightKeys, d.MostKeys, d.Keys = int(dc.keys.Load()), int(dc.most.Load()), dc.total.Load()
		out = append(out, d)
	}
	active := slices.IndexFunc(out, func(d Datacenter) bool { return d.Lost < d.Hosts })
	out[max(active, 0)].Active = true
	return out
}

func (v *view) describe(name string, hosts []ring.HostIndex) Datacenter {
	out := Datacenter{Name: name, Hosts: len(hosts)}
	for _, i := range hosts {
		if v.hosts[i].out() {
			out.Lost++
		}
	}
	return out
}
