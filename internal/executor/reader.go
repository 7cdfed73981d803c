// Package executor asks: it sends the groups of a plan to their hosts at once,
// asks other replicas when a group is late or has failed, and ends with exactly
// one result for every key. It also keeps the health of each host.
package executor

import (
	"context"
	"errors"
	"fmt"

	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// Reader reads partitions from one host.
type Reader interface {
	// Read asks q.Host for every key of q and returns one result for each, by
	// position. Results are Found, NotFound, or a failure of that key alone
	// (TooLarge, or Failed with an Err; ErrCrowded where the key is TooLarge
	// because of the others). An error means that no key was answered; it is a
	// *ReadError where the reason is known. Whoever gets the results may hand
	// them on to others: they never change any more.
	//
	// Read returns soon after ctx ends. CQL has no cancel, so the host may go on
	// working: Read calls q.Settled exactly once, when the host has answered
	// every request of the sub-query or can no longer answer (its connection is
	// gone), which may be before or long after Read returns.
	Read(ctx context.Context, q *SubQuery) ([]partition.Result, error)
}

// ReaderFunc makes a function a Reader.
type ReaderFunc func(ctx context.Context, q *SubQuery) ([]partition.Result, error)

// Read calls f.
func (f ReaderFunc) Read(ctx context.Context, q *SubQuery) ([]partition.Result, error) {
	return f(ctx, q)
}

// Query is what a lookup reads from every partition.
type Query struct {
	// Table is the table to read; never nil.
	Table *schema.Table
	// Columns are the columns to return, in the order of the cells of a row.
	Columns []schema.Column
	// Consistency is the consistency level of every sub-query, in CQL's words,
	// such as LOCAL_ONE. NODE_LOCAL is a wish: a Reader reads at LOCAL_ONE where
	// it is not safe.
	Consistency string
	// Limit is the most rows to return of one partition; at least 1.
	Limit int
	// Strict makes a partition with more than Limit rows TooLarge; otherwise its
	// rows after the first Limit are left out, as the client asked.
	Strict bool
	// MaxBytes is the most bytes of cells to read for one sub-query; a key whose
	// rows would exceed it is TooLarge.
	MaxBytes int
}

// SubQuery is one group on its way to one host.
type SubQuery struct {
	*Query
	// Host is whom to ask.
	Host ring.Host
	// Ring is the snapshot by which Host is a replica of every key; nil when it
	// may not be one.
	Ring *ring.Ring
	// Keys are the partitions to read; at least one, no duplicates.
	Keys []partition.Key
	// Settled is called exactly once; see Reader. It is never nil.
	Settled func()
}

// ErrCrowded is the error of a key that is TooLarge beside the other keys of its
// sub-query, and may not be alone.
var ErrCrowded = errors.New("the rows did not fit beside those of other keys; ask for fewer keys or columns")

// Reason says why a sub-query failed, in words fit for a metric label.
type Reason string

// The reasons of a failed sub-query.
const (
	// ReasonUnreachable means that the request never reached the host: no
	// connection, connection refused, no free stream. It cost the host nothing.
	ReasonUnreachable Reason = "unreachable"
	// ReasonDisconnected means that the connection broke while waiting.
	ReasonDisconnected Reason = "disconnected"
	// ReasonUnavailable means that the host saw too few live replicas for the
	// consistency level.
	ReasonUnavailable Reason = "unavailable"
	// ReasonTimeout means that the host gave up waiting for replicas.
	ReasonTimeout Reason = "timeout"
	// ReasonOverloaded means that the host refused work, or is bootstrapping.
	ReasonOverloaded Reason = "overloaded"
	// ReasonReadFailure means that a replica failed to read (tombstones, a
	// corrupt file).
	ReasonReadFailure Reason = "read_failure"
	// ReasonInvalid means that the host refused the query itself (a column or
	// table is gone, a guardrail); asking another host is of no use unless the
	// schema is still spreading.
	ReasonInvalid Reason = "invalid"
	// ReasonOther is any other error.
	ReasonOther Reason = "other"
)

// ReadError is the failure of a sub-query as a whole.
type ReadError struct {
	// Reason is the class of the failure.
	Reason Reason
	// Err is the cause; its text may name the host and is for logs only.
	Err error
}

// Error returns the reason and the cause.
func (e *ReadError) Error() string { return fmt.Sprintf("%s: %v", e.Reason, e.Err) }

// Unwrap returns the cause.
func (e *ReadError) Unwrap() error { return e.Err }

// Free reports whether the failed attempt cost the host nothing, so that the
// next replica may be asked without charging any budget.
func (e *ReadError) Free() bool {
	return e.Reason == ReasonUnreachable || e.Reason == ReasonDisconnected
}
