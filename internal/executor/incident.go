package executor

import (
	"context"
	"errors"

	"github.com/qosproxy/qosproxy/internal/incident"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/reasons"
)

// read calls the reader. A panic becomes an *incident.Error and settles the sub-query,
// since nobody can tell any more what is outstanding at the host.
func (e *Executor) read(ctx context.Context, q *SubQuery) (results []partition.Result, err error) {
	defer func() {
		if r := recover(); r != nil {
			results, err = nil, e.incidents.Record(ctx, "read from a host", r)
			q.Settled()
		}
	}()
	return e.reader.Read(ctx, q)
}

// brokenBy returns the panic that an error of a reader reports; nil for other errors. A
// panic says nothing about the host, and ends the lookup rather than the attempt: the next
// replica would very likely answer the same, and each would cost a host its work.
func brokenBy(err error) *incident.Error {
	broken, _ := errors.AsType[*incident.Error](err)
	return broken
}

// abort ends the lookup because of a panic. Its keys fail, and Stats.Err says why.
func (r *run) abort(broken *incident.Error) {
	r.stats.Err = broken
	r.cancel(broken)
	r.unanswered(func(int32) bool { return true }, partition.Unanswered(reasons.Internal, broken))
}
