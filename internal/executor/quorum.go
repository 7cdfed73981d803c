package executor

import (
	"slices"

	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/planner"
	"github.com/qosproxy/qosproxy/internal/quorum"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// Quorum is how the keys of a request are read by their replicas. A key goes to a quorum of
// them, each of which is asked for its own data. The attempts of a key go to distinct hosts, so
// that the first quorum of answers is of distinct replicas, whoever was hedged or failed. What
// they do not tell together is read by Request.Query.
type Quorum struct {
	// Query is Request.Query at partition.OwnData.
	Query *Query
	// Hosts marks the hosts that may be asked for their own data, by their index.
	Hosts []bool
}

// asks returns the replicas that may be asked for their own data, and of how many an answer is
// needed; 0 if they are too few.
func (q *Quorum) asks(replicas []ring.HostIndex) (open []ring.HostIndex, need int) {
	open = replicas
	if slices.ContainsFunc(replicas, func(h ring.HostIndex) bool { return !q.Hosts[h] }) {
		open = slices.DeleteFunc(slices.Clone(replicas), func(h ring.HostIndex) bool { return !q.Hosts[h] })
	}
	if need = quorum.Of(len(replicas)); need > len(open) || len(replicas) > 64 {
		return nil, 0
	}
	return open, need
}

// planQuorum plans one cover after the other, each over the replicas that the ones before have
// left, until a quorum of the replicas of each key is asked. Keys of too few replicas are in no
// group, and neither are those that are cut off from them, for another datacenter has a quorum
// of its own.
func (e *Executor) planQuorum(v *view, req *Request, in *planner.Input, s *survey) (out planner.Plan, cutOff []int32) {
	mayLeave := e.mayLeave(v, req) && v.anyOut()
	in.Replicas = make([][]ring.HostIndex, len(req.Replicas))
	needs, most := make([]int, len(req.Replicas)), 0
	for k, replicas := range req.Replicas {
		if len(replicas) == 0 {
			out.Unplaced = append(out.Unplaced, int32(k))
			continue
		}
		if mayLeave && req.cutOff(v, replicas, (*host).out) {
			cutOff = append(cutOff, int32(k))
			continue
		}
		in.Replicas[k], needs[k] = req.Quorum.asks(replicas)
		most = max(most, needs[k])
	}
	s.reset(len(v.hosts)) // it may be that of another plan, and nothing to plan
	for round := range most {
		groups := e.planOver(v, req.Quorum.Query, in, s).Groups
		out.Groups = append(out.Groups, groups...)
		block := make([]ring.HostIndex, 0, len(in.Replicas)*most)
		for _, g := range groups {
			for _, k := range g.Keys {
				from := len(block)
				if round+1 < needs[k] {
					for _, h := range in.Replicas[k] {
						if h != g.Host {
							block = append(block, h)
						}
					}
				}
				in.Replicas[k] = block[from:len(block):len(block)]
			}
		}
	}
	return out, cutOff
}

// lacks returns how many more answers the key needs.
func (ks *keyState) lacks() int { return int(max(ks.need, 1) - ks.got) }

// query is what a host is asked of a key, and of all keys of its group.
func (r *run) query(k int32) *Query {
	if r.keys[k].need > 0 {
		return r.req.Quorum.Query
	}
	return r.req.Query
}

// beginQuorum has each key need a quorum, but for those that are cut off from their replicas.
func (r *run) beginQuorum(cutOff []int32) {
	r.answers = make([][]partition.Result, len(r.keys))
	if r.req.Trace {
		r.stats.Compared = make([]quorum.Outcome, len(r.keys))
	}
	for k := range r.keys {
		ks := &r.keys[k]
		_, need := r.req.Quorum.asks(r.req.Replicas[k])
		ks.need = int8(need)
		for i, h := range r.req.Replicas[k] {
			if i < 64 && !r.req.Quorum.Hosts[h] {
				ks.tried |= 1 << i
			}
		}
	}
	for _, k := range cutOff {
		r.keys[k].need = 0
	}
}

// beginRereads has the keys that the plan cannot ask of their replicas read by coordinators,
// and returns how many keys its groups have.
func (r *run) beginRereads(groups []planner.Group) (asked int) {
	for _, g := range groups {
		asked += len(g.Keys)
	}
	for k := range r.keys {
		if ks := &r.keys[k]; ks.need == 0 && !ks.done {
			r.reread(int32(k), quorum.Refused)
		}
	}
	return asked
}

// answer takes the answer of a host for a key.
func (r *run) answer(k int32, res partition.Result) {
	ks := &r.keys[k]
	if ks.need == 0 {
		r.finish(k, res)
		return
	}
	r.answers[k] = append(r.answers[k], res)
	if ks.got++; ks.got < ks.need && res.Status != partition.TooLarge {
		return
	}
	res, outcome := r.executor.policies.compare(r.answers[k], r.req.Query.Columns)
	if outcome != quorum.Matched {
		r.reread(k, outcome)
		return
	}
	r.settle(k, outcome)
	r.finish(k, res)
}

// settle ends the comparison of a key.
func (r *run) settle(k int32, outcome quorum.Outcome) {
	r.req.Table.quorum.add(outcome, 1)
	r.answers[k] = nil
	if r.stats.Compared != nil {
		r.stats.Compared[k] = outcome
	}
}

// reread has a key read through a coordinator, which may be any replica. What is still in-flight
// for it has no more use.
func (r *run) reread(k int32, why quorum.Outcome) {
	r.settle(k, why)
	ks := &r.keys[k]
	for _, a := range r.pending {
		if slices.Contains(a.keys, k) {
			r.release(a, []int32{k})
			if a.open == 0 && !a.awaited {
				r.executor.policies.abandon(a)
			}
		}
	}
	*ks = keyState{last: reasonReread, missed: ks.missed, asked: ks.asked}
	if !ks.missed {
		ks.missed = true
		r.lost = append(r.lost, k)
	}
}

// telltale returns why a key that a replica has lost is read through a coordinator at once:
// another replica would not help, or cannot be asked either. None for other reasons. alone is
// whether the replica has said so of this key by itself.
func telltale(reason Reason, alone bool) quorum.Outcome {
	switch reason {
	case ReasonRing:
		return quorum.Ring
	case ReasonRefused, ReasonInvalid:
		return quorum.Refused
	case ReasonSize:
		return quorum.Size
	case ReasonReadFailure:
		if alone {
			return quorum.Replicas
		}
	case ReasonUnreachable, ReasonDisconnected, ReasonUnavailable, ReasonTimeout, ReasonOverloaded, ReasonOther, reasonFull, reasonReread:
	}
	return quorum.None
}

// complete sees to it that a quorum of the replicas is asked for keys that have lost several
// attempts at once, and of which one more replica was just asked.
func (r *run) complete(keys []int32) {
	for _, k := range keys {
		ks := &r.keys[k]
		if ks.done || ks.missed || int(ks.inFlight) >= ks.lacks() {
			continue
		}
		open, full := r.untried(k, anywhere, nil, nil)
		if len(open) > 0 {
			ks.missed = true
			r.lost = append(r.lost, k)
			continue
		}
		ks.full = full
		r.unplaced(k)
	}
}

// beyondReplicas has a key read through a coordinator of which too few replicas are left, and
// reports whether it was to be read by its replicas. Load is no reason: it would only add to it.
func (r *run) beyondReplicas(k int32) bool {
	ks := &r.keys[k]
	if ks.need == 0 || ks.last == reasonFull || ks.last == ReasonOverloaded {
		return false
	}
	r.reread(k, quorum.Replicas)
	return true
}

// hedgeable reports whether a key of a late attempt may be asked of one more host: once, or so
// often that a quorum of its replicas is not late.
func (r *run) hedgeable(k int32) bool {
	ks := &r.keys[k]
	if ks.need > 0 {
		return r.awaited(k) < ks.lacks()
	}
	return !ks.hedged
}

// probeQuery is what a probe asks of a host: what first attempts do, if they may.
func (r *Request) probeQuery(v *view, h *host) *Query {
	if i := slices.Index(v.hosts, h); r.Quorum != nil && i >= 0 && r.Quorum.Hosts[i] {
		return r.Quorum.Query
	}
	return r.Query
}
