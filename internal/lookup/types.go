// Package lookup runs a lookup: it resolves the table, waits for keys that another lookup is
// reading, plans the others over the ring, executes the plan and merges the results. It
// decides what a caller may ask of a table.
package lookup

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/qosproxy/qosproxy/internal/coalesce"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/hotkeys"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/planner"
	"github.com/qosproxy/qosproxy/internal/quorum"
	"github.com/qosproxy/qosproxy/internal/reasons"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// Settings is the configuration of one table.
type Settings struct {
	// Keyspace and Table name the table as Cassandra stores the names.
	Keyspace, Table string
	// Columns are the columns that may be read; empty means all.
	Columns []string
	// Consistency is the default level of reads, in any letter case; SetTables converts it
	// to upper case.
	Consistency partition.Level
	// Consistencies are further levels that a request may ask for, in any letter case.
	Consistencies []partition.Level
	// Timeout bounds a lookup that has no deadline of its own.
	Timeout time.Duration
	// SpeculativeRetry says when a late group is hedged.
	SpeculativeRetry hedge.Policy
	// HedgeBudget is the share of keys that may be asked twice, 0 to 1.
	HedgeBudget float64
	// Grouping is how keys are grouped into sub-queries.
	Grouping planner.Grouping
	// MaxKeys is the maximum number of keys in a lookup, duplicates included.
	MaxKeys int
	// MaxKeysPerGroup is the maximum size of a group; 0 lets the planner choose.
	MaxKeysPerGroup int
	// MaxRowsPerKey is the maximum number of rows that a lookup returns for a key.
	MaxRowsPerKey int
	// MaxResponseBytes is the maximum number of bytes of cells in an answer.
	MaxResponseBytes int
	// QuorumReads reads keys at LOCAL_QUORUM, and at QUORUM in a single datacenter, from a
	// quorum of their replicas and compares these, where that gives the same answers.
	QuorumReads bool
	// DCFailover says at which levels keys are read in another datacenter, one of
	// ring.Ring.LaterDCs, when too few of their local replicas can be reached.
	DCFailover DCFailover
	// Coalesce says which reads are shared with other lookups.
	Coalesce coalesce.Mode
	// Alone keeps sub-queries from sharing statements with those of other lookups.
	Alone bool

	// state is the executor's memory of the table under these settings. hot counts its hot
	// keys; nil if they are not counted. Service.SetTables sets both.
	state *executor.TableState
	hot   *hotkeys.Sketch
}

// Table is a table that may be read, as defined when Service.Table returned it.
type Table struct {
	// Schema is the definition; never nil.
	Schema *schema.Table
	// Settings is the configuration of the table.
	Settings *Settings
	// Columns are the columns that may be read, in the order of SELECT *.
	Columns []schema.Column

	// readable are the columns that the configuration allows.
	readable []schema.Column
	// narrowed is set by Narrow: one client's rights restrict the table. only are the
	// columns that these name; empty means all of the table.
	narrowed bool
	only     []string
	// quorum is the size of a quorum of the local replicas.
	quorum int
}

// Request is one lookup.
type Request struct {
	// Table is from Service.Table.
	Table *Table
	// Keys say which rows to read, in the caller's order, duplicates included.
	Keys []partition.Key
	// Slice, from Table.Slice, says which of these rows are read; nil means all of them.
	Slice *partition.Slice
	// Columns are the columns to return, from Table.Select; empty means all of
	// Table.Columns.
	Columns []schema.Column
	// LimitPerKey is the maximum number of rows to return for a key. 0 means all, up to
	// MaxRowsPerKey: a key with more is TooLarge. With Paging, 0 means MaxRowsPerKey.
	LimitPerKey int
	// Paging returns the rows of a key in pages of LimitPerKey rows, or of as many as fit
	// into MaxResponseBytes. The result of a key with more rows has a NextPageToken.
	Paging bool
	// PageTokens say where each key continues, by position: the NextPageToken of the same
	// key in the same order, or empty for its first page; nil means all first pages. Only
	// with Paging. A later page sees the rows as they are by then.
	PageTokens []string
	// Timeout bounds the lookup in addition to the deadline of its context; 0 means
	// Settings.Timeout when the context has no deadline.
	Timeout time.Duration
	// Deadline is when the lookup ends at the latest. Unless zero it replaces Timeout. See
	// End.
	Deadline time.Time
	// SoftDeadline is how long after its start the lookup ends if MinKeys keys are answered
	// by then. With fewer it ends as soon as they are, and at its deadline at the latest.
	// The other keys are then TimedOut, with an error that wraps ErrSoftDeadline. 0 waits
	// for every key. It must not exceed Timeout, if both are set. A soft deadline that is
	// not before the deadline has no effect.
	SoftDeadline time.Duration
	// MinKeys is how many keys must be answered (found or not found) for the lookup to end
	// at its soft deadline: 1 to the number of keys that are not optional, or of all keys if
	// all are optional. 0 means 1. Only with SoftDeadline.
	MinKeys int
	// Optional marks the keys that the caller can do without, by position; nil marks none.
	// They do not count for MinKeys, unless all are optional.
	Optional []bool
	// ShedOptional answers the optional keys at once, without a read: Shed, with
	// ErrOptionalShed. A key that another position needs is answered with that.
	ShedOptional bool
	// Consistency overrides that of the table, in any letter case; empty keeps it. See
	// Table.Level.
	Consistency partition.Level
	// FewHedges restricts hedges to those away from hosts that answer nobody; ordinary
	// stragglers are not hedged. It is for times when hosts cannot keep up with the load.
	FewHedges bool
	// Trace records every sub-query in Response.Attempts.
	Trace bool
	// Record receives what is sent, for a trace of the lookup; nil for none. It belongs to
	// the service until the lookup has ended.
	Record *Record
}

// Record is what a lookup sent.
type Record struct {
	// TraceID is the trace to which the exemplars of sub-query durations link; set
	// by the caller.
	TraceID string
	// Start is when the lookup began, Consistency its level, Attempts its sub-queries in the
	// order they were sent. The service sets them.
	Start       time.Time
	Consistency partition.Level
	Attempts    []Attempt
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
	// Deadline is when the lookup would have ended at the latest, from its start,
	// and SoftDeadline is Request.SoftDeadline if it is before that, 0 otherwise;
	// only with Request.Trace.
	Deadline, SoftDeadline time.Duration
}

// Stats are the counts of one lookup.
type Stats struct {
	// Keys is the number of keys asked for, duplicates included; Groups that of the groups
	// of the plan; SubQueries that of all sub-queries sent, of which Hedges were sent
	// because a group was late and Failovers because one failed.
	Keys, Groups, SubQueries, Hedges, Failovers int
	// Coalesced is the number of distinct keys that the read of another lookup answered.
	Coalesced int
	// Refused is the number of keys that the proxy shed by its own decision, without reading
	// them. They do not count against the target of the table.
	Refused int
	// Elapsed is the time from the call to the last result.
	Elapsed time.Duration
}

// Attempt is one sub-query of a traced lookup.
type Attempt struct {
	// Host is the address that was asked; empty when another lookup asked it.
	Host string
	// Kind is why the attempt was made; executor.KindCoalesced means that another lookup was
	// already reading the keys.
	Kind executor.Kind
	// Keys are positions in Request.Keys, of the first occurrence of each key.
	Keys []int
	// Start and End are relative to the start of the lookup.
	Start, End time.Duration
	// Outcome is how the attempt ended.
	Outcome executor.Outcome
	// Err is the reason of the first key that was lost; empty when none was.
	Err executor.Reason
	// HedgeAfter is how long after Start the attempt is late, and its keys are asked of
	// other replicas; negative for never.
	HedgeAfter time.Duration
	// NotHedged says why the keys of a late sub-query were not asked of other replicas;
	// empty when they were, or it was not late.
	NotHedged executor.NotHedged
	// StatementKeys is how many keys were in the statement that the attempt shared with
	// other lookups; 0 if it shared none.
	StatementKeys int
	// OwnData is set if the host was asked for what it has on its own disk, to be compared
	// with what other replicas have.
	OwnData bool
}

// Plan is how a lookup would be sent at this moment.
type Plan struct {
	// Keys are the token and replicas of each key of the request, by position.
	Keys []PlannedKey
	// Groups are the sub-queries that would be sent.
	Groups []PlannedGroup
	// Hosts are the replicas of the keys, by address.
	Hosts []PlannedHost
	// Stressed is set when so many hosts are late that the cause is taken to be load: then
	// no host is avoided for being slow, and only stalled ones are hedged.
	Stressed bool
	// Size is how many keys a group may have, and why.
	Size executor.GroupSize
	// Quorum is set when each key is in the groups of a quorum of its replicas, all of which
	// are asked for their own data.
	Quorum bool
	// Fallback is why all keys of a table with QuorumReads are read through coordinators
	// instead; None otherwise.
	Fallback quorum.Outcome
}

// PlannedHost is a replica of some key of a plan.
type PlannedHost struct {
	ring.Host
	// Avoided says why the host is asked only for keys that have no other replica; empty
	// when it is not avoided.
	Avoided executor.Avoided
}

// PlannedKey is one key of a plan.
type PlannedKey struct {
	// Token is the Murmur3 token of the key.
	Token int64
	// Replicas are all replicas in ring order.
	Replicas []ring.Host
	// Group is the index of the first group that asks for the key; -1 when no host can be
	// asked, the key is shed, or another lookup is reading it.
	Group int
	// Groups are the indices of all groups that ask for the key.
	Groups []int
	// Compared is what became of the key when it was read by its replicas; None in a plan
	// alone, and when their answers were not compared.
	Compared quorum.Outcome
}

// PlannedGroup is one group of a plan.
type PlannedGroup struct {
	// Host is the host that the plan asks.
	Host ring.Host
	// Keys are positions in the request, of the first occurrence of each key.
	Keys []int
}

// The reasons for which a whole request is refused.
var (
	// ErrUnknownTable means that the cluster has no such table.
	ErrUnknownTable = errors.New("unknown table")
	// ErrForbidden means that the table, the column or the consistency level is not allowed.
	ErrForbidden = errors.New("not allowed")
	// ErrInvalid means that the request breaks a rule.
	ErrInvalid = errors.New("invalid argument")
	// ErrNotReady means that the proxy has no ring yet.
	ErrNotReady = errors.New("not ready")
)

// Error is why a whole request is refused. It unwraps to one of ErrUnknownTable,
// ErrForbidden, ErrInvalid and ErrNotReady.
type Error struct {
	// Reason is the cause in one word. It determines the kind.
	Reason reasons.Reason
	// Field is the part of the request at fault, such as keys[3] or columns[0];
	// empty when it is the request as a whole.
	Field string
	// Message says what is wrong and what to do. It is fit for clients.
	Message string
}

// Error returns the message, with the field when there is one.
func (e *Error) Error() string {
	if e.Field == "" {
		return e.Message
	}
	return e.Field + ": " + e.Message
}

// Unwrap returns the kind of the error.
func (e *Error) Unwrap() error {
	switch e.Reason {
	case reasons.UnknownTable:
		return ErrUnknownTable
	case reasons.ForbiddenTable, reasons.ForbiddenColumn, reasons.ForbiddenLevel:
		return ErrForbidden
	case reasons.NotReady, reasons.NoPlacement:
		return ErrNotReady
	default:
		return ErrInvalid
	}
}

// ClientReason implements reasons.Carrier.
func (e *Error) ClientReason() reasons.Reason { return cmp.Or(e.Reason, reasons.InvalidRequest) }

// Invalid returns an Error of kind ErrInvalid.
func Invalid(field, format string, args ...any) *Error {
	return &Error{Reason: reasons.InvalidRequest, Field: field, Message: fmt.Sprintf(format, args...)}
}

// TooManyKeys returns the Error of a request for keys keys of table t, which allows most in
// one lookup.
func TooManyKeys(keys, most int, t *schema.Table) *Error {
	return &Error{Reason: reasons.TooManyKeys, Field: "keys", Message: fmt.Sprintf(
		"%d keys are more than the %d (max_keys) that one lookup of %s may ask; send several lookups", keys, most, t)}
}
