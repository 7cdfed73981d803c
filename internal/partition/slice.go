package partition

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Slice says which rows of a key are read, and in which order.
type Slice struct {
	// Restrictions apply to the clustering columns after those that the keys name, in clustering
	// order and without a gap. A column with two bounds has two.
	Restrictions []Restriction
	// Reverse reads the rows of a partition from the last to the first.
	Reverse bool
}

// Restriction restricts one clustering column.
type Restriction struct {
	// Column is the position of the clustering column, from 0 in clustering order.
	Column int
	// Operator says how the column compares with the values.
	Operator Operator
	// Values are CQL-serialized and not null: exactly one, or for In one or more distinct ones.
	Values [][]byte
}

// Operator is how a clustering column is restricted.
type Operator uint8

// The operators. They compare values in CQL's order, even if the column is descending.
const (
	Equal Operator = iota
	In
	Greater
	GreaterOrEqual
	Less
	LessOrEqual
)

var operators = [...]struct{ word, cql string }{
	{"eq", " = ?"}, {"in", " IN ?"}, {"gt", " > ?"}, {"gte", " >= ?"}, {"lt", " < ?"}, {"lte", " <= ?"},
}

// Operators lists all operators, in the order of their values.
var Operators = []Operator{Equal, In, Greater, GreaterOrEqual, Less, LessOrEqual}

// String returns the operator as it is written in JSON requests, such as gte.
func (o Operator) String() string { return operators[o].word }

// CQL returns the operator with a placeholder for the value, such as " >= ?".
func (o Operator) CQL() string { return operators[o].cql }

// Range reports whether the operator bounds a range.
func (o Operator) Range() bool { return o >= Greater }

// Lower reports whether the operator is a lower bound.
func (o Operator) Lower() bool { return o == Greater || o == GreaterOrEqual }

// Holds reports whether the operator holds between the value of a row and an operand, given how the
// value compares with the operand: c is negative for less, 0 for equal, positive for greater.
func (o Operator) Holds(c int) bool {
	switch o {
	case Greater:
		return c > 0
	case GreaterOrEqual:
		return c >= 0
	case Less:
		return c < 0
	case LessOrEqual:
		return c <= 0
	default:
		return c == 0
	}
}

// On returns the restrictions on one clustering column. A nil Slice has none.
func (s *Slice) On(column int) []Restriction {
	var on []Restriction
	if s != nil {
		for _, r := range s.Restrictions {
			if r.Column == column {
				on = append(on, r)
			}
		}
	}
	return on
}

// Each returns how many combinations of clustering values each key is asked for: the product of the
// numbers of values of all In, at most math.MaxInt32. It is 1 without In.
func (s *Slice) Each() int {
	n := 1
	if s != nil {
		for _, r := range s.Restrictions {
			values := max(len(r.Values), 1)
			if n > math.MaxInt32/values {
				return math.MaxInt32
			}
			n *= values
		}
	}
	return n
}

// Reversed reports whether rows are read from the last to the first; false for a nil Slice.
func (s *Slice) Reversed() bool { return s != nil && s.Reverse }

// Shape returns the Query.Shape of a query whose keys each name at least prefix clustering columns;
// s may be nil.
func (s *Slice) Shape(prefix int) string {
	if s == nil && prefix == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(strconv.Itoa(prefix))
	if s == nil {
		return b.String()
	}
	for _, r := range s.Restrictions {
		b.WriteByte(' ')
		b.WriteString(strconv.Itoa(r.Column))
		b.WriteString(r.Operator.String())
	}
	if s.Reverse {
		b.WriteString(" reverse")
	}
	return b.String()
}

// Same reports whether two slices select the same rows in the same order. Either may be nil.
func (s *Slice) Same(o *Slice) bool {
	if s == o {
		return true
	}
	return s != nil && o != nil && s.Reverse == o.Reverse && slices.EqualFunc(s.Restrictions, o.Restrictions, func(a, b Restriction) bool {
		return a.Column == b.Column && a.Operator == b.Operator && slices.EqualFunc(a.Values, b.Values, bytes.Equal)
	})
}
