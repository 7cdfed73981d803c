package qosproxy

import (
	"strings"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
)

// Reason is why a key was not answered, or why a lookup failed as a whole, in one word. A later
// release of the proxy may return reasons that are not listed here: handle such a reason by the
// Status of the key, or the Code of the Error. api/reasons.md says what to do about each reason.
type Reason int

// The reasons.
const (
	// ReasonNone belongs to keys that are answered, and to errors that did not come from a proxy.
	ReasonNone = Reason(qosproxyv1.Reason_REASON_UNSPECIFIED)
	// ReasonSoftDeadline: the lookup ended at or after its soft deadline, with as many keys as it
	// needed.
	ReasonSoftDeadline = Reason(qosproxyv1.Reason_REASON_SOFT_DEADLINE)
	// ReasonDeadline: no replica answered before the deadline.
	ReasonDeadline = Reason(qosproxyv1.Reason_REASON_DEADLINE)
	// ReasonReplicaTimeout: the replicas timed out waiting for each other.
	ReasonReplicaTimeout = Reason(qosproxyv1.Reason_REASON_REPLICA_TIMEOUT)
	// ReasonCancelled: the caller hung up before a replica answered.
	ReasonCancelled = Reason(qosproxyv1.Reason_REASON_CANCELLED)
	// ReasonNoReplica: the ring knows no replica of the key.
	ReasonNoReplica = Reason(qosproxyv1.Reason_REASON_NO_REPLICA)
	// ReasonUnreachable: no replica of the key could be reached.
	ReasonUnreachable = Reason(qosproxyv1.Reason_REASON_UNREACHABLE)
	// ReasonTooFewReplicas: too few replicas are alive for the consistency level.
	ReasonTooFewReplicas = Reason(qosproxyv1.Reason_REASON_TOO_FEW_REPLICAS)
	// ReasonOptional: the key is optional, and was shed in favour of others.
	ReasonOptional = Reason(qosproxyv1.Reason_REASON_OPTIONAL)
	// ReasonClientConcurrency: the client has as many lookups in-flight as its share allows.
	ReasonClientConcurrency = Reason(qosproxyv1.Reason_REASON_CLIENT_CONCURRENCY)
	// ReasonClientRate: the client has used its share of keys per second.
	ReasonClientRate = Reason(qosproxyv1.Reason_REASON_CLIENT_RATE)
	// ReasonBrownOut: lookups of the table are too slow, and lookups of this priority are shed.
	ReasonBrownOut = Reason(qosproxyv1.Reason_REASON_BROWN_OUT)
	// ReasonDeadlineTooShort: lookups of this table and size need more time than was left.
	ReasonDeadlineTooShort = Reason(qosproxyv1.Reason_REASON_DEADLINE_TOO_SHORT)
	// ReasonOverload: the proxy has as many keys in-flight as the hosts can keep up with.
	ReasonOverload = Reason(qosproxyv1.Reason_REASON_OVERLOAD)
	// ReasonMemory: requests and answers have used up the memory budget of the proxy.
	ReasonMemory = Reason(qosproxyv1.Reason_REASON_MEMORY)
	// ReasonHostsFull: the replicas of the key have too many outstanding reads to be asked.
	ReasonHostsFull = Reason(qosproxyv1.Reason_REASON_HOSTS_FULL)
	// ReasonHostsOverloaded: the replicas of the key refused more work.
	ReasonHostsOverloaded = Reason(qosproxyv1.Reason_REASON_HOSTS_OVERLOADED)
	// ReasonTooManyRows: the key has more rows than one lookup may return for it.
	ReasonTooManyRows = Reason(qosproxyv1.Reason_REASON_TOO_MANY_ROWS)
	// ReasonTooManyBytes: the rows of the key alone exceed the size limit of an answer.
	ReasonTooManyBytes = Reason(qosproxyv1.Reason_REASON_TOO_MANY_BYTES)
	// ReasonAnswerFull: the rows did not fit into the answer with those of the other keys.
	ReasonAnswerFull = Reason(qosproxyv1.Reason_REASON_ANSWER_FULL)
	// ReasonPartitionTooLarge: the partition exceeds what a host reads or sends in one read.
	ReasonPartitionTooLarge = Reason(qosproxyv1.Reason_REASON_PARTITION_TOO_LARGE)
	// ReasonReadFailure: every replica that was asked failed to read the key.
	ReasonReadFailure = Reason(qosproxyv1.Reason_REASON_READ_FAILURE)
	// ReasonTombstones: a replica met too many tombstones in the partition.
	ReasonTombstones = Reason(qosproxyv1.Reason_REASON_TOMBSTONES)
	// ReasonQueryRefused: the hosts refused the query; the schema may have changed.
	ReasonQueryRefused = Reason(qosproxyv1.Reason_REASON_QUERY_REFUSED)
	// ReasonHostError: every replica that was asked failed for another reason.
	ReasonHostError = Reason(qosproxyv1.Reason_REASON_HOST_ERROR)
	// ReasonUndecodable: a cell is not a valid value of its type.
	ReasonUndecodable = Reason(qosproxyv1.Reason_REASON_UNDECODABLE)
	// ReasonInternal: the proxy has a bug; the message has an incident id that is also in its log.
	ReasonInternal = Reason(qosproxyv1.Reason_REASON_INTERNAL)
	// ReasonInvalidRequest: the request breaks a rule.
	ReasonInvalidRequest = Reason(qosproxyv1.Reason_REASON_INVALID_REQUEST)
	// ReasonTooManyKeys: the request has more keys than one lookup may have.
	ReasonTooManyKeys = Reason(qosproxyv1.Reason_REASON_TOO_MANY_KEYS)
	// ReasonRequestTooLarge: the body of the request is larger than the proxy reads.
	ReasonRequestTooLarge = Reason(qosproxyv1.Reason_REASON_REQUEST_TOO_LARGE)
	// ReasonUnsupportedMedia: the body of the request is compressed, or not JSON.
	ReasonUnsupportedMedia = Reason(qosproxyv1.Reason_REASON_UNSUPPORTED_MEDIA)
	// ReasonUnknownMethod: there is no such path or method.
	ReasonUnknownMethod = Reason(qosproxyv1.Reason_REASON_UNKNOWN_METHOD)
	// ReasonRequestTimeout: the request took too long to arrive, or its answer to be read.
	ReasonRequestTimeout = Reason(qosproxyv1.Reason_REASON_REQUEST_TIMEOUT)
	// ReasonUnauthenticated: the proxy cannot tell which client sent the request.
	ReasonUnauthenticated = Reason(qosproxyv1.Reason_REASON_UNAUTHENTICATED)
	// ReasonForbiddenTable: the client may not read the table, or any table of the keyspace.
	ReasonForbiddenTable = Reason(qosproxyv1.Reason_REASON_FORBIDDEN_TABLE)
	// ReasonForbiddenColumn: the client may not read a column that the request names or needs.
	ReasonForbiddenColumn = Reason(qosproxyv1.Reason_REASON_FORBIDDEN_COLUMN)
	// ReasonForbiddenLevel: the table does not allow this consistency level.
	ReasonForbiddenLevel = Reason(qosproxyv1.Reason_REASON_FORBIDDEN_LEVEL)
	// ReasonUnknownTable: the cluster has no such table, or no such keyspace.
	ReasonUnknownTable = Reason(qosproxyv1.Reason_REASON_UNKNOWN_TABLE)
	// ReasonNotReady: the proxy does not know the cluster yet.
	ReasonNotReady = Reason(qosproxyv1.Reason_REASON_NOT_READY)
	// ReasonNoPlacement: the proxy does not know the replicas of the keyspace.
	ReasonNoPlacement = Reason(qosproxyv1.Reason_REASON_NO_PLACEMENT)
	// ReasonResets: most calls of the connection were reset right after they began.
	ReasonResets = Reason(qosproxyv1.Reason_REASON_RESETS)
	// ReasonBusy: the proxy is already describing a ring to someone else.
	ReasonBusy = Reason(qosproxyv1.Reason_REASON_BUSY)
)

const reasonPrefix = "REASON_"

// String returns the reason as the HTTP API writes it, such as soft_deadline; empty for
// ReasonNone.
func (r Reason) String() string {
	if r == ReasonNone {
		return ""
	}
	return strings.ToLower(strings.TrimPrefix(qosproxyv1.Reason(r).String(), reasonPrefix))
}

// reasonOf returns the reason of a word; ReasonNone for an unknown word.
func reasonOf(word string) Reason {
	return Reason(qosproxyv1.Reason_value[reasonPrefix+strings.ToUpper(word)])
}
