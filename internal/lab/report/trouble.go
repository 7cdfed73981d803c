package report

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
)

// trouble lists the counts that ought to be zero and are not, worst first.
func trouble(c Counts) []string {
	var found []string
	for _, t := range []struct {
		n         int64
		one, many string
	}{
		{c.WrongRows, "wrong row", "wrong rows"},
		{c.MissingKeys, "missing key", "missing keys"},
		{c.Failed, "failed lookup", "failed lookups"},
		{c.Partial, "partial lookup", "partial lookups"},
		{c.FailedKeys, "failed key", "failed keys"},
		{c.Late, "late lookup", "late lookups"},
	} {
		if t.n > 0 {
			found = append(found, plural(t.n, t.one, t.many))
		}
	}
	return found
}

// grave reports whether an answer was wrong or absent, rather than late or partial.
func grave(c Counts) bool { return c.WrongRows > 0 || c.MissingKeys > 0 || c.Failed > 0 }

// sortedErrors returns the texts of errors with their counts, most frequent first.
func sortedErrors(counts map[string]int64) []string {
	var lines []string
	for _, text := range slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	}) {
		lines = append(lines, commas(strconv.FormatInt(counts[text], 10))+" × "+text)
	}
	return lines
}

func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return commas(strconv.FormatInt(n, 10)) + " " + many
}
