package lookup

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/planner"
	"github.com/qosproxy/qosproxy/internal/quorum"
	"github.com/qosproxy/qosproxy/internal/reasons"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// resolved is a request with everything that its answer needs, looked up once.
type resolved struct {
	*Request
	start     time.Time
	placement *ring.Placement
	keys      *keySet
	// tokens are the tokens of the distinct keys.
	tokens []int64
	// read is the executor's request for the distinct keys.
	read  executor.Request
	query executor.Query
	// pages turn the results into pages; nil without paging.
	pages *pages
	// fallback is why QuorumReads does not apply to this request; None if it does or is
	// off.
	fallback quorum.Outcome
}

// resolve checks a request and looks up what its answer needs. The error is an *Error.
func (s *Service) resolve(req *Request) (*resolved, error) {
	start := time.Now()
	if err := req.check(); err != nil {
		return nil, err
	}
	req, err := req.continued()
	if err != nil {
		return nil, err
	}
	snapshot := s.cfg.Ring()
	if snapshot == nil {
		return nil, s.notReady()
	}
	keyspace, settings := req.Table.Schema.Keyspace, req.Table.Settings
	placement, ok := snapshot.Placement(keyspace)
	if !ok {
		return nil, &Error{Reason: reasons.NoPlacement, Message: fmt.Sprintf(
			"keyspace %s cannot be read through this proxy: %v", keyspace, snapshot.PlacementError(keyspace))}
	}
	keys := req.keySet()
	n := len(keys.distinct)
	r := &resolved{Request: req, start: start, placement: placement, keys: keys, tokens: make([]int64, n)}
	r.query = executor.Query{
		Table:    req.Table.Schema,
		Columns:  req.Columns,
		Readable: req.Table.readable,
		// In upper case: the code below compares exact words.
		Consistency: partition.LevelOf(string(cmp.Or(req.Consistency, settings.Consistency))),
		Limit:       cmp.Or(req.LimitPerKey, settings.MaxRowsPerKey),
		Strict:      req.LimitPerKey == 0 && !req.Paging,
		Paged:       req.Paging,
		Slice:       req.Slice,
		MaxBytes:    settings.MaxResponseBytes,
		Alone:       settings.Alone,
		Cap:         settings.MaxKeysPerGroup,
	}
	if len(req.Columns) == 0 {
		r.query.Columns = req.Table.Columns
	}
	r.pages = r.addPages()
	least, most := req.named()
	if least == len(req.Table.Schema.Clustering) { // one row has no order
		r.query.Slice = nil
	}
	r.query.Shape = r.query.Slice.Shape(least)
	continued := slices.ContainsFunc(keys.distinct, func(k partition.Key) bool { return k.Cursor() != nil })
	if continued {
		r.query.Shape += " behind"
	}
	r.read = executor.Request{
		Input: planner.Input{
			Replicas: make([][]ring.HostIndex, n),
			Ranges:   make([]int32, n),
			Grouping: settings.Grouping,
			Cap:      settings.MaxKeysPerGroup,
			Near:     s.nearby(snapshot),
		},
		Query:     &r.query,
		Ring:      snapshot,
		Keys:      keys.distinct,
		Policy:    settings.SpeculativeRetry,
		Table:     settings.state,
		FewHedges: req.FewHedges,
		Trace:     req.Trace || req.Record != nil,
	}
	if req.Record != nil {
		r.read.TraceID = req.Record.TraceID
	}
	if req.FewHedges && r.read.Policy.Always() { // ALWAYS hedges at once, but must wait here
		r.read.Policy = hedge.Fixed(hedge.Fallback)
	}
	if len(req.Table.Schema.PartitionKey) > 1 || most > 0 || continued {
		_, classes := partition.Share(req.Table.Schema, keys.distinct, n)
		r.read.Class = classes.Of
	}
	for i, k := range keys.distinct {
		r.tokens[i] = ring.Token(k.Routing())
		r.read.Ranges[i] = placement.Range(r.tokens[i])
		r.read.Replicas[i] = placement.LocalAt(r.read.Ranges[i])
	}
	if len(snapshot.LaterDCs()) > 0 && settings.DCFailover.allows(r.query.Consistency) {
		r.read.Elsewhere = placement
	}
	if settings.QuorumReads {
		r.read.Quorum, r.fallback = s.quorum(r)
	}
	return r, nil
}

// check refuses a request that breaks a rule, or whose deadlines contradict each other. A
// soft deadline beyond a timeout that the request does not set itself, such as that of the
// table, is no contradiction: it is never reached.
func (r *Request) check() error {
	settings, countable := r.Table.Settings, r.needed()
	if countable == 0 {
		countable = len(r.Keys)
	}
	switch n := len(r.Keys); {
	case n == 0:
		return Invalid("keys", "a lookup needs at least one key")
	case n > settings.MaxKeys:
		return TooManyKeys(n, settings.MaxKeys, r.Table.Schema)
	case r.LimitPerKey < 0:
		return Invalid("limit_per_key", "%d is negative; leave it out for all rows", r.LimitPerKey)
	case r.LimitPerKey > settings.MaxRowsPerKey:
		return Invalid("limit_per_key", "%d is more than the %d (max_rows_per_key) rows that may be asked of one key of %s",
			r.LimitPerKey, settings.MaxRowsPerKey, r.Table.Schema)
	case r.Timeout < 0:
		return Invalid("timeout", "%s is negative", r.Timeout)
	case len(r.Optional) > 0 && len(r.Optional) != len(r.Keys):
		return Invalid("optional_keys", "%d marks for %d keys", len(r.Optional), len(r.Keys))
	case r.SoftDeadline < 0:
		return Invalid("soft_deadline", "%s is negative; leave it out to wait for every key", r.SoftDeadline)
	case r.Timeout > 0 && r.SoftDeadline > r.Timeout:
		return Invalid("soft_deadline", "%s is more than the timeout of %s, at which the lookup ends anyway", r.SoftDeadline, r.Timeout)
	case r.MinKeys < 0:
		return Invalid("min_keys", "%d is negative; leave it out for 1", r.MinKeys)
	case r.MinKeys > 0 && r.SoftDeadline == 0:
		return Invalid("min_keys", "it says what to have at the soft deadline; set soft_deadline, too")
	case r.MinKeys > countable:
		return Invalid("min_keys", "%d is more than the %d keys that count; optional keys do not", r.MinKeys, countable)
	}
	return cmp.Or(r.checkPages(), r.checkSlice())
}

// notReady refuses a request while there is no ring. The message leaves out why: the reason
// may name nodes of the cluster.
func (s *Service) notReady() *Error {
	return &Error{Reason: reasons.NotReady, Message: "the proxy does not know the cluster yet; retry in a moment"}
}

// near marks the hosts of the local rack in one snapshot.
type near struct {
	of    *ring.Ring
	hosts []bool
}

// nearby marks the hosts of the local rack, once per snapshot; nil without a local rack.
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
