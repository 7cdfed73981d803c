package planner

import (
	"fmt"
	"slices"
	"strings"
)

// Grouping is how keys become groups.
type Grouping uint8

// The groupings a table can choose.
const (
	// Cover asks few hosts: a set cover weighted by price and limited by the cap.
	Cover Grouping = iota
	// Owner asks the first replica of each key that is not avoided.
	Owner
	// Range makes one group for each token range, at its cheapest replica.
	Range
	// Single makes one group for each key, at its cheapest replica.
	Single
)

var groupingNames = []string{"cover", "owner", "range", "single"}

// ParseGrouping returns the grouping of that name: cover, owner, range or single. The error
// lists these names.
func ParseGrouping(s string) (Grouping, error) {
	i := slices.Index(groupingNames, s)
	if i < 0 {
		return Cover, fmt.Errorf("unknown grouping %q: use one of %s", s, strings.Join(groupingNames, ", "))
	}
	return Grouping(i), nil
}

// String returns the name that ParseGrouping reads.
func (g Grouping) String() string {
	if int(g) < len(groupingNames) {
		return groupingNames[g]
	}
	return fmt.Sprintf("grouping(%d)", uint8(g))
}
