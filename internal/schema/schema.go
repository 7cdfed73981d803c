// Package schema decides which names exist in a cluster. A schema is an immutable snapshot of its
// tables: their columns, the types of these, and which of them form the partition key. Package
// lookup decides who may read them.
package schema

import (
	"slices"
	"strings"

	"github.com/qosproxy/qosproxy/internal/cqltype"
)

// ColumnKind is the role of a column in the primary key of its table.
type ColumnKind uint8

// The kinds of columns, in the order in which Cassandra lists them.
const (
	// PartitionKey columns choose the partition, and with it the replicas.
	PartitionKey ColumnKind = iota
	// Clustering columns order the rows within a partition.
	Clustering
	// Static columns are stored once per partition.
	Static
	// Regular columns are stored once per row.
	Regular
)

// Column is one column of a table.
type Column struct {
	// Name is the name as Cassandra stores it, case preserved and unquoted.
	Name string
	// Type is the CQL type of the column; never nil.
	Type *cqltype.Type
	// Kind is the role of the column in the primary key.
	Kind ColumnKind
	// Function is the function that is selected of the column Of, see Column.With. A column of the
	// table itself has Value, and no Of.
	Function Function
	Of       string
	// Descending is whether a clustering column orders rows from its greatest value to its least.
	Descending bool
}

// Function is what to select of a cell: its value, or a CQL function of it.
type Function uint8

// The functions.
const (
	// Value is the value of the cell.
	Value Function = iota
	// WriteTime is when the cell was written: a bigint of microseconds since 1970, by the clock of
	// the writer.
	WriteTime
	// TTL is the number of seconds until the cell expires: an int, null for never.
	TTL
)

var functions = map[Function]struct {
	name string
	typ  *cqltype.Type
}{WriteTime: {"writetime", &cqltype.Type{Kind: cqltype.BigInt}}, TTL: {"ttl", &cqltype.Type{Kind: cqltype.Int}}}

// ParseFunction splits writetime(name) or ttl(name), with the function in any case, into the
// function and the name of the column as Cassandra stores it. It returns false for any other text.
func ParseFunction(text string) (f Function, column string, ok bool) {
	function, rest, _ := strings.Cut(text, "(")
	column, ok = strings.CutSuffix(rest, ")")
	for f, of := range functions {
		if ok && strings.EqualFold(function, of.name) {
			return f, column, true
		}
	}
	return Value, "", false
}

// String returns the CQL name of the function, such as writetime; empty for Value.
func (f Function) String() string { return functions[f].name }

// With returns the column that selects f, which is not Value, of c. It has a name such as
// writetime(name).
func (c Column) With(f Function) Column {
	return Column{Name: f.String() + "(" + c.Name + ")", Type: functions[f].typ, Kind: c.Kind, Function: f, Of: c.Name}
}

// HasVersion reports whether CQL can return the write time and TTL of the column. It can for
// columns outside the primary key whose value is one cell. A collection or user-defined type that
// is not frozen has several.
func (c Column) HasVersion() bool {
	if c.Kind != Static && c.Kind != Regular || c.Function != Value {
		return false
	}
	switch c.Type.Kind {
	case cqltype.List, cqltype.Set, cqltype.Map, cqltype.UDT:
		return c.Type.Frozen
	case cqltype.Unknown, cqltype.Custom: // may be a collection that cannot be parsed
		return false
	default:
		return true
	}
}

// Table is the definition of one table at one moment. It is immutable.
type Table struct {
	// Keyspace and Name are the names as Cassandra stores them, unquoted.
	Keyspace, Name string
	// ID is the table's id in system_schema.tables (a UUID); a table that is
	// dropped and created again has another.
	ID string
	// PartitionKey and Clustering are the key columns in key order. Clustering
	// is empty for a table with one row per partition.
	PartitionKey, Clustering []Column
	// Columns are all columns in the order of SELECT *: partition key,
	// clustering, then static and regular columns by name.
	Columns []Column
	// View is whether the table is a materialized view.
	View bool
	// NoSpeculation is whether speculative_retry is NONE, so that no coordinator asks a second
	// replica because the first is late.
	NoSpeculation bool
	// NoReadRepair is whether read_repair is NONE, so that a read at a quorum whose replicas
	// differ returns the newest cells and repairs nothing.
	NoReadRepair bool

	byName map[string]int
}

// NewTable returns a table with the given columns, which must be in the order of
// SELECT *: partition key columns in key order, clustering columns in key order,
// static columns by name, regular columns by name.
func NewTable(keyspace, name, id string, columns []Column) *Table {
	t := &Table{Keyspace: keyspace, Name: name, ID: id, Columns: columns, byName: make(map[string]int, len(columns))}
	for i, c := range columns {
		t.byName[c.Name] = i
		switch c.Kind {
		case PartitionKey:
			t.PartitionKey = append(t.PartitionKey, c)
		case Clustering:
			t.Clustering = append(t.Clustering, c)
		case Static, Regular:
		}
	}
	return t
}

// Column returns the column of that name, as Cassandra stores it.
func (t *Table) Column(name string) (Column, bool) {
	i, ok := t.byName[name]
	if !ok {
		return Column{}, false
	}
	return t.Columns[i], true
}

// KeyColumn returns the column of the primary key at position i, from 0 in key order: the columns
// of the partition key, then the clustering columns.
func (t *Table) KeyColumn(i int) Column {
	if n := len(t.PartitionKey); i >= n {
		return t.Clustering[i-n]
	}
	return t.PartitionKey[i]
}

// KeyTypes returns the types and the names of the columns of the primary key, in key order.
func (t *Table) KeyTypes() (types []*cqltype.Type, names []string) {
	for i := range len(t.PartitionKey) + len(t.Clustering) {
		c := t.KeyColumn(i)
		types, names = append(types, c.Type), append(names, c.Name)
	}
	return types, names
}

// String returns keyspace.table.
func (t *Table) String() string { return t.Keyspace + "." + t.Name }

// Schema is every table of a cluster at one moment. It is immutable; a nil
// Schema has no table.
type Schema struct {
	tables map[[2]string]*Table
}

// New returns a schema of the given tables.
func New(tables []*Table) *Schema {
	s := &Schema{tables: make(map[[2]string]*Table, len(tables))}
	for _, t := range tables {
		s.tables[[2]string{t.Keyspace, t.Name}] = t
	}
	return s
}

// Table returns the table of that name, as Cassandra stores both names.
func (s *Schema) Table(keyspace, name string) (*Table, bool) {
	if s == nil {
		return nil, false
	}
	t, ok := s.tables[[2]string{keyspace, name}]
	return t, ok
}

// Names returns keyspace.table of every table, in order.
func (s *Schema) Names() []string {
	if s == nil {
		return nil
	}
	names := make([]string, 0, len(s.tables))
	for _, t := range s.tables {
		names = append(names, t.String())
	}
	slices.Sort(names)
	return names
}
