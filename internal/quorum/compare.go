package quorum

import (
	"bytes"
	"encoding/binary"

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
	for _, a := range answers {
		if a.Status == partition.TooLarge {
			return partition.Result{}, Size
		}
	}
	for _, a := range answers[1:] {
		if a.Status != first.Status || len(a.Rows) != len(first.Rows) {
			return partition.Result{}, Mismatched
		}
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
	versions := 2 * len(partition.Versioned(columns))
	for i, row := range first.Rows {
		if len(row) != len(columns)+versions {
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

// same reports whether two rows have equal values, which are their first cells, equal write
// times, and TTLs that end together.
func same(a, b partition.Row, values int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if expiry := i >= values && (i-values)%2 == 1; expiry && together(a[i], b[i]) {
			continue
		}
		if (a[i] == nil) != (b[i] == nil) || !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

// together reports whether two cells with these TTLs, in seconds, expire together.
func together(a, b []byte) bool {
	if len(a) != 4 || len(b) != 4 {
		return false
	}
	d := int64(int32(binary.BigEndian.Uint32(a))) - int64(int32(binary.BigEndian.Uint32(b)))
	return -expirySlack <= d && d <= expirySlack
}
