// Package partition defines the nouns that every stage of a lookup shares: the key of
// one partition or of some of its rows, the rows read, and the result of asking for them.
// It decides nothing but what these words mean.
package partition

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/qosproxy/qosproxy/internal/reasons"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// MaxKeyBytes is the largest serialized partition key that Cassandra accepts,
// in bytes (an unsigned 16-bit length in its storage format).
const MaxKeyBytes = 65535

// Errors of NewKey and Key.Rows. They say which rule of Cassandra the key breaks.
var (
	// ErrEmptyKey means a single-column partition key of zero bytes, which
	// Cassandra refuses ("Key may not be empty").
	ErrEmptyKey = errors.New("a partition key may not be empty")
	// ErrKeyTooLong means a key whose serialized form exceeds MaxKeyBytes.
	ErrKeyTooLong = fmt.Errorf("a key may not exceed %d bytes", MaxKeyBytes)
	// ErrNullKey means that a component of the key is null.
	ErrNullKey = errors.New("a component of a key may not be null")
)

// Key says which rows are asked for: those of one partition, or those of it that begin with
// some clustering values. It has the CQL-serialized value of each column of the partition
// key, and of as many clustering columns as it names, in key order. The zero Key is invalid;
// build one with NewKey. A Key shares the slices it was built from and must not be modified.
type Key struct {
	components [][]byte
	routing    []byte
	// cursor are the values of all clustering columns behind those that the key names, in the
	// row behind which it begins; nil for the first row.
	cursor [][]byte
	// clustering are the clustering values, each behind its length, which tells apart what
	// is asked of one partition. Those of a cursor follow, and how many they are: no key
	// without one has a byte more than its values.
	clustering []byte
}

// NewKey builds the key of a partition from the serialized values of its
// partition key columns, in key order. A nil component is a null, which no key
// may hold. It returns ErrEmptyKey, ErrNullKey or ErrKeyTooLong.
func NewKey(components ...[]byte) (Key, error) {
	if len(components) == 0 {
		return Key{}, ErrEmptyKey
	}
	for _, c := range components {
		if c == nil {
			return Key{}, ErrNullKey
		}
	}
	if len(components) == 1 {
		switch c := components[0]; {
		case len(c) == 0:
			return Key{}, ErrEmptyKey
		case len(c) > MaxKeyBytes:
			return Key{}, ErrKeyTooLong
		default:
			return Key{components: components, routing: c}, nil
		}
	}
	n := 0
	for _, c := range components {
		n += len(c) + 3
	}
	if n > MaxKeyBytes {
		return Key{}, ErrKeyTooLong
	}
	// CompositeType: a 16-bit length, the bytes and an end-of-component zero.
	routing := make([]byte, 0, n)
	for _, c := range components {
		routing = append(routing, byte(len(c)>>8), byte(len(c)))
		routing = append(routing, c...)
		routing = append(routing, 0)
	}
	return Key{components: components, routing: routing}, nil
}

// NewRowKey builds a key from values of which the first are those of the partition key, as
// many as NewKey would take, and the others clustering values: the rows that begin with them.
// Without others it is NewKey.
func NewRowKey(partitionKey int, components ...[]byte) (Key, error) {
	if len(components) <= partitionKey {
		return NewKey(components...)
	}
	k, err := NewKey(components[:partitionKey]...)
	if err != nil {
		return Key{}, err
	}
	k.components = components
	k.clustering, err = appendClustering(nil, components[partitionKey:])
	return k, err
}

// appendClustering appends clustering values, each behind its length.
func appendClustering(dst []byte, values [][]byte) ([]byte, error) {
	n := 1
	for _, c := range values {
		switch {
		case c == nil:
			return nil, ErrNullKey
		case len(c) > MaxKeyBytes:
			return nil, ErrKeyTooLong
		}
		n += clusteringHeader + len(c)
	}
	dst = slices.Grow(dst, n)
	for _, c := range values {
		dst = append(append(dst, byte(len(c)>>8), byte(len(c))), c...)
	}
	return dst, nil
}

// Behind returns the key of the rows that k asks for and that come after one of them, in the
// order in which they are read. Of that row it takes the serialized values of all clustering
// columns behind those that k names, which are at least one. It returns ErrNullKey or
// ErrKeyTooLong.
func (k Key) Behind(cursor [][]byte) (Key, error) {
	clustering, err := appendClustering(slices.Clip(k.clustering), cursor)
	if err != nil {
		return Key{}, err
	}
	k.cursor, k.clustering = cursor, append(clustering, byte(len(cursor)))
	return k, nil
}

// Cursor returns the values that Behind took; nil for a key that begins with its first row. The
// caller must not modify them.
func (k Key) Cursor() [][]byte { return k.cursor }

// clusteringHeader is the length before each value of Key.clustering, in bytes.
const clusteringHeader = 2

// Components returns the serialized value of each partition key column, and of each
// clustering column that the key names, in key order. The caller must not modify it.
func (k Key) Components() [][]byte { return k.components }

// Routing returns the bytes whose hash is the token of the partition: the value
// itself for a single-column key, Cassandra's CompositeType form otherwise. Two
// keys are of the same partition exactly when these bytes are equal. The caller
// must not modify it.
func (k Key) Routing() []byte { return k.routing }

// ID tells apart what keys of one table ask for. It is comparable.
type ID struct{ partition, rows string }

// ID returns what is equal for equal keys alone. It refers to the bytes of the key.
func (k Key) ID() ID { return ID{inPlace(k.routing), inPlace(k.clustering)} }

// Row is one row of a partition: the cells of the columns that were asked for,
// in the order they were asked, each in Cassandra's own serialized form. A nil
// cell is null; a cell of length zero is an empty value.
type Row [][]byte

// Level is a consistency level in CQL's words and upper case, such as LOCAL_ONE. Which levels
// there are is said by the configuration and by the reader, which refuse any other.
type Level string

// OwnData is no level of CQL: a host answers with what it has on its own disk, or not at all.
// Each row then has, after its cells, two for each of its Versioned columns in order: when it
// was written in microseconds (a bigint), and the seconds until it expires (an int, null for
// never). A null cell has null for both.
const OwnData Level = "OWN_DATA"

// LevelOf returns the level of that name, in any case.
func LevelOf(name string) Level { return Level(strings.ToUpper(name)) }

// OneReplica reports whether one replica's answer is enough: a read at such a level says
// nothing of a write that has just been made.
func (l Level) OneReplica() bool { return l == "ONE" || l == "LOCAL_ONE" || l == "NODE_LOCAL" }

// Required returns how many of so many replicas of a key, all in the local datacenter, must be
// alive for the level, as far as those alone tell; 1 for levels that count replicas elsewhere.
func (l Level) Required(replicas int) int {
	switch l {
	case "LOCAL_QUORUM", "LOCAL_SERIAL":
		return replicas/2 + 1
	case "ALL":
		return replicas
	case OwnData:
	}
	return 1
}

// Versioned returns those columns of which a read of OwnData tells when they were written: all
// that are not part of a key.
func Versioned(columns []schema.Column) []schema.Column {
	var out []schema.Column
	for _, c := range columns {
		if c.Kind == schema.Regular {
			out = append(out, c)
		}
	}
	return out
}

// Query is what a lookup reads of every key.
type Query struct {
	// Table is the table to read; never nil.
	Table *schema.Table
	// Columns are the columns to return, in the order of the cells of a row.
	Columns []schema.Column
	// Readable are the columns that may be read of the table. A Reader may read them
	// all and leave out those that were not asked for, so that it has few statements;
	// nil means all of Table.
	Readable []schema.Column
	// Consistency is the consistency level of every sub-query. NODE_LOCAL is a wish: a Reader
	// reads at LOCAL_ONE where it is not safe.
	Consistency Level
	// Limit is the most rows to return of one partition; at least 1.
	Limit int
	// Strict makes a partition with more than Limit rows TooLarge; otherwise its
	// rows after the first Limit are left out, as the client asked.
	Strict bool
	// Paged tells of rows that are left out by Result.More, and leaves rows out as well that
	// would exceed MaxBytes. It is never set with Strict.
	Paged bool
	// Slice restricts which rows are read of every key, and their order; nil reads all of
	// them in clustering order.
	Slice *Slice
	// Shape tells apart queries of one table whose keys cost differently: how many
	// clustering columns they name at least, and the Slice but for its values. It is empty
	// for whole partitions.
	Shape string
	// MaxBytes is the most bytes of cells to return of one sub-query; a key whose
	// rows would exceed it is TooLarge. Cells of other columns do not count.
	MaxBytes int
	// Alone keeps sub-queries from sharing a statement with those of other lookups.
	Alone bool
}

// Status says what became of one asked key. Every asked key ends with exactly
// one.
type Status uint8

// The statuses of a key. The zero value is Pending, which never leaves the
// proxy.
const (
	// Pending means that no answer has been decided yet.
	Pending Status = iota
	// Found means that a replica returned at least one row.
	Found
	// NotFound means that a replica answered and has no row for the key.
	NotFound
	// TimedOut means that the deadline passed before any replica answered.
	TimedOut
	// Unavailable means that no replica could be asked, or that the replicas
	// asked could not reach the consistency level.
	Unavailable
	// Shed means that the proxy refused the key to protect itself or a host.
	Shed
	// TooLarge means that the rows exceed the limits of rows or bytes.
	TooLarge
	// Failed means that every replica failed to read the key.
	Failed
)

var statusNames = [...]string{
	"PENDING", "FOUND", "NOT_FOUND", "TIMED_OUT", "UNAVAILABLE", "SHED", "TOO_LARGE", "FAILED",
}

// Statuses lists every status a client can see, in the order of their values.
var Statuses = []Status{Found, NotFound, TimedOut, Unavailable, Shed, TooLarge, Failed}

// String returns the status as it appears in JSON and in metric labels, such as
// NOT_FOUND.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("STATUS(%d)", uint8(s))
}

// Answered reports whether a replica has said what the key holds, so that
// asking again would not tell more.
func (s Status) Answered() bool { return s == Found || s == NotFound }

// Result is what became of one key.
type Result struct {
	// Status is what became of the key.
	Status Status
	// More is set when there are rows behind the last of Rows; only with Query.Paged.
	More bool
	// Rows are the rows of the partition, in clustering order; empty unless
	// Status is Found.
	Rows []Row
	// Bytes is the size of the cells in Rows, in bytes.
	Bytes int
	// NextPageToken names the page behind Rows; empty unless More is set, and where nobody
	// has made it yet.
	NextPageToken string
	// Reason says in one word why the key was not answered; None when Status is Found or
	// NotFound. See Unanswered.
	Reason reasons.Reason
	// Err says the same in a text that holds no key, address or secret, and may be shown
	// to clients; nil when Status is Found or NotFound.
	Err error
}

// sliceBytes is what leads to a row, and to each cell of it.
const sliceBytes = 24

// Memory returns how many bytes the rows take in memory: Bytes, and what leads to them. A row of
// nulls has no Bytes.
func (r *Result) Memory() int {
	if len(r.Rows) == 0 {
		return r.Bytes
	}
	return r.Bytes + sliceBytes*len(r.Rows)*(1+len(r.Rows[0]))
}

// statusOf is the status of a key by the reason for which it is not answered; Pending for
// reasons that are of requests alone.
var statusOf = [...]Status{
	reasons.SoftDeadline:      TimedOut,
	reasons.Deadline:          TimedOut,
	reasons.ReplicaTimeout:    TimedOut,
	reasons.Cancelled:         TimedOut,
	reasons.NoReplica:         Unavailable,
	reasons.Unreachable:       Unavailable,
	reasons.TooFewReplicas:    Unavailable,
	reasons.Optional:          Shed,
	reasons.ClientConcurrency: Shed,
	reasons.ClientRate:        Shed,
	reasons.BrownOut:          Shed,
	reasons.DeadlineTooShort:  Shed,
	reasons.Overload:          Shed,
	reasons.Memory:            Shed,
	reasons.HostsFull:         Shed,
	reasons.HostsOverloaded:   Shed,
	reasons.TooManyRows:       TooLarge,
	reasons.TooManyBytes:      TooLarge,
	reasons.AnswerFull:        TooLarge,
	reasons.PartitionTooLarge: TooLarge,
	reasons.ReadFailure:       Failed,
	reasons.Tombstones:        Failed,
	reasons.QueryRefused:      Failed,
	reasons.HostError:         Failed,
	reasons.Undecodable:       Failed,
	reasons.Internal:          Failed,
}

// StatusOf returns the status of a key that is not answered for a reason; Pending for a reason
// that no key has.
func StatusOf(why reasons.Reason) Status {
	if int(why) < len(statusOf) {
		return statusOf[why]
	}
	return Pending
}

// Unanswered returns the result of a key that is not answered, with the status that follows
// from the reason. Every such result is made by it, so that none is without a reason or has one
// that belies its status. A reason that no key has is a mistake in this program, and makes
// the key Failed for Internal.
func Unanswered(why reasons.Reason, err error) Result {
	status := StatusOf(why)
	if status == Pending {
		why, status = reasons.Internal, Failed
	}
	return Result{Status: status, Reason: why, Err: err}
}
