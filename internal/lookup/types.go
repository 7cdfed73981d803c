// Package lookup is the life of a request: resolve the table, wait for keys that
// another request reads, plan the others over the ring, execute the plan, merge the
// results. It decides what a caller may ask of a table.
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

// Settings is what the configuration says of one table.
type Settings struct {
	// Keyspace and Table name the table as Cassandra stores the names.
	Keyspace, Table string
	// Columns are the columns that may be read; empty means all.
	Columns []string
	// Consistency is the level of every read, in any case; SetTables turns it into upper
	// case.
	Consistency partition.Level
	// Consistencies are the levels that a request may ask for besides, in any case.
	Consistencies []partition.Level
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
	// QuorumReads has keys at LOCAL_QUORUM, and at QUORUM in a single datacenter, read by
	// a quorum of their replicas and compared, where that gives the same answers.
	QuorumReads bool
	// DCFailover says at which levels keys that too few local replicas can be reached of are
	// read in another datacenter of ring.Ring.LaterDCs.
	DCFailover DCFailover
	// Coalesce says which reads are shared with other lookups.
	Coalesce coalesce.Mode
	// Alone keeps sub-queries from sharing statements with those of other lookups.
	Alone bool

	// state is what the executor remembers of the table under these settings, and
	// hot counts its hot keys, nil for not; both are set by Service.SetTables.
	state *executor.TableState
	hot   *hotkeys.Sketch
}

// Table is a table that may be read, with its definition of this moment.
type Table struct {
	// Schema is the definition; never nil.
	Schema *schema.Table
	// Settings is what the configuration says of it.
	Settings *Settings
	// Columns are the columns that may be read, in the order of SELECT *.
	Columns []schema.Column

	// readable are the columns that some client may read.
	readable []schema.Column
	// narrowed is whether one client's rights lie over those of the table, and only
	// are the columns that they name; empty means all of the table.
	narrowed bool
	only     []string
	// quorum is how many of the local replicas are one.
	quorum int
}

// Request is one lookup.
type Request struct {
	// Table is from Service.Table.
	Table *Table
	// Keys say which rows to read, in the caller's order, duplicates included.
	Keys []partition.Key
	// Slice is from Table.Slice: which of these rows are read; nil means all of them.
	Slice *partition.Slice
	// Columns are the columns to return, from Table.Select; empty means all of
	// Table.Columns.
	Columns []schema.Column
	// LimitPerKey is the most rows to return of one key; 0 means all, up
	// to MaxRowsPerKey, beyond which the key is TooLarge. With Paging 0 means
	// MaxRowsPerKey.
	LimitPerKey int
	// Paging returns the rows of a key in pages of LimitPerKey, or of what
	// MaxResponseBytes has room for: the result of a key with more has a NextPageToken.
	Paging bool
	// PageTokens say where each key goes on, by position: the NextPageToken of the same key
	// under the same Reverse, empty for its first page; nil for all first pages. Only with
	// Paging. What was written and deleted meanwhile is read as it is then.
	PageTokens []string
	// Timeout bounds the lookup besides the deadline of its context; 0 means
	// Settings.Timeout when the context has no deadline.
	Timeout time.Duration
	// Deadline is when the lookup ends at the latest, if it is set: Timeout then has
	// no effect. See End.
	Deadline time.Time
	// SoftDeadline is when the lookup is answered, from its start, if MinKeys keys
	// are answered by then; with fewer it is answered as soon as they are, and at
	// its deadline at the latest. Keys that are not there by then are TimedOut, with
	// an error that wraps ErrSoftDeadline. 0 waits for every key; no more than
	// Timeout, if both are set. One that is not before the deadline has no effect.
	SoftDeadline time.Duration
	// MinKeys is how many keys must be answered (found or not found) for the lookup
	// to end at its soft deadline: 1 to the number of keys that are not optional, or
	// of all if all are. 0 is 1. Only with SoftDeadline.
	MinKeys int
	// Optional marks the keys that the caller can do without, by position; nil marks
	// none. They do not count for MinKeys.
	Optional []bool
	// ShedOptional answers the optional keys at once and unread: Shed, with
	// ErrOptionalShed. One that is needed at another position is answered with it.
	ShedOptional bool
	// Consistency overrides that of the table, in any case; empty keeps it. See
	// Table.Level.
	Consistency partition.Level
	// FewHedges hedges only away from hosts that answer nobody, and not for the
	// usual stragglers, while there is more to do than hosts keep up with.
	FewHedges bool
	// Trace records every sub-query in Response.Attempts.
	Trace bool
	// Record takes what is sent, for a trace of the lookup; nil for none. It belongs
	// to the service until the lookup has ended.
	Record *Record
}

// Record is what was sent for a lookup.
type Record struct {
	// TraceID is the trace to which the exemplars of sub-query durations link; set
	// by the caller.
	TraceID string
	// Start is when the lookup began, Consistency its level, and Attempts are its
	// sub-queries in the order they were sent; set by the service.
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
	// Keys are the keys asked, duplicates included; Groups the groups of the
	// plan; SubQueries all sub-queries sent, of which Hedges were sent because
	// a group was late and Failovers because one failed.
	Keys, Groups, SubQueries, Hedges, Failovers int
	// Coalesced are the distinct keys that the read of another lookup answered.
	Coalesced int
	// Refused are the keys that the proxy has shed by its own decision, without
	// asking for them. They do not count against the target of the table.
	Refused int
	// Elapsed is the time from the call to the last result.
	Elapsed time.Duration
}

// Attempt is one sub-query of a traced lookup.
type Attempt struct {
	// Host is the address that was asked; empty when another lookup asked.
	Host string
	// Kind is why it was made; executor.KindCoalesced is that of another lookup, which was
	// reading the keys when this one asked for them.
	Kind executor.Kind
	// Keys are positions in Request.Keys, first occurrence of each partition.
	Keys []int
	// Start and End are relative to the start of the lookup.
	Start, End time.Duration
	// Outcome is what became of it.
	Outcome executor.Outcome
	// Err is the reason of the first key that was lost; empty when none was.
	Err executor.Reason
	// HedgeAfter is after what time from Start the sub-query is late, and its keys
	// are asked of other replicas; negative for never.
	HedgeAfter time.Duration
	// NotHedged says why the keys of a late sub-query were not asked of other replicas;
	// empty when they were, or it was not late.
	NotHedged executor.NotHedged
	// StatementKeys is how many keys the statement had that it shared with other lookups; 0
	// for one of its own.
	StatementKeys int
	// OwnData is whether it asked the host for what that has on its own disk, to be compared
	// with what other replicas have.
	OwnData bool
}

// Plan is how a lookup would be asked at this moment.
type Plan struct {
	// Keys say token and replicas of each key of the request, by position.
	Keys []PlannedKey
	// Groups are the sub-queries that would be sent.
	Groups []PlannedGroup
	// Hosts are the replicas of the keys, by address.
	Hosts []PlannedHost
	// Stressed is set when so many hosts were late that it was taken for load: no
	// host is avoided for being slow, and nothing is hedged.
	Stressed bool
	// Size is how many keys a group may have, and what it rests on.
	Size executor.GroupSize
	// Quorum is set when each key is in the groups of a quorum of its replicas, which are
	// asked for their own data.
	Quorum bool
	// Fallback is why all keys are read through coordinators instead, on a table with
	// QuorumReads; None otherwise.
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
	// Group is the index of the first group that asks the key; -1 when no host can be
	// asked, the key is shed, or another lookup has asked it.
	Group int
	// Groups are the indices of all groups that ask the key.
	Groups []int
	// Compared is what became of the key when it was read by its replicas; None in a plan
	// alone, and when their answers were not compared.
	Compared quorum.Outcome
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
	// Reason is the cause in one word, from which the kind follows.
	Reason reasons.Reason
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

// TooManyKeys returns the Error of a request of so many keys of a table, of which it may ask
// most at a time.
func TooManyKeys(keys, most int, t *schema.Table) *Error {
	return &Error{Reason: reasons.TooManyKeys, Field: "keys", Message: fmt.Sprintf(
		"%d keys are more than the %d (max_keys) that one lookup of %s may ask; send several lookups", keys, most, t)}
}
