package lookup

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/qosproxy/qosproxy/internal/coalesce"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/hotkeys"
	"github.com/qosproxy/qosproxy/internal/incident"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/quorum"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// Config has the parts of a Service. All fields but OwnData, LocalRack, HotKeys and
// Incidents are required.
type Config struct {
	// Tables are the tables that may be read until SetTables replaces them.
	Tables []Settings
	// Ring returns the current snapshot, nil before the first.
	Ring func() *ring.Ring
	// Schema returns the current schema, nil before the first.
	Schema func() *schema.Schema
	// Executor asks the hosts.
	Executor *executor.Executor
	// OwnData returns, by index, which hosts of a ring may be asked for their own data of
	// a table; or nil and the reason why none may. A nil function means that none ever
	// may.
	OwnData func(*ring.Ring, *schema.Table) ([]bool, quorum.Outcome)
	// LocalRack is the rack whose replicas are preferred; empty prefers none.
	LocalRack string
	// HotKeys enables the count of the most requested keys.
	HotKeys bool
	// Incidents records panics in goroutines of a lookup; nil only logs them.
	Incidents *incident.Log
}

// Service answers lookups. It is safe for concurrent use.
type Service struct {
	cfg    Config
	served atomic.Pointer[served]
	shared *coalesce.Group
	near   atomic.Pointer[near]
}

// served is the set of tables that may be read, in the order of the configuration. It is
// immutable: a lookup keeps the settings with which it was resolved.
type served struct {
	order []*Settings
	named map[[2]string]*Settings
}

// sketch returns the hot keys of a table, carried over from its previous settings. s may
// be nil.
func (s *served) sketch(t *Settings) *hotkeys.Sketch {
	if s != nil {
		if old := s.named[[2]string{t.Keyspace, t.Table}]; old != nil && old.hot != nil {
			return old.hot
		}
	}
	return hotkeys.New()
}

// New returns a service with the given parts.
func New(cfg Config) *Service {
	s := &Service{cfg: cfg, shared: coalesce.New(0)}
	s.SetTables(cfg.Tables)
	return s
}

// SetTables replaces the tables that may be read, atomically. Lookups that are already
// resolved keep their settings. The executor forgets tables that are removed. SetTables
// modifies and keeps tables: the caller must not use the slice afterwards.
func (s *Service) SetTables(tables []Settings) {
	before := s.served.Load()
	next := &served{named: make(map[[2]string]*Settings, len(tables))}
	for i := range tables {
		t := &tables[i]
		t.Consistency = partition.LevelOf(string(t.Consistency))
		t.Consistencies = slices.Clone(t.Consistencies)
		for i, l := range t.Consistencies {
			t.Consistencies[i] = partition.LevelOf(string(l))
		}
		// Created here and not by a lookup: one that still has the previous settings must
		// not restore their hedge budget.
		t.state = s.cfg.Executor.Table(t.Keyspace+"."+t.Table, t.HedgeBudget)
		if s.cfg.HotKeys {
			t.hot = before.sketch(t)
		}
		next.order = append(next.order, t)
		next.named[[2]string{t.Keyspace, t.Table}] = t
	}
	s.served.Store(next)
	if before == nil {
		return
	}
	for name := range before.named {
		if _, stays := next.named[name]; !stays {
			s.cfg.Executor.ForgetTable(name[0] + "." + name[1])
		}
	}
}

// Ring returns the snapshot that a lookup would use now, nil before the first.
func (s *Service) Ring() *ring.Ring { return s.cfg.Ring() }

// Get answers a lookup with one result per requested key, by position. It returns by the
// deadline with the answers so far. An error refuses the whole request and is an *Error,
// or an *incident.Error after a panic; the failure of a key is in its result.
func (s *Service) Get(ctx context.Context, req *Request) (*Response, error) {
	results := make([]partition.Result, len(req.Keys))
	resp, err := s.run(ctx, req, func(i int, r partition.Result) { results[i] = r })
	if err != nil {
		return nil, err
	}
	resp.Results = results
	return resp, nil
}

// Stream answers a lookup key by key. It calls emit once per requested key, with its
// position, as soon as the key is answered, and never concurrently. An error of emit ends
// the lookup and is returned; other errors are as with Get.
func (s *Service) Stream(ctx context.Context, req *Request, emit func(i int, r partition.Result) error) (Stats, error) {
	// emit may be slow, but lookups that wait for the reads of this one must not wait for
	// emit: so this one runs in its own goroutine.
	type answer struct {
		position int
		result   partition.Result
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer, len(req.Keys))
	var resp *Response
	var err error
	go func() {
		defer close(answers)
		defer s.cfg.Incidents.Catch(ctx, "stream of a lookup", &err)
		resp, err = s.run(ctx, req, func(i int, r partition.Result) { answers <- answer{i, r} })
	}()
	var gone error
	for a := range answers {
		if gone != nil {
			continue
		}
		if gone = emit(a.position, a.result); gone != nil {
			cancel()
		}
	}
	if err = cmp.Or(gone, err); err != nil {
		return Stats{}, err
	}
	return resp.Stats, nil
}

// run resolves the request, reads its distinct keys (by itself or with other lookups), and
// emits the result of each position.
func (s *Service) run(ctx context.Context, req *Request, emit func(int, partition.Result)) (*Response, error) {
	r, err := s.resolve(req)
	if err != nil {
		return nil, err
	}
	ctx, soft, end := r.bound(ctx)
	defer end()
	if hot := req.Table.Settings.hot; hot != nil {
		hot.Observe(r.keys.distinct)
	}
	if r.fallback != quorum.None {
		r.read.Table.CountQuorum(r.fallback, len(r.read.Keys))
	}
	done := s.read(ctx, r, newMerge(r, soft, emit))
	var sent []Attempt
	if r.read.Trace {
		sent = r.attempts(&done)
	}
	if req.Record != nil {
		req.Record.Start, req.Record.Consistency, req.Record.Attempts = r.start, r.query.Consistency, sent
	}
	if done.Err != nil {
		return nil, done.Err
	}
	resp := &Response{Stats: Stats{
		Keys:       len(req.Keys),
		Groups:     done.Groups,
		SubQueries: done.SubQueries,
		Hedges:     done.Hedges,
		Failovers:  done.Failovers,
		Coalesced:  done.coalesced,
		Refused:    len(r.keys.shed),
		Elapsed:    time.Since(r.start),
	}}
	if req.Trace {
		resp.Plan = r.describe(done.groups, done.survey)
		r.describeCompared(resp.Plan, done.Compared)
		resp.Attempts = sent
		resp.Deadline, resp.SoftDeadline = deadlines(ctx, req, r.start)
	}
	return resp, nil
}

// Explain returns the plan of a lookup at this moment, and reads nothing.
func (s *Service) Explain(_ context.Context, req *Request) (*Plan, error) {
	r, err := s.resolve(req)
	if err != nil {
		return nil, err
	}
	r.read.Trace = true
	plan := s.cfg.Executor.Plan(&r.read)
	return r.describe(plan.Groups, plan.Survey), nil
}
