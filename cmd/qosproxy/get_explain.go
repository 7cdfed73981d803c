package main

import (
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"google.golang.org/protobuf/types/known/durationpb"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/timeline"
)

// usualWidth is the width of a drawing that goes to a file or a pipe.
const usualWidth = 80

// printExplanation draws how the lookup was asked.
func (g *getResult) printExplanation(cmd *cobra.Command) error {
	e := g.resp.GetExplanation()
	if e == nil {
		return nil
	}
	out := cmd.OutOrStdout()
	if _, err := out.Write([]byte{'\n'}); err != nil {
		return err
	}
	options := timeline.Options{Width: usualWidth}
	if f, ok := out.(*os.File); ok && isTerminal(out) {
		// NO_COLOR is a wish that many terminals and people have in common.
		options.Colour = os.Getenv("NO_COLOR") == ""
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			options.Width = columns
		}
	}
	return timeline.Draw(out, g.drawn(e), options)
}

// drawn is an explanation as the drawing takes it.
func (g *getResult) drawn(e *qosproxyv1.Explanation) *timeline.Lookup {
	p := e.GetPlan()
	l := &timeline.Lookup{
		Stressed: p.GetStressed(), Elapsed: g.resp.GetStats().GetElapsed().AsDuration(),
		Deadline: e.GetDeadline().AsDuration(), SoftDeadline: e.GetSoftDeadline().AsDuration(),
	}
	for i, k := range p.GetKeys() {
		l.Keys = append(l.Keys, timeline.Key{Name: g.keys[i], Token: k.GetToken(), Replicas: k.GetReplicas(), Group: groupOf(k)})
	}
	for _, group := range p.GetGroups() {
		l.Groups = append(l.Groups, timeline.Group{Host: group.GetHost().GetAddress()})
	}
	for _, h := range p.GetHosts() {
		l.Hosts = append(l.Hosts, timeline.Host{
			Addr: h.GetHost().GetAddress(), DC: h.GetHost().GetDatacenter(), Rack: h.GetHost().GetRack(), Avoided: h.GetAvoided()})
	}
	for _, a := range e.GetAttempts() {
		hedge := time.Duration(-1)
		if a.GetHedgeAfter() != nil {
			hedge = a.GetHedgeAfter().AsDuration()
		}
		l.Attempts = append(l.Attempts, timeline.Attempt{
			Host: a.GetHost(), Kind: kindName(a), Keys: positions(a.GetKeys()), Start: a.GetStart().AsDuration(), End: a.GetEnd().AsDuration(),
			HedgeAfter: hedge, Outcome: outcomeName(a), Err: a.GetError(), NotHedged: a.GetNotHedged(),
		})
	}
	return l
}

// groupOf returns the group that asks a key, -1 for none.
func groupOf(k *qosproxyv1.PlannedKey) int {
	if k.Group == nil {
		return -1
	}
	return int(k.GetGroup())
}

func kindName(a *qosproxyv1.Attempt) string {
	return strings.ToLower(strings.TrimPrefix(a.GetKind().String(), "ATTEMPT_KIND_"))
}

func outcomeName(a *qosproxyv1.Attempt) string {
	return strings.ToLower(strings.TrimPrefix(a.GetOutcome().String(), "ATTEMPT_OUTCOME_"))
}

func positions(wire []int32) []int {
	out := make([]int, len(wire))
	for i, k := range wire {
		out[i] = int(k)
	}
	return out
}

// explanationJSON is an explanation in the form of the HTTP front door.
type explanationJSON struct {
	Keys           []keyJSON     `json:"keys"`
	Groups         []groupJSON   `json:"groups"`
	Hosts          []hostJSON    `json:"hosts"`
	Stressed       bool          `json:"stressed"`
	Attempts       []attemptJSON `json:"attempts"`
	DeadlineMS     *float64      `json:"deadline_ms,omitempty"`
	SoftDeadlineMS *float64      `json:"soft_deadline_ms,omitempty"`
}

type keyJSON struct {
	Token    string   `json:"token"`
	Replicas []string `json:"replicas"`
	Group    *int     `json:"group"`
}

type groupJSON struct {
	Host string `json:"host"`
	DC   string `json:"dc"`
	Rack string `json:"rack"`
	Keys []int  `json:"keys"`
}

type hostJSON struct {
	Host    string `json:"host"`
	DC      string `json:"dc"`
	Rack    string `json:"rack"`
	Avoided string `json:"avoided,omitempty"`
}

type attemptJSON struct {
	Host         string   `json:"host"`
	Kind         string   `json:"kind"`
	Keys         []int    `json:"keys"`
	StartMS      float64  `json:"start_ms"`
	EndMS        float64  `json:"end_ms"`
	Outcome      string   `json:"outcome"`
	Error        string   `json:"error,omitempty"`
	HedgeAfterMS *float64 `json:"hedge_after_ms"`
	NotHedged    string   `json:"not_hedged,omitempty"`
}

// newExplanationJSON returns nil for no explanation.
func newExplanationJSON(e *qosproxyv1.Explanation) *explanationJSON {
	if e == nil {
		return nil
	}
	p := e.GetPlan()
	out := &explanationJSON{
		Keys: []keyJSON{}, Groups: []groupJSON{}, Hosts: []hostJSON{}, Attempts: []attemptJSON{},
		Stressed: p.GetStressed(), DeadlineMS: optionalMillis(e.GetDeadline()), SoftDeadlineMS: optionalMillis(e.GetSoftDeadline()),
	}
	for _, k := range p.GetKeys() {
		key := keyJSON{Token: strconv.FormatInt(k.GetToken(), 10), Replicas: append([]string{}, k.GetReplicas()...)}
		if group := groupOf(k); group >= 0 {
			key.Group = &group
		}
		out.Keys = append(out.Keys, key)
	}
	for _, g := range p.GetGroups() {
		h := g.GetHost()
		out.Groups = append(out.Groups, groupJSON{h.GetAddress(), h.GetDatacenter(), h.GetRack(), positions(g.GetKeys())})
	}
	for _, planned := range p.GetHosts() {
		h := planned.GetHost()
		out.Hosts = append(out.Hosts, hostJSON{h.GetAddress(), h.GetDatacenter(), h.GetRack(), planned.GetAvoided()})
	}
	for _, a := range e.GetAttempts() {
		out.Attempts = append(out.Attempts, attemptJSON{
			a.GetHost(), kindName(a), positions(a.GetKeys()), wireMillis(a.GetStart()), wireMillis(a.GetEnd()), outcomeName(a), a.GetError(),
			optionalMillis(a.GetHedgeAfter()), a.GetNotHedged()})
	}
	return out
}

// wireMillis returns a duration in milliseconds, to the microsecond.
func wireMillis(d *durationpb.Duration) float64 { return float64(d.AsDuration().Microseconds()) / 1000 }

// optionalMillis returns nil for a duration that is not set.
func optionalMillis(d *durationpb.Duration) *float64 {
	if d == nil {
		return nil
	}
	ms := wireMillis(d)
	return &ms
}
