package cassandra

import (
	"context"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// readConcurrency is the most statements of one sub-query that are in-flight.
const readConcurrency = 32

// Read implements executor.Reader.
//
// A group is one unpaged statement where possible: an IN over one column of the key, for keys that
// agree in all others. It becomes several when the keys do not agree like this, or when more rows
// are expected than a statement may return.
//
// When a host fails to read an IN, its keys are read one by one, so that the key at fault fails
// alone. An IN that it refuses as too large is read by halves, and one that it refuses for lack of
// live replicas by sets of replicas. What a limit has cut off, because there were more rows than
// expected, is read again. The results of a statement are passed to q.Early while others are still
// in-flight.
//
// A query at NODE_LOCAL is read at LOCAL_ONE where NODE_LOCAL could be wrong; see nodeLocal.
func (c *Cluster) Read(ctx context.Context, q *executor.SubQuery) ([]partition.Result, error) {
	o := newOutstanding(q.Settled, c.cfg.Incidents)
	o.lost = q.Lost
	r, err := c.newReading(q, o)
	if err != nil {
		o.release()
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
		growStack(false)
		var a answer
		a.err = o.run(ctx, func() (err error) {
			a.results, err = r.run(ctx)
			return err
		})
		o.release()
		done <- a
	}()
	select {
	case a := <-done:
		if refused(a.results, a.err) {
			c.kick()
		}
		return a.results, readError(a.err)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// growStack makes the stack of a goroutine grow at once, while it is nearly empty, to what a read
// needs. Otherwise it grows in steps inside the driver, each of which copies many frames: measured,
// 5 % of the CPU of a lookup in place of 1.5. The size of the frame alone has this effect, so
// callers pass false: use would only fill the frame with zeroes.
//
//go:noinline
func growStack(use bool) {
	if use {
		var room [6 << 10]byte
		runtime.KeepAlive(&room)
	}
}

// reading is the state of one sub-query that is being read.
type reading struct {
	*executor.SubQuery
	selection
	sender
	level       gocql.Consistency
	limits      *inLimits
	outstanding *outstanding
	volume      *volume
	// own is set for reads of the host's own data, and decides whether the host may still be asked.
	own *nodeLocal
	// local is set when statements are sent at NODE_LOCAL. level is then LOCAL_ONE, for what
	// NODE_LOCAL leaves open.
	local *nodeLocal
	// most is the most keys of a statement, even if more are expected to fit.
	most int
	// at is the original position of each key in the sub-query, nil when arrange has left them in
	// place.
	at []int
	// left is how many bytes of cells may still be kept. It points to bytes, or to those of the
	// reading that this one is a part of.
	left    *atomic.Int64
	bytes   atomic.Int64
	results []partition.Result
}

func (c *Cluster) newReading(q *executor.SubQuery, o *outstanding) (*reading, error) {
	session := c.session.Load()
	if session == nil {
		return nil, errNotConnected
	}
	level, local, err := c.level(q)
	if err != nil {
		return nil, err
	}
	selected := c.columnSets.selection(q.Query, time.Now())
	r := &reading{
		SubQuery: q, selection: selected, sender: host{session.driver, q.Host.ID}, level: level, local: local,
		limits: &c.inLimits, outstanding: o, most: math.MaxInt, volume: c.volumes.of(q.Query, selected.whole), results: make([]partition.Result, len(q.Keys)),
	}
	if q.Consistency == partition.OwnData {
		r.own = c.nodeLocal
	}
	r.left = &r.bytes
	r.left.Store(math.MaxInt64)
	if q.MaxBytes > 0 {
		r.left.Store(int64(q.MaxBytes))
	}
	return r, nil
}

// level returns the level of the statements of a sub-query, and a nodeLocal when they may be sent
// at NODE_LOCAL instead.
func (c *Cluster) level(q *executor.SubQuery) (gocql.Consistency, *nodeLocal, error) {
	if q.Consistency == partition.OwnData {
		level, err := c.ownLevel(q)
		return level, nil, err
	}
	if q.Consistency != NodeLocal {
		level, err := consistency(string(q.Consistency))
		if err != nil {
			err = &executor.ReadError{Reason: executor.ReasonInvalid, Err: err}
		}
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

// split cuts s into as few even parts of at most size keys as possible, and appends them to parts.
func (s span) split(size int, parts []span) []span {
	n := (s.len()-1)/size + 1
	parts = slices.Grow(parts, n)
	for i := range n {
		parts = append(parts, span{s.from + s.len()*i/n, s.from + s.len()*(i+1)/n})
	}
	return parts
}

// perStatement returns the most keys that may share one statement.
func (r *reading) perStatement() int {
	if r.slice.Reversed() {
		// A node would order the rows of several partitions all together.
		return 1
	}
	n := r.limits.get(r.Host.ID)
	if slices.ContainsFunc(r.Keys, func(k partition.Key) bool { return r.limited(len(k.Components())) }) {
		n = min(n, r.volume.keys(r.rowsPerKey()))
	}
	return max(min(n, r.most), 1)
}

// named returns how many columns the keys of a part name.
func (r *reading) named(p span) int { return len(r.Keys[p.from].Components()) }

// rowsPerKey is the PER PARTITION LIMIT: one more than asked for where it matters whether there are
// more rows.
func (r *reading) rowsPerKey() int {
	n := min(max(r.Limit, 1), math.MaxInt32-1) // a CQL int
	if r.Strict || r.Paged {
		n++
	}
	return n
}

// run reads all keys. It returns a result for each, or an error when all of them were in one
// statement, which failed.
func (r *reading) run(ctx context.Context) ([]partition.Result, error) {
	part := (*reading).part
	switch {
	case r.local != nil:
		part = (*reading).partNodeLocal
	case r.own != nil:
		part = (*reading).partOwn
	}
	if err := r.each(ctx, r.arrange(), part); err != nil {
		return nil, err
	}
	return r.inOrder(), nil
}

// each reads every part, several at once. It returns the error of a single part; of several, the
// error of a part becomes the result of each of its keys.
func (r *reading) each(ctx context.Context, parts []span, part func(*reading, context.Context, span) error) error {
	ask := func(p span) error { return r.outstanding.run(ctx, func() error { return part(r, ctx, p) }) }
	if len(parts) == 1 {
		return ask(parts[0])
	}
	var (
		next, ended atomic.Int64
		wg          sync.WaitGroup
	)
	for range min(len(parts), readConcurrency) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(parts); i = int(next.Add(1)) - 1 {
				p := parts[i]
				if err := ask(p); err != nil {
					r.lose(p, err)
				}
				// After a panic the sub-query fails whole.
				if int(ended.Add(1)) < len(parts) && r.outstanding.broken.Load() == nil {
					r.handOn(p)
				}
			}
		})
	}
	wg.Wait()
	return nil
}

// lose makes an error the result of every key of a part.
func (r *reading) lose(p span, err error) {
	for k := p.from; k < p.to; k++ {
		r.results[k] = failed(err)
	}
}

// part reads the keys of one part. For a single key, the failure of its partition is a result, not
// an error.
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
		return r.complete(ctx, p)
	case guardrail(err, r.varying >= len(r.table.PartitionKey)):
		r.limits.lower(r.Host.ID, p.len()/2)
		return r.parts(ctx, p, p.len()/2)
	case failsAlone(err):
		// Straight to single keys rather than by halves: the partition at fault,
		// which is expensive to read, is then read once more and not log n times.
		return r.parts(ctx, p, 1)
	case reasonOf(err) == executor.ReasonUnavailable:
		return r.apart(ctx, p, err)
	}
	return err
}

// parts reads the keys of a part in parts of at most size. With own data, each of these is checked
// as a whole part is, since its results may be passed on before the others end.
func (r *reading) parts(ctx context.Context, p span, size int) error {
	part := (*reading).part
	if r.own != nil {
		part = (*reading).partOwn
	}
	return r.each(ctx, p.split(max(size, 1), nil), part)
}

// complete reads again the keys of a part that the LIMIT of its statement has cut off. Each new
// statement has at most as many keys as the last one has answered, which is fewer each time; in the
// end it has a single key, and no LIMIT.
func (r *reading) complete(ctx context.Context, p span) error {
	open := r.with(partition.Pending, p, nil)
	if len(open) == 0 {
		return nil
	}
	return r.again(ctx, p, open, p.len()-len(open))
}

// with appends to keys the positions in r of those keys of a part that have a status.
func (r *reading) with(status partition.Status, p span, keys []int) []int {
	for k := p.from; k < p.to; k++ {
		if r.results[k].Status == status {
			keys = append(keys, k)
		}
	}
	return keys
}

// again reads some keys of a part once more; most is the most keys in one statement. If that fails,
// it returns the error when these are all keys of the part; otherwise the error becomes the result
// of each.
func (r *reading) again(ctx context.Context, p span, keys []int, most int) error {
	results, err := r.only(keys, most).run(ctx)
	if err != nil && len(keys) == p.len() {
		return err
	}
	for i, k := range keys {
		if err != nil {
			r.results[k] = failed(err)
		} else {
			r.results[k] = results[i]
		}
	}
	return nil
}

// only returns a reading of some keys of r; most is the most keys in one statement.
func (r *reading) only(keys []int, most int) *reading {
	q := *r.SubQuery
	q.Keys, q.Early = make([]partition.Key, len(keys)), nil // its positions are others
	for i, k := range keys {
		q.Keys[i] = r.Keys[k]
	}
	return &reading{
		SubQuery: &q, selection: r.selection, sender: r.sender, level: r.level, limits: r.limits, outstanding: r.outstanding,
		volume: r.volume, most: max(most, 1), left: r.left, results: make([]partition.Result, len(keys)),
	}
}

// page returns the page size in rows of the statement of a part, 0 for no paging. An IN with a
// LIMIT is never paged: a node that pages reads the partitions of an IN one after the other.
func (r *reading) page(p span) int {
	most := 1
	if r.limited(r.named(p)) {
		if p.len() > 1 {
			return 0
		}
		most = r.rowsPerKey()
	}
	return r.volume.page(p.len(), p.len()*most)
}

// statement reads the keys of one part with one statement, with a page size in rows or 0 for no
// paging, and stores the results. Keys that the LIMIT has cut off are Pending.
func (r *reading) statement(ctx context.Context, p span, level gocql.Consistency, page int) error {
	if r.Keys[p.from].Cursor() != nil {
		return r.behind(ctx, p.from, level, page)
	}
	c := newCollector(r, p)
	s := statement{text: r.one(r.named(p)), level: level, page: page}
	if p.len() > 1 {
		s.text = r.in(r.named(p))
		if r.limited(r.named(p)) {
			c.limit = min(r.volume.rows(), p.len()*r.rowsPerKey())
		}
	}
	s.args = r.arguments(p, c.limit)
	stream := &stream{Context: ctx, outstanding: r.outstanding}
	err := c.collect(r.send(stream, s)) //nolint:contextcheck // stream is ctx and more
	stream.leave(err)
	return err
}

// arguments returns the arguments of the statement of a part. For several keys, limit is its LIMIT.
func (r *reading) arguments(p span, limit int) []any {
	components := r.Keys[p.from].Components()
	args := make([]any, 0, len(components)+4)
	for i, c := range components {
		if p.len() > 1 && i == r.varying {
			args = append(args, r.list(p))
		} else {
			args = append(args, rawValue(c))
		}
	}
	if r.slice != nil {
		for _, restriction := range r.slice.Restrictions {
			if restriction.Operator == partition.In {
				args = append(args, rawList(restriction.Values))
			} else {
				args = append(args, rawValue(restriction.Values[0]))
			}
		}
	}
	if r.limited(len(components)) {
		args = append(args, r.rowsPerKey())
		if p.len() > 1 {
			args = append(args, limit)
		}
	}
	return args
}

// list returns the values of the varying column of the keys of a part.
func (r *reading) list(p span) rawValue {
	values := make([][]byte, 0, p.len())
	for _, k := range r.Keys[p.from:p.to] {
		values = append(values, k.Components()[r.varying])
	}
	return rawList(values)
}

// statement is one CQL statement as it is sent.
type statement struct {
	text  string
	args  []any
	level gocql.Consistency
	// page is the page size in rows, 0 for no paging.
	page int
}

// sender sends statements to one host.
type sender interface {
	send(ctx context.Context, s statement) rows
}

// rows iterates over the rows of a statement.
type rows interface {
	Columns() []gocql.ColumnInfo
	NumRows() int
	Scan(dest ...any) bool
	Close() error
}

// host is a sender that uses the driver.
type host struct {
	*gocql.Session
	id string
}

// send implements sender.
func (h host) send(ctx context.Context, s statement) rows {
	// Prefetch(0): the next page is never asked for in the background, where
	// the request could begin after the sub-query has ended.
	return h.Query(s.text, s.args...).Consistency(s.level).SetHostID(h.id).PageSize(s.page).Prefetch(0).IterContext(ctx)
}
