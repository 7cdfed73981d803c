package app

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qosproxy/qosproxy/internal/admin"
	"github.com/qosproxy/qosproxy/internal/config"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/merge"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/server"
	"github.com/qosproxy/qosproxy/internal/sla"
	"github.com/qosproxy/qosproxy/internal/status"
)

// pages returns the operators' pages.
func (a *App) pages(gatherer prometheus.Gatherer) http.Handler {
	cfg := admin.Config{Version: a.options.Version, Pprof: a.started.Listen.Pprof, ClearHotKeys: a.started.Admin.HotKeys == config.HotKeysClear}
	return admin.New(cfg, admin.Deps{
		Lookup:   a.lookups,
		NotReady: func() string { return a.server.NotReady() },
		Gatherer: gatherer,
		Hosts:    func() any { return a.hosts() },
		Datacenters: func() any {
			if of := a.executor.Datacenters(); of != nil {
				return of
			}
			return nil
		},
		SLA:       func() any { return a.slaStatus() },
		Config:    func() any { return a.configStatus() },
		Admission: func() any { return a.admission.Status() },
		Shadow:    func() any { return a.shadowStatus() },
		Board:     a.board,
		YAML:      func() ([]byte, error) { return a.cfg.Load().YAML() },
		HotKeys:   a.lookups.HotKeys,
		LogLevel:  a.options.Level,
		Log:       a.log,
	})
}

// nowWindow is the window called now: the current slice of 10 s and the one before.
const nowWindow = 20 * time.Second

// note reports a finished lookup to the board.
func (a *App) note(ctx context.Context, l *sla.Lookup) {
	a.board.Observe(&status.Lookup{
		Table: l.Table, Client: identity.FromContext(ctx).Name, Keys: l.Keys, Unanswered: l.Keys - l.Statuses[0] - l.Statuses[1],
		Code: l.Code, Reason: server.Reason(ctx).String(), Duration: l.Duration, TraceID: l.TraceID,
	})
}

// boardSource implements status.Source for the board of an App.
type boardSource struct{ *App }

// Fill implements status.Source.
func (b boardSource) Fill(s *status.Snapshot) {
	b.fillTables(s)
	b.fillRing(s)
	s.Config = b.configStatus()
}

func (b boardSource) fillTables(s *status.Snapshot) {
	admitted := b.admission.Status()
	s.Admission = &status.Admission{Enabled: admitted.Enabled, LimitKeys: admitted.LimitKeys, InflightKeys: admitted.InflightKeys}
	sizes := b.meter.GroupSizes()
	for _, name := range b.recorder.Tables() {
		target, ok := b.recorder.Target(name)
		if !ok {
			continue // a reload has just taken it away
		}
		t := status.Table{Name: name, Cost: costOf(sizes[name]), QuorumReads: b.quorumReads(name), SLO: &status.SLO{
			Percentile: target.Percentile, TargetMS: millis(target.Target), OperateAtMS: millis(target.OperateAt),
			Now: b.window(name, nowWindow), Minute: b.window(name, sla.Minute), FiveMinutes: b.window(name, sla.FiveMinutes),
		}}
		if ladder := admitted.Tables[name]; ladder.Level > 0 {
			t.Level, t.GivesUp = int(ladder.Level), ladder.Name
		}
		s.Tables = append(s.Tables, t)
	}
}

// hosts returns the hosts of the ring in its order; empty before the cluster is known.
func (a *App) hosts() []status.Host {
	r := a.cluster.Ring()
	if r == nil {
		return []status.Host{}
	}
	return hostsOf(r, a.executor.Health(), a.merge.Queue)
}

// tableSLA is a table and its SLO on /status.
type tableSLA struct {
	Percentile  float64                  `json:"percentile"`
	TargetMS    float64                  `json:"target_ms"`
	OperateAtMS float64                  `json:"operate_at_ms"`
	Windows     map[string]status.Window `json:"windows"`
	status.Cost
	QuorumReads *status.QuorumReads `json:"quorum_reads,omitempty"`
}

// slaStatus returns every table with its SLO and how well it is met.
func (a *App) slaStatus() map[string]tableSLA {
	out, sizes := map[string]tableSLA{}, a.meter.GroupSizes()
	for _, name := range a.recorder.Tables() {
		if target, ok := a.recorder.Target(name); ok {
			out[name] = tableSLA{target.Percentile, millis(target.Target), millis(target.OperateAt),
				map[string]status.Window{"1m": a.window(name, sla.Minute), "5m": a.window(name, sla.FiveMinutes)}, costOf(sizes[name]), a.quorumReads(name)}
		}
	}
	return out
}

// quorumReads returns the outcomes of the keys of a table that were to be read from their
// replicas; nil if there were none.
func (a *App) quorumReads(table string) *status.QuorumReads {
	keys, again := a.executor.QuorumReads(table)
	if keys == nil {
		return nil
	}
	return &status.QuorumReads{Keys: keys, Again: again, Closed: a.cluster.OwnDataClosed()}
}

func costOf(s executor.GroupSize) status.Cost {
	return status.Cost{StatementCostMS: millis(s.StatementCost), KeyCostMS: millis(s.KeyCost), GroupSize: s.Keys}
}

func (a *App) window(table string, length time.Duration) status.Window {
	p, _ := a.recorder.Snapshot(table, length)
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
	s.Ring = &status.Ring{LocalDC: r.LocalDC(), Datacenters: datacenters(b.executor.Datacenters()), Keyspaces: r.Keyspaces(), Refreshed: b.cluster.Status().LastRefresh.UTC()}
	s.Hosts = b.hosts()
}

// hostsOf returns the hosts of a ring in its order. Hosts that hold data for this proxy have
// their health, and the queue of sub-queries for them.
func hostsOf(r *ring.Ring, known []executor.HostHealth, queue func(id string) (merge.Queue, bool)) []status.Host {
	health := make(map[string]*executor.HostHealth, len(known))
	for i := range known {
		health[known[i].Host.ID] = &known[i]
	}
	out, shares := make([]status.Host, 0, r.Len()), r.Ownership()
	for i, h := range r.Hosts() {
		host := status.Host{ID: h.ID, Address: h.Addr, DC: h.DC, Rack: h.Rack, Release: h.Release, Share: shares[i], State: status.Tokenless}
		if len(h.Tokens) > 0 {
			host.State = status.Remote
		}
		if now := health[h.ID]; now != nil {
			q, _ := queue(h.ID)
			fillHost(&host, now, q)
		}
		out = append(out, host)
	}
	return out
}

func fillHost(host *status.Host, now *executor.HostHealth, q merge.Queue) {
	host.State, host.Price = status.HostState(now.State.String()), now.Price
	host.InflightKeys, host.InflightSubQueries = now.InflightKeys, now.InflightSubQueries
	host.LatencyMS, host.OldestMS = millis(now.Latency), millis(now.OldestOutstanding)
	host.Failures, host.ProbeInMS = now.Failures, millis(now.ProbeIn)
	host.Statements, host.Waiting = q.InFlight, q.Waiting
	host.StatementsSent, host.StatementKeys = q.Sent, q.SentKeys
	host.SubQueries, host.Hedges, host.HedgedAway = now.SubQueries, now.Hedges, now.HedgedAway
}

// millis returns a duration in milliseconds.
func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
