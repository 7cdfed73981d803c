package cassandra

import (
	"context"
	"math"
	"sync/atomic"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// nodeLocalReads counts what became of reads that wanted NODE_LOCAL.
type nodeLocalReads struct {
	// passed counts sub-queries sent at NODE_LOCAL, withheld those sent at LOCAL_ONE because that
	// was not safe or not allowed.
	passed, withheld atomic.Uint64
	// reasked counts statements that failed at NODE_LOCAL and were asked again.
	reasked atomic.Uint64
	// confirmed and contradicted count keys without rows at NODE_LOCAL: LOCAL_ONE did not find them
	// either, or did find them.
	confirmed, contradicted atomic.Uint64
}

// begin reports whether a sub-query is sent at NODE_LOCAL, and counts it.
func (n *nodeLocal) begin(q *executor.SubQuery) bool {
	if n.policy.allows(q) {
		n.reads.passed.Add(1)
		return true
	}
	n.reads.withheld.Add(1)
	return false
}

// partNodeLocal reads the keys of one part at NODE_LOCAL, and then at LOCAL_ONE those that are
// still open: all of them after an error, otherwise those without rows, because a host that does
// not own a key has none either.
//
// A statement that comes in pages is sent at LOCAL_ONE: between two pages the host may cease to own
// the partition, and the rest of it would be missing. So are the statements for rows after a
// cursor.
func (r *reading) partNodeLocal(ctx context.Context, p span) error {
	if r.page(p) > 0 || r.Keys[p.from].Cursor() != nil {
		return r.part(ctx, p)
	}
	err := r.statement(ctx, p, levelNodeLocal, 0)
	switch {
	case err == nil:
		return r.confirm(ctx, p)
	case !reasked(err):
		return err
	}
	if refusesNodeLocal(err) {
		r.local.refuse(r.Host)
	}
	r.local.reads.reasked.Add(1)
	return r.part(ctx, p)
}

// confirm reads again, at LOCAL_ONE, the keys of a part that were not found, and those that the
// LIMIT of its statement has cut off. It returns an error only if these are all keys of the part.
func (r *reading) confirm(ctx context.Context, p span) error {
	if !r.local.policy.confirms(partition.NotFound) {
		return r.complete(ctx, p)
	}
	keys := r.with(partition.NotFound, p, nil)
	missing, most := len(keys), math.MaxInt
	if keys = r.with(partition.Pending, p, keys); len(keys) > missing {
		most = p.len() - len(keys)
	}
	if len(keys) == 0 {
		return nil
	}
	if err := r.again(ctx, p, keys, most); err != nil {
		return err
	}
	for _, k := range keys[:missing] {
		switch r.results[k].Status {
		case partition.NotFound:
			r.local.reads.confirmed.Add(1)
		case partition.Found:
			r.local.reads.contradicted.Add(1)
		default: // a lost key is neither
		}
	}
	return nil
}
