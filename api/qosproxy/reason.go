package qosproxy

import (
	"strings"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
)

// Reason is why a key was not answered, or why a lookup failed as a whole, in one word. A proxy
// of a later release may have words that are not among these; take such a one by the Status of
// the key, or the Code of the Error. api/reasons.md says of each what to do.
type Reason int

// The reasons.
const (
	// ReasonNone is of keys that are answered, and of errors that no proxy has made.
	ReasonNone = Reason(qosproxyv1.Reason_REASON_UNSPECIFIED)
	// ReasonSoftDeadline: the lookup ended at its soft deadline, or past it, with the keys that it
	// needed.
	ReasonSoftDeadline = Reason(qosproxyv1.Reason_REASON_SOFT_DEADLINE)
	// ReasonDeadline: no replica answered before the deadline.
	ReasonDeadline = Reason(qosproxyv1.Reason_REASON_DEADLINE)
	// ReasonReplicaTimeout: the replicas gave up waiting for each other.
	ReasonReplicaTimeout = Reason(qosproxyv1.Reason_REASON_REPLICA_TIMEOUT)
	// ReasonCancelled: the caller hung up before a replica answered.
	ReasonCancelled = Reason(qosproxyv1.Reason_REASON_CANCELLED)
	// ReasonNoReplica: the ring knows no replica of the key.
	ReasonNoReplica = Reason(qosproxyv1.Reason_REASON_NO_REPLICA)
	// ReasonUnreachable: no replica of the key could be reached.
	ReasonUnreachable = Reason(qosproxyv1.Reason_REASON_UNREACHABLE)
	// ReasonTooFewReplicas: too few replicas are alive for the consistency level.
	ReasonTooFewReplicas = Reason(qosproxyv1.Reason_REASON_TOO_FEW_REPLICAS)
	// ReasonOptional: the key is optional, and was shed for the sake of others.
	ReasonOptional = Reason(qosproxyv1.Reason_REASON_OPTIONAL)
	// ReasonClientConcurrency: the client has as many lookups in-flight as it may.
	ReasonClientConcurrency = Reason(qosproxyv1.Reason_REASON_CLIENT_CONCURRENCY)
	// ReasonClientRate: the client has used up its keys per second.
	ReasonClientRate = Reason(qosproxyv1.Reason_REASON_CLIENT_RATE)
	// ReasonBrownOut: lookups of the table are too slow, and those of this priority give way.
	ReasonBrownOut = Reason(qosproxyv1.Reason_REASON_BROWN_OUT)
	// ReasonDeadlineTooShort: lookups of this table and size need longer than was left.
	ReasonDeadlineTooShort = Reason(qosproxyv1.Reason_REASON_DEADLINE_TOO_SHORT)
	// ReasonOverload: the proxy has as much in-flight as the hosts keep up with.
	ReasonOverload = Reason(qosproxyv1.Reason_REASON_OVERLOAD)
	// ReasonMemory: requests and answers take all the memory of the proxy that they may.
	ReasonMemory = Reason(qosproxyv1.Reason_REASON_MEMORY)
	// ReasonHostsFull: the replicas of the key have too many reads outstanding to be asked.
	ReasonHostsFull = Reason(qosproxyv1.Reason_REASON_HOSTS_FULL)
	// ReasonHostsOverloaded: the replicas of the key refused more work.
	ReasonHostsOverloaded = Reason(qosproxyv1.Reason_REASON_HOSTS_OVERLOADED)
	// ReasonTooManyRows: the key has more rows than one lookup returns of it.
	ReasonTooManyRows = Reason(qosproxyv1.Reason_REASON_TOO_MANY_ROWS)
	// ReasonTooManyBytes: the rows of the key alone exceed the bytes of an answer.
	ReasonTooManyBytes = Reason(qosproxyv1.Reason_REASON_TOO_MANY_BYTES)
	// ReasonAnswerFull: the rows did not fit into the answer beside those of other keys.
	ReasonAnswerFull = Reason(qosproxyv1.Reason_REASON_ANSWER_FULL)
	// ReasonPartitionTooLarge: the partition exceeds what a host reads or sends at once.
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
	// ReasonInternal: a fault of the proxy; the message has an incident id that is also in its
	// log.
	ReasonInternal = Reason(qosproxyv1.Reason_REASON_INTERNAL)
	// ReasonInvalidRequest: the request breaks a rule.
	ReasonInvalidRequest = Reason(qosproxyv1.Reason_REASON_INVALID_REQUEST)
	// ReasonTooManyKeys: the request has more keys than one lookup may ask.
	ReasonTooManyKeys = Reason(qosproxyv1.Reason_REASON_TOO_MANY_KEYS)
	// ReasonRequestTooLarge: the body of the request exceeds the bytes that are read.
	ReasonRequestTooLarge = Reason(qosproxyv1.Reason_REASON_REQUEST_TOO_LARGE)
	// ReasonUnsupportedMedia: the body of the request is compressed, or not JSON.
	ReasonUnsupportedMedia = Reason(qosproxyv1.Reason_REASON_UNSUPPORTED_MEDIA)
	// ReasonUnknownMethod: there is no such path or method.
	ReasonUnknownMethod = Reason(qosproxyv1.Reason_REASON_UNKNOWN_METHOD)
	// ReasonRequestTimeout: the request took too long to arrive, or its answer to be read.
	ReasonRequestTimeout = Reason(qosproxyv1.Reason_REASON_REQUEST_TIMEOUT)
	// ReasonUnauthenticated: it is not known who sent the request.
	ReasonUnauthenticated = Reason(qosproxyv1.Reason_REASON_UNAUTHENTICATED)
	// ReasonForbiddenTable: the client may not read the table, or any of the keyspace.
	ReasonForbiddenTable = Reason(qosproxyv1.Reason_REASON_FORBIDDEN_TABLE)
	// ReasonForbiddenColumn: the client may not read a column that the request names or needs.
	ReasonForbiddenColumn = Reason(qosproxyv1.Reason_REASON_FORBIDDEN_COLUMN)
	// ReasonForbiddenLevel: the consistency level may not be asked of the table.
	ReasonForbiddenLevel = Reason(qosproxyv1.Reason_REASON_FORBIDDEN_LEVEL)
	// ReasonUnknownTable: the cluster has no such table, or no such keyspace.
	ReasonUnknownTable = Reason(qosproxyv1.Reason_REASON_UNKNOWN_TABLE)
	// ReasonNotReady: the proxy does not know the cluster yet.
	ReasonNotReady = Reason(qosproxyv1.Reason_REASON_NOT_READY)
	// ReasonNoPlacement: the proxy does not know who holds the keys of the keyspace.
	ReasonNoPlacement = Reason(qosproxyv1.Reason_REASON_NO_PLACEMENT)
	// ReasonResets: most calls of the connection were reset as soon as they were begun.
	ReasonResets = Reason(qosproxyv1.Reason_REASON_RESETS)
	// ReasonBusy: another ring is being described.
	ReasonBusy = Reason(qosproxyv1.Reason_REASON_BUSY)
)

const reasonPrefix = "REASON_"

// String returns the reason in the words of the HTTP API, such as soft_deadline; empty for
// ReasonNone.
func (r Reason) String() string {
	if r == ReasonNone {
		return ""
	}
	return strings.ToLower(strings.TrimPrefix(qosproxyv1.Reason(r).String(), reasonPrefix))
}

// reasonOf returns the reason that has a word; ReasonNone for a word that is not known.
func reasonOf(word string) Reason {
	return Reason(qosproxyv1.Reason_value[reasonPrefix+strings.ToUpper(word)])
}
