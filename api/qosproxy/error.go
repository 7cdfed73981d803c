package qosproxy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
)

// Error is why a lookup failed as a whole. errors.Is finds in it
// context.DeadlineExceeded and context.Canceled, and status.FromError the status of
// gRPC.
type Error struct {
	// Code is that of gRPC. What each means is told in qosproxy.proto.
	Code codes.Code
	// Message says what is wrong and what to do.
	Message string
	// Reason is the proxy's word for it, such as SHED or NOT_READY; empty when no
	// proxy answered.
	Reason string
	// Because is the cause in the words that keys have, of which a Reason may have several;
	// ReasonNone when no proxy answered, or the gRPC library in it.
	Because Reason
	// Field is the part of the request at fault, such as keys[3]; empty when it is
	// none.
	Field string
	// RetryAfter is the time after which asking again may help; 0 when that is no
	// remedy, or no proxy says so.
	RetryAfter time.Duration
	// Answer tells the status of each key of a lookup of which none was answered;
	// nil for other failures, and for lookups of so many keys that their statuses did
	// not fit into the error.
	Answer *Answer

	status *status.Status
}

// Error returns code and message.
func (e *Error) Error() string { return fmt.Sprintf("qosproxy: %s: %s", e.Code, e.Message) }

// GRPCStatus returns the status as it came.
func (e *Error) GRPCStatus() *status.Status { return e.status }

// Is makes the codes of contexts equal to their errors.
func (e *Error) Is(target error) bool {
	return target == context.DeadlineExceeded && e.Code == codes.DeadlineExceeded || target == context.Canceled && e.Code == codes.Canceled
}

// newError returns the error of a lookup, nil for nil.
func newError(err error, keys []Key) error {
	if err == nil {
		return nil
	}
	s := status.Convert(err)
	out := &Error{Code: s.Code(), Message: s.Message(), status: s}
	out.Reason, out.RetryAfter = detailsOf(s)
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			out.Because = reasonOf(d.GetMetadata()["reason"])
		case *errdetails.BadRequest:
			if v := d.GetFieldViolations(); len(v) > 0 {
				out.Field = v[0].GetField()
			}
		case *qosproxyv1.BatchGetResponse:
			if len(d.GetResults()) == len(keys) {
				out.Answer = newAnswer(d, keys)
			}
		}
	}
	return out
}

// KeyError is why a key was not answered.
type KeyError struct {
	// Index is the position of the key in the lookup.
	Index int
	// Key is the key itself; it is not part of the message, which may be logged
	// where keys must not be.
	Key Key
	// Status is none of Found and NotFound.
	Status Status
	// Message says why.
	Message string
	// Reason says why in one word; ReasonNone where a proxy did not tell.
	Reason Reason
}

// Error returns position, status and message.
func (e *KeyError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("key %d: %s", e.Index, e.Status)
	}
	return fmt.Sprintf("key %d: %s: %s", e.Index, e.Status, e.Message)
}

// UnansweredError joins the keys that were not answered.
type UnansweredError struct {
	// Keys are their errors by position; at least one.
	Keys []*KeyError
	// Asked is how many keys the lookup asked.
	Asked int
}

// Error counts them, and gives the first as an example.
func (e *UnansweredError) Error() string {
	return fmt.Sprintf("qosproxy: %d of %d keys were not answered: %v", len(e.Keys), e.Asked, e.Keys[0])
}

// Unwrap returns the error of each key.
func (e *UnansweredError) Unwrap() []error {
	errs := make([]error, len(e.Keys))
	for i, k := range e.Keys {
		errs[i] = k
	}
	return errs
}

// errInvalid is a lookup that is not sent.
func errInvalid(format string, args ...any) error {
	s := status.Newf(codes.InvalidArgument, format, args...)
	return &Error{Code: s.Code(), Message: s.Message(), status: s}
}

// errShort is an answer that breaks the contract.
var errShort = errors.New("the proxy answered another number of keys than were asked")
