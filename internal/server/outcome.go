package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/qosproxy/qosproxy/internal/admission"
	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/incident"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/memory"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/reasons"
)

// outcome is what clients and metrics see of how a request ended.
type outcome struct {
	// grpc is the code of the call, http the status of the response.
	grpc codes.Code
	http int
	// code is that of metrics and JSON errors.
	code lookup.Code
	// reason is the google.rpc.ErrorInfo reason.
	reason string
	// why is the cause in one word, of which a reason may have several; None where every
	// key or the error itself says it.
	why reasons.Reason
	// retry is how long to wait before asking again; 0 where that is no remedy
	// or depends on the client's own deadline.
	retry time.Duration
}

// The one table: how a request ends for gRPC, for HTTP and in metrics.
var (
	answered  = outcome{codes.OK, http.StatusOK, lookup.CodeOK, "", reasons.None, 0}
	partial   = outcome{codes.OK, http.StatusOK, lookup.CodePartial, "", reasons.None, 0}
	agreed    = outcome{codes.OK, http.StatusOK, lookup.CodePartialOK, "", reasons.None, 0}
	cancelled = outcome{codes.Canceled, 499, lookup.CodeCancelled, "CANCELLED", reasons.Cancelled, 0}
	expired   = outcome{codes.DeadlineExceeded, http.StatusGatewayTimeout, lookup.CodeDeadlineExceeded, "TIMED_OUT", reasons.Deadline, 0}
	internal  = outcome{codes.Internal, http.StatusInternalServerError, lookup.CodeInternal, "INTERNAL", reasons.Internal, 0}
	// shed is of hosts that have too much in-flight; when it was admission that
	// refused the lookup, that says when to come back.
	shed = outcome{codes.ResourceExhausted, http.StatusTooManyRequests, lookup.CodeResourceExhausted, "SHED", reasons.None, 100 * time.Millisecond}

	// outOfMemory is of requests and answers for which there is no memory, and slowRequest
	// of requests that took too long to arrive.
	outOfMemory = outcome{codes.ResourceExhausted, http.StatusTooManyRequests, lookup.CodeResourceExhausted, "MEMORY", reasons.Memory, time.Second}
	slowRequest = outcome{codes.DeadlineExceeded, http.StatusRequestTimeout, lookup.CodeDeadlineExceeded, "REQUEST_TIMEOUT", reasons.RequestTimeout, 0}

	// refusals are the requests refused as a whole, by the kind of their error.
	refusals = map[error]outcome{
		lookup.ErrInvalid:           {codes.InvalidArgument, http.StatusBadRequest, lookup.CodeInvalidArgument, "INVALID_REQUEST", reasons.None, 0},
		identity.ErrUnauthenticated: {codes.Unauthenticated, http.StatusUnauthorized, lookup.CodeUnauthenticated, "UNAUTHENTICATED", reasons.None, 0},
		lookup.ErrUnknownTable:      {codes.NotFound, http.StatusNotFound, lookup.CodeNotFound, "UNKNOWN_TABLE", reasons.None, 0},
		lookup.ErrForbidden:         {codes.PermissionDenied, http.StatusForbidden, lookup.CodePermissionDenied, "FORBIDDEN", reasons.None, 0},
		lookup.ErrNotReady:          {codes.Unavailable, http.StatusServiceUnavailable, lookup.CodeUnavailable, "NOT_READY", reasons.None, time.Second},
	}

	// unanswered are the lookups of which no key was answered. The first status
	// of the list that some key has decides: the one that asks most restraint
	// of the client.
	unanswered = []struct {
		status partition.Status
		outcome
	}{
		{partition.Shed, shed},
		{partition.Unavailable, outcome{codes.Unavailable, http.StatusServiceUnavailable, lookup.CodeUnavailable, "UNAVAILABLE", reasons.None, time.Second}},
		{partition.TimedOut, expired},
		{partition.Failed, outcome{codes.Unavailable, http.StatusServiceUnavailable, lookup.CodeUnavailable, "FAILED", reasons.None, 0}},
		{partition.TooLarge, outcome{codes.FailedPrecondition, http.StatusRequestEntityTooLarge, lookup.CodeFailedPrecondition, "TOO_LARGE", reasons.None, 0}},
	}
)

// deciding returns the status of a key that made the outcome of a lookup of which no key
// was answered; Pending when it was none.
func (o outcome) deciding() partition.Status {
	for _, u := range unanswered {
		if u.reason == o.reason {
			return u.status
		}
	}
	return partition.Pending
}

// outcomeOfError returns the outcome of a request that was refused with err.
func outcomeOfError(ctx context.Context, err error) outcome {
	o := kindOfError(ctx, err)
	o.why = cmp.Or(reasons.Of(err), o.why, reasons.Internal)
	return o
}

// kindOfError is outcomeOfError without what the error itself says of its cause.
func kindOfError(ctx context.Context, err error) outcome {
	for kind, o := range refusals {
		if errors.Is(err, kind) {
			return o
		}
	}
	if _, broken := errors.AsType[*incident.Error](err); broken {
		return internal
	}
	if full, ok := errors.AsType[*memory.Error](err); ok {
		switch full.Reason {
		case memory.Slow:
			return slowRequest
		case memory.Gone:
			return cancelled
		default:
			return outOfMemory
		}
	}
	if refused, ok := errors.AsType[*admission.Refusal](err); ok {
		o := shed
		o.retry = refused.RetryAfter
		return o
	}
	switch {
	case errors.As(context.Cause(ctx), new(*memory.Error)):
		return slowRequest
	case errors.Is(ctx.Err(), context.Canceled):
		return cancelled
	case ctx.Err() != nil:
		return expired
	default:
		return internal
	}
}

// messageOf returns what a client is told of an error besides its code; empty for
// nothing.
func messageOf(err error) string {
	if refused, ok := errors.AsType[*lookup.Error](err); ok {
		return refused.Error()
	}
	if unknown, ok := errors.AsType[*identity.Error](err); ok {
		return unknown.Message
	}
	if full, ok := errors.AsType[*memory.Error](err); ok {
		return full.Error()
	}
	if refused, ok := errors.AsType[*admission.Refusal](err); ok {
		return refused.Error()
	}
	return ""
}

// outcomeOf returns the outcome of a lookup from what became of its keys.
func outcomeOf(ctx context.Context, results []partition.Result) outcome {
	var first [8]*partition.Result
	good, asAgreed := 0, true
	for i := range results {
		if results[i].Status.Answered() {
			good++
		} else {
			if s := results[i].Status & 7; first[s] == nil {
				first[s] = &results[i]
			}
			asAgreed = asAgreed && lookup.Agreed(&results[i])
		}
	}
	switch {
	case good == len(results):
		return answered
	case errors.Is(ctx.Err(), context.Canceled):
		return cancelled
	case good > 0 && asAgreed:
		return agreed
	case good > 0:
		return partial
	}
	for _, u := range unanswered {
		if r := first[u.status]; r != nil {
			o := u.outcome
			o.why = whyOf(r)
			return o
		}
	}
	return internal
}

// unprocessed reports whether asking for a key again may help: a key that is too
// large or that every replica fails to read would end the same way.
func unprocessed(s partition.Status) bool {
	return s == partition.TimedOut || s == partition.Unavailable || s == partition.Shed
}

// whyOf returns the word for why a key was not answered, None when it was. A result
// without one was not made by partition.Unanswered: that is a fault of the proxy, as this
// tells.
func whyOf(r *partition.Result) reasons.Reason {
	if r.Status.Answered() {
		return reasons.None
	}
	return cmp.Or(r.Reason, reasons.Internal)
}

// reasonOf returns why a key was not answered in a sentence for the client.
func reasonOf(r *partition.Result) string {
	switch {
	case r.Status.Answered():
		return ""
	case r.Err != nil:
		return r.Err.Error()
	default:
		return "no replica answered"
	}
}
