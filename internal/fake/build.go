package fake

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/qosproxy/qosproxy/internal/config"
	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// builder makes the tables of a file. It goes on after a mistake, so that one run shows
// all.
type builder struct {
	doc      *config.Document
	file     *file
	problems []*config.Error
	// written is the write time of cells for which the file gives none, in microseconds
	// since 1970.
	written int64
	// resolving are the user-defined types being resolved; one that recurs contains
	// itself.
	resolving []config.TableName
}

func (b *builder) refuse(path, format string, args ...any) {
	b.problems = append(b.problems, b.doc.Problem(path, format, args...))
}

// table makes a table; nil if there is a mistake in its columns.
func (b *builder) table(form *tableForm, path string) *table {
	columns := b.columns(form, path)
	if columns == nil {
		return nil
	}
	t := &table{
		schema:  schema.NewTable(form.Name.Keyspace, form.Name.Table, "1", columns),
		written: b.written, partitions: map[string]*rows{},
	}
	b.fill(t, form.Rows, path)
	for i := range form.Faults {
		b.fault(t, &form.Faults[i], fmt.Sprintf("%s.faults[%d]", path, i))
	}
	return t
}

// columns returns the columns of a table in the order of SELECT *; nil if there is a
// mistake.
func (b *builder) columns(form *tableForm, path string) []schema.Column {
	before := len(b.problems)
	if len(form.Columns) == 0 {
		b.refuse(path+".columns", "is missing; write each column with its CQL type, such as id: text")
		return nil
	}
	key := form.PartitionKey
	if len(key) == 0 {
		key = []string{form.Columns[0].Name}
	}
	var names []string
	clustering := map[string]bool{}
	for i, c := range form.Clustering {
		name, descending, err := clusteringOrder(c)
		if err != nil {
			b.refuse(fmt.Sprintf("%s.clustering[%d]", path, i), "%s", err)
		}
		names, clustering[name] = append(names, name), descending
	}
	kinds := map[string]schema.ColumnKind{}
	b.claim(kinds, form, path+".partition_key", key, schema.PartitionKey)
	b.claim(kinds, form, path+".clustering", names, schema.Clustering)
	b.claim(kinds, form, path+".static", form.Static, schema.Static)
	if len(form.Static) > 0 && len(form.Clustering) == 0 {
		b.refuse(path+".static", "a table without clustering columns has one row per partition, and no static columns")
	}
	var columns []schema.Column
	for _, e := range form.Columns {
		kind, ok := kinds[e.Name]
		if !ok {
			kind = schema.Regular
		}
		typ, err := b.parseType(e.Value, form.Name.Keyspace)
		if err == nil && kind <= schema.Clustering {
			err = fitsKey(typ)
		}
		if err != nil {
			b.refuse(path+".columns."+e.Name, "%s", err)
			continue
		}
		columns = append(columns, schema.Column{Name: e.Name, Type: typ, Kind: kind, Descending: clustering[e.Name]})
	}
	if len(b.problems) > before {
		return nil
	}
	inKey := slices.Concat(key, names)
	slices.SortFunc(columns, func(x, y schema.Column) int {
		return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(slices.Index(inKey, x.Name), slices.Index(inKey, y.Name)), cmp.Compare(x.Name, y.Name))
	})
	return columns
}

// claim sets the kind of columns, and refuses unknown or claimed ones.
func (b *builder) claim(kinds map[string]schema.ColumnKind, form *tableForm, path string, names []string, kind schema.ColumnKind) {
	for i, name := range names {
		at := fmt.Sprintf("%s[%d]", path, i)
		_, taken := kinds[name]
		switch {
		case !slices.ContainsFunc(form.Columns, func(e config.Entry) bool { return e.Name == name }):
			b.refuse(at, "%s", unknown(name, "column", columnNames(form.Columns)))
		case taken:
			b.refuse(at, "column %q has a part in the primary key already, or is static", name)
		}
		kinds[name] = kind
	}
}

func columnNames(columns config.Entries) []string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.Name
	}
	return names
}

// clusteringOrder splits a text such as "ts desc" into column and order.
func clusteringOrder(text string) (name string, descending bool, err error) {
	name, order, _ := strings.Cut(strings.TrimSpace(text), " ")
	switch strings.ToLower(strings.TrimSpace(order)) {
	case "", "asc":
		return name, false, nil
	case "desc":
		return name, true, nil
	}
	return name, false, fmt.Errorf("%q: write a column, and asc or desc behind it", text)
}

// fitsKey refuses the types that Cassandra refuses in a primary key.
func fitsKey(t *cqltype.Type) error {
	switch t.Kind {
	case cqltype.Counter, cqltype.Duration:
		return fmt.Errorf("a %s may not be part of the primary key", t)
	case cqltype.List, cqltype.Set, cqltype.Map, cqltype.UDT:
		if !t.Frozen {
			return fmt.Errorf("a collection or user-defined type in the primary key is frozen: write frozen<%s>", t)
		}
	default:
	}
	return nil
}

// parseType parses the type of a column or field.
func (b *builder) parseType(text config.JSON, keyspace string) (*cqltype.Type, error) {
	var name string
	if json.Unmarshal(text, &name) != nil || name == "" {
		return nil, errors.New("is no CQL type; write such as text, int or set<text> (in {} within quotes, if it has a comma)")
	}
	return cqltype.Parse(name, b.udt, keyspace)
}

// udt resolves a user-defined type.
func (b *builder) udt(keyspace, name string) (*cqltype.Type, error) {
	full := config.TableName{Keyspace: keyspace, Table: name}
	i := slices.IndexFunc(b.file.Types, func(u udtForm) bool { return u.Name == full })
	switch {
	case i < 0:
		return nil, fmt.Errorf("no type %s; list it under types with its fields", full)
	case slices.Contains(b.resolving, full):
		return nil, fmt.Errorf("type %s contains itself", full)
	}
	b.resolving = append(b.resolving, full)
	defer func() { b.resolving = b.resolving[:len(b.resolving)-1] }()
	t := &cqltype.Type{Kind: cqltype.UDT, Keyspace: keyspace, Name: name}
	for _, e := range b.file.Types[i].Fields {
		field, err := b.parseType(e.Value, keyspace)
		if err != nil {
			return nil, fmt.Errorf("field %s of %s: %w", e.Name, full, err)
		}
		t.Fields, t.Elems = append(t.Fields, e.Name), append(t.Elems, field)
	}
	return t, nil
}

// filling is a partition whose rows are still being read.
type filling struct {
	rows
	static row
	// at are the paths of the rows in the file, by their clustering values.
	at map[string]string
}

// fill reads the rows of a table into its partitions.
func (b *builder) fill(t *table, forms []config.Entries, path string) {
	partitions := map[string]*filling{}
	for i, form := range forms {
		b.row(t, partitions, form, fmt.Sprintf("%s.rows[%d]", path, i))
	}
	for routing, p := range partitions {
		if len(p.all) == 0 {
			p.all, p.bare = []*row{&p.static}, true
		}
		for _, r := range p.all {
			for i, c := range t.schema.Columns {
				if c.Kind == schema.Static {
					r.cells[i] = p.static.cells[i]
				}
			}
			if r != &p.static {
				maps.Copy(r.versions, p.static.versions)
			}
		}
		slices.SortFunc(p.all, t.compare)
		t.partitions[routing] = &p.rows
	}
}

// row reads one row into its partition.
func (b *builder) row(t *table, partitions map[string]*filling, form config.Entries, path string) {
	before := len(b.problems)
	r := &row{cells: make(partition.Row, len(t.schema.Columns)), versions: map[int]version{}}
	for _, e := range form {
		if err := t.set(r, e); err != nil {
			b.refuse(path+"."+e.Name, "%s", err)
		}
	}
	if len(b.problems) > before {
		return
	}
	n := len(t.schema.PartitionKey)
	for i, c := range t.schema.PartitionKey {
		if r.cells[i] == nil {
			b.refuse(path, "has no value of %q, which is part of the partition key", c.Name)
			return
		}
	}
	key, err := partition.NewKey(r.cells[:n]...)
	if err != nil {
		b.refuse(path, "%s", err)
		return
	}
	named := slices.IndexFunc(r.cells[n:n+len(t.schema.Clustering)], func(c []byte) bool { return c == nil })
	whole := named < 0
	if !whole && slices.ContainsFunc(r.cells[n:n+len(t.schema.Clustering)], func(c []byte) bool { return c != nil }) || !whole && t.hasRegular(r) {
		b.refuse(path, "has no value of %q, which is a clustering column; only a row of static values alone has none", t.schema.Clustering[named].Name)
		return
	}
	p := partitions[string(key.Routing())]
	if p == nil {
		p = &filling{at: map[string]string{}, static: row{cells: slices.Clone(r.cells), versions: map[int]version{}}}
		for i := n; i < len(p.static.cells); i++ {
			p.static.cells[i] = nil
		}
		partitions[string(key.Routing())] = p
	}
	if err := t.takeStatic(p, r); err != nil {
		b.refuse(path, "%s", err)
		return
	}
	id := fmt.Sprintf("%q", r.cells[n:n+len(t.schema.Clustering)])
	if other, taken := p.at[id]; taken {
		b.refuse(path, "has the primary key of %s", other)
		return
	}
	p.at[id] = path
	if whole {
		p.all = append(p.all, r)
	}
}

func (t *table) hasRegular(r *row) bool {
	for i, c := range t.schema.Columns {
		if c.Kind == schema.Regular && r.cells[i] != nil {
			return true
		}
	}
	return false
}

// takeStatic copies the static values of a row to its partition, which has each once.
func (t *table) takeStatic(p *filling, r *row) error {
	for i, c := range t.schema.Columns {
		if c.Kind != schema.Static || r.cells[i] == nil {
			continue
		}
		if have := p.static.cells[i]; have != nil && !slices.Equal(have, r.cells[i]) {
			return fmt.Errorf("has another value of the static column %q than a row before it of the same partition", c.Name)
		}
		p.static.cells[i] = r.cells[i]
		if v, ok := r.versions[i]; ok {
			p.static.versions[i] = v
		}
	}
	return nil
}

// set sets one value of a row: a cell, or its write time or TTL.
func (t *table) set(r *row, e config.Entry) error {
	at := slices.IndexFunc(t.schema.Columns, func(c schema.Column) bool { return e.Name == c.Name || e.Name == cqltype.ColumnJSONName(c.Name) })
	if at >= 0 {
		var err error
		r.cells[at], err = encode(t.schema.Columns[at].Type, e.Value)
		return err
	}
	if f, of, ok := schema.ParseFunction(e.Name); ok {
		if at = t.position(of); at >= 0 {
			return r.setVersion(t.schema.Columns[at], at, f, e.Value)
		}
	}
	names := make([]string, len(t.schema.Columns))
	for i, c := range t.schema.Columns {
		names[i] = c.Name
	}
	return unknown(e.Name, "column", names)
}

// setVersion sets the write time or TTL of a cell.
func (r *row) setVersion(c schema.Column, at int, f schema.Function, value config.JSON) error {
	if !c.HasVersion() {
		return fmt.Errorf("there is no %s of %q: it is part of the primary key, or its value has several cells", f, c.Name)
	}
	v := r.versions[at]
	bits := 64
	if f == schema.TTL {
		bits = 32
	}
	n, err := strconv.ParseInt(string(value), 10, bits)
	if err != nil || n < 0 {
		return fmt.Errorf("%s is no whole number; write microseconds since 1970 as writetime, and seconds as ttl", value)
	}
	if f == schema.TTL {
		v.ttl = &n
	} else {
		v.written = &n
	}
	r.versions[at] = v
	return nil
}

// encode encodes a cell. A decimal keeps its digits, as SELECT JSON prints them; a
// counter is written like a bigint.
func encode(t *cqltype.Type, value config.JSON) ([]byte, error) {
	if t.Kind == cqltype.Counter {
		t = &cqltype.Type{Kind: cqltype.BigInt}
	}
	if t.Kind == cqltype.Decimal && len(value) > 0 && (value[0] == '-' || '0' <= value[0] && value[0] <= '9') {
		value = config.JSON(strconv.Quote(string(value)))
	}
	cell, err := t.EncodeJSON(value)
	if err != nil && utf8.Valid(value) && len(value) > 0 && (t.Kind == cqltype.Text || t.Kind == cqltype.ASCII) && value[0] != '"' {
		return nil, fmt.Errorf("%w; write it in quotes", err)
	}
	return cell, err
}

// fault adds a fault to a table.
func (b *builder) fault(t *table, form *faultForm, path string) {
	before := len(b.problems)
	f := &fault{probability: 1, retryAfter: defaultRetryAfter, refuse: form.Refuse}
	types, names := t.schema.KeyTypes()
	for i, key := range form.Keys {
		values, err := cqltype.KeyFromJSON(types, names, len(t.schema.PartitionKey), key)
		if err != nil {
			b.refuse(fmt.Sprintf("%s.keys[%d]", path, i), "%s", err)
		}
		f.keys = append(f.keys, values)
	}
	if form.Delay != nil {
		if f.delay = *form.Delay; f.delay <= 0 {
			b.refuse(path+".delay", "must be above 0")
		}
	}
	if form.RetryAfter != nil {
		if f.retryAfter = *form.RetryAfter; f.retryAfter <= 0 {
			b.refuse(path+".retry_after", "must be above 0")
		}
	}
	if form.Status != "" {
		var err error
		if f.status, err = parseStatus(form.Status); err != nil {
			b.refuse(path+".status", "%s", err)
		}
	}
	if form.Probability != nil {
		f.probability = float64(*form.Probability)
	}
	if form.Count != nil {
		if *form.Count < 1 {
			b.refuse(path+".count", "must be 1 or more")
		}
		f.left = new(atomic.Int64)
		f.left.Store(int64(*form.Count))
	}
	if len(b.problems) > before {
		return
	}
	if err := f.check(); err != nil {
		b.refuse(path, "%s", err)
		return
	}
	t.faults = append(t.faults, f)
}
