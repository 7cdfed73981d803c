package cassandra

import (
	"slices"
	"strings"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/quorum"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// selection is which columns the statements of a query select. They are in the order of the table,
// each once, so that clients that ask for the same columns in another order share one prepared
// statement: a server keeps a limited number.
type selection struct {
	table *schema.Table
	// columns are those selected.
	columns []schema.Column
	// asked is, for each cell of a row to return, its position in columns.
	asked []int
	// whole is whether more is selected than was asked for; see columnSets.
	whole bool
	// slice restricts the rows of every key; nil for none.
	slice *partition.Slice
	// varying is the column of the key in which the keys of an IN differ, counted in key
	// order; none where no statement is an IN.
	varying int
	// many are the columns that an IN selects, and key is the position in them of the varying one,
	// by which rows are assigned to keys. It is at the end unless it is in columns anyway.
	many []schema.Column
	key  int
}

// none means that there is no such column.
const none = partition.NoColumn

// newSelection returns the selection of q's columns, and of the partition key
// where it is one column.
func newSelection(q *executor.Query) selection { return selectionOf(q, nil) }

// selectionOf also selects the columns in more, which are read and not returned.
func selectionOf(q *executor.Query, more []schema.Column) selection {
	s := selection{table: q.Table, slice: q.Slice, asked: make([]int, len(q.Columns)), varying: none}
	single := len(q.Table.PartitionKey) == 1
	s.columns = make([]schema.Column, 0, max(len(q.Columns), len(more))+1)
	for _, c := range q.Table.Columns {
		wanted := single && c.Kind == schema.PartitionKey || slices.ContainsFunc(more, func(m schema.Column) bool { return m.Name == c.Name })
		for i, a := range q.Columns {
			if a.Name == c.Name && a.Function == schema.Value {
				s.asked[i], wanted = len(s.columns), true
			}
		}
		if wanted {
			s.columns = append(s.columns, c)
		}
	}
	for i, a := range q.Columns {
		if a.Function != schema.Value {
			s.asked[i] = s.add(a)
		}
	}
	if len(s.columns) == 0 {
		// Only the existence of the partition was asked for; CQL needs some column.
		s.columns = append(s.columns, q.Table.PartitionKey[0])
	}
	if q.Consistency == partition.OwnData {
		s.addVersions(q)
	}
	return s
}

// add selects a column unless it is selected already, and returns its position.
func (s *selection) add(c schema.Column) int {
	if i := slices.IndexFunc(s.columns, func(o schema.Column) bool { return o.Name == c.Name && o.Function == c.Function }); i >= 0 {
		return i
	}
	s.columns = append(s.columns, c)
	return len(s.columns) - 1
}

// addVersions selects the write time and TTL of all columns that have them, and appends to asked
// those of the columns asked for. They follow from the columns, so that there are no more
// statements than without them.
func (s *selection) addVersions(q *executor.Query) {
	for _, c := range partition.Versioned(quorum.Comparables(slices.Clip(s.columns))) {
		s.add(c.With(schema.WriteTime))
		s.add(c.With(schema.TTL))
	}
	for _, c := range partition.Versioned(q.Columns) {
		s.asked = append(s.asked, s.add(c.With(schema.WriteTime)), s.add(c.With(schema.TTL)))
	}
}

// vary makes the column at a position in key order the varying one, once.
func (s *selection) vary(column int) {
	s.varying = column
	if column == none {
		return
	}
	key := s.table.KeyColumn(column)
	s.many = s.columns
	s.key = slices.IndexFunc(s.columns, func(c schema.Column) bool { return c.Name == key.Name })
	if s.key < 0 {
		s.key = len(s.columns)
		s.many = append(slices.Clip(s.columns), key)
	}
}

// in returns the statement for several keys that each name the given number of columns and differ
// only in the varying one. Its arguments are the components of a key in order, with the list of
// values in place of that column, then the values of the slice, then the limits of rows.
func (s *selection) in(named int) string { return s.text(s.many, named, s.varying) }

// one returns the statement for one key that names the given number of columns. Its arguments are
// the same, without a list.
func (s *selection) one(named int) string { return s.text(s.columns, named, none) }

// limited reports whether statements for keys that name the given number of columns end with limits
// of rows: one per partition and, for several keys, one in all. A full primary key is one row.
func (s *selection) limited(named int) bool {
	return named < len(s.table.PartitionKey)+len(s.table.Clustering)
}

// text returns the statement that selects columns by the first named columns of the key. The column
// at in, or none, has an IN.
func (s *selection) text(columns []schema.Column, named, in int) string {
	var b strings.Builder
	b.Grow(96 + 24*len(columns))
	b.WriteString("SELECT ")
	for i := range columns {
		if i > 0 {
			b.WriteString(", ")
		}
		if columns[i].Function == schema.Value {
			writeQuoted(&b, columns[i].Name)
			continue
		}
		b.WriteString(columns[i].Function.String())
		b.WriteByte('(')
		writeQuoted(&b, columns[i].Of)
		b.WriteByte(')')
	}
	b.WriteString(" FROM ")
	writeQuoted(&b, s.table.Keyspace)
	b.WriteByte('.')
	writeQuoted(&b, s.table.Name)
	for i := range named {
		b.WriteString([...]string{" WHERE ", " AND "}[min(i, 1)])
		writeQuoted(&b, s.table.KeyColumn(i).Name)
		operator := partition.Equal
		if i == in {
			operator = partition.In
		}
		b.WriteString(operator.CQL())
	}
	s.restrict(&b)
	if s.limited(named) {
		b.WriteString(" PER PARTITION LIMIT ?")
		if in != none {
			b.WriteString(" LIMIT ?")
		}
	}
	return b.String()
}

// restrict writes the restrictions of the slice and its order. Reversing the first clustering
// column reverses all.
func (s *selection) restrict(b *strings.Builder) {
	if s.slice == nil {
		return
	}
	for _, r := range s.slice.Restrictions {
		b.WriteString(" AND ")
		writeQuoted(b, s.table.Clustering[r.Column].Name)
		b.WriteString(r.Operator.CQL())
	}
	if !s.slice.Reverse {
		return
	}
	b.WriteString(" ORDER BY ")
	writeQuoted(b, s.table.Clustering[0].Name)
	if s.table.Clustering[0].Descending {
		b.WriteString(" ASC")
	} else {
		b.WriteString(" DESC")
	}
}

// quote returns a name as a CQL identifier that keeps its case.
func quote(name string) string {
	var b strings.Builder
	writeQuoted(&b, name)
	return b.String()
}

// writeQuoted writes what quote returns.
func writeQuoted(b *strings.Builder, name string) {
	b.WriteByte('"')
	b.WriteString(strings.ReplaceAll(name, `"`, `""`))
	b.WriteByte('"')
}
