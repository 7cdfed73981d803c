package cassandra

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/incident"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/reasons"
)

var (
	// errStale means that the table differs from the snapshot.
	errStale = errors.New("the schema has changed")
	// errForeignRow means a row of a partition that was not asked for.
	errForeignRow = errors.New("the host returned a row of a partition that was not asked for")
	// errNotConnected means that there is no session yet.
	errNotConnected = errors.New("not connected to the cluster")
)

// readError returns err as the executor expects it: an *executor.ReadError. The end of a context
// and an *incident.Error stay as they are.
func readError(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if _, ok := errors.AsType[*executor.ReadError](err); ok {
		return err
	}
	if _, ok := errors.AsType[*incident.Error](err); ok {
		return err
	}
	return &executor.ReadError{Reason: reasonOf(err), Err: err}
}

// reasonOf classifies an error of the driver or of the server.
func reasonOf(err error) executor.Reason {
	if answer, ok := errors.AsType[gocql.RequestError](err); ok {
		return reasonOfCode(answer.Code())
	}
	switch {
	case errors.Is(err, errStale):
		return executor.ReasonInvalid
	case errors.Is(err, gocql.ErrTimeoutNoResponse):
		return executor.ReasonTimeout
	case unsent(err):
		return executor.ReasonUnreachable
	case connectionLost(err):
		return executor.ReasonDisconnected
	}
	return executor.ReasonOther
}

// reasonOfCode classifies an error by its code in the native protocol.
func reasonOfCode(code int) executor.Reason {
	switch code {
	case gocql.ErrCodeUnavailable:
		return executor.ReasonUnavailable
	case gocql.ErrCodeOverloaded, gocql.ErrCodeBootstrapping:
		return executor.ReasonOverloaded
	case gocql.ErrCodeReadTimeout:
		return executor.ReasonTimeout
	case gocql.ErrCodeReadFailure, gocql.ErrCodeFunctionFailure:
		return executor.ReasonReadFailure
	case gocql.ErrCodeSyntax, gocql.ErrCodeUnauthorized, gocql.ErrCodeInvalid, gocql.ErrCodeConfig,
		gocql.ErrCodeCredentials, gocql.ErrCodeUnprepared:
		return executor.ReasonInvalid
	}
	return executor.ReasonOther
}

// refused reports whether a sub-query, or one of its keys, was refused as invalid: then the schema
// may have changed.
func refused(results []partition.Result, err error) bool {
	return err != nil && reasonOf(err) == executor.ReasonInvalid || slices.ContainsFunc(results, func(res partition.Result) bool {
		lost, ok := errors.AsType[*executor.ReadError](res.Err)
		return ok && lost.Reason == executor.ReasonInvalid
	})
}

// unsent reports whether the request cannot have left this process.
func unsent(err error) bool {
	var dial *net.OpError
	return errors.Is(err, gocql.ErrNoConnections) || errors.Is(err, gocql.ErrNoStreams) ||
		errors.Is(err, gocql.ErrSessionClosed) || errors.Is(err, errNotConnected) ||
		errors.As(err, &dial) && dial.Op == "dial"
}

// connectionLost reports whether the connection is gone and no answer can come
// any more.
func connectionLost(err error) bool {
	var broken net.Error
	return errors.Is(err, gocql.ErrConnectionClosed) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, net.ErrClosed) ||
		errors.As(err, &broken) && !errors.Is(err, context.DeadlineExceeded)
}

// failsAlone reports whether a statement may have failed because of one of its partitions, so that
// reading each alone may answer the others.
func failsAlone(err error) bool {
	return errors.Is(err, gocql.ErrFrameTooBig) || reasonOf(err) == executor.ReasonReadFailure
}

// guardrail reports whether a node refused a statement for the number of keys of its IN; clustering
// says that this IN is over a clustering column. Nodes of 4.1 and later have such limits if an
// operator sets them. in_select_cartesian_product applies even where only one column has an IN. For
// clustering columns it also counts the values in a slice, and fewer keys do not help then.
func guardrail(err error, clustering bool) bool {
	var answer gocql.RequestError
	if !errors.As(err, &answer) || answer.Code() != gocql.ErrCodeInvalid {
		return false
	}
	product := "on partition key produces"
	if clustering {
		product = "on clustering key produces"
	}
	msg := strings.ToLower(answer.Message())
	return strings.Contains(msg, "guardrail") && strings.Contains(msg, "partition_keys_in_select") ||
		strings.Contains(msg, "partition keys in in relation") ||
		strings.Contains(msg, "in_select_cartesian_product") && strings.Contains(msg, product)
}

// keyError is why one key of a sub-query was not answered, in a text that may be shown to clients.
// Its cause is an *executor.ReadError, whose reason the executor acts on.
type keyError struct {
	text  string
	cause error
}

// Error returns the text without the cause, which may name the host.
func (e *keyError) Error() string { return e.text }

// Unwrap returns the cause.
func (e *keyError) Unwrap() error { return e.cause }

// Codes of replicas in the error map of a read failure; see RequestFailureReason
// in Cassandra's source.
const (
	replicaTooManyTombstones = 1
	replicaReadTooLarge      = 4
)

// failed returns the result of a key whose statement failed with err.
func failed(err error) partition.Result {
	err = readError(err)
	if _, ok := errors.AsType[*executor.ReadError](err); !ok {
		// A context has ended: that of this read, whose results nobody needs then, or another.
		err = &executor.ReadError{Reason: executor.ReasonOther, Err: err}
	}
	why, text := reasons.ReadFailure, "a replica failed to read the partition"
	var failure *gocql.RequestErrReadFailure
	switch {
	case errors.Is(err, gocql.ErrFrameTooBig):
		why, text = reasons.PartitionTooLarge, "the partition exceeds the size of a response"
	case errors.As(err, &failure):
		for _, code := range failure.ErrorMap {
			switch code {
			case replicaTooManyTombstones:
				why, text = reasons.Tombstones, "a replica met too many tombstones in the partition"
			case replicaReadTooLarge:
				why, text = reasons.PartitionTooLarge, "the partition exceeds the size that replicas read"
			}
		}
	case reasonOf(err) != executor.ReasonReadFailure:
		why, text = reasons.HostError, "the read of the partition did not succeed"
	}
	return partition.Unanswered(why, &keyError{text: text, cause: err})
}
