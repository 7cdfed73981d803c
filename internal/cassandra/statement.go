package cassandra

import (
	"fmt"
	"slices"
	"strings"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// selection is which columns the statements of a query select. They are in the
// order of the table, each once, so that clients asking for the same columns in
// another order share one prepared statement: a server keeps a limited number.
type selection struct {
	table *schema.Table
	// columns are those selected.
	columns []schema.Column
	// asked is, for each cell of a row, its position in columns.
	asked []int
	// key is the position in columns of the partition key, where it is one
	// column; the rows of an IN are told apart by it.
	key int
}

// newSelection returns the selection of q's columns, and of the partition key
// where it is one column.
func newSelection(q *executor.Query) selection {
	s := selection{table: q.Table, key: -1, asked: make([]int, len(q.Columns))}
	single := len(q.Table.PartitionKey) == 1
	s.columns = make([]schema.Column, 0, len(q.Columns)+1)
	for _, c := range q.Table.Columns {
		isKey := single && c.Kind == schema.PartitionKey
		wanted := isKey
		for i, a := range q.Columns {
			if a.Name == c.Name {
				s.asked[i], wanted = len(s.columns), true
			}
		}
		if !wanted {
			continue
		}
		if isKey {
			s.key = len(s.columns)
		}
		s.columns = append(s.columns, c)
	}
	if len(s.columns) == 0 {
		// Only whether the partition exists was asked; CQL needs some column.
		s.columns = append(s.columns, q.Table.PartitionKey[0])
	}
	return s
}

// many returns the statement for any number of partitions; its first argument
// is the list of their keys.
func (s selection) many() string {
	return s.text(quote(s.table.PartitionKey[0].Name) + " IN ?")
}

// one returns the statement for one partition; its first arguments are the
// components of its key.
func (s selection) one() string {
	var where strings.Builder
	for i, c := range s.table.PartitionKey {
		if i > 0 {
			where.WriteString(" AND ")
		}
		where.WriteString(quote(c.Name) + " = ?")
	}
	return s.text(where.String())
}

// limited reports whether the statements take a limit of rows per partition as
// their last argument. A partition without clustering columns is one row.
func (s selection) limited() bool { return len(s.table.Clustering) > 0 }

func (s selection) text(where string) string {
	var b strings.Builder
	b.Grow(64 + 24*len(s.columns) + len(where))
	b.WriteString("SELECT ")
	for i, c := range s.columns {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(quote(c.Name))
	}
	b.WriteString(" FROM " + quote(s.table.Keyspace) + "." + quote(s.table.Name) + " WHERE " + where)
	if s.limited() {
		b.WriteString(" PER PARTITION LIMIT ?")
	}
	return b.String()
}

// check compares the columns of a result with those selected. They differ
// while a table that was dropped and created anew with other types is not yet
// in the snapshot; its cells must not be read as what they are not.
func (s selection) check(got []gocql.ColumnInfo) error {
	if len(got) != len(s.columns) {
		return fmt.Errorf("%w: %d columns of %s came instead of %d", errStale, len(got), s.table, len(s.columns))
	}
	for i, c := range s.columns {
		want, ok := protocolTypes[c.Type.Kind]
		came := got[i].TypeInfo.Type()
		if ok && came != gocql.TypeCustom && came != want {
			return fmt.Errorf("%w: column %s of %s is no longer %s", errStale, c.Name, s.table, c.Type)
		}
	}
	return nil
}

// protocolTypes is how result metadata names the kinds that have a code.
var protocolTypes = map[cqltype.Kind]gocql.Type{
	cqltype.ASCII: gocql.TypeAscii, cqltype.BigInt: gocql.TypeBigInt, cqltype.Blob: gocql.TypeBlob,
	cqltype.Boolean: gocql.TypeBoolean, cqltype.Counter: gocql.TypeCounter, cqltype.Date: gocql.TypeDate,
	cqltype.Decimal: gocql.TypeDecimal, cqltype.Double: gocql.TypeDouble, cqltype.Duration: gocql.TypeDuration,
	cqltype.Float: gocql.TypeFloat, cqltype.Inet: gocql.TypeInet, cqltype.Int: gocql.TypeInt,
	cqltype.SmallInt: gocql.TypeSmallInt, cqltype.Text: gocql.TypeVarchar, cqltype.Time: gocql.TypeTime,
	cqltype.Timestamp: gocql.TypeTimestamp, cqltype.TimeUUID: gocql.TypeTimeUUID, cqltype.TinyInt: gocql.TypeTinyInt,
	cqltype.UUID: gocql.TypeUUID, cqltype.VarInt: gocql.TypeVarint, cqltype.List: gocql.TypeList,
	cqltype.Set: gocql.TypeSet, cqltype.Map: gocql.TypeMap, cqltype.Tuple: gocql.TypeTuple, cqltype.UDT: gocql.TypeUDT,
}

// groupable reports whether keys of a type may share an IN. Cassandra sorts the
// values of an IN by the type's order and keeps one of those that compare as
// equal, so two partitions whose keys differ only in their bytes, as decimal
// 1.0 and 1.00 do, would come back as one and the other as if it did not exist.
func groupable(t *cqltype.Type) bool {
	return !slices.Contains(manyForms, t.Kind) && !slices.ContainsFunc(t.Elems, func(e *cqltype.Type) bool { return !groupable(e) })
}

// manyForms are the kinds of which different bytes may compare as equal, or
// whose order is not known here.
var manyForms = []cqltype.Kind{
	cqltype.Decimal, cqltype.VarInt, cqltype.Float, cqltype.Double, cqltype.Boolean, cqltype.Custom, cqltype.Unknown,
}

// quote returns a name as a CQL identifier that keeps its case.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
