package executor

import (
	"time"

	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/planner"
	"github.com/qosproxy/qosproxy/internal/quorum"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// Request is one lookup, as the executor sees it. The executor does not change it, and the
// caller must not change it before every host asked has settled.
type Request struct {
	// Input says what to plan: the replicas of each key, how to group them, and which hosts
	// are near. The executor sets Hosts, Size, Price, Avoid and Seed for each plan, in a
	// copy.
	planner.Input
	// Query is what to read of each key.
	Query *Query
	// Ring is the snapshot that the host indices refer to.
	Ring *ring.Ring
	// Keys are the partitions to read, without duplicates; Replicas has one entry for each.
	Keys []partition.Key
	// Quorum has the keys read by a quorum of their replicas, whose answers are compared.
	// If it is nil, coordinators read the keys.
	Quorum *Quorum
	// Elsewhere holds the replicas of each key in the datacenters to fail over to, by
	// Input.Ranges, which is then required. If it is nil only local replicas are asked.
	Elsewhere *ring.Placement
	// Policy says when a late group is hedged.
	Policy hedge.Policy
	// Table is the state of the table, from Executor.Table.
	Table *TableState
	// FewHedges allows only hedges away from hosts that answer nobody. It does not apply to
	// ALWAYS.
	FewHedges bool
	// Batch marks batch work, which others must not wait for: for it a host is full when
	// half of Limits.InflightKeys are outstanding.
	Batch bool
	// Trace records every sub-query in Stats.Attempts, and in Plan.Survey what the plan
	// took into account.
	Trace bool
	// TraceID is the trace to which the exemplars of sub-query durations link; empty
	// for none.
	TraceID string
}

// lateness returns the state that records how late such requests are. That of batch work is
// kept apart: merging holds it back, which says nothing of the load that others meet.
func (r *Request) lateness() *lateness {
	if r.Batch {
		return &r.Table.batch
	}
	return &r.Table.lateness
}

// Subset returns the request for the keys with these indices, in this order.
func (r *Request) Subset(keys []int32) *Request {
	out := *r
	out.Keys, out.Replicas = make([]partition.Key, len(keys)), make([][]ring.HostIndex, len(keys))
	for i, k := range keys {
		out.Keys[i], out.Replicas[i] = r.Keys[k], r.Replicas[k]
	}
	out.Ranges, out.Class = r.ranges(keys), r.classes(keys)
	return &out
}

// ranges returns the token ranges of some keys; nil if the request has none.
func (r *Request) ranges(keys []int32) []int32 {
	if r.Ranges == nil {
		return nil
	}
	out := make([]int32, len(keys))
	for i, k := range keys {
		out[i] = r.Ranges[k]
	}
	return out
}

// classes returns the classes of some keys, numbered from 0; nil if the request has none.
func (r *Request) classes(keys []int32) []int32 {
	if r.Class == nil {
		return nil
	}
	numbers := make(map[int32]int32, len(keys))
	out := make([]int32, len(keys))
	for i, k := range keys {
		class, ok := numbers[r.Class[k]]
		if !ok {
			class = int32(len(numbers))
			numbers[r.Class[k]] = class
		}
		out[i] = class
	}
	return out
}

// Stats are the statistics of one lookup.
type Stats struct {
	// Groups is the number of groups of the plan, and SubQueries that of all sub-queries
	// sent: of these Hedges because a group was late, and Failovers because one failed.
	Groups, SubQueries, Hedges, Failovers int
	// Attempts are the sub-queries in the order they were sent; only with
	// Request.Trace.
	Attempts []Attempt
	// Compared is the outcome of each key of a Request.Quorum, by its index; None if its
	// replicas have not decided. Only with Request.Trace.
	Compared []quorum.Outcome
	// Err is the *incident.Error of a panic that has ended the lookup; nil otherwise.
	Err error
}

// Kind is why an attempt was made. Its text is the label of metrics.
type Kind string

// The kinds of an attempt.
const (
	// KindFirst is the attempt that the plan asked for.
	KindFirst Kind = "first"
	// KindHedge is an attempt made because another is late.
	KindHedge Kind = "hedge"
	// KindFailover is an attempt made because another has failed.
	KindFailover Kind = "failover"
	// KindReread is an attempt through a coordinator, made because the replicas of its
	// keys, asked for their own data, did not decide what these hold.
	KindReread Kind = "reread"
	// KindProbe is an attempt that asks an avoided host for a few keys, to see whether it
	// is healthy and to warm it up. It belongs to no lookup and appears only in metrics.
	KindProbe Kind = "probe"
	// KindCoalesced is an attempt of another lookup, whose answer this one uses. The
	// executor makes none.
	KindCoalesced Kind = "coalesced"
)

// Outcome is what became of an attempt.
type Outcome string

// The outcomes of an attempt. OutcomePending takes precedence. An attempt that answered
// some keys first and lost others has won.
const (
	// OutcomeWon means that some key was answered first here.
	OutcomeWon Outcome = "won"
	// OutcomeLost means that it answered after all its keys had been answered elsewhere.
	OutcomeLost Outcome = "lost"
	// OutcomeFailed means that it answered no key first and lost some; Attempt.Err says
	// why.
	OutcomeFailed Outcome = "failed"
	// OutcomeCancelled means that all its keys were answered elsewhere while it
	// was in flight.
	OutcomeCancelled Outcome = "cancelled"
	// OutcomePending means that it was in flight when the deadline passed.
	OutcomePending Outcome = "pending"
)

// NotHedged is why a late attempt was not hedged; empty when it was, or was not late.
type NotHedged string

// Why a late attempt was not hedged.
const (
	// NotHedgedBudget means that the hedge budget of the table was spent.
	NotHedgedBudget NotHedged = "budget"
	// NotHedgedLoad means that so many hosts or attempts were late that it was taken for
	// load, which hedges would add to, or that Request.FewHedges did not allow the hedge.
	NotHedgedLoad NotHedged = "load"
	// NotHedgedDeadline means that too little time was left for another replica to
	// answer.
	NotHedgedDeadline NotHedged = "deadline"
	// NotHedgedReplicas means that every other replica had been asked, or had too many
	// keys outstanding.
	NotHedgedReplicas NotHedged = "replicas"
)

// Attempt is one sub-query of a traced lookup.
type Attempt struct {
	// Host is the address that was asked.
	Host string
	// Kind is why it was made.
	Kind Kind
	// Keys are indices into Request.Keys, of all keys that were asked.
	Keys []int32
	// Start and End are relative to the call of Execute. End is when the attempt
	// was of no more use to the lookup.
	Start, End time.Duration
	// Outcome is what became of it.
	Outcome Outcome
	// Err is the reason of the first key that was lost, empty when none was.
	Err Reason
	// HedgeAfter is how long after Start the attempt was to be hedged; negative means
	// never.
	HedgeAfter time.Duration
	// NotHedged is why no hedge was sent when the attempt was late; empty when one was,
	// or when it was not late.
	NotHedged NotHedged
	// StatementKeys is the number of keys in the statement that this attempt shared with
	// other lookups; 0 if it shared none.
	StatementKeys int
	// OwnData is set if it asked the host for what is on its own disk, to be compared.
	OwnData bool
}
