package identity

// Grant lets a client read one table.
type Grant struct {
	// Keyspace and Table name the table as Cassandra stores the names.
	Keyspace, Table string
	// Columns are the columns that may be read; empty means all those that the
	// configuration lists for the table.
	Columns []string
}

// Access is the tables and columns that a client may read. The zero Access
// allows nothing; a nil one sets no limit. It is immutable.
type Access struct {
	tables    map[[2]string][]string
	keyspaces map[string]bool
}

// NewAccess returns an Access with the given grants. Of two grants for one
// table the last counts.
func NewAccess(grants []Grant) *Access {
	a := &Access{tables: make(map[[2]string][]string, len(grants)), keyspaces: map[string]bool{}}
	for _, g := range grants {
		a.tables[[2]string{g.Keyspace, g.Table}] = g.Columns
		a.keyspaces[g.Keyspace] = true
	}
	return a
}

// Table returns which columns of a table may be read, where none means all, and
// whether the table may be read at all.
func (a *Access) Table(keyspace, table string) (columns []string, ok bool) {
	if a == nil {
		return nil, true
	}
	columns, ok = a.tables[[2]string{keyspace, table}]
	return columns, ok
}

// Keyspace reports whether any table of a keyspace may be read.
func (a *Access) Keyspace(name string) bool { return a == nil || a.keyspaces[name] }
