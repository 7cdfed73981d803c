// Package reasons defines the words that tell clients why a key was not answered, or why a request
// was refused as a whole. It decides only these words; the package that detects a cause chooses
// the reason.
package reasons

import "errors"

// Reason is why a key was not answered, or a request was refused. The numbers are those of
// qosproxy.v1.Reason, and api/reasons.md says for each what a client should do. The zero Reason is
// None.
type Reason uint8

// The reasons. Those up to Internal apply to keys; of these, the ones that are not about a single
// key, such as Memory, apply to requests as well.
const (
	// None means that the key is answered.
	None Reason = iota
	// SoftDeadline means that the lookup ended at its soft deadline, or past it, with the keys
	// that it needed.
	SoftDeadline
	// Deadline means that no replica answered before the deadline.
	Deadline
	// ReplicaTimeout means that the replicas gave up waiting for each other.
	ReplicaTimeout
	// Cancelled means that the caller hung up before a replica answered.
	Cancelled
	// NoReplica means that the ring knows no replica of the key.
	NoReplica
	// Unreachable means that no replica of the key could be reached.
	Unreachable
	// TooFewReplicas means that too few replicas are alive for the consistency level.
	TooFewReplicas
	// Optional means that the key is optional, and was shed for the sake of others.
	Optional
	// ClientConcurrency means that the client has as many lookups in-flight as it may.
	ClientConcurrency
	// ClientRate means that the client has used up its keys per second.
	ClientRate
	// BrownOut means that lookups of the table are too slow, and those of this priority are shed.
	BrownOut
	// DeadlineTooShort means that lookups of this table and size need longer than was left.
	DeadlineTooShort
	// Overload means that the proxy has as much in-flight as the hosts keep up with.
	Overload
	// Memory means that requests and answers use up the memory budget of the proxy.
	Memory
	// HostsFull means that the replicas of the key have too many reads outstanding to be asked.
	HostsFull
	// HostsOverloaded means that the replicas of the key refused more work.
	HostsOverloaded
	// TooManyRows means that the key has more rows than one lookup returns of it.
	TooManyRows
	// TooManyBytes means that the rows of the key alone exceed the bytes of an answer.
	TooManyBytes
	// AnswerFull means that the rows did not fit into the answer beside those of other keys.
	AnswerFull
	// PartitionTooLarge means that the partition exceeds what a host reads or sends at once.
	PartitionTooLarge
	// ReadFailure means that every replica that was asked failed to read the key.
	ReadFailure
	// Tombstones means that a replica met too many tombstones in the partition.
	Tombstones
	// QueryRefused means that the hosts refused the query; the schema may have changed.
	QueryRefused
	// HostError means that every replica that was asked failed for another reason.
	HostError
	// Undecodable means that a cell is not a valid value of its type.
	Undecodable
	// Internal means a fault of the proxy.
	Internal
	// InvalidRequest means that the request breaks a rule.
	InvalidRequest
	// TooManyKeys means that the request has more keys than one lookup may ask.
	TooManyKeys
	// RequestTooLarge means that the body of the request exceeds the bytes that are read.
	RequestTooLarge
	// UnsupportedMedia means that the body of the request is compressed, or not JSON.
	UnsupportedMedia
	// UnknownMethod means that there is no such path or method.
	UnknownMethod
	// RequestTimeout means that the request took too long to arrive, or the client took too long
	// to read the answer.
	RequestTimeout
	// Unauthenticated means that it is not known who sent the request.
	Unauthenticated
	// ForbiddenTable means that the client may not read the table, or any of the keyspace.
	ForbiddenTable
	// ForbiddenColumn means that the client may not read a column that the request names or needs.
	ForbiddenColumn
	// ForbiddenLevel means that the consistency level may not be asked of the table.
	ForbiddenLevel
	// UnknownTable means that the cluster has no such table, or no such keyspace.
	UnknownTable
	// NotReady means that the proxy does not know the cluster yet.
	NotReady
	// NoPlacement means that the proxy does not know who holds the keys of the keyspace.
	NoPlacement
	// Resets means that most calls of the connection were reset as soon as they began.
	Resets
	// Busy means that another call is describing a ring.
	Busy

	end
)

var words = [...]string{
	"",
	"soft_deadline",
	"deadline",
	"replica_timeout",
	"cancelled",
	"no_replica",
	"unreachable",
	"too_few_replicas",
	"optional",
	"client_concurrency",
	"client_rate",
	"brown_out",
	"deadline_too_short",
	"overload",
	"memory",
	"hosts_full",
	"hosts_overloaded",
	"too_many_rows",
	"too_many_bytes",
	"answer_full",
	"partition_too_large",
	"read_failure",
	"tombstones",
	"query_refused",
	"host_error",
	"undecodable",
	"internal",
	"invalid_request",
	"too_many_keys",
	"request_too_large",
	"unsupported_media",
	"unknown_method",
	"request_timeout",
	"unauthenticated",
	"forbidden_table",
	"forbidden_column",
	"forbidden_level",
	"unknown_table",
	"not_ready",
	"no_placement",
	"resets",
	"busy",
}

// All are the reasons except None, in the order of their values.
var All = func() (all []Reason) {
	for r := None + 1; r < end; r++ {
		all = append(all, r)
	}
	return all
}()

// String returns the reason as JSON has it, such as soft_deadline; empty for None.
func (r Reason) String() string { return words[r] }

// Carrier is an error that has a reason.
type Carrier interface {
	error
	// ClientReason returns the reason; never None.
	ClientReason() Reason
}

// Of returns the reason of the first Carrier in the tree of err; None when there is none.
func Of(err error) Reason {
	if c, ok := errors.AsType[Carrier](err); ok {
		return c.ClientReason()
	}
	return None
}
