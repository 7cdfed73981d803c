package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// outcome is what clients and metrics see of how a request ended.
type outcome struct {
	// grpc is the code of the call, http the status of the response.
	grpc codes.Code
	http int
	// label is the code in metrics and in JSON errors: the name of the gRPC
	// code, PARTIAL, or PARTIAL_OK when the client agreed to what is missing.
	label string
	// reason is the google.rpc.ErrorInfo reason.
	reason string
	// retry is how long to wait before asking again; 0 where that is no remedy
	// or depends on the client's own deadline.
	retry time.Duration
}

// The one table: how a request ends for gRPC, for HTTP and in metrics.
var (
	answered  = outcome{codes.OK, http.StatusOK, "OK", "", 0}
	partial   = outcome{codes.OK, http.StatusOK, "PARTIAL", "", 0}
	agreed    = outcome{codes.OK, http.StatusOK, "PARTIAL_OK", "", 0}
	cancelled = outcome{codes.Canceled, 499, "CANCELLED", "CANCELLED", 0}
	expired   = outcome{codes.DeadlineExceeded, http.StatusGatewayTimeout, "DEADLINE_EXCEEDED", "TIMED_OUT", 0}
	internal  = outcome{codes.Internal, http.StatusInternalServerError, "INTERNAL", "INTERNAL", 0}
	// shed is of hosts that have too much under way; when it was admission that
	// refused the lookup, that says when to come back.
	shed = outcome{codes.ResourceExhausted, http.StatusTooManyRequests, "RESOURCE_EXHAUSTED", "SHED", 100 * time.Millisecond}

	// refusals are the requests refused as a whole, by the kind of their error.
	refusals = map[error]outcome{
		lookup.ErrInvalid:           {codes.InvalidArgument, http.StatusBadRequest, "INVALID_ARGUMENT", "INVALID_REQUEST", 0},
		identity.ErrUnauthenticated: {codes.Unauthenticated, http.StatusUnauthorized, "UNAUTHENTICATED", "UNAUTHENTICATED", 0},
		lookup.ErrUnknownTable:      {codes.NotFound, http.StatusNotFound, "NOT_FOUND", "UNKNOWN_TABLE", 0},
		lookup.ErrForbidden:         {codes.PermissionDenied, http.StatusForbidden, "PERMISSION_DENIED", "FORBIDDEN", 0},
		lookup.ErrNotReady:          {codes.Unavailable, http.StatusServiceUnavailable, "UNAVAILABLE", "NOT_READY", time.Second},
	}

	// unanswered are the lookups of which no key was answered. The first status
	// of the list that some key has decides: the one that asks most restraint
	// of the client.
	unanswered = []struct {
		status partition.Status
		outcome
	}{
		{partition.Shed, shed},
		{partition.Unavailable, outcome{codes.Unavailable, http.StatusServiceUnavailable, "UNAVAILABLE", "UNAVAILABLE", time.Second}},
		{partition.TimedOut, expired},
		{partition.Failed, outcome{codes.Unavailable, http.StatusServiceUnavailable, "UNAVAILABLE", "FAILED", 0}},
		{partition.TooLarge, outcome{codes.ResourceExhausted, http.StatusTooManyRequests, "RESOURCE_EXHAUSTED", "TOO_LARGE", 0}},
	}
)

// refusal returns the outcome of a request that was refused with err.
func refusal(ctx context.Context, err error) outcome {
	for kind, o := range refusals {
		if errors.Is(err, kind) {
			return o
		}
	}
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return cancelled
	case ctx.Err() != nil:
		return expired
	default:
		return internal
	}
}

// verdict returns the outcome of a lookup from what became of its keys.
func verdict(ctx context.Context, results []partition.Result) outcome {
	var seen [8]bool
	good, asAgreed := 0, true
	for i := range results {
		if results[i].Status.Answered() {
			good++
		} else {
			seen[results[i].Status&7] = true
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
		if seen[u.status] {
			return u.outcome
		}
	}
	return internal
}

// unprocessed reports whether asking for a key again may help: a key that is too
// large or that every replica fails to read would end the same way.
func unprocessed(s partition.Status) bool {
	return s == partition.TimedOut || s == partition.Unavailable || s == partition.Shed
}

// reasonOf returns why a key was not answered, for the client.
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
