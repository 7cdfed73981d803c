package lookup

import (
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/planner"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// describe says in the caller's terms, by position in the request, what a plan
// asks of whom.
func describe(snapshot *ring.Ring, req *Request, asked *keySet, plan planner.Plan) *Plan {
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
	for i := range req.Keys {
		u := asked.of[i]
		token := ring.Token(asked.keys[u].Routing())
		out.Keys[i] = PlannedKey{Token: token, Group: group[u]}
		for _, h := range placement.Replicas(token) {
			out.Keys[i].Replicas = append(out.Keys[i].Replicas, snapshot.Hosts()[h])
		}
	}
	return out
}

// attempts says of which positions in the request each sub-query asked.
func attempts(sent []executor.Attempt, asked *keySet) []Attempt {
	out := make([]Attempt, len(sent))
	for i, a := range sent {
		out[i] = Attempt{Host: a.Host, Kind: a.Kind, Start: a.Start, End: a.End, Outcome: a.Outcome, Err: a.Err}
		for _, u := range a.Keys {
			out[i].Keys = append(out[i].Keys, asked.first[u])
		}
	}
	return out
}
