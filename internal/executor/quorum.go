package executor

import (
	"slices"

	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/planner"
	"github.com/qosproxy/qosproxy/internal/quorum"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// Quorum says how the keys of a request are read by their replicas. A quorum of the
// replicas of each key is asked for their own data. The attempts of a key go to distinct
// hosts, so that the first quorum of answers is from distinct replicas, even after hedges
// and failures. Keys that these answers do not decide are read by Request.Query.
type Quorum struct {
	// Query is Request.Query at partition.OwnData.
	Query *Query
	// Hosts marks the hosts that may be asked for their own data, by their index.
	Hosts []bool
}

// asks returns the replicas that may be asked for their own data, and how many of them must
// answer; 0 if they are too few.
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

// planQuorum plans one cover after the other, each over the replicas that the previous ones
// did not choose, until a quorum of the replicas of each key is asked. Keys with too few
// replicas are in no group. Neither are the keys in cutOff, which are cut off from their
// local replicas: another datacenter has a quorum of its own.
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
	s.reset(len(v.hosts)) // it may be another plan's, and most may be 0
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

// query returns what hosts are asked for a key, and for all keys of its group.
func (r *run) query(k int32) *Query {
	if r.keys[k].need > 0 {
		return r.req.Quorum.Query
	}
	return r.req.Query
}

// beginQuorum requires a quorum of answers for each key, unless it is cut off from its
// replicas.
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
	r.cutOffKeys = cutOff
}

// beginRereads has coordinators read the keys that the plan cannot ask of their replicas,
// and returns how many keys the groups have.
func (r *run) beginRereads(groups []planner.Group) (asked int) {
	for _, g := range groups {
		asked += len(g.Keys)
	}
	for k := range r.keys {
		if ks := &r.keys[k]; ks.need == 0 && !ks.done {
			why := quorum.Refused
			if slices.Contains(r.cutOffKeys, int32(k)) {
				why = quorum.Replicas
			}
			r.reread(int32(k), why)
		}
	}
	return asked
}

// answer handles the answer of a host for a key.
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
	compare := r.executor.policies.compare
	if r.req.Query.Table.NoReadRepair {
		compare = r.executor.policies.reconcile
	}
	res, outcome := compare(r.answers[k], r.req.Query.Columns)
	if !outcome.Answered() {
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

// reread has a key read through a coordinator, which may be any replica. Attempts in flight
// for the key are of no more use.
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

// telltale returns why a key that a replica has lost must be read through a coordinator at
// once: another replica would not help, or cannot be asked either. It is None if neither is
// so. alone is set if the replica gave the reason for this key by itself.
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

// complete has further replicas asked for keys that lost several attempts at once, until a
// quorum is: fail-over asks only one more for each.
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

// beyondReplicas has a key with too few replicas left read through a coordinator, and
// reports whether it did. It does not if the last reason is load, to which the read would
// add, nor if the budget of fail-over does not allow it.
func (r *run) beyondReplicas(k int32) bool {
	ks := &r.keys[k]
	if ks.need == 0 || int(ks.inFlight) >= ks.lacks() || ks.last == reasonFull || ks.last == ReasonOverloaded ||
		r.executor.policies.mayRetry(r.req.Table, 1, ks.last) == 0 {
		return false
	}
	r.reread(k, quorum.Replicas)
	return true
}

// hedgeable reports whether a key of a late attempt may be asked of one more host: once or,
// with a quorum, until enough attempts are not late.
func (r *run) hedgeable(k int32) bool {
	ks := &r.keys[k]
	if ks.need > 0 {
		return r.awaited(k) < ks.lacks()
	}
	return !ks.hedged
}

// probeQuery returns what a probe asks a host: its own data, if first attempts may ask for
// that.
func (r *Request) probeQuery(v *view, h *host) *Query {
	if i := slices.Index(v.hosts, h); r.Quorum != nil && i >= 0 && r.Quorum.Hosts[i] {
		return r.Quorum.Query
	}
	return r.Query
}
