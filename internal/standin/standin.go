// Package standin runs the fake for the tests of this repository's clients. It decides only
// how a test writes its tables.
package standin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/qosproxy/qosproxy/internal/fake"
	"github.com/qosproxy/qosproxy/internal/server"
)

// Table is a table with its rows.
type Table struct {
	// Name is keyspace.table.
	Name string
	// Columns are written as in CQL, such as "price double". The first Key of them (0 means
	// 1) are the partition key, the next Clustering are the clustering columns.
	Columns         []string
	Key, Clustering int
	// Types are the fields of user-defined types by name, written like Columns.
	Types map[string][]string
	// Rows are the cells of each row as JSON, in the order of Columns.
	Rows [][]string
	// Slow is how long a read of a key takes. The key is written as JSON; if it has several
	// columns, as an array.
	Slow map[string]time.Duration
}

// Timeout is the timeout of every table, MaxKeys the largest number of keys in a lookup.
const (
	Timeout = 2 * time.Second
	MaxKeys = 100
)

// maxRows is the largest number of rows per key.
const maxRows = 100

// Serve runs a proxy with the tables until the returned function is called. It sets Lookup
// and HTTPContext of deps.
func Serve(ctx context.Context, cfg server.Config, deps server.Deps, tables ...Table) (*server.Server, func(), error) {
	data, err := fake.Parse(document(tables), "standin.yaml")
	if err != nil {
		return nil, nil, err
	}
	answers := fake.New(data)
	deps.Lookup, deps.HTTPContext = answers, fake.HTTPContext
	s := server.New(cfg, deps)
	if err := s.Start(ctx); err != nil {
		answers.Close()
		return nil, nil, err
	}
	return s, func() {
		_ = s.Shutdown(context.WithoutCancel(ctx))
		answers.Close()
	}, nil
}

// document returns tables as a file for the fake.
func document(tables []Table) []byte {
	var types, out bytes.Buffer
	for _, t := range tables {
		keyspace, _, _ := strings.Cut(t.Name, ".")
		for name, fields := range t.Types {
			fmt.Fprintf(&types, "- {name: %s.%s, fields: %s}\n", keyspace, name, columns(fields))
		}
		key := max(t.Key, 1)
		fmt.Fprintf(&out, "- name: %s\n  columns: %s\n  timeout: %s\n  max_keys: %d\n  max_rows_per_key: %d\n",
			t.Name, columns(t.Columns), Timeout, MaxKeys, maxRows)
		fmt.Fprintf(&out, "  partition_key: %s\n  clustering: %s\n", names(t.Columns[:key]), names(t.Columns[key:key+t.Clustering]))
		out.WriteString("  rows:\n")
		for _, row := range t.Rows {
			out.WriteString("  -\n")
			for i, cell := range row {
				name, _, _ := strings.Cut(t.Columns[i], " ")
				fmt.Fprintf(&out, "    %s: %s\n", text(name), cell)
			}
		}
		out.WriteString("  faults:\n")
		for key, after := range t.Slow {
			fmt.Fprintf(&out, "  - {keys: [%s], delay: %s}\n", key, after)
		}
	}
	return slices.Concat([]byte("types:\n"), types.Bytes(), []byte("tables:\n"), out.Bytes())
}

// columns returns columns as a YAML mapping from name to type.
func columns(of []string) string {
	parts := make([]string, len(of))
	for i, c := range of {
		name, typ, _ := strings.Cut(c, " ")
		parts[i] = text(name) + ": " + text(typ)
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// names returns the names of columns as a YAML list.
func names(of []string) string {
	parts := make([]string, len(of))
	for i, c := range of {
		name, _, _ := strings.Cut(c, " ")
		parts[i] = text(name)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// text returns s as a JSON string, which is valid in YAML.
func text(s string) string {
	quoted, _ := json.Marshal(s) //nolint:errchkjson // A string has a form.
	return string(quoted)
}
