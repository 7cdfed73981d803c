package lookup

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/reasons"
)

// ErrSoftDeadline is wrapped in the error of a key that was not waited for: the lookup
// ended at or after its soft deadline, with the keys that it needed.
var ErrSoftDeadline = errors.New("the lookup ended at its soft deadline")

// Agreed reports whether a key is unanswered by the terms of its request: not waited
// for past the soft deadline, optional and shed, or too large. It is no failure of the
// proxy, and does not count against the target.
func Agreed(r *partition.Result) bool {
	return r.Status == partition.TooLarge || r.Reason == reasons.SoftDeadline || r.Reason == reasons.Optional
}

// softDeadline cancels the context of a lookup once its soft deadline has passed and
// the keys that the caller needs are answered. The stages in between only have to obey
// their context and keep what has been answered.
type softDeadline struct {
	req   *Request
	begin time.Time
	// every is set when all keys are optional: then all of them count.
	every bool
	// least is how many keys that count must be answered.
	least  int64
	ctx    context.Context
	cancel context.CancelFunc
	timer  *time.Timer

	passed atomic.Bool
	// needed is how many keys that count are answered.
	needed atomic.Int64
	ended  atomic.Bool

	// The rest belongs to the goroutine that calls count.
	answered int
	err      error
}

// bound returns a context that ends at the end of the lookup or at its soft deadline.
// soft is nil unless the request has a soft deadline before its end. Call end after the
// lookup.
func (r *resolved) bound(ctx context.Context) (bounded context.Context, soft *softDeadline, end func()) {
	d := r.End(ctx)
	ctx, cancel := context.WithDeadline(ctx, d)
	at := r.start.Add(r.SoftDeadline)
	if r.SoftDeadline <= 0 || !at.Before(d) {
		return ctx, nil, cancel
	}
	s := &softDeadline{req: r.Request, begin: r.start, every: r.needed() == 0, least: int64(max(r.MinKeys, 1))}
	s.ctx, s.cancel = context.WithCancel(ctx)
	s.timer = time.AfterFunc(time.Until(at), func() {
		s.passed.Store(true)
		s.check()
	})
	return s.ctx, s, func() {
		s.timer.Stop()
		s.cancel()
		cancel()
	}
}

// check ends the lookup if both conditions hold. The timer and count call it: whichever
// comes second sees what the first has written.
func (s *softDeadline) check() {
	if s.passed.Load() && s.needed.Load() >= s.least && s.ctx.Err() == nil {
		s.ended.Store(true)
		s.cancel()
	}
}

// count counts the result of the key at i and returns it, with the reason if the key
// was not waited for. It must not be called concurrently.
func (s *softDeadline) count(i int, r partition.Result) partition.Result {
	switch {
	case r.Status.Answered():
		s.answered++
		if s.every || !s.req.optional(i) {
			s.needed.Add(1)
			s.check()
		}
	case r.Status == partition.TimedOut && s.ended.Load():
		r = partition.Unanswered(reasons.SoftDeadline, s.reason())
	}
	return r
}

// reason says when the lookup ended and with how many keys. All keys not waited for
// share it: they come last.
func (s *softDeadline) reason() error {
	if s.err != nil {
		return s.err
	}
	soft, took := s.req.SoftDeadline, time.Since(s.begin).Round(10*time.Microsecond)
	if took-soft < time.Millisecond {
		s.err = fmt.Errorf("%w of %s with %d of %d keys", ErrSoftDeadline, soft, s.answered, len(s.req.Keys))
	} else {
		s.err = fmt.Errorf("%w of %s with %d of %d keys; those it needed were there after %s", ErrSoftDeadline, soft, s.answered, len(s.req.Keys), took)
	}
	return s.err
}

// needed returns the number of keys that are not optional.
func (r *Request) needed() int {
	n := len(r.Keys)
	for i := range r.Keys {
		if r.optional(i) {
			n--
		}
	}
	return n
}

func (r *Request) optional(i int) bool { return i < len(r.Optional) && r.Optional[i] }
