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

// Judge decides which differences between two answers to a lookup count.
//
// A key whose answers differ is read again both ways, after each of Pauses. It is then
//
//   - changed, if the answers agree at some time: what differed was being written, or on its
//     way between replicas;
//   - changed, too, if the answers of both sides vary: the row is written faster than it is
//     read;
//   - different, if the answers never agree, and at least one side returns the same every time;
//   - unsettled, if a side did not answer often enough.
type Judge struct {
	// Driver and Proxy read keys again.
	Driver, Proxy Path
	// Pauses are the pauses before each further reading; DefaultPauses is a good choice. If
	// there are none, every difference counts.
	Pauses []time.Duration
}

// DefaultPauses give a write enough time to reach its replicas. A hinted write may need
// longer.
var DefaultPauses = []time.Duration{20 * time.Millisecond, 200 * time.Millisecond}

// spareReadings is how many readings beyond Pauses may replace readings that were not
// answered.
const spareReadings = 2

// Verdict is the outcome for the keys of one lookup, duplicates included.
type Verdict struct {
	// Compared is how many keys both sides answered. Of these, Different differ, Changed were
	// written meanwhile, and Unsettled could not be read again often enough.
	Compared, Different, Changed, Unsettled int
	// Unanswered counts the keys that a side did not answer, by status.
	Unanswered [len(sides)]map[partition.Status]int
	// Differences are the differences of the Different keys.
	Differences []Difference
}

// suspect is a key whose answers differ.
type suspect struct {
	position int
	// said are the answers of each side, the oldest first.
	said [len(sides)][]*partition.Result
	// columns are the columns of the latest answers.
	columns [len(sides)][]schema.Column
}

// Compare compares two answers to a lookup, and reads again what differs. It can take as long
// as the pauses and readings together. If ctx ends before, keys that are still open are
// Unsettled.
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

// answered counts the sides that did not answer a key. It returns whether both answered.
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

// again reads the open keys once more and returns those that still differ.
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
	// The order alternates, so that the driver reads once before and once after the proxy: a
	// write that falls between the two reads makes them differ in one order, but not in the
	// other.
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

// add adds the answers of another reading.
func (s *suspect) add(driver, proxy *partition.Result, columns ...[]schema.Column) {
	s.said[DriverSide] = append(s.said[DriverSide], driver)
	s.said[ProxySide] = append(s.said[ProxySide], proxy)
	copy(s.columns[:], columns)
}

// last returns the latest rows of a side.
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

// otherColumns reports whether the proxy returned other columns than the lookup asked for.
func (s *suspect) otherColumns(c *comparison) bool {
	return len(s.columns[ProxySide]) > 0 && !slices.EqualFunc(c.columns, s.columns[ProxySide], func(a, b schema.Column) bool {
		return a.Name == b.Name && a.Type.String() == b.Type.String()
	})
}

// moves reports whether the answers of a side vary.
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
