package shadow

import (
	"context"
	"slices"
	"time"

	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// Judge decides what of two answers to a lookup is a difference.
//
// A key whose answers differ is read again both ways, after each of Pauses. It then has
//
//   - changed, if the answers agree at some time: what differed was being written, or on its
//     way between replicas;
//   - changed, too, if both sides have said something else than before: it is written faster
//     than it is read;
//   - a difference, if they differ every time, and one side says the same every time;
//   - not been settled, if a side did not answer often enough.
type Judge struct {
	// Driver and Proxy read again.
	Driver, Proxy Path
	// Pauses are those before each further reading; DefaultPauses is a good choice. Without
	// any every difference counts.
	Pauses []time.Duration
}

// DefaultPauses leave a write the time to reach its replicas, and a hinted one some of it.
var DefaultPauses = []time.Duration{20 * time.Millisecond, 200 * time.Millisecond}

// spareReadings are how many readings beyond Pauses make up for those that were not answered.
const spareReadings = 2

// Verdict is what became of the keys of one lookup, duplicates included.
type Verdict struct {
	// Compared are the keys that both sides have answered. Of these Different differ, Changed
	// were written meanwhile, and Unsettled could not be read again.
	Compared, Different, Changed, Unsettled int
	// Unanswered are the keys that a side has not answered, by its status.
	Unanswered [len(sides)]map[partition.Status]int
	// Differences are those of the Different keys.
	Differences []Difference
}

// Agrees reports whether the answers are the same as far as there are two.
func (v *Verdict) Agrees() bool { return v.Different == 0 && v.Unsettled == 0 }

// suspect is a key whose answers differ.
type suspect struct {
	position int
	// said are the answers of each side, in time.
	said [len(sides)][]*partition.Result
	// columns are those of the latest answers.
	columns [len(sides)][]schema.Column
}

// Compare compares the answers to a lookup, and reads again what differs. It may take the
// pauses and the readings; when ctx ends before, what is open is Unsettled.
func (j *Judge) Compare(ctx context.Context, req *lookup.Request, driver, proxy *Answer) *Verdict {
	v := &Verdict{}
	asked := columnsOf(req)
	c := newComparison(req.Table.Schema, asked)
	var open []*suspect
	for i := range req.Keys {
		d, p := &driver.Results[i], &proxy.Results[i]
		if !v.answered(d, p) {
			continue
		}
		v.Compared++
		s := &suspect{position: i}
		s.add(d, p, driver.Columns, proxy.Columns)
		if len(s.findings(c)) > 0 {
			open = append(open, s)
		}
	}
	for reading := 0; len(open) > 0 && reading < len(j.Pauses)+spareReadings && slices.ContainsFunc(open, j.undecided); reading++ {
		open = j.again(ctx, v, req, c, open, reading)
	}
	for _, s := range open {
		switch {
		case j.undecided(s):
			v.Unsettled++
		case len(j.Pauses) > 0 && s.moves(DriverSide) && s.moves(ProxySide):
			v.Changed++
		default:
			v.Different++
			v.Differences = append(v.Differences, s.differences(req, c)...)
		}
	}
	return v
}

// answered counts the sides that have not answered a key; it returns whether both have.
func (v *Verdict) answered(results ...*partition.Result) bool {
	all := true
	for side, r := range results {
		if r.Status.Answered() {
			continue
		}
		all = false
		if v.Unanswered[side] == nil {
			v.Unanswered[side] = map[partition.Status]int{}
		}
		v.Unanswered[side][r.Status]++
	}
	return all
}

// undecided reports whether a key has been read too few times.
func (j *Judge) undecided(s *suspect) bool { return len(s.said[DriverSide]) <= len(j.Pauses) }

// again reads keys once more and returns those that differ still.
func (j *Judge) again(ctx context.Context, v *Verdict, req *lookup.Request, c *comparison, open []*suspect, reading int) []*suspect {
	if len(j.Pauses) > 0 {
		select {
		case <-ctx.Done():
			return open
		case <-time.After(j.Pauses[min(reading, len(j.Pauses)-1)]):
		}
	}
	positions := make([]int, len(open))
	for i, s := range open {
		positions[i] = s.position
	}
	sub := Only(req, positions)
	// The driver is asked around the proxy, first and then second: a write between the two
	// is seen by one order and not by the other.
	paths := [...]Path{DriverSide: j.Driver, ProxySide: j.Proxy}
	order := sides
	if reading%2 == 1 {
		slices.Reverse(order[:])
	}
	var answers [len(sides)]*Answer
	for _, side := range order {
		a, err := paths[side].Read(ctx, sub)
		if err != nil || len(a.Results) != len(positions) {
			return open
		}
		answers[side] = a
	}
	left := open[:0]
	for i, s := range open {
		d, p := &answers[DriverSide].Results[i], &answers[ProxySide].Results[i]
		if d.Status.Answered() && p.Status.Answered() {
			s.add(d, p, answers[DriverSide].Columns, answers[ProxySide].Columns)
		}
		if len(s.findings(c)) == 0 {
			v.Changed++
			continue
		}
		left = append(left, s)
	}
	return left
}

// add takes the answers of another reading.
func (s *suspect) add(driver, proxy *partition.Result, columns ...[]schema.Column) {
	s.said[DriverSide] = append(s.said[DriverSide], driver)
	s.said[ProxySide] = append(s.said[ProxySide], proxy)
	copy(s.columns[:], columns)
}

// last are the latest rows of a side.
func (s *suspect) last(side Side) []partition.Row {
	return s.said[side][len(s.said[side])-1].Rows
}

// findings compares the latest answers.
func (s *suspect) findings(c *comparison) []finding {
	if s.otherColumns(c) {
		return []finding{{Columns, -1, -1, -1}}
	}
	return c.rows(s.last(DriverSide), s.last(ProxySide))
}

// otherColumns reports whether the proxy has told other columns than were asked for.
func (s *suspect) otherColumns(c *comparison) bool {
	return len(s.columns[ProxySide]) > 0 && !slices.EqualFunc(c.columns, s.columns[ProxySide], func(a, b schema.Column) bool {
		return a.Name == b.Name && a.Type.String() == b.Type.String()
	})
}

// moves reports whether a side did not say the same every time.
func (s *suspect) moves(side Side) bool {
	said := s.said[side]
	return slices.ContainsFunc(said[1:], func(r *partition.Result) bool {
		return r.Status != said[0].Status || !slices.EqualFunc(r.Rows, said[0].Rows, equalRows)
	})
}

// differences writes the findings of a key as text.
func (s *suspect) differences(req *lookup.Request, c *comparison) []Difference {
	key := req.Keys[s.position]
	var out []Difference
	for _, f := range s.findings(c) {
		var d Difference
		if f.kind == Columns && f.driver < 0 {
			d = Difference{Kind: Columns, Driver: clip(columnsText(c.columns)), Proxy: clip(columnsText(s.columns[ProxySide]))}
		} else {
			d = c.describe(f, s.last(DriverSide), s.last(ProxySide))
		}
		d.Table, d.Key, d.token = req.Table.Schema.String(), keyText(req.Table.Schema, key), ring.Token(key.Routing())
		out = append(out, d)
	}
	return out
}
