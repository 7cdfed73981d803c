// Package suggest decides which name was probably meant by a mistyped one: a command, flag,
// configuration key, table or column.
package suggest

import "strings"

// maxWritten is the longest mistyped name that is compared, in bytes. The cost is its
// length times that of all names.
const maxWritten = 256

// Nearest returns the name that was probably meant by written: the closest one within a few
// typing errors, or else the only one that begins with written. It returns an empty string
// when there is none, or written is longer than 256 bytes. Case does not matter.
func Nearest(written string, names []string) string {
	if len(written) > maxWritten {
		return ""
	}
	written = strings.ToLower(written)
	best, distance := "", 1+max(1, len(written)/3)
	begin, beginnings := "", 0
	for _, name := range names {
		lower := strings.ToLower(name)
		if d := edits(written, lower); d < distance {
			best, distance = name, d
		}
		if written != "" && strings.HasPrefix(lower, written) {
			begin = name
			beginnings++
		}
	}
	if best == "" && beginnings == 1 {
		return begin
	}
	return best
}

// Hint returns "; did you mean NAME?" for the nearest of the names; empty when there is
// none. It is appended to an error, so names must hold only what its reader may know.
func Hint(written string, names []string) string {
	if near := Nearest(written, names); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// edits returns the optimal string alignment distance: how many bytes to insert, delete,
// replace or swap with their neighbour to turn a into b.
func edits(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(row[j]+1, last[j+1]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
