package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/reasons"
)

// Reason says why a sub-query, or a key of one, failed. It can be a metric label.
type Reason string

// The reasons of a failed sub-query or key.
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

// Why a host does not return its own data; see partition.OwnData. None counts against the
// host.
const (
	// ReasonRing means that ownership is changing.
	ReasonRing Reason = "ring"
	// ReasonRefused means that the host does not allow it, or does not say why it failed.
	ReasonRefused Reason = "refused"
	// ReasonSize means that the rows may need several pages.
	ReasonSize Reason = "size"
)

// reasonReread means that a key is read through a coordinator, since its replicas do not
// decide what it holds.
const reasonReread Reason = "reread"

// readReasons are those that a ReadError may have.
var readReasons = []Reason{ReasonUnreachable, ReasonDisconnected, ReasonUnavailable, ReasonTimeout,
	ReasonOverloaded, ReasonReadFailure, ReasonInvalid, ReasonOther, ReasonRing, ReasonRefused, ReasonSize}

// ReadError is the failure of a sub-query as a whole, or why one key of it has no
// answer.
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

// reasonFull means that the proxy did not ask the host, since too many keys are outstanding
// there. It cost nothing.
const reasonFull Reason = "full"

// ErrAnswered is the cause with which the context of an attempt is cancelled
// once other hosts have answered all its keys.
var ErrAnswered = errors.New("every key of the sub-query has been answered elsewhere")

// ErrEnded is the cause with which the context of what is still in flight is
// cancelled when a lookup returns.
var ErrEnded = errors.New("the lookup has ended")

// The errors of keys. Their texts are shown to clients, and reveal nothing about hosts or
// keys.
var (
	errNoReplica     = errors.New("the ring knows no replica of this key; retry in a moment")
	errUnreachable   = errors.New("no replica of this key could be reached; retry in a moment")
	errUnavailable   = errors.New("too few replicas are alive for the consistency level; retry in a moment")
	errReplica       = errors.New("the replicas gave up waiting for each other; retry in a moment")
	errOverloaded    = errors.New("the replicas refused more work; retry after a pause")
	errFull          = errors.New("the replicas of this key have too many reads outstanding; retry after a pause")
	errElsewhereFull = errors.New("the replicas of this key here cannot be reached, and those elsewhere have as many reads as may be sent there; retry after a pause")
	errReadFailure   = errors.New("every replica failed to read this key")
	errInvalid       = errors.New("the replicas refused the query; the schema may have changed")
	errOther         = errors.New("every replica failed")
	errMute          = errors.New("the reader returned no answer for this key")
)

// verdict returns the result of a key whose replicas are exhausted, by the last reason. If
// a host refused work the key is SHED, as if the proxy had refused it: the client should
// pause either way.
func verdict(last Reason) partition.Result {
	switch last {
	case ReasonUnreachable, ReasonDisconnected:
		return partition.Unanswered(reasons.Unreachable, errUnreachable)
	case ReasonUnavailable:
		return partition.Unanswered(reasons.TooFewReplicas, errUnavailable)
	case ReasonTimeout:
		return partition.Unanswered(reasons.ReplicaTimeout, errReplica)
	case ReasonOverloaded:
		return partition.Unanswered(reasons.HostsOverloaded, errOverloaded)
	case reasonFull:
		return partition.Unanswered(reasons.HostsFull, errFull)
	case ReasonReadFailure:
		return partition.Unanswered(reasons.ReadFailure, errReadFailure)
	case ReasonInvalid:
		return partition.Unanswered(reasons.QueryRefused, errInvalid)
	case ReasonOther, ReasonRing, ReasonRefused, ReasonSize, reasonReread:
	}
	return partition.Unanswered(reasons.HostError, errOther)
}

// phaseOf returns the phase that results, final or early, and err put an attempt in, and
// the reason if it has failed. It has failed if a key was lost; one that alone cannot be
// read does not count. The reason is a harmless one only if no key was lost for one that
// counts against the host.
func phaseOf(ctx context.Context, results []partition.Result, err error) (phase, Reason) {
	var reason Reason
	if err != nil {
		reason = reasonOf(err)
	}
	for _, res := range results {
		if final(res) || reason != "" && !reason.harmless() {
			continue
		}
		if by := lostBy(res); by != ReasonReadFailure {
			reason = by
		}
	}
	switch {
	case reason == "":
		return answered, ""
	case ctx.Err() != nil, brokenBy(err) != nil:
		return abandoned, ""
	}
	return failed, reason
}

// harmless reports whether a reason says nothing against the host: it refuses the query, or the
// query is none for it.
func (r Reason) harmless() bool {
	return r == ReasonInvalid || r == ReasonRing || r == ReasonRefused || r == ReasonSize
}

// final reports whether a result is what the partition holds, or that it is too large.
func final(res partition.Result) bool {
	return res.Status.Answered() || res.Status == partition.TooLarge
}

// anyAnswered reports whether some result is final.
func anyAnswered(results []partition.Result) bool { return slices.ContainsFunc(results, final) }

// lostBy returns why a key has no answer; see Reader.
func lostBy(res partition.Result) Reason {
	if re, ok := errors.AsType[*ReadError](res.Err); ok {
		return reasonOf(re)
	}
	return ReasonReadFailure
}

// reasonOf returns the reason of an error of a reader. It is ReasonOther for one that is
// not a ReadError, or whose reason is not in readReasons, so that metric labels stay
// bounded.
func reasonOf(err error) Reason {
	if re, ok := errors.AsType[*ReadError](err); ok && slices.Contains(readReasons, re.Reason) {
		return re.Reason
	}
	return ReasonOther
}

// Free reports whether failing for that reason cost the host nothing, so that the next
// replica may be asked without charging any budget.
func (r Reason) Free() bool {
	return r == ReasonUnreachable || r == ReasonDisconnected || r == reasonFull || r == reasonReread
}
