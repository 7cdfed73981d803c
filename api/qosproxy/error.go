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

// Error is why a lookup failed as a whole. errors.Is matches it with
// context.DeadlineExceeded and context.Canceled; status.FromError returns its gRPC status.
type Error struct {
	// Code is the gRPC code. qosproxy.proto documents the meaning of each.
	Code codes.Code
	// Message says what is wrong and what to do.
	Message string
	// Reason is the proxy's word for the failure, such as SHED or NOT_READY; empty if no
	// proxy answered.
	Reason string
	// Because is the cause in the words that keys use; one Reason may have several causes.
	// It is ReasonNone if the error came from no proxy, or from the gRPC library of one.
	Because Reason
	// Field is the part of the request at fault, such as keys[3]; empty if no part is.
	Field string
	// RetryAfter is the time after which another request may help; 0 if none will help, or
	// if no proxy gave a time.
	RetryAfter time.Duration
	// Answer has the status of each key if none was answered. It is nil for other failures,
	// and for lookups of so many keys that their statuses did not fit into the error.
	Answer *Answer

	status *status.Status
}

// Error returns code and message.
func (e *Error) Error() string { return fmt.Sprintf("qosproxy: %s: %s", e.Code, e.Message) }

// GRPCStatus returns the gRPC status of the call.
func (e *Error) GRPCStatus() *status.Status { return e.status }

// Is reports whether the code stands for the context error target.
func (e *Error) Is(target error) bool {
	return target == context.DeadlineExceeded && e.Code == codes.DeadlineExceeded || target == context.Canceled && e.Code == codes.Canceled
}

// newError returns the *Error of a gRPC error, or nil for nil.
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

// KeyError is the reason that a key was not answered.
type KeyError struct {
	// Index is the position of the key in the lookup.
	Index int
	// Key is the key itself. It is left out of the message, which may be logged where keys
	// must not be.
	Key Key
	// Status is neither Found nor NotFound.
	Status Status
	// Message says why.
	Message string
	// Reason says why in one word; ReasonNone if the proxy gave no reason.
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
	// Keys are the errors of these keys by position; at least one.
	Keys []*KeyError
	// Asked is how many keys the lookup had.
	Asked int
}

// Error returns how many keys were not answered, and the first of them as an example.
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

// errInvalid returns the error of a lookup that is invalid and therefore not sent.
func errInvalid(format string, args ...any) error {
	s := status.Newf(codes.InvalidArgument, format, args...)
	return &Error{Code: s.Code(), Message: s.Message(), status: s}
}

// errShort is returned for an answer that breaks the contract.
var errShort = errors.New("the proxy answered another number of keys than were asked")
