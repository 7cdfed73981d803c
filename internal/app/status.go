package app

import (
	"context"
	"time"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/sla"
	"github.com/qosproxy/qosproxy/internal/status"
)

// nowWindow is the window called now: the slice of 10 s under way and the one before.
const nowWindow = 20 * time.Second

// note hands a finished lookup to the board.
func (a *App) note(ctx context.Context, l *sla.Lookup) {
	a.board.Observe(&status.Lookup{
		Table: l.Table, Client: identity.FromContext(ctx).Name, Keys: l.Keys, Unanswered: l.Keys - l.Statuses[0] - l.Statuses[1],
		Code: l.Code, Duration: l.Duration, TraceID: l.TraceID,
	})
}

// boardSource is the App as the source of its board.
type boardSource struct{ *App }

// Fill implements status.Source.
func (b boardSource) Fill(s *status.Snapshot) {
	b.fillTables(s)
	b.fillRing(s)
	c := b.configStatus()
	s.Config = status.Config{File: c.File, Hash: c.Hash, Loaded: c.Loaded, NeedRestart: c.NeedRestart, Error: c.Error}
}

func (b boardSource) fillTables(s *status.Snapshot) {
	admitted := b.admission.Status()
	s.Admission = &status.Admission{Enabled: admitted.Enabled, LimitKeys: admitted.LimitKeys, InflightKeys: admitted.InflightKeys}
	for _, name := range b.recorder.Tables() {
		target, ok := b.recorder.Target(name)
		if !ok {
			continue // a reload has just taken it away
		}
		t := status.Table{Name: name, Promise: &status.Promise{
			Percentile: target.Percentile, TargetMS: millis(target.Target), OperateAtMS: millis(target.OperateAt),
			Now: b.window(name, nowWindow), Minute: b.window(name, sla.Minute), FiveMinutes: b.window(name, sla.FiveMinutes),
		}}
		if ladder := admitted.Tables[name]; ladder.Rung > 0 {
			t.Rung, t.GivesUp = int(ladder.Rung), ladder.Name
		}
		s.Tables = append(s.Tables, t)
	}
}

func (b boardSource) window(table string, length time.Duration) status.Window {
	p, _ := b.recorder.Snapshot(table, length)
	return windowOf(p)
}

func windowOf(p sla.Percentiles) status.Window {
	return status.Window{
		Count: p.Count, P50MS: millis(p.P50), P95MS: millis(p.P95), P99MS: millis(p.P99), P999MS: millis(p.P999), MaxMS: millis(p.Max),
		Ratio: p.Ratio, BurnRate: p.Burn,
	}
}

// History implements status.Source.
func (b boardSource) History(table string) []status.Step {
	var out []status.Step
	for _, step := range b.recorder.History(table) {
		out = append(out, status.Step{Time: step.Time.UTC(), Window: windowOf(step.Percentiles)})
	}
	return out
}

func (b boardSource) fillRing(s *status.Snapshot) {
	r := b.cluster.Ring()
	if r == nil {
		return
	}
	s.Ring = &status.Ring{LocalDC: r.LocalDC(), Keyspaces: r.Keyspaces(), Refreshed: b.cluster.Status().LastRefresh.UTC()}
	health := make(map[string]executor.HostHealth, r.Len())
	for _, h := range b.executor.Health() {
		health[h.Host.ID] = h
	}
	shares := r.Ownership()
	for i, h := range r.Hosts() {
		host := status.Host{Address: h.Addr, DC: h.DC, Rack: h.Rack, Release: h.Release, Share: shares[i], State: status.Tokenless}
		if len(h.Tokens) > 0 {
			host.State = status.Remote
		}
		if now, ok := health[h.ID]; ok {
			host.State = now.State.String()
			host.InflightKeys, host.InflightSubQueries = now.InflightKeys, now.InflightSubQueries
			host.LatencyMS, host.OldestMS = millis(now.Latency), millis(now.OldestOutstanding)
			host.Failures, host.ProbeInMS = now.Failures, millis(now.ProbeIn)
			host.SubQueries, host.Hedges, host.HedgedAway = now.SubQueries, now.Hedges, now.HedgedAway
		}
		s.Hosts = append(s.Hosts, host)
	}
}

// millis returns a duration in milliseconds.
func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
