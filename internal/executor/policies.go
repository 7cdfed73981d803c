package executor

import (
	"time"

	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/planner"
	"github.com/qosproxy/qosproxy/internal/quorum"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// policies are the rules by which an executor judges hosts, hedges and fails over. New uses
// defaultPolicies; a test that shows what a rule is worth replaces it.
type policies struct {
	// survey says what each host costs, and which hosts plans avoid.
	survey func(e *Executor, v *view, near []bool, s *survey)
	// avoid says whether one host is avoided; the default survey calls it.
	avoid func(e *Executor, h *host, now int64, seen signs) bool
	// reachable says whether a host counts as a live replica of its keys.
	reachable func(h *host) bool
	// mayHedge says why a late attempt must not be hedged; empty when it may be.
	mayHedge func(r *run, a *attempt, groups []planner.Group, stressed bool, now int64) NotHedged
	// mayRetry says how many of some keys fail-over may ask again.
	mayRetry func(t *TableState, keys int, reason Reason) int
	// compare combines the answers of the replicas of a key; reconcile does so for a table whose
	// coordinators repair nothing.
	compare, reconcile func(answers []partition.Result, columns []schema.Column) (partition.Result, quorum.Outcome)
	// abandon is told of an attempt all of whose keys others have answered.
	abandon func(a *attempt)

	// stallAfter is how long a host must have settled nothing, while a sub-query is
	// outstanding and another host has answered, to be stalled rather than slow.
	stallAfter time.Duration
	// hedgeStalledAfter is how long a host must have stalled for its keys to be hedged
	// although many attempts are late. After replaceAfter the budget of fail-over may pay
	// for these hedges, as if the host had failed.
	hedgeStalledAfter, replaceAfter time.Duration
	// quietAfter is the part of the hedge delay for which a host must have settled nothing
	// to be hedged from the reserve of the budget.
	quietAfter float64
	// slowRelative is how many times slower than usual a host must be to be avoided even if
	// many are unhealthy, and for its price to ignore its recent share of the keys.
	slowRelative float64
	// overtakenAfter is how many later answers in time show that a late sub-query says
	// nothing about its host.
	overtakenAfter int
	// manyLate is the share of late attempts among recent first ones above which hedges and
	// probes are limited, as part of it is load. Above mostlyLate all of it is load.
	manyLate, mostlyLate float64
	// rescueFrom is the part of the time of a lookup after which a hedge that the budget
	// denied may be made as a rescue.
	rescueFrom float64
	// probeKeys is the most keys of one probe. A host is warmed up while its probes take
	// longer than coldRelative times the usual latency.
	probeKeys    int
	coldRelative float64
}

// defaultPolicies are those of production. DESIGN.md has the evidence for each.
func defaultPolicies() policies {
	return policies{
		survey:    (*Executor).survey,
		avoid:     (*Executor).avoids,
		reachable: func(h *host) bool { return !h.gone.Load() },
		mayHedge:  (*run).hedgeDenied,
		mayRetry:  (*TableState).withdrawRetries,
		compare:   quorum.Compare,
		reconcile: quorum.Reconcile,
		abandon:   func(a *attempt) { a.cancel(ErrAnswered) },
		// Four hedge delays: a host under load answers something in that time.
		stallAfter:        60 * time.Millisecond,
		hedgeStalledAfter: 60 * time.Millisecond,
		replaceAfter:      200 * time.Millisecond,
		quietAfter:        0.5,
		// A single stall does not make a host as slow as that.
		slowRelative: 4,
		// As many duplicate acknowledgements as make TCP take a segment for lost (RFC
		// 5681).
		overtakenAfter: 3,
		// One slow host of three makes a third late, but only until it is avoided.
		manyLate:   0.2,
		mostlyLate: 0.5,
		rescueFrom: 0.5,
		// A third of the 50 keys of a usual lookup.
		probeKeys:    16,
		coldRelative: 3,
	}
}

// surveyNothing is the survey of AvoidNothing: every host costs the same, and none is avoided.
func surveyNothing(_ *Executor, v *view, _ []bool, s *survey) { s.reset(len(v.hosts)) }
