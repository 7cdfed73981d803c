package executor

import (
	"slices"

	"github.com/qosproxy/qosproxy/internal/planner"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// Plan is a request with the hosts to ask for its keys, given the state of the hosts at one
// moment.
type Plan struct {
	// Plan has the groups, whose keys are indices into Request.Keys.
	planner.Plan
	// Survey is what the plan took into account; nil without Request.Trace.
	Survey *Survey

	req  *Request
	view *view
	// cutOff holds the keys of a Request.Quorum that are in no group, since too few of
	// their local replicas are left.
	cutOff []int32
}

// Survey is what a plan took into account.
type Survey struct {
	// Avoided says why each host of the snapshot was avoided, by its index; empty when it
	// was not.
	Avoided []Avoided
	// Stressed is set if more hosts were overdue than can be avoided, which is taken for
	// load.
	Stressed bool
	// Size is how large groups should be, given the cost of statements and keys.
	Size GroupSize
}

// Avoided is why a host is asked only for keys that have no other replica.
type Avoided string

// Why a host is avoided.
const (
	// AvoidedSuspect means that an answer of it is overdue.
	AvoidedSuspect Avoided = "suspect"
	// AvoidedStalled means that it has answered nothing for some time in which others have.
	AvoidedStalled Avoided = "stalled"
	// AvoidedProbing means that it was suspect, and has yet to show that it is healthy.
	AvoidedProbing Avoided = "probing"
	// AvoidedEjected means that it failed again and again.
	AvoidedEjected Avoided = "ejected"
	// AvoidedFull means that as many keys are outstanding at it as Limits allows.
	AvoidedFull Avoided = "full"
	// AvoidedLost means that it answered nobody while another did, and has yet to show that
	// it is healthy. It occurs only where there is a datacenter to fail over to.
	AvoidedLost Avoided = "lost"
)

// Plan groups the keys of a request by the host to ask, given the current state of the
// hosts. It sends nothing.
func (e *Executor) Plan(req *Request) Plan {
	s := e.surveys.Get().(*survey)
	defer e.surveys.Put(s)
	p := Plan{req: req, view: e.view(req.Ring)}
	in := req.Input
	if req.Quorum != nil {
		p.Plan, p.cutOff = e.planQuorum(p.view, req, &in, s)
	} else {
		e.look(p.view, req.Query, &in, s)
		in.Replicas = e.reroute(p.view, req)
		p.Plan = planner.Make(&in)
	}
	if req.Trace {
		p.Survey = s.describe(p.view)
	}
	return p
}

// planOver looks at the hosts of a view and plans over them.
func (e *Executor) planOver(v *view, q *Query, in *planner.Input, s *survey) planner.Plan {
	e.look(v, q, in, s)
	return planner.Make(in)
}

// look surveys the hosts, and sets the fields of the input that depend on their current
// state.
func (e *Executor) look(v *view, q *Query, in *planner.Input, s *survey) {
	e.policies.survey(e, v, in.Near, s)
	if s.size = e.groupSize(q); in.Cap > 0 {
		s.size.Keys = in.Cap
	}
	in.Hosts, in.Price, in.Avoid, in.Seed, in.Size = len(v.hosts), s.price, s.avoid, e.nextSeed(), s.size.Keys
}

// nextSeed returns another seed for each plan, so that ties rotate: multiples of 2^64 over
// the golden ratio.
func (e *Executor) nextSeed() uint64 { return e.seed.Add(0x9e3779b97f4a7c15) }

// place groups keys by hosts that have headroom for them, and reserves them there. Keys
// without such a host are unplaced; keyState.full is set for those of which every other
// replica was too full.
func (r *run) place(keys []int32, at where) (groups []planner.Group, unplaced []int32, stressed bool) {
	var tooFull []ring.HostIndex
	for len(keys) > 0 {
		planned, left, load := r.replan(keys, at, tooFull)
		stressed = stressed || load
		unplaced = append(unplaced, left...)
		keys = nil
		for _, g := range planned {
			if r.view.hosts[g.Host].reserve(len(g.Keys), r.req.Batch) {
				groups = append(groups, g)
				continue
			}
			tooFull = append(tooFull, g.Host)
			keys = append(keys, g.Keys...)
		}
	}
	return groups, unplaced, stressed
}

// replan groups keys by the replicas that were not asked yet and are not in tooFull, given
// the current state of the hosts. Keys without a replica that can be asked are unplaced.
func (r *run) replan(keys []int32, at where, tooFull []ring.HostIndex) (groups []planner.Group, unplaced []int32, stressed bool) {
	in := r.req.Input
	in.Replicas = make([][]ring.HostIndex, len(keys))
	var block []ring.HostIndex
	clear(r.taken)
	for i, k := range keys {
		from := len(block)
		var full bool
		block, full = r.untried(k, at, tooFull, block)
		in.Replicas[i] = block[from:len(block):len(block)]
		r.keys[k].full = full && from == len(block)
	}
	in.Ranges, in.Class = r.req.ranges(keys), r.req.classes(keys)
	s := r.executor.surveys.Get().(*survey)
	defer r.executor.surveys.Put(s)
	query := r.req.Query
	if len(keys) > 0 {
		query = r.query(keys[0])
	}
	plan := r.executor.planOver(r.view, query, &in, s)
	// The plan numbers the keys from 0, in the order given.
	for _, g := range plan.Groups {
		for i, k := range g.Keys {
			g.Keys[i] = keys[k]
		}
	}
	for i, k := range plan.Unplaced {
		plan.Unplaced[i] = keys[k]
	}
	return plan.Groups, plan.Unplaced, s.stressed
}

// untried appends to into the replicas of a key that were not asked yet and are neither
// full nor in tooFull. full reports whether it left any out. For a key that is cut off from
// its local replicas they are those of the next datacenter, if that has any.
func (r *run) untried(k int32, at where, tooFull, into []ring.HostIndex) (open []ring.HostIndex, full bool) {
	if at == elsewhere || r.keys[k].need == 0 && r.cutOff(k) {
		open, full = r.untriedElsewhere(k, tooFull, into)
		if at == elsewhere || len(open) > len(into) {
			return open, full
		}
	}
	open, busy := r.untriedOf(k, r.req.Replicas[k], 0, tooFull, into)
	return open, full || busy
}

// untriedOf is untried for some replicas of the key; first is the position of the first of
// them.
func (r *run) untriedOf(k int32, replicas []ring.HostIndex, first int, tooFull, into []ring.HostIndex) (open []ring.HostIndex, full bool) {
	for i, h := range replicas {
		if i += first; i >= 64 || r.keys[k].tried&(1<<i) != 0 {
			continue
		}
		if r.view.hosts[h].full(1) || slices.Contains(tooFull, h) {
			full = true
			continue
		}
		into = append(into, h)
	}
	return into, full
}

// mark records that a host is asked for a key.
func (r *run) mark(k int32, host ring.HostIndex) {
	if i := r.req.position(k, host); i >= 0 && i < 64 {
		r.keys[k].tried |= 1 << i
	}
}

// survey is what a plan needs to know of the hosts at one moment, by their index.
type survey struct {
	// price is what asking the host costs, relative to a usual idle one. relative is its
	// latency in proportion to the usual one, and slow is set if that is high.
	price    []float64
	relative []float64
	slow     []bool
	avoid    []bool
	stalled  []bool
	// stressed is set if so many hosts are overdue that it is taken for load.
	stressed bool
	size     GroupSize
}

// signs are what a survey has found about one host and about all.
type signs struct {
	// stalled is about the host. stressed means that load makes hosts slow, and crowded
	// that too many are unhealthy for this one to be avoided.
	stalled, stressed, crowded bool
}

// survey looks at the hosts of a view: what each costs, and which to avoid. It locks only
// hosts that are overdue or lost.
func (e *Executor) survey(v *view, near []bool, s *survey) {
	now := e.now()
	s.reset(len(v.hosts))
	overdue, recovering, slow := 0, 0, 0
	for _, i := range v.data {
		h := v.hosts[i]
		s.stalled[i] = h.lost.Load() || e.stalled(v, h, now)
		s.relative[i] = h.relativeNow(now)
		s.slow[i] = s.relative[i] >= e.policies.slowRelative
		recovers := h.is(Suspect, Probing)
		if s.stalled[i] {
			// A stalled host is no sign of load, and does not count towards a crowd.
		} else if h.overdue(now) {
			overdue++
		} else if recovers {
			recovering++
		}
		if recovers && s.slow[i] {
			slow++
		}
	}
	s.stressed = overdue > v.third()
	crowded := overdue+recovering > v.third()
	e.findPrices(v, near, now, s)
	for _, i := range v.data {
		// In a crowd slow hosts are still avoided, unless too many are slow.
		s.avoid[i] = e.policies.avoid(e, v.hosts[i], now, signs{
			stalled: s.stalled[i], stressed: s.stressed, crowded: crowded && (!s.slow[i] || slow > v.third()),
		})
		if s.stalled[i] {
			v.loseStalled(v.hosts[i])
		}
	}
	e.surveyLater(v, now, s)
}

func (s *survey) reset(n int) {
	s.price = slices.Grow(s.price[:0], n)[:n]
	s.relative = slices.Grow(s.relative[:0], n)[:n]
	s.slow = slices.Grow(s.slow[:0], n)[:n]
	s.avoid = slices.Grow(s.avoid[:0], n)[:n]
	s.stalled = slices.Grow(s.stalled[:0], n)[:n]
	s.stressed, s.size = false, GroupSize{}
	for i := range n {
		s.price[i], s.relative[i], s.slow[i], s.avoid[i], s.stalled[i] = 1, 1, false, false, false
	}
}

// describe returns what the survey found.
func (s *survey) describe(v *view) *Survey {
	out := &Survey{Avoided: make([]Avoided, len(v.hosts)), Stressed: s.stressed, Size: s.size}
	for i, avoid := range s.avoid {
		switch {
		case v.hosts[i].lost.Load():
			out.Avoided[i] = AvoidedLost
		case avoid:
			out.Avoided[i] = v.hosts[i].avoidedFor(s.stalled[i])
		}
	}
	return out
}

// avoidedFor says why a host is avoided, in the order in which avoids decides.
func (h *host) avoidedFor(stalled bool) Avoided {
	switch {
	case h.is(Ejected):
		return AvoidedEjected
	case h.full(1):
		return AvoidedFull
	case stalled:
		return AvoidedStalled
	case h.is(Probing):
		return AvoidedProbing
	}
	return AvoidedSuspect
}

// stalled reports whether a host is overdue and has settled nothing for some time in which
// another has. If nobody has, none is stalled: then the whole cluster pauses, or the proxy
// itself did.
func (e *Executor) stalled(v *view, h *host, now int64) bool {
	after := int64(e.policies.stallAfter)
	return h.overdueAt.Load() <= now && now-h.settledAt.Load() >= after && h.oldestAge(now) >= after && e.anySettled(v, now-after)
}

// anySettled reports whether some host has settled something since a moment.
func (e *Executor) anySettled(v *view, since int64) bool {
	return slices.ContainsFunc(v.data, func(i ring.HostIndex) bool { return v.hosts[i].settledAt.Load() >= since })
}

// oldestAge returns for how long the oldest sub-query has been outstanding at the host.
func (h *host) oldestAge(now int64) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.oldest == nil {
		return 0
	}
	return now - h.oldest.sentAt
}

// avoids reports whether a host is asked only for keys without another replica. It marks
// the host as suspect if answers are overdue.
func (e *Executor) avoids(h *host, now int64, seen signs) bool {
	if h.full(1) || h.is(Ejected) {
		return true
	}
	if seen.stalled {
		h.suspect(now)
		return true
	}
	if seen.stressed {
		return false
	}
	if h.overdue(now) {
		h.suspect(now)
		return true
	}
	return !seen.crowded && h.is(Suspect, Probing)
}
