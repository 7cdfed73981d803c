// Package partition defines the types that every stage of a lookup shares: the key of a partition
// or of some of its rows, the rows read, and the result of each key. It also decides which keys can
// share a statement.
package partition

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/qosproxy/qosproxy/internal/reasons"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// MaxKeyBytes is the largest serialized partition key that Cassandra accepts, and the largest
// clustering value, in bytes (an unsigned 16-bit length in its storage format).
const MaxKeyBytes = 65535

// Errors of NewKey, NewRowKey and Key.Behind. Each means a rule of Cassandra that the key breaks.
var (
	// ErrEmptyKey means a single-column partition key of zero bytes, which
	// Cassandra refuses ("Key may not be empty").
	ErrEmptyKey = errors.New("a partition key may not be empty")
	// ErrKeyTooLong means that the serialized partition key or a clustering value exceeds
	// MaxKeyBytes.
	ErrKeyTooLong = fmt.Errorf("a key may not exceed %d bytes", MaxKeyBytes)
	// ErrNullKey means that a component of the key is null.
	ErrNullKey = errors.New("a component of a key may not be null")
)

// Key identifies the rows to read: all rows of a partition, or those that begin with some
// clustering values. It holds the CQL-serialized value of each partition key column, and of each
// clustering column that it names, in key order. The zero Key is invalid; build one with NewKey or
// NewRowKey. A Key shares the slices it was built from, which must not be modified.
type Key struct {
	components [][]byte
	routing    []byte
	// cursor identifies the row after which the key begins: its values of all clustering columns
	// that the key does not name. It is nil for a key that begins with its first row.
	cursor [][]byte
	// clustering encodes the clustering values, each preceded by its length, to distinguish keys of
	// one partition. The values of a cursor and their number, one byte, follow. Without a cursor
	// nothing follows, so the two forms never collide.
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

// NewRowKey builds a key from serialized values in key order. The first partitionKey of them form
// the partition key, as in NewKey; the others are clustering values with which the rows begin.
// There may be none. It returns the same errors as NewKey.
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

// appendClustering appends clustering values, each preceded by its length. It returns ErrNullKey or
// ErrKeyTooLong.
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

// Behind returns the key of the rows of k that come after one of them in reading order. The cursor
// holds that row's serialized values of all clustering columns that k does not name, at least one.
// It returns ErrNullKey or ErrKeyTooLong.
func (k Key) Behind(cursor [][]byte) (Key, error) {
	clustering, err := appendClustering(slices.Clip(k.clustering), cursor)
	if err != nil {
		return Key{}, err
	}
	k.cursor, k.clustering = cursor, append(clustering, byte(len(cursor)))
	return k, nil
}

// Cursor returns the values that were passed to Behind, or nil for a key that begins with its first
// row. The caller must not modify them.
func (k Key) Cursor() [][]byte { return k.cursor }

// clusteringHeader is the size of the length before each value in Key.clustering, in bytes.
const clusteringHeader = 2

// Components returns the serialized value of each partition key column, and of each
// clustering column that the key names, in key order. The caller must not modify it.
func (k Key) Components() [][]byte { return k.components }

// Routing returns the bytes whose hash is the token of the partition: the value
// itself for a single-column key, Cassandra's CompositeType form otherwise. Two
// keys are of the same partition exactly when these bytes are equal. The caller
// must not modify it.
func (k Key) Routing() []byte { return k.routing }

// ID identifies what a key of one table asks for. It is comparable.
type ID struct{ partition, rows string }

// ID returns the identity of k: two keys are equal exactly when their IDs are. It refers to the
// bytes of the key.
func (k Key) ID() ID { return ID{inPlace(k.routing), inPlace(k.clustering)} }

// Row is one row of a partition: the cells of the columns that were asked for,
// in the order they were asked, each in Cassandra's own serialized form. A nil
// cell is null; a cell of length zero is an empty value.
type Row [][]byte

// Level is a consistency level by its CQL name in upper case, such as LOCAL_ONE. The configuration
// and the reader define which levels exist, and refuse any other.
type Level string

// OwnData is not a level of CQL: a host answers with what it has on its own disk, or not at all.
// After its cells, each row then has two cells for each of its Versioned columns, in order: the
// write time in microseconds (a bigint), and the seconds until expiry (an int, null for never).
// Both are null for a null cell.
const OwnData Level = "OWN_DATA"

// LevelOf returns the level with the given name, in any case.
func LevelOf(name string) Level { return Level(strings.ToUpper(name)) }

// OneReplica reports whether the answer of one replica is enough. A read at such a level may miss a
// write that has just been made.
func (l Level) OneReplica() bool { return l == "ONE" || l == "LOCAL_ONE" || l == "NODE_LOCAL" }

// Required returns how many of a key's replicas in the local datacenter, of which there are the
// given number, must be alive for the level. It returns 1 for levels that also count replicas
// elsewhere, except for ALL.
func (l Level) Required(replicas int) int {
	switch l {
	case "LOCAL_QUORUM", "LOCAL_SERIAL", "EACH_QUORUM":
		return replicas/2 + 1
	case "ALL":
		return replicas
	case OwnData:
	}
	return 1
}

// Versioned returns the columns whose write time and expiry a read at OwnData returns: the regular
// ones.
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
	// Readable are the columns of Table that may be read; nil means all. To need few statements, a
	// Reader may read them all and leave out those that were not asked for.
	Readable []schema.Column
	// Consistency is the consistency level of every sub-query. NODE_LOCAL is a preference: a Reader
	// reads at LOCAL_ONE where it is not safe.
	Consistency Level
	// Limit is the maximum number of rows to return for one key; at least 1.
	Limit int
	// Strict makes a key with more than Limit rows TooLarge. Otherwise the rows after the first
	// Limit are left out, as the client asked.
	Strict bool
	// Paged sets Result.More when rows are left out, and also leaves out rows that would exceed
	// MaxBytes. It is never set with Strict.
	Paged bool
	// Slice restricts which rows are read of every key, and their order; nil reads all of
	// them in clustering order.
	Slice *Slice
	// Shape distinguishes queries of one table whose keys differ in cost: it is the minimum number
	// of clustering columns that the keys name, with the Slice except for its values. It is empty
	// for whole partitions.
	Shape string
	// MaxBytes is the maximum number of bytes of cells that one sub-query returns; a key whose rows
	// would exceed it is TooLarge. Columns that were not asked for do not count.
	MaxBytes int
	// Alone keeps sub-queries from sharing a statement with those of other lookups.
	Alone bool
	// Cap is the maximum number of keys of a statement that sub-queries share; 0 means no maximum.
	Cap int
}

// Status is the outcome of one requested key. Every requested key ends with exactly one.
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

// Answered reports whether a replica has said what the key holds, so that asking again would add
// nothing.
func (s Status) Answered() bool { return s == Found || s == NotFound }

// Result is the outcome of one key.
type Result struct {
	// Status is the outcome.
	Status Status
	// More is set when further rows follow the last of Rows; only with Query.Paged.
	More bool
	// Rows are the rows of the partition, in clustering order; empty unless
	// Status is Found.
	Rows []Row
	// Bytes is the size of the cells in Rows, in bytes.
	Bytes int
	// NextPageToken identifies the page after Rows. It is empty unless More is set and the token
	// has been made.
	NextPageToken string
	// Reason is why the key was not answered; None when Status is Found or NotFound. See
	// Unanswered.
	Reason reasons.Reason
	// Err describes the reason in a text that contains no key, address or secret and may be shown
	// to clients; nil when Status is Found or NotFound.
	Err error
}

// sliceBytes is the size of a slice header: each row and each cell has one.
const sliceBytes = 24

// Memory returns how many bytes the rows occupy: Bytes and the slice headers. Rows of nulls have no
// Bytes and yet occupy memory.
func (r *Result) Memory() int {
	if len(r.Rows) == 0 {
		return r.Bytes
	}
	return r.Bytes + sliceBytes*len(r.Rows)*(1+len(r.Rows[0]))
}

// statusOf is the status of a key by the reason why it is not answered; Pending for reasons that
// only whole requests have.
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

// StatusOf returns the status of a key that is not answered for the given reason, or Pending if no
// key can have that reason.
func StatusOf(why reasons.Reason) Status {
	if int(why) < len(statusOf) {
		return statusOf[why]
	}
	return Pending
}

// Unanswered returns the result of a key that is not answered, with the status that follows from
// the reason. All such results are made here, so that none lacks a reason or has one that
// contradicts its status. A reason that no key can have is a bug of this program, and makes the key
// Failed with reason Internal.
func Unanswered(why reasons.Reason, err error) Result {
	status := StatusOf(why)
	if status == Pending {
		why, status = reasons.Internal, Failed
	}
	return Result{Status: status, Reason: why, Err: err}
}
