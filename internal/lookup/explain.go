package lookup

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/planner"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// deadlines returns the deadline and the soft deadline of a lookup as durations
// from its start; 0 for none.
func deadlines(ctx context.Context, req *Request, start time.Time) (hard, soft time.Duration) {
	if d, ok := ctx.Deadline(); ok {
		hard = d.Sub(start)
	}
	if req.SoftDeadline < hard {
		soft = req.SoftDeadline
	}
	return hard, soft
}

// describe converts planned groups into a Plan, whose keys are positions in the
// request.
func (r *resolved) describe(groups []planner.Group, seen *executor.Survey) *Plan {
	snapshot := r.read.Ring
	asking := make([][]int, len(r.keys.distinct))
	out := &Plan{Keys: make([]PlannedKey, len(r.Keys)), Groups: make([]PlannedGroup, len(groups)), Stressed: seen.Stressed, Size: seen.Size,
		Quorum: r.read.Quorum != nil, Fallback: r.fallback}
	for g, planned := range groups {
		out.Groups[g].Host = snapshot.Host(planned.Host)
		for _, u := range planned.Keys {
			asking[u] = append(asking[u], g)
			out.Groups[g].Keys = append(out.Groups[g].Keys, r.keys.first[u])
		}
	}
	replica := make([]bool, snapshot.Len())
	for i := range r.Keys {
		planned := PlannedKey{Group: -1}
		if u := r.keys.of[i]; u != unread {
			planned.Token, planned.Groups = r.tokens[u], asking[u]
			if len(asking[u]) > 0 {
				planned.Group = asking[u][0]
			}
		} else {
			planned.Token = ring.Token(r.Keys[i].Routing())
		}
		for _, h := range r.placement.Replicas(planned.Token) {
			replica[h] = true
			planned.Replicas = append(planned.Replicas, snapshot.Host(h))
		}
		out.Keys[i] = planned
	}
	for h, is := range replica {
		if is {
			out.Hosts = append(out.Hosts, PlannedHost{Host: snapshot.Host(ring.HostIndex(h)), Avoided: seen.Avoided[h]})
		}
	}
	slices.SortFunc(out.Hosts, func(a, b PlannedHost) int { return strings.Compare(a.Addr, b.Addr) })
	return out
}

// attempts converts the sub-queries of a reading: keys become positions in the
// request, times relative to the start of the lookup.
func (r *resolved) attempts(done *reading) []Attempt {
	began := done.began.Sub(r.start)
	out := make([]Attempt, len(done.Attempts))
	for i, a := range done.Attempts {
		out[i] = Attempt{Host: a.Host, Kind: a.Kind, Start: began + a.Start, End: began + a.End, Outcome: a.Outcome, Err: a.Err,
			HedgeAfter: a.HedgeAfter, NotHedged: a.NotHedged, StatementKeys: a.StatementKeys, OwnData: a.OwnData}
		for _, u := range a.Keys {
			out[i].Keys = append(out[i].Keys, r.keys.first[u])
		}
	}
	return out
}
