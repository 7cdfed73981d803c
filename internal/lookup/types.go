// Package lookup is the story of a request: resolve the table, plan the keys
// over the ring, execute the plan, merge the results. It decides what a caller
// may ask of a table.
package lookup

import (
	"errors"
	"fmt"
	"time"

	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/planner"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// Settings is what the configuration says of one table.
type Settings struct {
	// Keyspace and Table name the table as Cassandra stores the names.
	Keyspace, Table string
	// Columns are the columns that may be read; empty means all.
	Columns []string
	// Consistency is the level of every read, in CQL's words.
	Consistency string
	// Timeout bounds a lookup that brings no deadline of its own.
	Timeout time.Duration
	// SpeculativeRetry says when a late group is hedged.
	SpeculativeRetry hedge.Policy
	// HedgeBudget is the share of keys that may be asked twice, 0 to 1.
	HedgeBudget float64
	// Grouping is how keys become sub-queries.
	Grouping planner.Grouping
	// MaxKeys is the most keys in one lookup, duplicates counted.
	MaxKeys int
	// MaxKeysPerGroup is the largest group; 0 lets the planner choose.
	MaxKeysPerGroup int
	// MaxRowsPerKey is the most rows of one partition that a lookup returns.
	MaxRowsPerKey int
	// MaxResponseBytes is the most bytes of cells in one answer.
	MaxResponseBytes int
}

// Table is a table that may be read, with its definition of this moment.
type Table struct {
	// Schema is the definition; never nil.
	Schema *schema.Table
	// Settings is what the configuration says of it.
	Settings *Settings
	// Columns are the columns that may be read, in the order of SELECT *.
	Columns []schema.Column
}

// Request is one lookup.
type Request struct {
	// Table is from Service.Table.
	Table *Table
	// Keys are the partitions to read, in the caller's order, duplicates
	// included.
	Keys []partition.Key
	// Columns are the columns to return, from Table.Select; empty means all of
	// Table.Columns.
	Columns []schema.Column
	// LimitPerKey is the most rows to return of one partition; 0 means all, up
	// to MaxRowsPerKey, beyond which the key is TooLarge.
	LimitPerKey int
	// Timeout bounds the lookup besides the deadline of its context; 0 means
	// Settings.Timeout when the context has no deadline.
	Timeout time.Duration
	// Consistency overrides that of the table; empty keeps it.
	Consistency string
	// FewHedges hedges only away from hosts that stand still, and not for the
	// usual stragglers, while there is more to do than hosts keep up with.
	FewHedges bool
	// Trace records every sub-query in Response.Attempts.
	Trace bool
}

// Response is the outcome of a lookup.
type Response struct {
	// Results answer Request.Keys by position.
	Results []partition.Result
	// Stats are the counts of the lookup.
	Stats Stats
	// Attempts are the sub-queries of the lookup in the order they were sent;
	// only with Request.Trace.
	Attempts []Attempt
	// Plan is the plan of the first attempts; only with Request.Trace.
	Plan *Plan
}

// Stats are the counts of one lookup.
type Stats struct {
	// Keys are the keys asked, duplicates included; Groups the groups of the
	// plan; SubQueries all sub-queries sent, of which Hedges were sent because
	// a group was late and Failovers because one failed.
	Keys, Groups, SubQueries, Hedges, Failovers int
	// Refused are the keys that the proxy has shed by its own decision, without
	// asking for them. They break no promise of the table.
	Refused int
	// Elapsed is the time from the call to the last result.
	Elapsed time.Duration
}

// Attempt is one sub-query of a traced lookup.
type Attempt struct {
	// Host is the address that was asked.
	Host string
	// Kind is first, hedge or failover.
	Kind string
	// Keys are positions in Request.Keys, first occurrence of each partition.
	Keys []int
	// Start and End are relative to the start of the lookup.
	Start, End time.Duration
	// Outcome is won (some key was answered first here), lost, failed,
	// cancelled or pending.
	Outcome string
	// Err is the reason of a failure, in the words of executor.Reason.
	Err string
}

// Plan is how a lookup would be asked at this moment.
type Plan struct {
	// Keys say token and replicas of each key of the request, by position.
	Keys []PlannedKey
	// Groups are the sub-queries that would be sent.
	Groups []PlannedGroup
}

// PlannedKey is one key of a plan.
type PlannedKey struct {
	// Token is the Murmur3 token of the key.
	Token int64
	// Replicas are all replicas in ring order.
	Replicas []ring.Host
	// Group is the index of the group that asks the key; -1 when no host can be
	// asked.
	Group int
}

// PlannedGroup is one group of a plan.
type PlannedGroup struct {
	// Host is whom the plan asks.
	Host ring.Host
	// Keys are positions in the request, first occurrence of each partition.
	Keys []int
}

// The reasons for which a whole request is refused.
var (
	// ErrUnknownTable means that the cluster has no such table.
	ErrUnknownTable = errors.New("unknown table")
	// ErrForbidden means that the configuration does not allow the table or
	// column to be read.
	ErrForbidden = errors.New("not allowed")
	// ErrInvalid means that the request breaks a rule.
	ErrInvalid = errors.New("invalid argument")
	// ErrNotReady means that the proxy has no ring yet.
	ErrNotReady = errors.New("not ready")
)

// Error is why a whole request is refused. It unwraps to one of ErrUnknownTable,
// ErrForbidden, ErrInvalid and ErrNotReady.
type Error struct {
	// Kind is one of the sentinels of this package.
	Kind error
	// Field is the part of the request at fault, such as keys[3] or columns[0];
	// empty when it is the request as a whole.
	Field string
	// Message says what is wrong and what to do; fit for clients.
	Message string
}

// Error returns the message, with the field when there is one.
func (e *Error) Error() string {
	if e.Field == "" {
		return e.Message
	}
	return e.Field + ": " + e.Message
}

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

// Invalid returns an Error of kind ErrInvalid.
func Invalid(field, format string, args ...any) *Error {
	return &Error{Kind: ErrInvalid, Field: field, Message: fmt.Sprintf(format, args...)}
}
