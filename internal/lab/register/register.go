// Package register decides whether what was read of one cell is what a linearizable register
// gives: no read misses a write that was acknowledged before the read began, and none goes back
// behind a read that had ended before. The judge is porcupine.
package register

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Write is one write of a cell. Times are since the beginning of all histories.
type Write struct {
	// Version is the timestamp of the write; those of a cell are unique and above 0.
	Version int64
	// Null says that it is a deletion.
	Null bool
	// Life is the TTL in whole seconds; 0 lives for ever.
	Life time.Duration
	// Begin is when it was sent and End when it was acknowledged; 0 if it never was, so that it
	// may have taken effect at any time after Begin, or not at all.
	Begin, End time.Duration
}

// Read is what was found in a cell: the version of a write, or 0 for nothing.
type Read struct {
	Version    int64
	Begin, End time.Duration
}

// History is what was written to and read from one cell. One writer wrote it, one write after
// the other with rising versions; reads are in any order.
type History struct {
	Writes []Write
	Reads  []Read
}

// Verdict is what Check says of a history.
type Verdict = porcupine.CheckResult

// The verdicts. Undecided means that there was not enough time.
const (
	Linearizable = porcupine.Ok
	Violated     = porcupine.Illegal
	Undecided    = porcupine.Unknown
)

// state is that of a register: what was written last by timestamp, and whether it is null, as
// a deletion is at once and a value from its expiry on.
type state struct {
	of   int64
	null bool
	// values and nulls count the reads that have found this version, and nothing.
	values, nulls int
}

// An operation has one of these as its input; what a read has found is its output. The place of
// a read is that among the reads which find the same.
type (
	write struct {
		of   int64
		null bool
	}
	expire struct{ of int64 }
	read   struct{ place int }
)

var lastWriteWins = porcupine.Model{
	Init: func() any { return state{null: true} },
	Step: func(before, input, output any) (bool, any) {
		s := before.(state) //nolint:forcetypeassert // lastWriteWins makes it
		switch in := input.(type) {
		case write:
			if in.of > s.of {
				s.of, s.null, s.values = in.of, in.null, 0
			}
		case expire:
			s.null = s.null || in.of == s.of
		case read:
			if found := output.(int64); found == 0 { //nolint:forcetypeassert // operations makes it
				s.nulls++
				return s.null && in.place == s.nulls, s
			} else if s.values++; s.null || found != s.of || in.place != s.values {
				return false, s
			}
		}
		return true, s
	},
}

const (
	open = time.Duration(math.MaxInt64)
	// An expiry is told in whole seconds of the coordinator's clock, rounded down.
	expiryEarly, expiryLate = time.Second, 2 * time.Second
)

// operations returns the history as porcupine takes it, without what makes its search long and
// its verdict no other:
//   - A write or an expiry that takes effect after a later write changes nothing, whenever it
//     comes. So each ends when a later write is acknowledged at the latest.
//   - A read during which another began and ended that found the same is explained with it.
//   - Reads that find the same, one of which begins and ends before the other, may be taken in
//     that order, since they could change places.
func (h *History) operations() []porcupine.Operation {
	ops := make([]porcupine.Operation, 0, len(h.Reads)+2*len(h.Writes))
	add := func(in, out any, from, to time.Duration) {
		ops = append(ops, porcupine.Operation{Input: in, Output: out, Call: int64(from), Return: int64(to)})
	}
	overwritten := open
	for _, w := range slices.Backward(h.Writes) {
		end := cmp.Or(w.End, open)
		add(write{w.Version, w.Null}, nil, w.Begin, min(end, overwritten))
		if from := w.Begin + w.Life - expiryEarly; w.Life > 0 && from <= overwritten {
			to := end
			if end < open {
				to += w.Life + expiryLate
			}
			add(expire{w.Version}, nil, from, min(to, overwritten))
		}
		overwritten = min(overwritten, end)
	}
	reads := slices.SortedFunc(slices.Values(h.Reads), func(a, b Read) int {
		return cmp.Or(cmp.Compare(a.Begin, b.Begin), cmp.Compare(b.End, a.End))
	})
	firstEnd, place := map[int64]time.Duration{}, map[int64]int{}
	for i, r := range slices.Backward(reads) {
		if end, ok := firstEnd[r.Version]; ok && end <= r.End {
			reads[i].End = 0
			continue
		}
		firstEnd[r.Version] = r.End
	}
	for _, r := range reads {
		if r.End > 0 {
			place[r.Version]++
			add(read{place[r.Version]}, r.Version, r.Begin, r.End)
		}
	}
	return ops
}

// Check judges the history within some time.
func (h *History) Check(within time.Duration) Verdict {
	return porcupine.CheckOperationsTimeout(lastWriteWins, h.operations(), within)
}

// Explain returns the read by whose end the history is violated, and what happened until then
// from some time before on, for people. It checks several times.
func (h *History) Explain(before, within time.Duration) (Read, string) {
	reads := slices.SortedFunc(slices.Values(h.Reads), func(a, b Read) int { return cmp.Compare(a.End, b.End) })
	at, _ := slices.BinarySearchFunc(reads, Violated, func(r Read, want Verdict) int {
		upTo, _ := slices.BinarySearchFunc(reads, r.End+1, func(r Read, end time.Duration) int { return cmp.Compare(r.End, end) })
		if (&History{h.Writes, reads[:upTo]}).Check(within) == want {
			return 1
		}
		return -1
	})
	if at == len(reads) {
		return Read{}, "no part of it is violated"
	}
	first := reads[at]
	type line struct {
		begin, end time.Duration
		text       string
	}
	var lines []line
	for _, w := range h.Writes {
		what := fmt.Sprint("write ", w.Version)
		if w.Null {
			what = fmt.Sprint("delete ", w.Version)
		}
		if w.Life > 0 {
			what += fmt.Sprint(", lives ", w.Life)
		}
		lines = append(lines, line{w.Begin, w.End, what})
	}
	for _, r := range reads[:at+1] {
		lines = append(lines, line{r.Begin, r.End, fmt.Sprint("read ", r.Version)})
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.begin, b.begin) })
	var out strings.Builder
	for _, l := range lines {
		if l.begin <= first.End && (l.end == 0 || l.end >= first.Begin-before) {
			fmt.Fprintf(&out, "%10.4f %10.4f %s\n", l.begin.Seconds(), l.end.Seconds(), l.text)
		}
	}
	return first, out.String()
}
