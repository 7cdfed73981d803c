package fake

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/qosproxy/qosproxy/internal/admission"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/reasons"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// defaultRetryAfter is the pause that a refusal asks for if the fault gives none.
const defaultRetryAfter = 100 * time.Millisecond

// fault is what happens to keys, or to a request as a whole.
type fault struct {
	// keys are the keys that the fault affects, each with a prefix of the primary key's values,
	// in key order; nil means all keys.
	keys [][][]byte
	// delay is how long a key takes; 0 means no delay.
	delay time.Duration
	// status is the status that a key gets; partition.Pending leaves its result unchanged.
	status partition.Status
	// refuse refuses the request, which may be retried after retryAfter.
	refuse     bool
	retryAfter time.Duration
	// probability is that of the fault for each key, or for each request if refuse is set. It is
	// above 0 and at most 1.
	probability float64
	// left is how many more lookups the fault affects; nil means all.
	left *atomic.Int64
}

// faults are the faults of one lookup. The first one that affects a key applies to it.
type faults []*fault

// faultsKey is the context key of the faults of a lookup.
type faultsKey struct{}

func faultsOf(ctx context.Context) faults {
	f, _ := ctx.Value(faultsKey{}).(faults)
	return f
}

// withFaults returns the context of a lookup with its faults: those of the request, then those
// of its table. The error refuses the lookup.
func (f *Fake) withFaults(ctx context.Context, req *lookup.Request) (context.Context, error) {
	asked, err := parseHeader(req.Table.Schema, metadata.ValueFromIncomingContext(ctx, Header))
	if err != nil {
		return ctx, lookup.Invalid(Header, "%s", err)
	}
	if t := f.data.Load().table(req.Table.Schema); t != nil {
		asked = append(asked, t.faults...)
	}
	var active faults
	open := slices.Clone(req.Keys) // those that no fault is certain to affect
	covered := func(fault *fault) func(partition.Key) bool {
		return func(k partition.Key) bool { return fault.covers(req.Table.Schema, k) }
	}
	for _, fault := range asked {
		of := open
		if fault.refuse {
			of = req.Keys
		}
		if !slices.ContainsFunc(of, covered(fault)) || fault.refuse && !fault.drawn() || !fault.take() {
			continue
		}
		if !fault.refuse {
			active = append(active, fault)
			if fault.probability >= 1 {
				open = slices.DeleteFunc(open, covered(fault))
			}
			continue
		}
		for _, other := range active { // they affect no key of a request that is refused
			other.giveBack()
		}
		if err := fault.wait(ctx); err != nil {
			return ctx, err
		}
		return ctx, &admission.Refusal{
			Reason: admission.ReasonOverload, RetryAfter: fault.retryAfter, Message: "the fake was asked to refuse this request; retry after a pause",
		}
	}
	return context.WithValue(ctx, faultsKey{}, active), nil
}

// on returns the fault that affects a key; nil for none.
func (f faults) on(t *schema.Table, k partition.Key) *fault {
	for _, fault := range f {
		if fault.covers(t, k) && fault.drawn() {
			return fault
		}
	}
	return nil
}

// covers reports whether a key is among those that the fault affects.
func (f *fault) covers(t *schema.Table, k partition.Key) bool {
	return len(f.keys) == 0 || slices.ContainsFunc(f.keys, func(named [][]byte) bool { return begins(t, k.Components(), named) })
}

// drawn reports whether the fault occurs this time, by its probability.
func (f *fault) drawn() bool {
	return f.probability >= 1 || rand.Float64() < f.probability //nolint:gosec // No secret.
}

// take uses up one of the lookups that the fault affects; false if none is left.
func (f *fault) take() bool {
	if f.left == nil {
		return true
	}
	for {
		left := f.left.Load()
		if left <= 0 {
			return false
		}
		if f.left.CompareAndSwap(left, left-1) {
			return true
		}
	}
}

// giveBack undoes a take that was true.
func (f *fault) giveBack() {
	if f.left != nil {
		f.left.Add(1)
	}
}

// wait waits for the delay of a fault; f may be nil. The error is that of the context.
func (f *fault) wait(ctx context.Context) error {
	if f == nil || f.delay <= 0 {
		return nil
	}
	timer := time.NewTimer(f.delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// failures are the errors of a host that lead to a status.
var failures = map[partition.Status]executor.Reason{
	partition.TimedOut:    executor.ReasonTimeout,
	partition.Unavailable: executor.ReasonUnavailable,
	partition.Shed:        executor.ReasonOverloaded,
}

// spoil changes the result of a key as the fault says.
func (f *fault) spoil(res *partition.Result) {
	switch f.status {
	case partition.Pending:
	case partition.NotFound:
		*res = partition.Result{Status: partition.NotFound}
	case partition.TooLarge:
		*res = partition.Unanswered(reasons.TooManyBytes, errTooManyBytes)
	case partition.TimedOut, partition.Unavailable, partition.Shed:
		*res = partition.Unanswered(reasons.ReadFailure, &executor.ReadError{Reason: failures[f.status], Err: errReadFailure})
	case partition.Found, partition.Failed:
		*res = partition.Unanswered(reasons.ReadFailure, errReadFailure)
	}
}
