// Package quorum decides what the answers of a quorum of replicas, each from its own disk, say
// together: the answer that a read at LOCAL_QUORUM could give, or that they do not show it. It is
// pure: no I/O, no clock.
package quorum

import (
	"slices"

	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// Outcome is how a key was read in a table whose quorum reads go to the replicas.
type Outcome uint8

// The outcomes. The key is answered by the replicas when it is Matched or Reconciled, and read
// through a coordinator otherwise.
const (
	// None is the outcome of a key that was not to be read by its replicas, or has no outcome
	// yet.
	None Outcome = iota
	// Matched means that a quorum of replicas gave the same answer.
	Matched
	// Reconciled means that the answers differ and the newest version of each cell is the answer,
	// since the table has read_repair NONE.
	Reconciled
	// Mismatched means that the answers differ, in a cell or in when it was written.
	Mismatched
	// Absent means that the answers agree that a row or a cell is not there. One replica may
	// know of a deletion that the others have not seen, which no answer shows.
	Absent
	// Size means that an answer was larger than the limits of a sub-query.
	Size
	// Columns means that CQL does not show when some column was written, or which rows were
	// deleted.
	Columns
	// Ring means that token ownership is changing, or has changed a moment ago.
	Ring
	// Refused means that a host cannot be made to answer from its own disk alone.
	Refused
	// Replicas means that fewer replicas than a quorum are known or have answered.
	Replicas
	// Share means that so many keys of the table had to be read again that asking the replicas
	// does not pay.
	Share
)

var names = [...]string{"", "matched", "reconciled", "mismatched", "fallback_absent", "fallback_size", "fallback_columns", "fallback_ring",
	"fallback_refused", "fallback_replicas", "fallback_share"}

// Outcomes lists every outcome but None, in the order of their values.
var Outcomes = []Outcome{Matched, Reconciled, Mismatched, Absent, Size, Columns, Ring, Refused, Replicas, Share}

// String returns the outcome as in metric labels and explanations; empty for None.
func (o Outcome) String() string { return names[o] }

// Asked reports whether replicas were asked for the key.
func (o Outcome) Asked() bool { return Matched <= o && o <= Size }

// Answered reports whether the replicas have answered the key.
func (o Outcome) Answered() bool { return o == Matched || o == Reconciled }

// Of returns the size of a quorum of so many replicas.
func Of(replicas int) int { return replicas/2 + 1 }

// Comparable reports whether the answers of replicas can be compared when columns of t are read:
// the table has one row for each partition, at least one of the columns is regular, and CQL shows
// when each regular one was written. DESIGN.md has the reason for each exception.
func Comparable(t *schema.Table, columns []schema.Column) bool {
	if len(t.Clustering) > 0 || t.View {
		return false
	}
	regular := 0
	for _, c := range columns {
		if c.Kind == schema.PartitionKey {
			continue
		}
		if c.Kind != schema.Regular || !oneCell(c.Type) || c.Function != schema.Value {
			return false
		}
		regular++
	}
	return regular > 0
}

// oneCell reports whether a value of the type is one cell that has a write time.
func oneCell(t *cqltype.Type) bool {
	switch t.Kind {
	case cqltype.Counter, cqltype.Unknown, cqltype.Custom: // a custom type may be one that cannot be parsed
		return false
	case cqltype.List, cqltype.Set, cqltype.Map, cqltype.UDT:
		return t.Frozen
	default:
		return true
	}
}

// Comparables returns the columns with which Comparable can be true, in a new slice.
func Comparables(columns []schema.Column) []schema.Column {
	return slices.DeleteFunc(slices.Clone(columns), func(c schema.Column) bool {
		return c.Kind != schema.PartitionKey && (c.Kind != schema.Regular || !oneCell(c.Type))
	})
}
