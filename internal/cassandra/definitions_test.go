package cassandra

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/schema"
)

func columnDefinition(table, name, kind string, position int, typ string) row {
	return row{"keyspace_name": "ks", "table_name": table, "column_name": name, "kind": kind, "position": position, "type": typ}
}

func TestDefinitionsBecomeTables(t *testing.T) {
	d := definitions{
		tables: []row{
			{"keyspace_name": "ks", "table_name": "t", "id": id(7)},
			{"keyspace_name": "ks", "table_name": "half", "id": id(8)},
		},
		views: []row{{"keyspace_name": "ks", "view_name": "by_b", "id": id(9)}},
		types: []row{
			{"keyspace_name": "ks", "type_name": "address", "field_names": []string{"street", "geo"}, "field_types": []string{"text", "frozen<point>"}},
			{"keyspace_name": "ks", "type_name": "point", "field_names": []string{"x", "y"}, "field_types": []string{"double", "double"}},
			{"keyspace_name": "ks", "type_name": "loop", "field_names": []string{"l"}, "field_types": []string{"frozen<loop>"}},
		},
		columns: []row{
			columnDefinition("t", "z", "regular", -1, "int"),
			columnDefinition("t", "home", "regular", -1, "frozen<address>"),
			columnDefinition("t", "odd", "regular", -1, "no such<type"),
			columnDefinition("t", "l", "regular", -1, "frozen<loop>"),
			columnDefinition("t", "s", "static", -1, "text"),
			columnDefinition("t", "c2", "clustering", 1, "uuid"),
			columnDefinition("t", "c1", "clustering", 0, "timestamp"),
			columnDefinition("t", "p2", "partition_key", 1, "bigint"),
			columnDefinition("t", "p1", "partition_key", 0, "text"),
			columnDefinition("t", "x", "unheard of", 0, "text"),
			columnDefinition("half", "v", "regular", -1, "text"),
			columnDefinition("by_b", "b", "partition_key", 0, "text"),
		},
	}
	s := d.schema()
	table, ok := s.Table("ks", "t")
	require.True(t, ok)
	assert.Equal(t, id(7).String(), table.ID)
	var names []string
	for _, c := range table.Columns {
		names = append(names, c.Name)
	}
	assert.Equal(t, []string{"p1", "p2", "c1", "c2", "s", "home", "l", "odd", "z"}, names, "the order of SELECT *")
	assert.Len(t, table.PartitionKey, 2)
	assert.Equal(t, "c1", table.Clustering[0].Name)

	home, _ := table.Column("home")
	require.Equal(t, cqltype.UDT, home.Type.Kind)
	assert.Equal(t, []string{"street", "geo"}, home.Type.Fields)
	assert.Equal(t, cqltype.Double, home.Type.Elems[1].Elems[0].Kind)
	odd, _ := table.Column("odd")
	assert.Equal(t, cqltype.Custom, odd.Type.Kind, "an unknown type does not cost its table")
	loop, _ := table.Column("l")
	assert.Equal(t, cqltype.UDT, loop.Type.Kind, "a type that holds itself ends")

	view, ok := s.Table("ks", "by_b")
	require.True(t, ok, "materialized views are read like tables")
	assert.Equal(t, schema.PartitionKey, view.Columns[0].Kind)
	_, ok = s.Table("ks", "half")
	assert.False(t, ok, "a table without its key is being dropped")
}

func TestDefinitionsBecomeReplications(t *testing.T) {
	d := definitions{keyspaces: []row{
		{"keyspace_name": "a", "replication": map[string]string{"class": "org.apache.cassandra.locator.SimpleStrategy", "replication_factor": "3"}},
		{"keyspace_name": "b", "replication": map[string]string{"class": "NetworkTopologyStrategy", "dc1": "2", "dc2": "1"}},
		{"keyspace_name": "c"},
	}}
	r := d.replications()
	assert.Equal(t, 3, r["a"].Factor)
	assert.Equal(t, map[string]int{"dc1": 2, "dc2": 1}, r["b"].Factors)
	assert.Error(t, r["c"].Err)
}

// TestHiddenColumnsAreNotShown covers the columns that system_schema lists for tables with COMPACT
// STORAGE in Cassandra 5.0.
func TestHiddenColumnsAreNotShown(t *testing.T) {
	for name, test := range map[string]struct {
		flags   any
		columns []row
		want    map[string]schema.ColumnKind
	}{
		"static compact": {[]string(nil), []row{
			columnDefinition("t", "a", "partition_key", 0, "int"), columnDefinition("t", "b", "static", -1, "int"),
			columnDefinition("t", "column1", "clustering", 0, "text"), columnDefinition("t", "value", "regular", -1, "blob"),
		}, map[string]schema.ColumnKind{"a": schema.PartitionKey, "b": schema.Regular}},
		"dense without a value": {[]string{"compound", "dense"}, []row{
			columnDefinition("t", "a", "partition_key", 0, "int"), columnDefinition("t", "c", "clustering", 0, "int"),
			columnDefinition("t", "value", "regular", -1, "empty"),
		}, map[string]schema.ColumnKind{"a": schema.PartitionKey, "c": schema.Clustering}},
		"dense": {[]string{"dense"}, []row{
			columnDefinition("t", "a", "partition_key", 0, "int"), columnDefinition("t", "c", "clustering", 0, "int"),
			columnDefinition("t", "value", "regular", -1, "text"),
		}, map[string]schema.ColumnKind{"a": schema.PartitionKey, "c": schema.Clustering, "value": schema.Regular}},
		"not compact": {[]string{"compound"}, []row{
			columnDefinition("t", "a", "partition_key", 0, "int"), columnDefinition("t", "c", "clustering", 0, "int"),
			columnDefinition("t", "s", "static", -1, "int"), columnDefinition("t", "v", "regular", -1, "int"),
		}, map[string]schema.ColumnKind{"a": schema.PartitionKey, "c": schema.Clustering, "s": schema.Static, "v": schema.Regular}},
	} {
		t.Run(name, func(t *testing.T) {
			s := definitions{tables: []row{{"keyspace_name": "ks", "table_name": "t", "id": "1", "flags": test.flags}}, columns: test.columns}.schema()
			table, ok := s.Table("ks", "t")
			require.True(t, ok)
			got := map[string]schema.ColumnKind{}
			for _, c := range table.Columns {
				got[c.Name] = c.Kind
			}
			assert.Equal(t, test.want, got)
		})
	}
}
