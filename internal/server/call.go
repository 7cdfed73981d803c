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

// question is a lookup as a client of either door words it.
type question struct {
	keyspace, table string
	columns         []string
	limit           int
	timeout         time.Duration
	soft            time.Duration
	minKeys         int
	trace           bool
	// keys is the number of keys, and encoder returns what encodes the key at i
	// for a table.
	keys    int
	encoder func(t *schema.Table) keyEncoder
	// optional marks the keys that may be shed; nil for none.
	optional func(t *schema.Table, keys []partition.Key) ([]bool, error)
}

// keyEncoder encodes the key at i of a request. Its error says what is wrong
// with that key.
type keyEncoder func(i int) (partition.Key, error)

// call follows one lookup from its arrival to its answer, for the observer.
type call struct {
	server  *Server
	start   time.Time
	table   string
	keys    int
	outcome outcome
	resp    *lookup.Response
	// refused is why admission refused the lookup; nil when it did not.
	refused *admission.Refusal

	traced
}

func (s *Server) begin() *call {
	return &call{server: s, start: time.Now(), outcome: internal}
}

// end tells the observer and the trace. A call that ends by a panic counts as
// INTERNAL.
func (c *call) end(ctx context.Context) {
	took := time.Since(c.start)
	if o := c.server.deps.Observer; o != nil {
		o.ObserveLookup(c.withTrace(ctx), c.table, c.keys, c.outcome.label, took, c.resp)
	}
	c.endTrace(ctx, took)
}

// refuse ends the call with an error.
func (c *call) refuse(ctx context.Context, err error) error {
	c.outcome = refusal(ctx, err)
	return err
}

// resolve turns a question into a request of lookup, or into an error that names
// the field at fault.
func (c *call) resolve(ctx context.Context, q *question) (*lookup.Request, error) {
	c.keys = q.keys
	table, err := c.server.table(ctx, q.keyspace, q.table)
	if err != nil {
		return nil, err
	}
	c.table, c.target = table.Schema.String(), table
	columns, err := table.Select(q.columns)
	if err != nil {
		c.server.audit(ctx, c.table, err)
		return nil, err
	}
	// The service has the same rule; here it saves encoding a flood of keys.
	if m := table.Settings.MaxKeys; m > 0 && q.keys > m {
		return nil, lookup.Invalid("keys", "%d keys are more than the %d (max_keys) that one lookup of %s may ask; send several lookups",
			q.keys, m, table.Schema)
	}
	req := &lookup.Request{
		Table:       table,
		Keys:        make([]partition.Key, q.keys),
		Columns:     columns,
		LimitPerKey: q.limit,
		Timeout:     q.timeout,
		Trace:       q.trace,

		SoftDeadline: q.soft,
		MinKeys:      q.minKeys,
	}
	encode := q.encoder(table.Schema)
	for i := range req.Keys {
		if req.Keys[i], err = encode(i); err != nil {
			return nil, invalidKey(i, err)
		}
	}
	if q.optional != nil {
		if req.Optional, err = q.optional(table.Schema, req.Keys); err != nil {
			return nil, err
		}
	}
	c.recordIn(req)
	return req, nil
}

// invalidKey says that the key at i cannot be encoded.
func invalidKey(i int, err error) error {
	if _, refused := errors.AsType[*lookup.Error](err); refused {
		return err
	}
	return lookup.Invalid(keyField(i), "%s", err)
}

// get runs a request, if it may start, and records its response.
func (c *call) get(ctx context.Context, req *lookup.Request) (*lookup.Response, error) {
	permit := c.admit(ctx, req)
	if c.refused != nil {
		return c.resp, nil
	}
	defer permit.Release(admission.Outcome{}) // where there is none: an error, a panic
	resp, err := c.server.deps.Lookup.Get(ctx, req)
	if err != nil {
		return nil, err
	}
	permit.Release(ended(resp.Results, req.Table.Settings.MaxResponseBytes))
	c.resp = resp
	return resp, nil
}

// The margin kept between the end of a lookup and the deadline of its call.
const (
	minMargin = time.Millisecond
	maxMargin = 10 * time.Millisecond
)

// ahead bounds a lookup a little before the deadline of its call. Both ends of a
// call share the deadline: an answer sent at it would find a client that has
// stopped listening, and the keys that have been answered would be lost.
func ahead(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	margin := min(maxMargin, max(minMargin, time.Until(deadline)/10))
	return context.WithDeadline(ctx, deadline.Add(-margin))
}
