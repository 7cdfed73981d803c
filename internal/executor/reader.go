// Package executor asks: it sends the groups of a plan to their hosts at once,
// asks other replicas when a group is late or has failed, and ends with exactly
// one result for every key. It also keeps the health of each host.
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
	// A result is Found, NotFound, TooLarge (with ErrCrowded as its Err where that
	// is because of the other keys), or Failed. A Failed one says by its Err why
	// the key has no answer: an Err that wraps a *ReadError has the reason of that,
	// any other is ReasonReadFailure. ReasonReadFailure means that the partition
	// alone cannot be read. For any other reason the key was lost, as if a
	// sub-query of it alone had failed for that reason. Whoever gets results may
	// hand them on to others: they never change any more.
	//
	// An error means that no key was answered and that each was lost for the same
	// reason; it is a *ReadError where the reason is known. ReasonReadFailure means
	// here that the host failed to read the whole group.
	//
	// # Early results
	//
	// A Reader of several requests to the host may hand on what it knows before all
	// of them have ended, by q.Early. What Read returns includes those results, too.
	//
	// # Contexts
	//
	// Read returns soon after ctx ends, with an error or with what has been
	// answered; what it says of the other keys then has no meaning. CQL has no
	// cancel, so the host may go on working: Read calls q.Settled exactly once, when
	// the host has answered every request of the sub-query or can no longer answer
	// (its connection is gone), which may be before or long after Read returns. Only with
	// ErrUnsent it does not: the host was never asked.
	Read(ctx context.Context, q *SubQuery) ([]partition.Result, error)
}

// Early takes results of a sub-query before its Read returns.
type Early interface {
	// Receive takes the final results of the keys from position from on, which do
	// not change any more. It may be called by several goroutines at once and more
	// than once for a key, of which the first call counts. It may block until the
	// lookup takes the results or ends, and does nothing once Read has returned.
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
	// Host is whom to ask.
	Host ring.Host
	// Ring is the snapshot by which Host is a replica of every key; nil when it
	// may not be one.
	Ring *ring.Ring
	// Keys are the partitions to read; at least one, no duplicates.
	Keys []partition.Key
	// Settled is called exactly once, unless Read returns ErrUnsent; see Reader. It is never
	// nil.
	Settled func()
	// Lost is called before Settled when the host will not answer some request of the sub-query,
	// since its connection is gone, or when the Reader has failed it without asking the host;
	// nil where nobody wants to know.
	Lost func()
	// Early takes results before Read returns; nil where nobody waits for them.
	Early Early
	// Shared is how many keys the statement had that answered these together with keys of
	// others; 0 for none. A Reader sets it before Read returns.
	Shared int
}

// ErrUnsent is the error of a sub-query that waited to be sent until its context ended. Its
// keys are not outstanding, and nothing of it says how the host is doing.
var ErrUnsent = errors.New("the sub-query was not sent")

// ErrCrowded is the error of a key that is TooLarge beside the other keys of its
// sub-query, and may not be alone.
var ErrCrowded = errors.New("the rows did not fit beside those of other keys; ask for fewer keys or columns")
