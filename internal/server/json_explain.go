package server

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/qosproxy/qosproxy/internal/lookup"
)

// appendExplanation appends plan and attempts of a traced lookup.
func appendExplanation(dst []byte, resp *lookup.Response) ([]byte, error) {
	body, err := json.Marshal(explanationJSON(resp))
	if err != nil {
		return dst, err
	}
	dst = append(dst, `,"explain":`...)
	return append(dst, body...), nil
}

// plan is how a lookup would be asked, as JSON. Tokens are strings, since
// JavaScript rounds integers above 2^53.
type plan struct {
	Keys     []explainedKey   `json:"keys"`
	Groups   []explainedGroup `json:"groups"`
	Hosts    []explainedHost  `json:"hosts"`
	Stressed bool             `json:"stressed"`
}

// explanation is how a lookup was asked, as JSON.
type explanation struct {
	plan
	Attempts       []explainedAttempt `json:"attempts"`
	DeadlineMS     *float64           `json:"deadline_ms,omitempty"`
	SoftDeadlineMS *float64           `json:"soft_deadline_ms,omitempty"`
}

type explainedKey struct {
	Token    string   `json:"token"`
	Replicas []string `json:"replicas"`
	Group    *int     `json:"group"`
}

type explainedGroup struct {
	Host string `json:"host"`
	DC   string `json:"dc"`
	Rack string `json:"rack"`
	Keys []int  `json:"keys"`
}

type explainedHost struct {
	Host    string `json:"host"`
	DC      string `json:"dc"`
	Rack    string `json:"rack"`
	Avoided string `json:"avoided,omitempty"`
}

type explainedAttempt struct {
	Host    string  `json:"host"`
	Kind    string  `json:"kind"`
	Keys    []int   `json:"keys"`
	StartMS float64 `json:"start_ms"`
	EndMS   float64 `json:"end_ms"`
	Outcome string  `json:"outcome"`
	Error   string  `json:"error,omitempty"`
	// HedgeAfterMS is null when the attempt is never hedged.
	HedgeAfterMS *float64 `json:"hedge_after_ms"`
	NotHedged    string   `json:"not_hedged,omitempty"`
}

func planJSON(p *lookup.Plan) plan {
	out := plan{Keys: []explainedKey{}, Groups: []explainedGroup{}, Hosts: []explainedHost{}}
	if p == nil {
		return out
	}
	out.Stressed = p.Stressed
	for _, k := range p.Keys {
		e := explainedKey{Token: strconv.FormatInt(k.Token, 10), Replicas: []string{}}
		for _, h := range k.Replicas {
			e.Replicas = append(e.Replicas, h.Addr)
		}
		if k.Group >= 0 {
			e.Group = &k.Group
		}
		out.Keys = append(out.Keys, e)
	}
	for _, g := range p.Groups {
		out.Groups = append(out.Groups, explainedGroup{g.Host.Addr, g.Host.DC, g.Host.Rack, append([]int{}, g.Keys...)})
	}
	for _, h := range p.Hosts {
		out.Hosts = append(out.Hosts, explainedHost{h.Addr, h.DC, h.Rack, h.Avoided})
	}
	return out
}

func explanationJSON(resp *lookup.Response) explanation {
	out := explanation{
		plan: planJSON(resp.Plan), Attempts: []explainedAttempt{},
		DeadlineMS: moment(resp.Deadline, 1), SoftDeadlineMS: moment(resp.SoftDeadline, 1),
	}
	for _, a := range resp.Attempts {
		out.Attempts = append(out.Attempts, explainedAttempt{
			a.Host, a.Kind, append([]int{}, a.Keys...), milliseconds(a.Start), milliseconds(a.End), a.Outcome, a.Err,
			moment(a.HedgeAfter, 0), a.NotHedged})
	}
	return out
}

// moment returns d in milliseconds, nil below the least that says anything.
func moment(d, least time.Duration) *float64 {
	if d < least {
		return nil
	}
	ms := milliseconds(d)
	return &ms
}
