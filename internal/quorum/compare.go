package quorum

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// expirySlack is by how many seconds the remaining TTLs of two equal cells may differ: hosts
// return whole seconds, at two moments and by two clocks.
const expirySlack = 1

// Compare returns the answer that several replicas give together, and Matched. answers has one
// result of each replica at partition.OwnData, and at least one. With any other Outcome the
// result means nothing. answers is not changed; the result shares its cells.
//
// Rows as they come for the columns id and name, and as they are returned:
//
//	id  name    written           expires in
//	7   Kettle  1717000000000000  null         → 7  Kettle
func Compare(answers []partition.Result, columns []schema.Column) (partition.Result, Outcome) {
	first := answers[0]
	if outcome := alike(answers); outcome != Matched {
		return partition.Result{}, outcome
	}
	for _, a := range answers[1:] {
		for i := range a.Rows {
			if !same(a.Rows[i], first.Rows[i], len(columns)) {
				return partition.Result{}, Mismatched
			}
		}
	}
	if first.Status != partition.Found {
		return partition.Result{}, Absent
	}
	out := partition.Result{Status: partition.Found, Rows: make([]partition.Row, len(first.Rows))}
	for i, row := range first.Rows {
		if len(row) != width(columns) {
			return partition.Result{}, Mismatched
		}
		out.Rows[i] = row[:len(columns):len(columns)]
		for _, cell := range out.Rows[i] {
			if cell == nil {
				return partition.Result{}, Absent
			}
			out.Bytes += len(cell)
		}
		for at := len(columns); at < len(row); at += 2 {
			if row[at] == nil { // a value always has a write time
				return partition.Result{}, Mismatched
			}
		}
	}
	return out, Matched
}

// Reconcile is Compare for tables with read_repair NONE. The answer has the newest version of
// each cell, and the outcome is Reconciled, if all replicas asked have the cell. What all of
// them lack is not there. DESIGN.md has the reason.
func Reconcile(answers []partition.Result, columns []schema.Column) (partition.Result, Outcome) {
	first := answers[0]
	outcome := alike(answers)
	switch {
	case outcome != Matched:
		return partition.Result{}, outcome
	case first.Status == partition.NotFound:
		return partition.Result{Status: partition.NotFound}, Matched
	case first.Status != partition.Found:
		return partition.Result{}, Absent
	}
	out := partition.Result{Status: partition.Found, Rows: make([]partition.Row, len(first.Rows))}
	width := width(columns)
	for i := range first.Rows {
		if slices.ContainsFunc(answers, func(a partition.Result) bool { return len(a.Rows[i]) != width }) {
			return partition.Result{}, Mismatched
		}
		row := make(partition.Row, len(columns))
		exists := false
		at := len(columns) // of the write time of the next regular column
		for c, column := range columns {
			newest := version{value: first.Rows[i][c]}
			if column.Kind == schema.Regular {
				var how Outcome
				if newest, how = reconcile(answers, i, c, at); how == Mismatched {
					return partition.Result{}, Mismatched
				} else if how == Reconciled {
					outcome = Reconciled
				}
				exists = exists || newest.value != nil
				at += 2
			}
			row[c] = newest.value
			out.Bytes += len(newest.value)
		}
		if !exists { // a row whose values are null exists by its marker or by other columns
			return partition.Result{}, Absent
		}
		out.Rows[i] = row
	}
	return out, outcome
}

// version is a version of a cell: its value, write time and TTL. All are nil if the replica
// does not have the cell.
type version struct{ value, written, life []byte }

// reconcile returns the newest version of a cell, and whether the versions are equal (Matched),
// one is newer (Reconciled) or write times do not tell (Mismatched).
func reconcile(answers []partition.Result, row, column, at int) (newest version, outcome Outcome) {
	outcome = Matched
	for i, a := range answers {
		cells := a.Rows[row]
		v := version{cells[column], cells[at], cells[at+1]}
		if (v.value == nil) != (v.written == nil) || v.written != nil && len(v.written) != 8 {
			return version{}, Mismatched
		}
		switch {
		case i == 0:
			newest = v
		case (v.value == nil) != (newest.value == nil):
			return version{}, Mismatched // a deletion may be newer than the value
		case v.value == nil:
		default:
			switch cmp.Compare(int64(binary.BigEndian.Uint64(v.written)), int64(binary.BigEndian.Uint64(newest.written))) {
			case 0:
				if !bytes.Equal(v.value, newest.value) || !equalLives(v.life, newest.life) {
					return version{}, Mismatched
				}
			case 1:
				newest, outcome = v, Reconciled
			default:
				outcome = Reconciled
			}
		}
	}
	return newest, outcome
}

// alike returns Matched if the answers have equal statuses and numbers of rows.
func alike(answers []partition.Result) Outcome {
	outcome := Matched
	for _, a := range answers {
		switch {
		case a.Status == partition.TooLarge:
			return Size
		case a.Status != answers[0].Status || len(a.Rows) != len(answers[0].Rows):
			outcome = Mismatched
		}
	}
	return outcome
}

// width returns how many cells a row has at partition.OwnData.
func width(columns []schema.Column) int { return len(columns) + 2*len(partition.Versioned(columns)) }

// same reports whether two rows have equal values, which are their first cells, equal write
// times, and TTLs that end together.
func same(a, b partition.Row, values int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if life := i >= values && (i-values)%2 == 1; life && equalLives(a[i], b[i]) {
			continue
		}
		if (a[i] == nil) != (b[i] == nil) || !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

// equalLives reports whether two cells with these TTLs, in seconds, live for ever or expire
// together.
func equalLives(a, b []byte) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	if len(a) != 4 || len(b) != 4 {
		return false
	}
	d := int64(int32(binary.BigEndian.Uint32(a))) - int64(int32(binary.BigEndian.Uint32(b)))
	return -expirySlack <= d && d <= expirySlack
}
