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

// outcome is how a request ended, as clients and metrics see it.
type outcome struct {
	// grpc is the code of the call, http the status of the response.
	grpc codes.Code
	http int
	// code is the code in metrics and JSON errors.
	code lookup.Code
	// reason is the reason in google.rpc.ErrorInfo.
	reason string
	// why is the cause in one word, which is finer than reason; None where each key or the
	// error itself has it.
	why reasons.Reason
	// retry is how long to wait before a retry; 0 where a retry does not help or depends
	// on the client's own deadline.
	retry time.Duration
}

// The only table of how a request ends for gRPC, for HTTP and in metrics.
var (
	answered  = outcome{codes.OK, http.StatusOK, lookup.CodeOK, "", reasons.None, 0}
	partial   = outcome{codes.OK, http.StatusOK, lookup.CodePartial, "", reasons.None, 0}
	agreed    = outcome{codes.OK, http.StatusOK, lookup.CodePartialOK, "", reasons.None, 0}
	cancelled = outcome{codes.Canceled, 499, lookup.CodeCancelled, "CANCELLED", reasons.Cancelled, 0}
	expired   = outcome{codes.DeadlineExceeded, http.StatusGatewayTimeout, lookup.CodeDeadlineExceeded, "TIMED_OUT", reasons.Deadline, 0}
	internal  = outcome{codes.Internal, http.StatusInternalServerError, lookup.CodeInternal, "INTERNAL", reasons.Internal, 0}
	// shed means that hosts have too much in-flight. When admission refused the lookup,
	// the refusal replaces retry.
	shed = outcome{codes.ResourceExhausted, http.StatusTooManyRequests, lookup.CodeResourceExhausted, "SHED", reasons.None, 100 * time.Millisecond}

	// outOfMemory means that there is no memory for the request or its answer. slowRequest
	// means that the request took too long to arrive.
	outOfMemory = outcome{codes.ResourceExhausted, http.StatusTooManyRequests, lookup.CodeResourceExhausted, "MEMORY", reasons.Memory, time.Second}
	slowRequest = outcome{codes.DeadlineExceeded, http.StatusRequestTimeout, lookup.CodeDeadlineExceeded, "REQUEST_TIMEOUT", reasons.RequestTimeout, 0}

	// refusals are the outcomes of requests refused as a whole, by the kind of the error.
	refusals = map[error]outcome{
		lookup.ErrInvalid:           {codes.InvalidArgument, http.StatusBadRequest, lookup.CodeInvalidArgument, "INVALID_REQUEST", reasons.None, 0},
		identity.ErrUnauthenticated: {codes.Unauthenticated, http.StatusUnauthorized, lookup.CodeUnauthenticated, "UNAUTHENTICATED", reasons.None, 0},
		lookup.ErrUnknownTable:      {codes.NotFound, http.StatusNotFound, lookup.CodeNotFound, "UNKNOWN_TABLE", reasons.None, 0},
		lookup.ErrForbidden:         {codes.PermissionDenied, http.StatusForbidden, lookup.CodePermissionDenied, "FORBIDDEN", reasons.None, 0},
		lookup.ErrNotReady:          {codes.Unavailable, http.StatusServiceUnavailable, lookup.CodeUnavailable, "NOT_READY", reasons.None, time.Second},
	}

	// unanswered are the outcomes of lookups in which no key was answered. The first
	// status in the list that some key has decides: it demands the most restraint of the
	// client.
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

// deciding returns the status that decided the outcome of a lookup in which no key was
// answered; Pending for any other outcome.
func (o outcome) deciding() partition.Status {
	for _, u := range unanswered {
		if u.reason == o.reason {
			return u.status
		}
	}
	return partition.Pending
}

// outcomeOfError returns the outcome of a request that failed with err.
func outcomeOfError(ctx context.Context, err error) outcome {
	o := kindOfError(ctx, err)
	o.why = cmp.Or(reasons.Of(err), o.why, reasons.Internal)
	return o
}

// kindOfError is outcomeOfError without the cause that err itself names.
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

// messageOf returns what a client is told about an error besides its code; empty for
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

// outcomeOf returns the outcome of a lookup from the results of its keys.
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

// unprocessed reports whether asking for a key again may help. A key that is too large, or
// that every replica fails to read, would end the same way.
func unprocessed(s partition.Status) bool {
	return s == partition.TimedOut || s == partition.Unavailable || s == partition.Shed
}

// whyOf returns the word for why a key was not answered; None if it was. A result without
// a word was not made by partition.Unanswered: Internal reports that as a fault of the
// proxy.
func whyOf(r *partition.Result) reasons.Reason {
	if r.Status.Answered() {
		return reasons.None
	}
	return cmp.Or(r.Reason, reasons.Internal)
}

// reasonOf returns a sentence for the client on why a key was not answered.
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
