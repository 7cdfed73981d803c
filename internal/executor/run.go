package executor

import (
	"context"
	"time"

	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/planner"
	"github.com/qosproxy/qosproxy/internal/reasons"
)

// run is one lookup from its plan to its last result: a state machine that belongs to the
// goroutine that called Execute. Readers only send it events, so a reader that returns
// after the lookup has ended has nothing to write to.
//
// # The states of a key
//
//	from        to          when                                                       file
//	planned     in-flight   its group is sent                                          send.go
//	planned     lost        the host of its group is full                              run.go
//	in-flight   done        an attempt answers it first                                results.go
//	in-flight   lost        an attempt fails, or loses this key                        results.go
//	in-flight   in-flight   its attempt is late: another replica is asked as well      hedge.go
//	lost        in-flight   another replica can be asked, or is being asked            failover.go
//	lost        waiting     its host died, and every other replica is full             headroom.go
//	waiting     lost        some time has passed                                       headroom.go
//	lost        done        no replica can be asked: the last reason is the status     failover.go
//	in-flight   in-flight   one replica of a quorum has answered                       quorum.go
//	any         lost        its replicas do not decide: a coordinator reads it         quorum.go
//	any         done        the deadline passes, or its level cannot be met            finish.go
//	any         done        the answer of a host made the reader panic                 incident.go
//
// # The states of an attempt
//
//	from        to          when                                                       file
//	in-flight   late        its hedge delay passes                                     hedge.go
//	late        late        it is hedged, or denied and tried again when twice as late hedge.go
//	in-flight   ended       its reader returns                                         results.go
//	any         abandoned   others have answered its keys, or the lookup has ended     finish.go
//
// What a host has outstanding outlives the attempt: see outstanding.go.
type run struct {
	executor *Executor
	view     *view
	req      *Request
	sink     func(int, partition.Result)
	stats    Stats

	ctx      context.Context
	cancel   context.CancelCauseFunc
	begin    int64
	deadline int64
	// From rescueAt on, a hedge that the budget denied may be a rescue. urgentAt is when
	// three quarters of the time are gone. Both are unset without a deadline.
	rescueAt, urgentAt int64

	keys []keyState
	// answers holds what the replicas of each key have answered; nil without
	// Request.Quorum.
	answers [][]partition.Result
	// cutOffKeys are those of Request.Quorum that are cut off from their replicas.
	cutOffKeys []int32
	// left is how many keys have no result.
	left    int
	pending []*attempt
	// lost holds the keys to be asked again, for the reasons in keyState.last.
	lost    []int32
	events  chan event
	timer   *time.Timer
	alarmAt int64
	// waiting holds the keys that wait for headroom. They are tried again at headroomAt;
	// headroomWait is the length of the last wait.
	waiting      []int32
	headroomAt   int64
	headroomWait time.Duration
	// hopelessAt is when keys are given up of which too few replicas can be reached; unset
	// if all hosts can be reached, or one replica is enough.
	hopelessAt int64
	// mayLeave is set if keys may be asked of another datacenter. At leaveAt that is done
	// for keys whose local replicas are silent. taken counts the keys that the current plan
	// sends to each.
	mayLeave bool
	leaveAt  int64
	taken    []int
}

// keyState is what the run knows of one key.
type keyState struct {
	// tried marks the replicas that were asked, by Request.position. A replica beyond the
	// 64th is never asked again.
	tried uint64
	// inFlight is how many pending attempts ask the key.
	inFlight int8
	// need is how many distinct replicas must answer from their own data, or 0 if a
	// coordinator is asked for the key. got is how many have answered.
	need, got int8
	// hedged is set when the key is not to be hedged any more, and reread once a replica
	// has failed to read this key alone. full is set if all replicas left were full, missed
	// while the key is in run.lost, and asked once a host was sent the key.
	done, hedged, reread, full, missed, asked bool
	// away is set once a host of another datacenter was sent the key, and refused when too
	// many keys were in flight there.
	away, refused bool
	// last is why the last attempt failed. lastReason and lastErr are what its reader said
	// of this key alone.
	last       Reason
	lastReason reasons.Reason
	lastErr    error
}

// Execute asks the hosts of a plan, and others when these are late or fail. It calls sink
// exactly once for each key of the request, as soon as the key has a result, one call at a
// time and on the caller's goroutine. It returns when every key has a result, at the
// deadline of ctx at the latest.
//
// # Selection
//
// The first success of a key wins. It counts as soon as its Reader delivers it, whatever
// becomes of the other keys of the group. With Request.Quorum a key needs the answers of a
// quorum of its replicas, or else that of a coordinator. The attempts of a key go to
// distinct hosts, but a coordinator may be a replica that was asked before. A late group is
// planned again over the other replicas of its unanswered keys; so is a hedge, after four
// times the delay. Lost keys are planned again at once, while they have replicas left. When
// none are left and no attempt is in flight, a key ends with the status of the last reason;
// see verdict.
//
// # Contexts
//
// Each attempt has a context of its own, derived from ctx. It is cancelled with ErrAnswered
// once all its keys are answered elsewhere, and with ErrEnded when Execute returns. Execute
// does not wait for readers that ignore this.
func (e *Executor) Execute(ctx context.Context, plan Plan, sink func(key int, res partition.Result)) Stats {
	r := e.newRun(ctx, plan, sink)
	defer r.end()
	for _, k := range plan.Unplaced {
		r.finish(k, partition.Unanswered(reasons.NoReplica, errNoReplica))
	}
	if ctx.Err() == nil {
		r.first(plan.Groups)
		e.probe(r.view, r.req)
	}
	for r.left > 0 && r.wait() {
	}
	if r.left > 0 {
		r.expire()
	}
	return r.stats
}

func (e *Executor) newRun(ctx context.Context, plan Plan, sink func(int, partition.Result)) *run {
	r := &run{
		executor: e,
		view:     plan.view,
		req:      plan.req,
		sink:     sink,
		stats:    Stats{Groups: len(plan.Groups)},
		begin:    e.now(),
		deadline: unset,
		keys:     make([]keyState, len(plan.req.Keys)),
		left:     len(plan.req.Keys),
		pending:  make([]*attempt, 0, len(plan.Groups)+2),
		// Enough for every first answer: one that has come when the deadline passes must
		// not be lost.
		events: make(chan event, len(plan.Groups)+2),
	}
	r.headroomAt, r.hopelessAt, r.rescueAt, r.urgentAt, r.leaveAt = unset, unset, unset, unset, unset
	if r.mayLeave = e.mayLeave(r.view, r.req); r.mayLeave {
		r.taken = make([]int, len(r.view.later))
	}
	if d, ok := ctx.Deadline(); ok {
		r.deadline = int64(d.Sub(e.begin))
		left := r.deadline - r.begin
		r.rescueAt, r.urgentAt = r.begin+int64(e.policies.rescueFrom*float64(left)), r.begin+left/4*3
		if r.req.Query.Consistency.Required(2) > 1 && r.view.anyGone() {
			r.hopelessAt = r.begin + left/2
		}
		if r.mayLeave {
			r.leaveAt = r.rescueAt
		}
	}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	if plan.req.Quorum != nil {
		r.beginQuorum(plan.cutOff)
	}
	return r
}

// first sends the groups of the plan, and at once fails over keys whose host is full.
func (r *run) first(groups []planner.Group) {
	r.executor.lookups.Add(1)
	asked := len(r.req.Keys)
	if r.req.Quorum != nil {
		asked = r.beginRereads(groups)
	}
	r.req.Table.hedges.Deposit(asked, len(groups))
	r.req.Table.retries.Deposit(asked)
	for _, g := range groups {
		if r.view.hosts[g.Host].reserve(len(g.Keys), r.req.Batch) {
			r.send(g.Host, g.Keys, KindFirst)
			continue
		}
		for _, k := range g.Keys {
			r.keys[k].last = reasonFull
			if !r.keys[k].missed { // a key of a quorum may be in several groups
				r.keys[k].missed = true
				r.lost = append(r.lost, k)
			}
		}
	}
	r.failoverLost()
	if r.req.Policy.Always() {
		r.hedgeDue()
	}
}

// wait handles the next event or alarm, and reports whether the lookup may go on.
func (r *run) wait() bool {
	if r.ctx.Err() != nil { // select might take an event; expire takes those that have arrived
		return false
	}
	select {
	case ev := <-r.events:
		r.take(ev)
		r.takeAll()
	case <-r.alarm():
		if r.takeAll(); r.left == 0 { // answers that came while this process had no CPU
			return false
		}
		r.hedgeDue()
		if r.leaveAt <= r.executor.now() {
			r.leaveDue()
		}
		if r.hopelessAt <= r.executor.now() {
			r.hopelessAt = unset
			r.giveUp()
		}
		if r.headroomAt <= r.executor.now() {
			r.headroomDue()
		}
	case <-r.ctx.Done():
		return false
	}
	return true
}

// takeAll handles the events that have arrived already. Keys that were lost together are
// then planned again together.
func (r *run) takeAll() {
	for r.left > 0 && r.takeNext() {
	}
	r.failoverLost()
}

// takeNext handles one event that has arrived already, and reports whether there was one.
func (r *run) takeNext() bool {
	select {
	case ev := <-r.events:
		// An attempt that is abandoned because of the deadline stays pending: it was waited
		// for.
		if ev.phase != abandoned || ev.results != nil || ev.broken != nil || r.ctx.Err() == nil {
			r.take(ev)
		}
		return true
	default:
		return false
	}
}

// alarm returns a channel that fires when the next attempt is late, or keys are to be tried
// again, to leave or to be given up; nil if none of that is due before the deadline.
func (r *run) alarm() <-chan time.Time {
	at := min(r.hopelessAt, r.headroomAt, r.leaveAt)
	for _, a := range r.pending {
		at = min(at, a.hedgeAt)
	}
	if at >= r.deadline {
		return nil
	}
	switch wait := time.Duration(at - r.executor.now()); {
	case r.timer == nil:
		r.timer = time.NewTimer(wait)
	case at != r.alarmAt:
		r.timer.Reset(wait)
	}
	r.alarmAt = at
	return r.timer.C
}
