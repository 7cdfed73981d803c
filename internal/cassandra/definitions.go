package cassandra

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// definitions are the rows of system_schema at one version of the schema.
type definitions struct {
	keyspaces, tables, views, columns, types []row
}

// replications returns the replication of every keyspace.
func (d definitions) replications() map[string]ring.Replication {
	out := make(map[string]ring.Replication, len(d.keyspaces))
	for _, r := range d.keyspaces {
		option, _ := r["replication"].(map[string]string)
		out[text(r["keyspace_name"])] = ring.ParseReplication(option)
	}
	return out
}

// schema returns all tables and materialized views.
func (d definitions) schema() *schema.Schema {
	types := newTypeResolver(d.types)
	columns := make(map[[2]string][]columnRow)
	for _, r := range d.columns {
		keyspace := text(r["keyspace_name"])
		c, ok := newColumnRow(r, types.parse(text(r["type"]), keyspace))
		if !ok {
			continue
		}
		name := [2]string{keyspace, text(r["table_name"])}
		columns[name] = append(columns[name], c)
	}
	tables := make([]*schema.Table, 0, len(d.tables)+len(d.views))
	for _, list := range []struct {
		rows []row
		name string
		view bool
	}{{d.tables, "table_name", false}, {d.views, "view_name", true}} {
		for _, r := range list.rows {
			name := [2]string{text(r["keyspace_name"]), text(r[list.name])}
			if t, ok := newTable(name, text(r["id"]), visible(r, columns[name])); ok {
				t.View, t.NoSpeculation = list.view, noSpeculation(text(r["speculative_retry"]))
				t.NoReadRepair = strings.EqualFold(text(r["read_repair"]), "NONE")
				tables = append(tables, t)
			}
		}
	}
	return schema.New(tables)
}

// visible returns the columns of a table that CQL shows. For tables with COMPACT STORAGE
// system_schema lists others as well: the flags of the table tell which, as in Cassandra's
// DropCompactStorage. Views have no flags.
func visible(table row, columns []columnRow) []columnRow {
	flags, known := table["flags"].([]string)
	switch {
	case !known, slices.Contains(flags, "super"):
	case slices.Contains(flags, "dense"):
		// A table with all columns in its primary key has a hidden value of type empty.
		columns = slices.DeleteFunc(columns, func(c columnRow) bool { return c.Kind == schema.Regular && c.empty })
	case !slices.Contains(flags, "compound"):
		// A table without clustering columns keeps its columns as static ones.
		columns = slices.DeleteFunc(columns, func(c columnRow) bool { return c.Kind == schema.Clustering || c.Kind == schema.Regular })
		for i := range columns {
			if columns[i].Kind == schema.Static {
				columns[i].Kind = schema.Regular
			}
		}
	}
	return columns
}

// newTable returns a table, or false when it has no partition key, as when it is dropped while its
// columns are read.
func newTable(name [2]string, id string, columns []columnRow) (*schema.Table, bool) {
	slices.SortFunc(columns, func(a, b columnRow) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.position, b.position), cmp.Compare(a.Name, b.Name))
	})
	ordered := make([]schema.Column, len(columns))
	for i, c := range columns {
		ordered[i] = c.Column
	}
	t := schema.NewTable(name[0], name[1], id, ordered)
	return t, len(t.PartitionKey) > 0
}

// noSpeculation reports whether a speculative_retry is NONE, which Cassandra 4.0 and later
// write as NEVER.
func noSpeculation(policy string) bool {
	return strings.EqualFold(policy, "NONE") || strings.EqualFold(policy, "NEVER")
}

// columnRow is a column and its position among those of its kind. empty is whether its type is
// empty, which has no values.
type columnRow struct {
	schema.Column
	position int
	empty    bool
}

var columnKinds = map[string]schema.ColumnKind{
	"partition_key": schema.PartitionKey, "clustering": schema.Clustering,
	"static": schema.Static, "regular": schema.Regular,
}

func newColumnRow(r row, t *cqltype.Type) (columnRow, bool) {
	kind, ok := columnKinds[text(r["kind"])]
	position, _ := r["position"].(int)
	descending := text(r["clustering_order"]) == "desc"
	column := schema.Column{Name: text(r["column_name"]), Type: t, Kind: kind, Descending: descending}
	return columnRow{column, position, text(r["type"]) == "empty"}, ok
}

// typeResolver parses names of types, and resolves the user-defined types in them.
type typeResolver struct {
	rows map[[2]string]row
	done map[[2]string]*cqltype.Type
}

func newTypeResolver(rows []row) *typeResolver {
	r := &typeResolver{rows: make(map[[2]string]row, len(rows)), done: make(map[[2]string]*cqltype.Type, len(rows))}
	for _, u := range rows {
		r.rows[[2]string{text(u["keyspace_name"]), text(u["type_name"])}] = u
	}
	return r
}

// parse returns the type with the given name. One that cannot be parsed becomes a custom type,
// whose values are passed on as bytes, so that the table stays readable.
func (r *typeResolver) parse(name, keyspace string) *cqltype.Type {
	t, err := cqltype.Parse(name, r.udt, keyspace)
	if err != nil {
		return &cqltype.Type{Kind: cqltype.Custom, Name: name}
	}
	return t
}

func (r *typeResolver) udt(keyspace, name string) (*cqltype.Type, error) {
	id := [2]string{keyspace, name}
	if t, ok := r.done[id]; ok {
		return t, nil
	}
	u, ok := r.rows[id]
	if !ok {
		return nil, fmt.Errorf("user-defined type %s.%s does not exist", keyspace, name)
	}
	// Removed while its fields are resolved: a type that contains itself would otherwise never end.
	delete(r.rows, id)
	fields, _ := u["field_names"].([]string)
	typeNames, _ := u["field_types"].([]string)
	if len(typeNames) != len(fields) {
		return nil, fmt.Errorf("user-defined type %s.%s has %d fields and %d types", keyspace, name, len(fields), len(typeNames))
	}
	t := &cqltype.Type{Kind: cqltype.UDT, Keyspace: keyspace, Name: name, Fields: fields}
	for _, typeName := range typeNames {
		t.Elems = append(t.Elems, r.parse(typeName, keyspace))
	}
	r.done[id] = t
	return t, nil
}
