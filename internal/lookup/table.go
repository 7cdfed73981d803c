package lookup

import (
	"fmt"
	"slices"
	"strings"

	"github.com/qosproxy/qosproxy/internal/reasons"
	"github.com/qosproxy/qosproxy/internal/schema"
	"github.com/qosproxy/qosproxy/internal/suggest"
)

// MaxName is how many bytes of a name an error repeats. No table has a longer name.
const MaxName = 256

// Clip shortens a name that a caller made up to at most so many bytes.
func Clip(name string, most int) string {
	if len(name) <= most {
		return name
	}
	return strings.ToValidUTF8(name[:most], "") + "…"
}

// Table returns the table of that name with its current definition. Names are as Cassandra
// stores them, unquoted. The error is an *Error of kind ErrUnknownTable when the cluster has no
// such table, ErrForbidden when the configuration does not list it, ErrNotReady before the
// schema is known.
func (s *Service) Table(keyspace, name string) (*Table, error) {
	tables := s.cfg.Schema()
	if tables == nil {
		return nil, s.notReady()
	}
	settings, listed := s.served.Load().named[[2]string{keyspace, name}]
	definition, exists := tables.Table(keyspace, name)
	switch {
	case !exists:
		return nil, &Error{Reason: reasons.UnknownTable, Field: "table", Message: fmt.Sprintf("the cluster has no table %s.%s", keyspace, name)}
	case !listed:
		return nil, &Error{Reason: reasons.ForbiddenTable, Field: "table", Message: fmt.Sprintf(
			"table %s.%s may not be read through this proxy; its operator can list it under tables in the configuration", keyspace, name)}
	}
	columns := allowed(definition, settings.Columns)
	return &Table{
		Schema: definition, Settings: settings, Columns: columns, readable: columns, quorum: s.quorumOf(settings),
	}, nil
}

// quorumOf returns the size of a quorum of the local replicas of a table; 1 where it is not
// needed or the replicas are not known.
func (s *Service) quorumOf(settings *Settings) int {
	snapshot := s.cfg.Ring()
	if !settings.QuorumReads || snapshot == nil {
		return 1
	}
	placement, ok := snapshot.Placement(settings.Keyspace)
	if !ok {
		return 1
	}
	return len(placement.Local(0))/2 + 1
}

// Tables returns the tables that may be read and currently exist, in the order of the
// configuration.
func (s *Service) Tables() []*Table {
	var out []*Table
	for _, settings := range s.served.Load().order {
		if t, err := s.Table(settings.Keyspace, settings.Table); err == nil {
			out = append(out, t)
		}
	}
	return out
}

// allowed returns the columns of t with these names; all columns when names is empty. It
// ignores a name that the table lacks: the column may be added later.
func allowed(t *schema.Table, names []string) []schema.Column {
	if len(names) == 0 {
		return t.Columns
	}
	columns := make([]schema.Column, 0, len(names))
	for _, c := range t.Columns {
		if slices.Contains(names, c.Name) {
			columns = append(columns, c)
		}
	}
	return columns
}

// Narrow returns the table as seen by a client that may read only the named columns; no names
// means all that may be read of the table. Select then refuses any other column with
// ErrForbidden, so that a client cannot find out which columns exist.
func (t *Table) Narrow(names []string) *Table {
	narrow := *t
	narrow.narrowed, narrow.only = true, names
	narrow.Columns = make([]schema.Column, 0, len(t.Columns))
	for _, c := range t.Columns {
		if narrow.permits(c.Name) {
			narrow.Columns = append(narrow.Columns, c)
		}
	}
	return &narrow
}

// permits reports whether a column may be read, if it exists.
func (t *Table) permits(name string) bool {
	return (len(t.Settings.Columns) == 0 || slices.Contains(t.Settings.Columns, name)) &&
		(len(t.only) == 0 || slices.Contains(t.only, name))
}

// Select resolves the columns that a caller asks for, in that order: names of columns, or
// writetime(name) and ttl(name) where the column has them. No names means every column that may
// be read. The error is an *Error of kind ErrInvalid or ErrForbidden that names the position,
// such as columns[2].
func (t *Table) Select(names []string) ([]schema.Column, error) {
	if len(names) == 0 {
		if len(t.Columns) == 0 {
			return nil, &Error{Reason: reasons.ForbiddenColumn, Field: "columns", Message: fmt.Sprintf(
				"none of the columns that the configuration allows of %s exists in the cluster", t.Schema)}
		}
		return t.Columns, nil
	}
	columns := make([]schema.Column, 0, len(names))
	for i, name := range names {
		field := fmt.Sprintf("columns[%d]", i)
		function, of := schema.Value, name
		if _, exists := t.Schema.Column(name); !exists {
			if f, inner, ok := schema.ParseFunction(name); ok {
				function, of = f, inner
			}
		}
		c, err := t.column(field, of)
		if err != nil {
			return nil, err
		}
		if function != schema.Value {
			if !c.HasVersion() {
				return nil, Invalid(field, "%s tells nothing of column %q: it is part of the primary key, or its value has several cells", function, of)
			}
			c = c.With(function)
			if _, taken := t.Schema.Column(c.Name); taken {
				return nil, Invalid(field, "%s has a column that is named %q, which is what you get by that name", t.Schema, c.Name)
			}
		}
		if slices.ContainsFunc(columns, func(o schema.Column) bool { return o.Name == c.Name }) {
			return nil, Invalid(field, "column %q is asked twice", name)
		}
		columns = append(columns, c)
	}
	return columns, nil
}

// hint suggests a similar name, only among columns that the caller may read.
func (t *Table) hint(name string) string {
	names := make([]string, len(t.Columns))
	for i := range t.Columns {
		names[i] = t.Columns[i].Name
	}
	return suggest.Hint(name, names)
}

// column returns a column that may be read; field names its place in the request, for errors.
func (t *Table) column(field, name string) (schema.Column, error) {
	shown := Clip(name, MaxName)
	if t.narrowed && !t.permits(name) {
		return schema.Column{}, &Error{Reason: reasons.ForbiddenColumn, Field: field, Message: fmt.Sprintf("column %q of %s may not be read by this client%s", shown, t.Schema, t.hint(name))}
	}
	c, exists := t.Schema.Column(name)
	if !exists {
		return schema.Column{}, Invalid(field, "table %s has no column %q%s", t.Schema, shown, t.hint(name))
	}
	if !slices.ContainsFunc(t.Columns, func(a schema.Column) bool { return a.Name == name }) {
		return schema.Column{}, &Error{Reason: reasons.ForbiddenColumn, Field: field, Message: fmt.Sprintf(
			"column %q of %s may not be read through this proxy%s", shown, t.Schema, t.hint(name))}
	}
	return c, nil
}
