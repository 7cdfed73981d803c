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

// deadlines returns when a lookup ends at the latest and when if it has what it
// needs, from its start; 0 for never.
func deadlines(ctx context.Context, req *Request, start time.Time) (hard, soft time.Duration) {
	if d, ok := ctx.Deadline(); ok {
		hard = d.Sub(start)
	}
	if req.SoftDeadline < hard {
		soft = req.SoftDeadline
	}
	return hard, soft
}

// describe says in the caller's terms, by position in the request, what a plan
// asks of whom.
func describe(snapshot *ring.Ring, req *Request, asked *keySet, plan planner.Plan, seen *executor.Survey) *Plan {
	placement, ok := snapshot.Placement(req.Table.Schema.Keyspace)
	if !ok {
		return &Plan{}
	}
	group := make([]int, len(asked.keys))
	for u := range group {
		group[u] = -1
	}
	out := &Plan{Keys: make([]PlannedKey, len(req.Keys)), Groups: make([]PlannedGroup, len(plan.Groups))}
	for g, planned := range plan.Groups {
		out.Groups[g].Host = snapshot.Hosts()[planned.Host]
		for _, u := range planned.Keys {
			group[u] = g
			out.Groups[g].Keys = append(out.Groups[g].Keys, asked.first[u])
		}
	}
	replica := make([]bool, snapshot.Len())
	for i, key := range req.Keys {
		token := ring.Token(key.Routing())
		out.Keys[i] = PlannedKey{Token: token, Group: -1}
		if u := asked.of[i]; u != unread {
			out.Keys[i].Group = group[u]
		}
		for _, h := range placement.Replicas(token) {
			replica[h] = true
			out.Keys[i].Replicas = append(out.Keys[i].Replicas, snapshot.Hosts()[h])
		}
	}
	out.Stressed = seen.Stressed
	for h, is := range replica {
		if is {
			out.Hosts = append(out.Hosts, PlannedHost{Host: snapshot.Hosts()[h], Avoided: seen.Avoided[h]})
		}
	}
	slices.SortFunc(out.Hosts, func(a, b PlannedHost) int { return strings.Compare(a.Addr, b.Addr) })
	return out
}

// attempts says of which positions in the request each sub-query asked. The times
// of sent are from the moment at which reading began, that long after the lookup.
func attempts(sent []executor.Attempt, asked *keySet, began time.Duration) []Attempt {
	out := make([]Attempt, len(sent))
	for i, a := range sent {
		out[i] = Attempt{Host: a.Host, Kind: a.Kind, Start: began + a.Start, End: began + a.End, Outcome: a.Outcome, Err: a.Err,
			HedgeAfter: a.HedgeAfter, NotHedged: a.NotHedged}
		for _, u := range a.Keys {
			out[i].Keys = append(out[i].Keys, asked.first[u])
		}
	}
	return out
}
