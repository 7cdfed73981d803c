package main

import (
	"os"
	"time"

	"github.com/spf13/cobra"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/explain"
	"github.com/qosproxy/qosproxy/internal/terminal"
	"github.com/qosproxy/qosproxy/internal/timeline"
)

// usualWidth is the width of a drawing that is written to a file or a pipe.
const usualWidth = 80

// printExplanation draws how the lookup was executed.
func (g *getResult) printExplanation(cmd *cobra.Command) error {
	e := g.resp.GetExplanation()
	if e == nil {
		return nil
	}
	out := cmd.OutOrStdout()
	if _, err := out.Write([]byte{'\n'}); err != nil {
		return err
	}
	return timeline.Draw(out, g.drawn(e), timeline.Options{
		Width: terminal.Columns(out, usualWidth),
		// NO_COLOR is a convention of many terminal programs.
		Colour: terminal.Is(out) && os.Getenv("NO_COLOR") == "",
	})
}

// drawn converts an explanation for package timeline.
func (g *getResult) drawn(e *qosproxyv1.Explanation) *timeline.Lookup {
	p := e.GetPlan()
	l := &timeline.Lookup{
		Stressed: p.GetStressed(), Fallback: p.GetFallback(), Elapsed: g.resp.GetStats().GetElapsed().AsDuration(),
		GroupSize: int(p.GetGroupSize()), StatementCost: p.GetStatementCost().AsDuration(), KeyCost: p.GetKeyCost().AsDuration(),
		Deadline: e.GetDeadline().AsDuration(), SoftDeadline: e.GetSoftDeadline().AsDuration(),
	}
	for i, k := range p.GetKeys() {
		l.Keys = append(l.Keys, timeline.Key{Name: g.keys[i], Token: k.GetToken(), Replicas: k.GetReplicas(), Group: groupOf(k), Groups: positions(k.GetGroups()), Compared: k.GetCompared()})
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
			Host: a.GetHost(), Kind: explain.Word(a.GetKind()), Keys: positions(a.GetKeys()), Start: a.GetStart().AsDuration(), End: a.GetEnd().AsDuration(),
			HedgeAfter: hedge, Outcome: explain.Word(a.GetOutcome()), Err: a.GetError(), NotHedged: a.GetNotHedged(),
			StatementKeys: int(a.GetStatementKeys()),
		})
	}
	return l
}

// groupOf returns the group that contains a key, -1 for none.
func groupOf(k *qosproxyv1.PlannedKey) int {
	if k.Group == nil {
		return -1
	}
	return int(k.GetGroup())
}

func positions(wire []int32) []int {
	out := make([]int, len(wire))
	for i, k := range wire {
		out[i] = int(k)
	}
	return out
}
