package cassandra

import (
	"context"
	"math"
	"strings"
	"sync"
	"sync/atomic"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/partition"
)

const (
	// maxUnpagedRows is the most rows, limit × keys, that one statement may
	// return without paging. Unpaged, a node reads all partitions of an IN at
	// once; paged, one after the other.
	maxUnpagedRows = 5000
	// pageRows is the most rows of a page.
	pageRows = 1000
	// readConcurrency is the most statements of one sub-query in flight.
	readConcurrency = 32
)

// Read implements executor.Reader.
//
// A group is one statement where it can be: an IN over a partition key of one
// column, unpaged. It becomes several when the rows could exceed
// maxUnpagedRows, and one per key when the partition key has several columns or
// its type has equal values of different bytes. When a host fails or refuses an
// IN, its keys are asked one by one, so that the key at fault fails alone.
//
// A query at NODE_LOCAL is read at LOCAL_ONE where NODE_LOCAL could be wrong; see
// nodeLocal.
func (c *Cluster) Read(ctx context.Context, q *executor.SubQuery) ([]partition.Result, error) {
	v := newVoyage(q.Settled)
	r, err := c.newReading(q, v)
	if err != nil {
		v.release()
		return nil, readError(err)
	}
	type answer struct {
		results []partition.Result
		err     error
	}
	// In a goroutine of its own, because a write to a host that has stopped
	// reading blocks whatever the context says.
	done := make(chan answer, 1)
	go func() {
		results, err := r.run(ctx)
		v.release()
		done <- answer{results, err}
	}()
	select {
	case a := <-done:
		if a.err != nil && reasonOf(a.err) == executor.ReasonInvalid {
			c.kick()
		}
		return a.results, readError(a.err)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// reading is one sub-query on its way.
type reading struct {
	*executor.SubQuery
	selection
	session *gocql.Session
	level   gocql.Consistency
	limits  *inLimits
	voyage  *voyage
	volume  *volume
	// local is set when statements go at NODE_LOCAL and level, which is then
	// LOCAL_ONE, is for what NODE_LOCAL leaves open.
	local *nodeLocal
	// left is how many bytes of cells may still be kept; bytes is where it is
	// counted unless the reading is part of another.
	left    *atomic.Int64
	bytes   atomic.Int64
	results []partition.Result
}

func (c *Cluster) newReading(q *executor.SubQuery, v *voyage) (*reading, error) {
	session := c.session.Load()
	if session == nil {
		return nil, errNotConnected
	}
	level, local, err := c.level(q)
	if err != nil {
		return nil, &executor.ReadError{Reason: executor.ReasonInvalid, Err: err}
	}
	r := &reading{
		SubQuery: q, selection: newSelection(q.Query), session: session.driver, level: level, local: local,
		limits: &c.inLimits, voyage: v, volume: c.volumes.of(q.Table), results: make([]partition.Result, len(q.Keys)),
	}
	r.left = &r.bytes
	r.left.Store(math.MaxInt64)
	if q.MaxBytes > 0 {
		r.left.Store(int64(q.MaxBytes))
	}
	return r, nil
}

// level returns the level of the statements of a sub-query, and a nodeLocal when
// they may go at NODE_LOCAL instead.
func (c *Cluster) level(q *executor.SubQuery) (gocql.Consistency, *nodeLocal, error) {
	if !strings.EqualFold(q.Consistency, NodeLocal) {
		level, err := consistency(q.Consistency)
		return level, nil, err
	}
	if c.nodeLocal == nil || !c.nodeLocal.begin(q) {
		return gocql.LocalOne, nil, nil
	}
	return gocql.LocalOne, c.nodeLocal, nil
}

// span is a run of the keys of a sub-query, from (inclusive) to (exclusive).
type span struct{ from, to int }

func (s span) len() int { return s.to - s.from }

// split cuts a span into as few even parts as have at most size keys.
func (s span) split(size int) []span {
	size = min(max(size, 1), max(s.len(), 1))
	n := (s.len() + size - 1) / size
	parts := make([]span, 0, n)
	for i := range n {
		parts = append(parts, span{s.from + s.len()*i/n, s.from + s.len()*(i+1)/n})
	}
	return parts
}

// perStatement returns how many keys one statement may ask for.
func (r *reading) perStatement() int {
	if r.key < 0 || !groupable(r.Table.PartitionKey[0].Type) {
		return 1
	}
	n := r.limits.get(r.Host.ID)
	if r.limited() {
		n = min(n, maxUnpagedRows/r.rowsPerKey())
	}
	return max(n, 1)
}

// rowsPerKey is the limit the statements carry: one more than asked where a
// partition with more is too large, in order to see that there are more.
func (r *reading) rowsPerKey() int {
	n := min(max(r.Limit, 1), math.MaxInt32-1) // a CQL int
	if r.Strict {
		n++
	}
	return n
}

// run asks for all keys and returns the results, or the first error when no
// key was answered.
func (r *reading) run(ctx context.Context) ([]partition.Result, error) {
	parts := span{0, len(r.Keys)}.split(r.perStatement())
	part := (*reading).part
	if r.local != nil {
		part = (*reading).partNodeLocal
	}
	errs := r.each(ctx, parts, part)
	var first error
	answered := 0
	for i, p := range parts {
		if errs[i] == nil {
			answered++
			continue
		}
		if first == nil {
			first = errs[i]
		}
		for k := p.from; k < p.to; k++ {
			r.results[k] = failed(errs[i])
		}
	}
	if answered == 0 {
		return nil, first
	}
	return r.results, nil
}

// each asks for every part, several at once, and returns an error for each.
func (r *reading) each(ctx context.Context, parts []span, part func(*reading, context.Context, span) error) []error {
	errs := make([]error, len(parts))
	if len(parts) == 1 {
		errs[0] = part(r, ctx, parts[0])
		return errs
	}
	var (
		next atomic.Int64
		wg   sync.WaitGroup
	)
	for range min(len(parts), readConcurrency) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(parts); i = int(next.Add(1)) - 1 {
				errs[i] = part(r, ctx, parts[i])
			}
		})
	}
	wg.Wait()
	return errs
}

// part asks for the keys of one part. A partition that fails alone is a result,
// not an error.
func (r *reading) part(ctx context.Context, p span) error {
	err := r.statement(ctx, p, r.level, r.page(p))
	if p.len() == 1 {
		if err != nil && failsAlone(err) {
			r.results[p.from] = failed(err)
			return nil
		}
		return err
	}
	switch {
	case err == nil:
		return nil
	case guardrail(err):
		r.limits.lower(r.Host.ID, p.len()/2)
		return r.parts(ctx, p, p.len()/2)
	case failsAlone(err):
		// Straight to single keys rather than by halves: the partition at fault,
		// which is dear to read, is then read once more and not log n times.
		return r.parts(ctx, p, 1)
	}
	return err
}

// parts asks for the keys of a part in parts of at most size. It fails only if
// all of them do.
func (r *reading) parts(ctx context.Context, p span, size int) error {
	parts := p.split(size)
	errs := r.each(ctx, parts, (*reading).part)
	lost := 0
	for i, err := range errs {
		if err == nil {
			continue
		}
		lost++
		for k := parts[i].from; k < parts[i].to; k++ {
			r.results[k] = failed(err)
		}
	}
	if lost == len(parts) {
		return errs[0]
	}
	return nil
}

// statement asks for the keys of one part by one statement, whose rows come that many at a
// time, or all at once for 0.
func (r *reading) statement(ctx context.Context, p span, level gocql.Consistency, page int) error {
	if p.len() == 1 {
		components := r.Keys[p.from].Components()
		args := make([]any, 0, len(components)+1)
		for _, c := range components {
			args = append(args, rawValue(c))
		}
		return r.ask(ctx, r.one(), args, p, level, page)
	}
	keys := make([][]byte, 0, p.len())
	for _, k := range r.Keys[p.from:p.to] {
		keys = append(keys, k.Routing())
	}
	return r.ask(ctx, r.many(), []any{rawList(keys)}, p, level, page)
}

// page returns how many rows of the statement of a part come at a time, 0 for all.
func (r *reading) page(p span) int {
	most := p.len()
	if r.limited() {
		most *= r.rowsPerKey()
	}
	return r.volume.page(p.len(), most)
}

// ask runs one statement on the host and keeps the rows of the keys of p.
func (r *reading) ask(ctx context.Context, text string, args []any, p span, level gocql.Consistency, page int) error {
	if r.limited() {
		args = append(args, r.rowsPerKey())
	}
	s := &stream{Context: ctx, voyage: r.voyage}
	// Prefetch(0): the next page is never asked for in the background, where
	// the request could begin after the voyage has ended.
	q := r.session.Query(text, args...).Consistency(level).SetHostID(r.Host.ID).PageSize(page).Prefetch(0)
	rows := q.IterContext(s) //nolint:contextcheck // s is ctx and more
	err := newCollector(r, p).collect(rows)
	s.leave(err)
	return err
}
