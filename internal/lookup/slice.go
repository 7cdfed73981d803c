package lookup

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/reasons"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// Condition restricts one clustering column, as a caller words it.
type Condition struct {
	// Column is the name of the column as Cassandra stores it.
	Column string
	// Operator says how the column compares with the values.
	Operator partition.Operator
	// Values are CQL-serialized values of the type of the column, not null: exactly one, or with
	// partition.In at least one. Duplicates count once.
	Values [][]byte
}

// whereField names the conditions on a column, in errors.
func whereField(column string) string { return "where." + Clip(column, 40) }

// ClusteringColumn returns the clustering column of that name, for a condition. The error is an
// *Error of kind ErrInvalid when the table has no such clustering column, and of kind ErrForbidden
// when the caller may not read it: conditions would reveal its values.
func (t *Table) ClusteringColumn(name string) (schema.Column, error) {
	field := whereField(name)
	i := t.clustering(name)
	switch {
	case !t.permits(name) && (t.narrowed || i >= 0):
		return schema.Column{}, &Error{Reason: reasons.ForbiddenColumn, Field: field, Message: fmt.Sprintf(
			"column %q of %s may not be read by this client, nor be restricted", Clip(name, MaxName), t.Schema)}
	case i >= 0:
		return t.Schema.Clustering[i], nil
	case len(t.Schema.Clustering) == 0:
		return schema.Column{}, Invalid(field, "%s has no clustering columns to restrict: every key is one row", t.Schema)
	}
	return schema.Column{}, Invalid(field, "%q is no clustering column of %s; there are %s", Clip(name, MaxName), t.Schema, t.clusteringNames())
}

// clustering returns the position of a clustering column, or -1 if there is none of that name.
func (t *Table) clustering(name string) int {
	return slices.IndexFunc(t.Schema.Clustering, func(c schema.Column) bool { return c.Name == name })
}

// clusteringNames lists the clustering columns.
func (t *Table) clusteringNames() string {
	names := make([]string, len(t.Schema.Clustering))
	for i, c := range t.Schema.Clustering {
		names[i] = c.Name
	}
	return strings.Join(names, ", ")
}

// maxConditions is the maximum size of the values of all conditions together, in bytes. No stored
// value is longer, and each statement of a lookup holds a copy of all.
const maxConditions = partition.MaxKeyBytes

// Slice returns the slice of the rows that meet all conditions, in clustering or reverse order;
// nil for all rows in clustering order. As in CQL, the conditions must restrict adjacent
// clustering columns, and none behind a range. The error is an *Error that names the column, such
// as where.ts.
func (t *Table) Slice(conditions []Condition, reverse bool) (*partition.Slice, error) {
	if reverse && len(t.Schema.Clustering) == 0 {
		return nil, Invalid("order", "%s has no clustering columns: a key is one row, which has no order", t.Schema)
	}
	if len(conditions) == 0 && !reverse {
		return nil, nil //nolint:nilnil // nil is every row
	}
	s, size := &partition.Slice{Reverse: reverse}, 0
	for _, c := range conditions {
		column, err := t.ClusteringColumn(c.Column)
		if err != nil {
			return nil, err
		}
		for _, v := range c.Values {
			size += len(v)
		}
		if size > maxConditions {
			return nil, Invalid(whereField(column.Name), "the values of where exceed %d bytes together; every statement holds them, so ask for less at a time",
				maxConditions)
		}
		r := partition.Restriction{Column: t.clustering(column.Name), Operator: c.Operator, Values: c.Values}
		if r.Operator == partition.In {
			// Sorted, so that slices with the same values are equal.
			r.Values = slices.Clone(r.Values)
			slices.SortFunc(r.Values, slices.Compare)
			r.Values = slices.CompactFunc(r.Values, slices.Equal)
		}
		s.Restrictions = append(s.Restrictions, r)
	}
	slices.SortFunc(s.Restrictions, func(a, b partition.Restriction) int {
		return cmp.Or(cmp.Compare(a.Column, b.Column), cmp.Compare(a.Operator, b.Operator))
	})
	for i := 1; i < len(s.Restrictions); i++ {
		if err := t.follows(s.Restrictions[i-1], s.Restrictions[i]); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// follows checks that restriction r may come directly after before.
func (t *Table) follows(before, r partition.Restriction) error {
	name, field := t.Schema.Clustering[r.Column].Name, whereField(t.Schema.Clustering[r.Column].Name)
	switch earlier := t.Schema.Clustering[before.Column].Name; {
	case r.Column == before.Column && (!before.Operator.Lower() || !r.Operator.Range() || r.Operator.Lower()):
		return Invalid(field, "%s and %s contradict or repeat each other; a column has one value, one list, or a lower and an upper bound",
			before.Operator, r.Operator)
	case r.Column == before.Column:
	case r.Column > before.Column+1:
		return Invalid(field, "%q is restricted before it must be %q", name, t.Schema.Clustering[before.Column+1].Name)
	case before.Operator.Range():
		return Invalid(field, "%q is behind a range of %q; only the last restricted column may have a range", name, earlier)
	}
	return nil
}

// checkSlice refuses a slice that does not begin where each key ends, one that asks for too many
// rows by its values, and a selection of rows without a column of the rows.
func (r *Request) checkSlice() error {
	restricted := r.Slice != nil && len(r.Slice.Restrictions) > 0
	if _, most := r.named(); (restricted || most > 0) && !r.asksOfRows() {
		return Invalid("columns", "a partition has them once, and not for each of its rows, as Cassandra says of such a SELECT; "+
			"leave the clustering values out, or ask for a column of the rows, too")
	}
	if !restricted {
		return nil
	}
	t, first := r.Table.Schema, r.Slice.Restrictions[0].Column
	for i := range r.Keys {
		named := r.namedBy(i)
		switch {
		case named > first:
			return Invalid(keyField(i), "it names the clustering column %q, which where restricts as well", t.Clustering[first].Name)
		case named < first:
			return Invalid(keyField(i), "where restricts %q, so that the key must name %q", t.Clustering[first].Name, t.Clustering[named].Name)
		}
	}
	if n := r.Slice.Each(); n*len(r.Keys) > r.Table.Settings.MaxKeys {
		return Invalid("where", "%d keys with %d values each are more than the %d (max_keys) that one lookup of %s may ask; send several lookups",
			len(r.Keys), n, r.Table.Settings.MaxKeys, t)
	}
	return nil
}

// asksOfRows reports whether some requested column has a value of its own in each row.
func (r *Request) asksOfRows() bool {
	columns := r.Columns
	if len(columns) == 0 {
		columns = r.Table.Columns
	}
	return slices.ContainsFunc(columns, func(c schema.Column) bool { return c.Kind == schema.Clustering || c.Kind == schema.Regular })
}

// keyField names the key at i in errors.
func keyField(i int) string { return fmt.Sprintf("keys[%d]", i) }

// named returns the smallest and the largest number of clustering columns that a key names.
func (r *Request) named() (least, most int) {
	least = len(r.Table.Schema.Clustering)
	for i := range r.Keys {
		n := r.namedBy(i)
		least, most = min(least, n), max(most, n)
	}
	return least, most
}

// namedBy returns how many clustering columns the key at i names.
func (r *Request) namedBy(i int) int {
	return len(r.Keys[i].Components()) - len(r.Table.Schema.PartitionKey)
}

// Level returns the consistency level that a request asks for, in any letter case; empty if it
// asks for none. The error is an *Error of kind ErrForbidden when the table does not allow the
// level.
func (t *Table) Level(asked string) (partition.Level, error) {
	if asked == "" {
		return "", nil
	}
	level := partition.LevelOf(strings.TrimSpace(asked))
	if level == t.Settings.Consistency || slices.Contains(t.Settings.Consistencies, level) {
		return level, nil
	}
	return "", &Error{Reason: reasons.ForbiddenLevel, Field: "consistency", Message: fmt.Sprintf(
		"the level is not among those that may be asked of %s (%s); its operator can list it under consistencies", t.Schema, strings.Join(t.Levels(), ", "))}
}

// Levels returns the consistency levels that a request may ask for, the default of the table
// first.
func (t *Table) Levels() []string {
	words := []string{string(t.Settings.Consistency)}
	for _, l := range t.Settings.Consistencies {
		if l != t.Settings.Consistency {
			words = append(words, string(l))
		}
	}
	return words
}
