package lookup

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/qosproxy/qosproxy/internal/coalesce"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/hotkeys"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// Config is what a Service works with. Every field but LocalRack and HotKeys is
// required.
type Config struct {
	// Tables are the tables that may be read until SetTables says otherwise.
	Tables []Settings
	// Ring returns the current snapshot, nil before the first.
	Ring func() *ring.Ring
	// Schema returns the current schema, nil before the first.
	Schema func() *schema.Schema
	// Executor asks the hosts.
	Executor *executor.Executor
	// LocalRack is the rack whose replicas are preferred; empty prefers none.
	LocalRack string
	// HotKeys counts which keys are asked for most.
	HotKeys bool
}

// Service answers lookups. It is safe for concurrent use.
type Service struct {
	cfg    Config
	served atomic.Pointer[served]
	shared *coalesce.Group
	near   atomic.Pointer[near]
}

// served is the tables that may be read, in the order of the configuration. It
// never changes: a lookup keeps the settings it was resolved with to its end.
type served struct {
	order []*Settings
	named map[[2]string]*Settings
}

// sketch returns the count of hot keys of a table, kept over a change of its
// settings.
func (s *served) sketch(t *Settings) *hotkeys.Sketch {
	if s != nil {
		if old := s.named[[2]string{t.Keyspace, t.Table}]; old != nil && old.hot != nil {
			return old.hot
		}
	}
	return hotkeys.New()
}

// New returns a service over the given parts.
func New(cfg Config) *Service {
	s := &Service{cfg: cfg, shared: coalesce.New(0)}
	s.SetTables(cfg.Tables)
	return s
}

// SetTables replaces the tables that may be read, all at once: lookups that have
// been resolved end with the settings they began with, and later ones see only
// the new. The settings must not be changed afterwards.
func (s *Service) SetTables(tables []Settings) {
	before := s.served.Load()
	next := &served{named: make(map[[2]string]*Settings, len(tables))}
	for i := range tables {
		t := &tables[i]
		// Made here, so that lookups which end with the settings of before do not
		// bring back the budget that went with them.
		t.state = s.cfg.Executor.Table(t.Keyspace+"."+t.Table, t.HedgeBudget)
		if s.cfg.HotKeys {
			t.hot = before.sketch(t)
		}
		next.order = append(next.order, t)
		next.named[[2]string{t.Keyspace, t.Table}] = t
	}
	s.served.Store(next)
}

// Ring returns the snapshot that a lookup would use now, nil before the first.
func (s *Service) Ring() *ring.Ring { return s.cfg.Ring() }

// Get answers a lookup: one result for each asked key, by position. It returns
// by the deadline with what has been answered until then. The error is an *Error
// and refuses the request as a whole; what befalls a single key is in its result.
func (s *Service) Get(ctx context.Context, req *Request) (*Response, error) {
	results := make([]partition.Result, len(req.Keys))
	resp, err := s.run(ctx, req, func(i int, r partition.Result) error {
		results[i] = r
		return nil
	})
	if err != nil {
		return nil, err
	}
	resp.Results = results
	return resp, nil
}

// Stream answers a lookup key by key: emit is called once for each asked key, by
// its position, as soon as the key is answered, never twice at a time. An error
// of emit ends the lookup and is returned; other errors are as with Get.
func (s *Service) Stream(ctx context.Context, req *Request, emit func(i int, r partition.Result) error) (Stats, error) {
	// The caller may take its time over an answer, for which no other lookup should
	// have to wait: this one goes on meanwhile.
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
		resp, err = s.run(ctx, req, func(i int, r partition.Result) error {
			answers <- answer{i, r}
			return nil
		})
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

// run is the story of a request.
func (s *Service) run(ctx context.Context, req *Request, emit func(int, partition.Result) error) (*Response, error) {
	start := time.Now()
	snapshot, err := s.check(req)
	if err != nil {
		return nil, err
	}
	ctx, cancel := deadline(ctx, req)
	defer cancel()
	ctx, soft := soften(ctx, req, start)
	defer soft.stop()

	asked := req.asked()
	if hot := req.Table.Settings.hot; hot != nil {
		hot.Observe(asked.keys)
	}
	query := s.query(snapshot, req, asked)
	var seen *executor.Survey
	if req.Trace {
		_, seen = s.cfg.Executor.Explain(query)
	}
	merge := newMerge(asked, req.Table.Settings.MaxResponseBytes, emit, cancel)
	merge.soft = soft
	merge.shed()
	done := s.read(ctx, query, req.Table.Settings.Coalesce, merge.add)
	var sent []Attempt
	if query.Trace {
		sent = attempts(done.Attempts, asked, done.began.Sub(start))
	}
	if req.Record != nil {
		req.Record.Start, req.Record.Attempts = start, sent
	}
	if merge.err != nil {
		return nil, merge.err
	}

	resp := &Response{Stats: Stats{
		Keys:       len(req.Keys),
		Groups:     done.Groups,
		SubQueries: done.SubQueries,
		Hedges:     done.Hedges,
		Failovers:  done.Failovers,
		Coalesced:  done.coalesced,
		Refused:    len(asked.shed),
		Elapsed:    time.Since(start),
	}}
	if req.Trace {
		resp.Plan = describe(snapshot, req, asked, done.plan, seen)
		resp.Attempts = sent
		resp.Deadline, resp.SoftDeadline = deadlines(ctx, req, start)
	}
	return resp, nil
}

// Explain returns how a lookup would be asked at this moment, and reads nothing.
func (s *Service) Explain(_ context.Context, req *Request) (*Plan, error) {
	snapshot, err := s.check(req)
	if err != nil {
		return nil, err
	}
	asked := req.asked()
	plan, avoided := s.cfg.Executor.Explain(s.query(snapshot, req, asked))
	return describe(snapshot, req, asked, plan, avoided), nil
}

// check refuses a request that breaks a rule, and returns the snapshot that the
// rest of the lookup uses.
func (s *Service) check(req *Request) (*ring.Ring, error) {
	settings := req.Table.Settings
	switch n := len(req.Keys); {
	case n == 0:
		return nil, Invalid("keys", "a lookup needs at least one key")
	case n > settings.MaxKeys:
		return nil, Invalid("keys", "%d keys are more than the %d (max_keys) that one lookup of %s may ask; send several lookups",
			n, settings.MaxKeys, req.Table.Schema)
	case req.LimitPerKey < 0:
		return nil, Invalid("limit_per_key", "%d is negative; leave it out for all rows", req.LimitPerKey)
	case req.LimitPerKey > settings.MaxRowsPerKey:
		return nil, Invalid("limit_per_key", "%d is more than the %d (max_rows_per_key) rows that may be asked of one key of %s",
			req.LimitPerKey, settings.MaxRowsPerKey, req.Table.Schema)
	case req.Timeout < 0:
		return nil, Invalid("timeout", "%s is negative", req.Timeout)
	}
	if err := req.checkShape(); err != nil {
		return nil, err
	}
	snapshot := s.cfg.Ring()
	if snapshot == nil {
		return nil, s.notReady()
	}
	keyspace := req.Table.Schema.Keyspace
	if _, ok := snapshot.Placement(keyspace); !ok {
		return nil, &Error{Kind: ErrNotReady, Message: fmt.Sprintf(
			"keyspace %s cannot be read through this proxy: %v", keyspace, snapshot.PlacementError(keyspace))}
	}
	return snapshot, nil
}

// notReady says that there is no ring yet. Why is for operators: it may name the
// nodes of the cluster.
func (s *Service) notReady() *Error {
	return &Error{Kind: ErrNotReady, Message: "the proxy does not know the cluster yet; retry in a moment"}
}

// deadline bounds a lookup by its own timeout, or by that of the table when the
// caller brought none.
func deadline(ctx context.Context, req *Request) (context.Context, context.CancelFunc) {
	if req.Timeout > 0 {
		return context.WithTimeout(ctx, req.Timeout)
	}
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, req.Table.Settings.Timeout)
}

// query turns a request into what the executor asks: the distinct keys with the
// hosts each may be asked of.
func (s *Service) query(snapshot *ring.Ring, req *Request, asked *keySet) *executor.Request {
	settings := req.Table.Settings
	placement, _ := snapshot.Placement(req.Table.Schema.Keyspace)
	replicas := make([][]ring.HostIndex, len(asked.keys))
	ranges := make([]int32, len(asked.keys))
	for i, k := range asked.keys {
		token := ring.Token(k.Routing())
		ranges[i] = placement.Range(token)
		replicas[i] = placement.Local(token)
	}
	columns := req.Columns
	if len(columns) == 0 {
		columns = req.Table.Columns
	}
	limit, strict := req.LimitPerKey, false
	if limit == 0 {
		limit, strict = settings.MaxRowsPerKey, true
	}
	consistency := req.Consistency
	if consistency == "" {
		consistency = settings.Consistency
	}
	out := &executor.Request{
		Query: &executor.Query{
			Table:       req.Table.Schema,
			Columns:     columns,
			Consistency: consistency,
			Limit:       limit,
			Strict:      strict,
			MaxBytes:    settings.MaxResponseBytes,
		},
		Ring:     snapshot,
		Keys:     asked.keys,
		Replicas: replicas,
		Ranges:   ranges,
		Grouping: settings.Grouping,
		Cap:      settings.MaxKeysPerGroup,
		Policy:   policy(req),
		Table:    settings.state,
		Near:     s.nearby(snapshot),

		FewHedges: req.FewHedges,
		Trace:     req.Trace || req.Record != nil,
	}
	if req.Record != nil {
		out.TraceID = req.Record.TraceID
	}
	return out
}

// policy says when the groups of a lookup are hedged: with few hedges, ALWAYS
// waits like any other.
func policy(req *Request) hedge.Policy {
	p := req.Table.Settings.SpeculativeRetry
	if req.FewHedges && p.Always() {
		return hedge.Fixed(hedge.Fallback)
	}
	return p
}

// near is the hosts of the local rack in one snapshot.
type near struct {
	of    *ring.Ring
	hosts []bool
}

// nearby marks the hosts of the local rack, computed once for each snapshot.
func (s *Service) nearby(snapshot *ring.Ring) []bool {
	if s.cfg.LocalRack == "" {
		return nil
	}
	if n := s.near.Load(); n != nil && n.of == snapshot {
		return n.hosts
	}
	n := &near{of: snapshot, hosts: make([]bool, snapshot.Len())}
	for i, h := range snapshot.Hosts() {
		n.hosts[i] = h.Rack == s.cfg.LocalRack && (snapshot.LocalDC() == "" || h.DC == snapshot.LocalDC())
	}
	s.near.Store(n)
	return n.hosts
}
