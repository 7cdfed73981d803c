package merge

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/reasons"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// errTooManyBytes is the error of a key whose rows alone exceed the MaxBytes of its participant.
var errTooManyBytes = errors.New("the rows exceed the limit of bytes; read them in pages, or fewer columns")

// compatible reports whether two sub-queries can share a statement: the same one, to the same
// host. Their snapshots must be the same as well, since only the snapshot that serves allows a
// read at NODE_LOCAL.
func compatible(a, b *executor.SubQuery) bool {
	return a.Table == b.Table && a.Ring == b.Ring && a.Host.Addr == b.Host.Addr &&
		a.Consistency == b.Consistency && a.Limit == b.Limit && a.Strict == b.Strict && a.Paged == b.Paged &&
		a.Shape == b.Shape && a.Slice.Same(b.Slice) && sameColumns(a.Columns, b.Columns) && (a.Readable == nil) == (b.Readable == nil) && sameColumns(a.Readable, b.Readable)
}

// sameColumns compares columns of one table.
func sameColumns(a, b []schema.Column) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] ||
		slices.EqualFunc(a, b, func(x, y schema.Column) bool { return x.Name == y.Name }))
}

// shared is a read for several participants. It is the Early of its sub-query.
type shared struct {
	*sending
	ctx    context.Context //nolint:containedctx // of the read, which outlives any one participant
	cancel context.CancelCauseFunc

	mu sync.Mutex
	// left is the number of participants that wait.
	left int
}

// newShared makes one read of several sub-queries. The mutex of the host is held.
func newShared(h *host, parts []*waiter, now int64) *shared {
	first := parts[0].query
	query, total := *first.Query, 0
	query.MaxBytes = 0
	unlimited := false
	for _, w := range parts {
		total += len(w.query.Keys)
		query.MaxBytes += w.query.MaxBytes
		unlimited = unlimited || w.query.MaxBytes <= 0
	}
	if unlimited {
		query.MaxBytes = 0
	}
	keys := make([]partition.Key, 0, total)
	seen := make(map[partition.ID]int32, total)
	all := make([]int32, 0, total)
	early := false
	for _, w := range parts {
		begin := len(all)
		for _, k := range w.query.Keys {
			id := k.ID()
			at, ok := seen[id]
			if !ok {
				at = int32(len(keys))
				keys = append(keys, k)
				seen[id] = at
			}
			all = append(all, at)
		}
		w.at = all[begin:len(all):len(all)]
		w.results = make([]partition.Result, len(w.at))
		early = early || w.query.Early != nil
	}
	of := executor.SubQuery{Query: &query, Host: first.Host, Ring: first.Ring, Keys: keys}
	s := &shared{sending: h.start(&of, parts[0].priority, now), left: len(parts)}
	s.parts = parts
	if early {
		s.query.Early = s
	}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	for _, w := range parts {
		w.shared = s
		w.unsettled.Store(2)
	}
	return s
}

// run reads and gives each participant its outcome.
func (s *shared) run() {
	defer s.cancel(nil)
	results, err := s.read()
	if err == nil && len(results) == len(s.query.Keys) {
		s.deliver(0, results, false)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.parts {
		if err != nil || len(results) != len(s.query.Keys) { // the executor notices the latter
			w.results, w.err, w.crowded = nil, err, false
		}
		if w.gone || !w.crowded {
			w.settle()
		}
		w.gone = true // it ignores early results from now on
		w.wake <- struct{}{}
	}
}

// read asks the host. A panic becomes an *incident.Error, and settles the read.
func (s *shared) read() (results []partition.Result, err error) {
	defer func() {
		if r := recover(); r != nil {
			results, err = nil, s.host.reader.cfg.Incidents.Record(s.ctx, "shared read from a host", r)
			s.settle()
		}
	}()
	return s.perform(s.ctx)
}

// Receive implements executor.Early.
func (s *shared) Receive(from int, results []partition.Result) { s.deliver(from, results, true) }

// deliver stores the results of the keys from a position on with each participant that waits. The
// first result of a key counts. Early ones are also passed on.
func (s *shared) deliver(from int, results []partition.Result, early bool) {
	for _, w := range s.parts {
		s.mu.Lock()
		spans, own := w.take(from, results), w.results
		s.mu.Unlock()
		if !early || w.query.Early == nil {
			continue
		}
		for _, p := range spans {
			w.query.Early.Receive(p[0], own[p[0]:p[1]:p[1]])
		}
	}
}

// take stores those results that the participant lacks. It returns the spans of their positions;
// nil if it has left or must read again alone.
func (w *waiter) take(from int, results []partition.Result) (spans [][2]int) {
	if w.gone {
		return nil
	}
	for i, at := range w.at {
		p := int(at) - from
		if p < 0 || p >= len(results) || w.results[i].Status != partition.Pending {
			continue
		}
		w.results[i] = w.admit(results[p])
		if n := len(spans); n > 0 && spans[n-1][1] == i {
			spans[n-1][1]++
		} else {
			spans = append(spans, [2]int{i, i + 1})
		}
	}
	if w.crowded {
		return nil
	}
	return spans
}

// admit returns a result as the participant would have received it alone.
func (w *waiter) admit(res partition.Result) partition.Result {
	if res.Status == partition.TooLarge && errors.Is(res.Err, executor.ErrCrowded) {
		w.crowded = true
	}
	most := w.query.MaxBytes
	switch {
	case most <= 0 || w.bytes+res.Bytes <= most:
		w.bytes += res.Bytes
		return res
	case res.Bytes > most && !w.query.Paged:
		return partition.Unanswered(reasons.TooManyBytes, errTooManyBytes)
	}
	w.crowded = w.crowded || w.query.Paged // alone it gets a page that fits
	return partition.Unanswered(reasons.AnswerFull, executor.ErrCrowded)
}

// outcome returns the results of a participant. One whose keys lacked room beside those of others
// reads again by itself.
func (w *waiter) outcome(h *host) ([]partition.Result, error) {
	if !w.crowded {
		w.query.Shared = len(w.shared.query.Keys)
		return w.results, w.err
	}
	alone := *w.query
	alone.Settled = w.settle
	return h.reader.readAlone(w.ctx, &alone)
}

// settle ends one of the two things that the Settled of a participant waits for.
func (w *waiter) settle() {
	if w.unsettled.Add(-1) == 0 {
		w.query.Settled()
	}
}

// leave removes a participant, and reports whether it had no outcome yet. The last one cancels
// the read.
func (s *shared) leave(w *waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.gone {
		return false
	}
	w.gone = true
	if s.left--; s.left == 0 {
		s.cancel(context.Cause(w.ctx))
	}
	return true
}

var _ executor.Early = (*shared)(nil)
