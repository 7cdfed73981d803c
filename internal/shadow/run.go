package shadow

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/qosproxy/qosproxy/internal/lookup"
)

// Item is one lookup of the input.
type Item struct {
	// Number is the line of the lookup in the input, from 1.
	Number int64
	// Request is the lookup. It is nil if the lookup was refused; Err is then the reason.
	Request *lookup.Request
	Err     error
}

// Run compares the lookups of an input, in turns. A turn reads its lookups one way and then
// the other; the next turn begins with the other. A turn is long enough to measure CPU time,
// and short enough for rows to change little.
type Run struct {
	Judge
	// Next returns the next lookup, and io.EOF after the last one.
	Next func(ctx context.Context) (*Item, error)
	// Concurrency is how many lookups are in-flight; at least 1.
	Concurrency int
	// Rate is the largest number of lookups per second, each read both ways; 0 means no limit.
	Rate float64
	// Turn is the largest number of lookups in a turn; 0 means DefaultTurn.
	Turn int
	// CPU returns the CPU time that all Cassandra nodes have used so far; nil if it cannot be
	// measured.
	CPU func() (time.Duration, error)
	// Report receives the findings. Its descriptive fields are set by the caller.
	Report *Report
	// Progress is called with the report after every turn; it may be nil.
	Progress func(*Report)
}

// DefaultTurn is how many lookups are read one way before the same are read the other way.
const DefaultTurn = 100

// turnWait is how long a turn waits for further lookups of a slow input.
const turnWait = 500 * time.Millisecond

// answers are the answers of both sides to one lookup.
type answers struct {
	item   *Item
	answer [len(sides)]*Answer
	err    [len(sides)]error
}

// Do compares until the input or ctx ends. The error is that of the input; nil if ctx ended.
func (r *Run) Do(ctx context.Context) error {
	r.Report.begin()
	items := make(chan *Item, max(r.Turn, DefaultTurn))
	var failed error
	reading, stop := context.WithCancel(ctx)
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(items)
		for {
			item, err := r.Next(reading)
			if err != nil {
				if !errors.Is(err, io.EOF) && reading.Err() == nil {
					failed = err
				}
				return
			}
			select {
			case items <- item:
			case <-reading.Done():
				return
			}
		}
	})
	order := sides
	for ctx.Err() == nil {
		turn := r.take(ctx, items)
		if len(turn) == 0 {
			break
		}
		r.turn(ctx, turn, order)
		order[0], order[1] = order[1], order[0]
		if r.Progress != nil {
			r.Report.end()
			r.Progress(r.Report)
		}
	}
	stop()
	// The reader is not waited for after ctx ends: a read of a terminal or a pipe returns only
	// with its next line.
	if ctx.Err() == nil {
		reader.Wait()
	}
	r.Report.end()
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the end of the caller is the end of the input
	}
	return failed
}

// take returns the lookups of the next turn; none at the end of the input.
func (r *Run) take(ctx context.Context, items <-chan *Item) []*answers {
	size := r.Turn
	if size <= 0 {
		size = DefaultTurn
	}
	var turn []*answers
	var late <-chan time.Time
	for len(turn) < size {
		select {
		case item, more := <-items:
			if !more {
				return turn
			}
			if item.Err != nil {
				r.Report.refuse(item)
				continue
			}
			if turn = append(turn, &answers{item: item}); len(turn) == 1 {
				late = time.After(turnWait)
			}
		case <-late:
			return turn
		case <-ctx.Done():
			return turn
		}
	}
	return turn
}

// turn reads lookups one way, then the other way, and compares them.
func (r *Run) turn(ctx context.Context, turn []*answers, order [len(sides)]Side) {
	var spent [len(sides)]time.Duration
	seen := r.CPU != nil
	for _, side := range order {
		before, err := r.cpu()
		seen = seen && err == nil
		r.readAll(ctx, turn, side)
		after, err := r.cpu()
		seen = seen && err == nil
		spent[side] = after - before
	}
	if ctx.Err() != nil {
		return // The turn is incomplete.
	}
	verdicts := make([]*Verdict, len(turn))
	each(len(turn), r.Concurrency, func(i int) {
		if a := turn[i]; a.err[DriverSide] == nil && a.err[ProxySide] == nil {
			verdicts[i] = r.Compare(ctx, a.item.Request, a.answer[DriverSide], a.answer[ProxySide])
		}
	})
	for i, a := range turn {
		r.Report.add(a, verdicts[i])
	}
	r.Report.addTurn(turn, spent, seen)
}

// cpu returns the CPU time of all nodes so far, 0 if it is not measured.
func (r *Run) cpu() (time.Duration, error) {
	if r.CPU == nil {
		return 0, nil
	}
	return r.CPU()
}

// readAll reads all lookups of a turn one way.
func (r *Run) readAll(ctx context.Context, turn []*answers, side Side) {
	path := r.Driver
	if side == ProxySide {
		path = r.Proxy
	}
	begin := time.Now()
	each(len(turn), r.Concurrency, func(i int) {
		if r.Rate > 0 {
			// Both sides together take 1/Rate.
			due := begin.Add(time.Duration(float64(i) / (float64(len(sides)) * r.Rate) * float64(time.Second)))
			select {
			case <-time.After(time.Until(due)):
			case <-ctx.Done():
			}
		}
		a := turn[i]
		a.answer[side], a.err[side] = path.Read(ctx, a.item.Request)
		if a.err[side] == nil && len(a.answer[side].Results) != len(a.item.Request.Keys) {
			a.err[side] = errResults
		}
	})
	if r.Rate > 0 {
		select {
		case <-time.After(time.Until(begin.Add(time.Duration(float64(len(turn)) / (float64(len(sides)) * r.Rate) * float64(time.Second))))):
		case <-ctx.Done():
		}
	}
}

var errResults = errors.New("the answer has another number of results than the lookup has keys")

// each calls do for 0 to n-1, at most concurrency calls at a time.
func each(n, concurrency int, do func(i int)) {
	var all sync.WaitGroup
	next := make(chan int)
	for range min(max(concurrency, 1), n) {
		all.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
}
