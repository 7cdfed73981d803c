// Package executor runs lookups: it sends the groups of a plan to their hosts at once, asks
// other replicas when a group is late or has failed, and ends with exactly one result for
// every key. It also tracks the health of each host.
package executor

import (
	"context"
	"errors"

	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// Reader reads partitions from one host.
type Reader interface {
	// Read asks q.Host for every key of q and returns one result for each, by
	// position.
	//
	// # Results
	//
	// A result is Found, NotFound, TooLarge (with ErrCrowded as its Err if that is because
	// of the other keys), or Failed. The Err of a Failed one says why the key has no
	// answer: the reason is that of the *ReadError that it wraps, or else
	// ReasonReadFailure, which means that the partition alone cannot be read. For any other
	// reason the key was lost, as if a sub-query of it alone had failed for that reason.
	// Results may be passed on to others, and must never change any more.
	//
	// An error means that no key was answered and that each was lost for the same
	// reason; it is a *ReadError where the reason is known. ReasonReadFailure means
	// here that the host failed to read the whole group.
	//
	// # Early results
	//
	// A Reader that sends several requests to the host may deliver results before all of
	// these have ended, by q.Early. Read returns those results, too.
	//
	// # Contexts
	//
	// Read returns soon after ctx ends, with an error or with what has been answered; what
	// it returns for the other keys then has no meaning. CQL has no cancel, so the host may
	// go on working. Read ensures that q.Settled is called exactly once: when the host has
	// answered every request of the sub-query, or can no longer answer (its connection is
	// gone). That may be before or long after Read returns. With ErrUnsent it is not
	// called, since the host was never asked.
	Read(ctx context.Context, q *SubQuery) ([]partition.Result, error)
}

// Early receives results of a sub-query before its Read returns.
type Early interface {
	// Receive takes the final results of the keys from position from on, which must not
	// change any more. It may be called concurrently, and more than once for a key, of
	// which the first call counts. It may block until the lookup takes the results or ends,
	// and does nothing once Read has returned.
	Receive(from int, results []partition.Result)
}

// ReaderFunc makes a function a Reader.
type ReaderFunc func(ctx context.Context, q *SubQuery) ([]partition.Result, error)

// Read calls f.
func (f ReaderFunc) Read(ctx context.Context, q *SubQuery) ([]partition.Result, error) {
	return f(ctx, q)
}

// Query is what a lookup reads from every partition.
type Query = partition.Query

// SubQuery is one group as it is sent to one host.
type SubQuery struct {
	*Query
	// Host is the host to ask.
	Host ring.Host
	// Ring is the snapshot by which Host is a replica of every key; nil when it
	// may not be one.
	Ring *ring.Ring
	// Keys are the partitions to read; at least one, no duplicates.
	Keys []partition.Key
	// Settled is called exactly once, unless Read returns ErrUnsent; see Reader. It is never
	// nil.
	Settled func()
	// Lost is called before Settled when the host will not answer some request of the
	// sub-query, since its connection is gone, or when the Reader has failed it without
	// asking the host. It may be nil.
	Lost func()
	// Early takes results before Read returns; nil if nobody waits for them.
	Early Early
	// Shared is the number of keys in the statement, if it also read keys of other
	// sub-queries; 0 if it did not. A Reader sets it before Read returns.
	Shared int
}

// ErrUnsent is the error of a sub-query that waited to be sent until its context ended. Its
// keys are not outstanding, and it says nothing about the health of the host.
var ErrUnsent = errors.New("the sub-query was not sent")

// ErrCrowded is the error of a key that is TooLarge together with the other keys of its
// sub-query, but may not be alone.
var ErrCrowded = errors.New("the rows did not fit beside those of other keys; ask for fewer keys or columns")
