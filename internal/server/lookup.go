package server

import (
	"context"
	"errors"
	"time"

	"github.com/qosproxy/qosproxy/internal/admission"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// parsedRequest is a lookup as a client of any listener words it, before its table is
// resolved.
type parsedRequest struct {
	keyspace, table string
	columns         []string
	limit           int
	timeout         time.Duration
	soft            time.Duration
	minKeys         int
	trace           bool
	// reverse reads rows from the last to the first. consistency is the level asked for;
	// empty for the default. where returns the conditions on clustering columns; nil if
	// there are none.
	reverse     bool
	consistency string
	paging      bool
	pageTokens  []string
	where       func(t *lookup.Table) ([]lookup.Condition, error)
	// keys is the number of keys. encoder returns the encoder of the keys for a table.
	keys    int
	encoder func(t *schema.Table) keyEncoder
	// optional marks the keys that may be shed; nil if there are none.
	optional func(t *schema.Table, keys []partition.Key) ([]bool, error)
}

// keyEncoder encodes the key at i of a request. Its error says what is wrong with that key.
type keyEncoder func(i int) (partition.Key, error)

// call is one lookup from its arrival to its answer, for the observer.
type call struct {
	server  *Server
	start   time.Time
	table   string
	keys    int
	outcome outcome
	resp    *lookup.Response
	// done is when the lookup ended, if its answer was sent after that by this call; otherwise zero.
	done time.Time
	// refusal is why admission refused the lookup; nil if it did not. See judge.
	refusal *admission.Refusal

	traced
}

func (s *Server) begin() *call {
	return &call{server: s, start: time.Now(), outcome: internal}
}

// end reports the call to the observer and the trace. A call that ends by a panic counts as
// INTERNAL.
func (c *call) end(ctx context.Context) {
	took := time.Since(c.start)
	if !c.done.IsZero() {
		took = c.done.Sub(c.start)
	}
	if o := c.server.deps.Observer; o != nil {
		o.ObserveLookup(c.withReason(c.withTrace(ctx)), c.table, c.keys, c.outcome.code, took, c.resp)
	}
	c.endTrace(ctx, took)
}

// lookUp runs a lookup of any listener: it resolves the request and reads its keys with
// read, which is call.get or keyStream.get. A lookup that admission refuses gets an answer
// with SHED for each key, so that a client that handles partial answers also handles this.
// The error refuses the request as a whole.
func (c *call) lookUp(ctx context.Context, p *parsedRequest, read reader) (*lookup.Request, *lookup.Response, error) {
	req, err := c.resolve(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	resp, err := read(ctx, req)
	if refusal, ok := errors.AsType[*admission.Refusal](err); ok {
		resp, err = shedResponse(req, refusal, time.Since(c.start)), nil
	}
	c.resp = resp
	return req, resp, err
}

// reader reads the keys of a resolved request. Its response is nil on an error.
type reader func(ctx context.Context, req *lookup.Request) (*lookup.Response, error)

// shedResponse returns the answer to a lookup that admission refused.
func shedResponse(req *lookup.Request, refusal *admission.Refusal, elapsed time.Duration) *lookup.Response {
	resp := &lookup.Response{
		Results: make([]partition.Result, len(req.Keys)),
		Stats:   lookup.Stats{Keys: len(req.Keys), Refused: len(req.Keys), Elapsed: elapsed},
	}
	for i := range resp.Results {
		resp.Results[i] = partition.Unanswered(refusal.ClientReason(), refusal)
	}
	return resp
}

// resolve converts what a client asks for to a request of package lookup. Its error names
// the field at fault.
func (c *call) resolve(ctx context.Context, p *parsedRequest) (*lookup.Request, error) {
	c.keys = p.keys
	table, err := c.server.table(ctx, p.keyspace, p.table)
	if err != nil {
		return nil, err
	}
	c.table, c.target = table.Schema.String(), table
	req, err := p.request(table, table.Settings.MaxKeys)
	if err != nil {
		c.server.audit(ctx, c.table, err)
		return nil, err
	}
	req.Trace = p.trace
	if p.optional != nil {
		if req.Optional, err = p.optional(table.Schema, req.Keys); err != nil {
			return nil, err
		}
	}
	req.Deadline = deadlineOf(ctx, req)
	c.recordIn(req)
	return req, nil
}

// request returns what is asked for of a table, but for Trace, Optional and the deadline. It
// encodes no more than maxKeys keys; 0 means any number. The service has the same rule: here it
// saves encoding a flood of keys.
func (p *parsedRequest) request(table *lookup.Table, maxKeys int) (*lookup.Request, error) {
	columns, err := table.Select(p.columns)
	if err != nil {
		return nil, err
	}
	if maxKeys > 0 && p.keys > maxKeys {
		return nil, lookup.TooManyKeys(p.keys, maxKeys, table.Schema)
	}
	slice, level, err := p.rows(table)
	if err != nil {
		return nil, err
	}
	req := &lookup.Request{
		Table:       table,
		Slice:       slice,
		Consistency: level,
		Keys:        make([]partition.Key, p.keys),
		Columns:     columns,
		LimitPerKey: p.limit,
		Paging:      p.paging,
		PageTokens:  p.pageTokens,
		Timeout:     p.timeout,

		SoftDeadline: p.soft,
		MinKeys:      p.minKeys,
	}
	encode := p.encoder(table.Schema)
	for i := range req.Keys {
		if req.Keys[i], err = encode(i); err != nil {
			return nil, invalidKey(i, err)
		}
	}
	return req, nil
}

// rows returns which rows of each key are asked for, and at which level.
func (p *parsedRequest) rows(t *lookup.Table) (*partition.Slice, partition.Level, error) {
	level, err := t.Level(p.consistency)
	if err != nil {
		return nil, "", err
	}
	var conditions []lookup.Condition
	if p.where != nil {
		if conditions, err = p.where(t); err != nil {
			return nil, "", err
		}
	}
	slice, err := t.Slice(conditions, p.reverse)
	return slice, level, err
}

// invalidKey returns the error for the key at i, which cannot be encoded.
func invalidKey(i int, err error) error {
	if _, refused := errors.AsType[*lookup.Error](err); refused {
		return err
	}
	return lookup.Invalid(keyField(i), "%s", err)
}

// get reads all keys of a request, and takes the memory that its answer needs.
func (c *call) get(ctx context.Context, req *lookup.Request) (*lookup.Response, error) {
	resp, err := c.server.lookups.Get(ctx, req)
	if err != nil {
		return nil, err
	}
	bytes := 0
	for i := range resp.Results {
		bytes += resp.Results[i].Memory()
	}
	if err := callOf(ctx).Grow(answerCopies * bytes); err != nil {
		return nil, err
	}
	return resp, nil
}

// answerCopies is how many copies of the rows are in memory while an answer is encoded: the
// cells and the encoded answer.
const answerCopies = 2

// The margin kept between the end of a lookup and the deadline of its call.
const (
	minMargin = time.Millisecond
	maxMargin = 10 * time.Millisecond
)

// deadlineOf returns when a lookup must end: a little before the deadline of its call, which
// both ends of the call share. An answer sent at that deadline would find a client that no
// longer listens, and the keys that were answered would be lost.
func deadlineOf(ctx context.Context, req *lookup.Request) time.Time {
	end := req.End(ctx)
	deadline, ok := ctx.Deadline()
	if !ok {
		return end
	}
	margin := min(maxMargin, max(minMargin, time.Until(deadline)/10))
	if last := deadline.Add(-margin); last.Before(end) {
		return last
	}
	return end
}

// judge sets the outcome of a lookup from the results of its keys. If admission refused it,
// the refusal says when to retry.
func (c *call) judge(ctx context.Context, resp *lookup.Response) {
	c.outcome = outcomeOf(ctx, resp.Results)
	if len(resp.Results) == 0 {
		return
	}
	if refusal, ok := resp.Results[0].Err.(*admission.Refusal); ok { //nolint:errorlint // As shedResponse has it.
		c.refusal = refusal
		if c.outcome.retry > 0 {
			c.outcome.retry = refusal.RetryAfter
		}
	}
}
