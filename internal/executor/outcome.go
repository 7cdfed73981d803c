package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/qosproxy/qosproxy/internal/partition"
)

// reasonFull means that the proxy did not ask the host, which owes too many
// answers already. It cost nothing.
const reasonFull Reason = "full"

// ErrAnswered is the cause with which the context of an attempt is cancelled
// once other hosts have answered all its keys.
var ErrAnswered = errors.New("every key of the sub-query has been answered elsewhere")

// ErrEnded is the cause with which the context of what is still on its way is
// cancelled when a lookup returns.
var ErrEnded = errors.New("the lookup has ended")

// The errors of keys. Their texts are shown to clients, and tell nothing of
// hosts or keys.
var (
	errNoReplica   = errors.New("the ring knows no replica of this key; retry in a moment")
	errUnreachable = errors.New("no replica of this key could be reached; retry in a moment")
	errUnavailable = errors.New("too few replicas are alive for the consistency level; retry in a moment")
	errReplica     = errors.New("the replicas gave up waiting for each other; retry in a moment")
	errOverloaded  = errors.New("the replicas refused more work; retry after a pause")
	errFull        = errors.New("the replicas of this key owe too many answers; retry after a pause")
	errReadFailure = errors.New("every replica failed to read this key")
	errInvalid     = errors.New("the replicas refused the query; the schema may have changed")
	errOther       = errors.New("every replica failed")
	errMute        = errors.New("the reader returned no answer for this key")
)

// verdict is the result of a key whose replicas are exhausted, by the last
// reason. A host that refuses work makes SHED, as the proxy's own refusal does:
// the client should pause either way.
func verdict(last Reason) partition.Result {
	switch last {
	case ReasonUnreachable, ReasonDisconnected:
		return partition.Result{Status: partition.Unavailable, Err: errUnreachable}
	case ReasonUnavailable:
		return partition.Result{Status: partition.Unavailable, Err: errUnavailable}
	case ReasonTimeout:
		return partition.Result{Status: partition.TimedOut, Err: errReplica}
	case ReasonOverloaded:
		return partition.Result{Status: partition.Shed, Err: errOverloaded}
	case reasonFull:
		return partition.Result{Status: partition.Shed, Err: errFull}
	case ReasonReadFailure:
		return partition.Result{Status: partition.Failed, Err: errReadFailure}
	case ReasonInvalid:
		return partition.Result{Status: partition.Failed, Err: errInvalid}
	case ReasonOther:
	}
	return partition.Result{Status: partition.Failed, Err: errOther}
}

// needed is how many of the replicas of a key, all in the local datacenter, must be
// alive for a consistency level, as far as those alone tell; 1 for levels that
// count replicas elsewhere.
func needed(consistency string, replicas int) int {
	switch consistency {
	case "LOCAL_QUORUM", "LOCAL_SERIAL":
		return replicas/2 + 1
	case "ALL":
		return replicas
	}
	return 1
}

// Late is the result of a key that was still waited for when the context of the
// lookup ended, after that time.
func Late(ctx context.Context, waited time.Duration) partition.Result {
	err := fmt.Errorf("no replica answered within %s", round(waited))
	if errors.Is(ctx.Err(), context.Canceled) {
		err = fmt.Errorf("the lookup was cancelled after %s, before a replica answered", round(waited))
	}
	return partition.Result{Status: partition.TimedOut, Err: err}
}

// round leaves three digits or so, as people read them.
func round(d time.Duration) time.Duration {
	switch {
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond)
	case d >= 100*time.Microsecond:
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Microsecond)
}

// landingOf says how a reader came back, and why it failed if it did.
func landingOf(ctx context.Context, err error) (landing, Reason) {
	switch {
	case err == nil:
		return answered, ""
	case ctx.Err() != nil:
		return abandoned, ""
	}
	return failed, reasonOf(err)
}

// reasonOf is the class of an error of a reader. One that is not a ReadError, or
// has a reason this package does not know, is of class other, so that a metric
// label stays bounded.
func reasonOf(err error) Reason {
	var re *ReadError
	if !errors.As(err, &re) {
		return ReasonOther
	}
	switch re.Reason {
	case ReasonUnreachable, ReasonDisconnected, ReasonUnavailable, ReasonTimeout,
		ReasonOverloaded, ReasonReadFailure, ReasonInvalid, ReasonOther:
		return re.Reason
	case reasonFull:
	}
	return ReasonOther
}

// free reports whether failing for that reason cost the host nothing; see
// ReadError.Free.
func (r Reason) free() bool {
	return r == reasonFull || (&ReadError{Reason: r}).Free()
}
