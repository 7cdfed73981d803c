// Package register decides whether the reads of one cell are those of a linearizable register: no
// read misses a write that was acknowledged before the read began, and no read returns an older
// write than a read that had ended before. The judge is porcupine.
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

// Write is one write of a cell. Times are relative to a common beginning of all histories.
type Write struct {
	// Version is the timestamp of the write; unique within a cell and above 0.
	Version int64
	// Null marks a deletion.
	Null bool
	// Life is the TTL, in whole seconds; 0 means that the value never expires.
	Life time.Duration
	// Begin is when the write was sent and End when it was acknowledged. End is 0 if it never was; the
	// write may then have taken effect at any time after Begin, or not at all.
	Begin, End time.Duration
}

// Read is one read of a cell. Version is that of the write it found, or 0 for nothing.
type Read struct {
	Version    int64
	Begin, End time.Duration
}

// History is what was written to and read from one cell. One writer made the writes one after the
// other, with rising versions. Reads are in any order.
type History struct {
	Writes []Write
	Reads  []Read
}

// Verdict is the result of Check.
type Verdict = porcupine.CheckResult

// The verdicts. Undecided means that there was not enough time.
const (
	Linearizable = porcupine.Ok
	Violated     = porcupine.Illegal
	Undecided    = porcupine.Unknown
)

// state is the state of a register: the last write by timestamp, and whether the cell is null. A
// deletion is null at once, a value from its expiry on.
type state struct {
	of   int64
	null bool
	// values counts the reads that have found this version, nulls all reads that have found nothing.
	values, nulls int
}

// The inputs of operations. The output of a read is the version that it found; its place is its
// rank among the reads that found the same.
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
	// Cassandra gives an expiry in whole seconds of the coordinator's clock, rounded down.
	expiryEarly, expiryLate = time.Second, 2 * time.Second
)

// operations returns the history as operations for porcupine. It applies three shortcuts, which
// make the search shorter and leave the verdict the same:
//   - A write or an expiry that takes effect after a later write changes nothing, whenever it
//     happens. So each ends at the latest when a later write is acknowledged.
//   - A read is left out if another read that found the same began and ended within it: what
//     explains that read explains both.
//   - If one of two reads that found the same both begins and ends earlier, it comes first, since
//     the two could change places.
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

// Check judges the history. It returns Undecided when that takes longer than within.
func (h *History) Check(within time.Duration) Verdict {
	return porcupine.CheckOperationsTimeout(lastWriteWins, h.operations(), within)
}

// Explain returns the read with whose end the history becomes violated, and a text with what
// happened until then, beginning before the read by the time before. It checks several times, each
// within a time.
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
