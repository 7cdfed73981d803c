package cassandra

import (
	"context"
	"sync/atomic"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// nodeLocalReads counts what became of reads that wanted NODE_LOCAL.
type nodeLocalReads struct {
	// passed and withheld count sub-queries that went at NODE_LOCAL, and at
	// LOCAL_ONE because that was not safe or not allowed.
	passed, withheld atomic.Uint64
	// reasked counts statements that failed at NODE_LOCAL and were asked again.
	reasked atomic.Uint64
	// confirmed and contradicted count keys without rows at NODE_LOCAL, which
	// LOCAL_ONE did not find either, or did find.
	confirmed, contradicted atomic.Uint64
}

// begin is allows, counted.
func (n *nodeLocal) begin(q *executor.SubQuery) bool {
	if n.allows(q) {
		n.reads.passed.Add(1)
		return true
	}
	n.reads.withheld.Add(1)
	return false
}

// partNodeLocal asks for the keys of one part at NODE_LOCAL, and at LOCAL_ONE for
// those that it leaves open: all of them after an error, otherwise those without
// rows, because a host that does not own a key has none either.
//
// A statement that comes in pages goes at LOCAL_ONE: between two pages the host
// may cease to own the partition, and the rest of it would be missing.
func (r *reading) partNodeLocal(ctx context.Context, p span) error {
	if r.page(p) > 0 {
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

// confirm asks again, at LOCAL_ONE, for the keys of a part that are not found. It
// fails only if no key of the part has an answer.
func (r *reading) confirm(ctx context.Context, p span) error {
	if r.local.without.confirm {
		return nil
	}
	var keys []partition.Key
	var at []int
	for k := p.from; k < p.to; k++ {
		if r.results[k].Status == partition.NotFound {
			keys, at = append(keys, r.Keys[k]), append(at, k)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	q := *r.SubQuery
	q.Keys = keys
	again := &reading{
		SubQuery: &q, selection: r.selection, session: r.session, level: r.level, limits: r.limits, voyage: r.voyage,
		volume: r.volume, left: r.left, results: make([]partition.Result, len(keys)),
	}
	results, err := again.run(ctx)
	if err != nil && len(keys) == p.len() {
		return err
	}
	for i, k := range at {
		switch {
		case err != nil:
			r.results[k] = failed(err)
			continue
		case results[i].Status == partition.NotFound:
			r.local.reads.confirmed.Add(1)
		case results[i].Status == partition.Found:
			r.local.reads.contradicted.Add(1)
		}
		r.results[k] = results[i]
	}
	return nil
}
