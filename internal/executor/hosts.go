package executor

import (
	"slices"

	"github.com/qosproxy/qosproxy/internal/ring"
)

// view holds the state of each host of one snapshot, by its index. It is immutable except
// for the states themselves, which it shares with the views of later snapshots.
type view struct {
	ring  *ring.Ring
	hosts []*host
	// data are the indices of the hosts that may be asked: those of the local
	// datacenter that own tokens.
	data []ring.HostIndex
	// later are the datacenters to fail over to. all is data and the hosts of these.
	later []later
	all   []ring.HostIndex
}

// third returns how many of hosts may be ejected, or avoided as suspects, at a time. If
// there are more it is overload, and the rest would be next.
func third(hosts []ring.HostIndex) int { return max(1, len(hosts)/3) }

// third returns third of the local hosts.
func (v *view) third() int { return third(v.data) }

// peers returns the hosts that own tokens in the datacenter of a host, itself included.
func (v *view) peers(h *host) []ring.HostIndex {
	for _, dc := range v.later {
		if dc.datacenter == h.dc {
			return dc.hosts
		}
	}
	return v.data
}

// crowded reports whether more hosts are overdue or not healthy than may be avoided.
func (v *view) crowded(now int64) bool {
	n := 0
	for _, i := range v.data {
		if h := v.hosts[i]; h.overdue(now) || !h.is(Healthy) {
			n++
		}
	}
	return n > v.third()
}

// anyGone reports whether some host that may be asked was last seen to be unreachable.
func (v *view) anyGone() bool {
	return slices.ContainsFunc(v.data, func(i ring.HostIndex) bool { return v.hosts[i].gone.Load() })
}

// keptViews is how many snapshots are remembered, for lookups that began with an older one.
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

// newView keeps the state of each host that the last snapshot knew under the same id and
// address. A host that was away, or came back at another address, begins anew.
func (e *Executor) newView(r *ring.Ring, views []*view) *view {
	type identity struct{ id, addr string }
	known := make(map[identity]*host)
	if len(views) > 0 {
		for _, h := range views[0].hosts {
			known[identity{h.ID, h.Addr}] = h
		}
	}
	v := &view{ring: r, hosts: make([]*host, r.Len()), later: e.laterOf(r)}
	for i, rh := range r.Hosts() {
		h, ok := known[identity{rh.ID, rh.Addr}]
		if !ok {
			var dc *datacenter
			if slices.Contains(r.LaterDCs(), rh.DC) {
				dc = e.datacenterOf(rh.DC)
			}
			h = e.newHost(rh, dc)
		}
		v.hosts[i] = h
		if len(rh.Tokens) > 0 && (r.LocalDC() == "" || rh.DC == r.LocalDC()) {
			v.data = append(v.data, ring.HostIndex(i))
		}
	}
	v.all = v.data
	for _, dc := range v.later {
		v.all = slices.Concat(v.all, dc.hosts)
	}
	return v
}
