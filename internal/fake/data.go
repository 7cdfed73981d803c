package fake

import (
	"fmt"
	"os"
	"time"

	"github.com/qosproxy/qosproxy/internal/coalesce"
	"github.com/qosproxy/qosproxy/internal/config"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/planner"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// Data is what a fake serves: tables, rows and faults. It is immutable except for the count of
// faults that apply to a number of lookups.
type Data struct {
	tables   map[*schema.Table]*table
	schema   *schema.Schema
	settings []lookup.Settings
	ring     *ring.Ring
}

// Counts returns how many tables and rows there are.
func (d *Data) Counts() (tables, rows int) {
	for _, t := range d.tables {
		for _, p := range t.partitions {
			rows += len(p.all)
		}
	}
	return len(d.tables), rows
}

// file is the content of the YAML file.
type file struct {
	Types  []udtForm   `yaml:"types"`
	Tables []tableForm `yaml:"tables"`
}

// udtForm is a user-defined type.
type udtForm struct {
	Name   config.TableName `yaml:"name"`
	Fields config.Entries   `yaml:"fields"`
}

// tableForm is a table, with those table settings of the proxy that a client can observe.
type tableForm struct {
	Name         config.TableName `yaml:"name"`
	Columns      config.Entries   `yaml:"columns"`
	PartitionKey []string         `yaml:"partition_key"`
	Clustering   []string         `yaml:"clustering"`
	Static       []string         `yaml:"static"`

	Timeout          *time.Duration        `yaml:"timeout"`
	MaxKeys          *int                  `yaml:"max_keys"`
	MaxRowsPerKey    *int                  `yaml:"max_rows_per_key"`
	MaxResponseBytes *config.Bytes         `yaml:"max_response_bytes"`
	Consistency      *config.Consistency   `yaml:"consistency"`
	Consistencies    *[]config.Consistency `yaml:"consistencies"`

	Rows   []config.Entries `yaml:"rows"`
	Faults []faultForm      `yaml:"faults"`
}

// faultForm is a fault of a table.
type faultForm struct {
	Keys        []config.JSON   `yaml:"keys"`
	Delay       *time.Duration  `yaml:"delay"`
	Status      string          `yaml:"status"`
	Refuse      bool            `yaml:"refuse"`
	RetryAfter  *time.Duration  `yaml:"retry_after"`
	Probability *config.Percent `yaml:"probability"`
	Count       *int            `yaml:"count"`
}

// Load reads the data of a file. The error joins one *config.Error for each mistake.
func Load(path string) (*Data, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the data: %w; give the path of a readable file with --data", err)
	}
	return Parse(text, path)
}

// Parse reads the data from the text of a file; name is the file's name, for messages. The
// error joins one *config.Error for each mistake.
func Parse(text []byte, name string) (*Data, error) {
	var f file
	doc, err := config.ParseDocument(text, name, &f)
	if err != nil {
		return nil, err
	}
	b := &builder{doc: doc, file: &f, written: time.Now().UnixMicro()}
	d := b.data()
	if err := config.Join(b.problems); err != nil {
		return nil, err
	}
	return d, nil
}

// host is the only host of the ring. Its address is reserved for documentation (RFC 5737), so
// it belongs to no machine.
var host = ring.Host{ID: "1", Addr: "192.0.2.1:9042", DC: "dc1", Rack: "r1", Tokens: []int64{0}}

// data builds all tables.
func (b *builder) data() *Data {
	d := &Data{tables: map[*schema.Table]*table{}}
	keyspaces := map[string]ring.Replication{}
	seen := map[config.TableName]bool{}
	var all []*schema.Table
	if len(b.file.Tables) == 0 {
		b.refuse("tables", "is empty; list the tables to serve")
	}
	for i := range b.file.Tables {
		form, path := &b.file.Tables[i], fmt.Sprintf("tables[%d]", i)
		if form.Name == (config.TableName{}) {
			b.refuse(path+".name", "is missing; write keyspace.table")
			continue
		}
		if seen[form.Name] {
			b.refuse(path+".name", "%s is listed twice", form.Name)
		}
		seen[form.Name] = true
		t := b.table(form, path)
		if t == nil {
			continue
		}
		d.tables[t.schema] = t
		all = append(all, t.schema)
		d.settings = append(d.settings, b.settings(form, path))
		keyspaces[form.Name.Keyspace] = ring.Replication{Strategy: ring.SimpleStrategy, Factor: 1}
	}
	d.schema = schema.New(all)
	var err error
	if d.ring, err = ring.New(ring.Topology{LocalDC: host.DC, Keyspaces: keyspaces, Hosts: []ring.Host{host}}); err != nil {
		b.refuse("", "%s", err)
	}
	return d
}

// settings returns the settings of a table: those of the file, and otherwise the defaults of
// the proxy. Each key is a sub-query of its own, so that a fault affects no other key.
func (b *builder) settings(form *tableForm, path string) lookup.Settings {
	defaults := config.Default()
	s := defaults.Effective(&config.Table{Name: form.Name, Overrides: config.Overrides{
		Timeout: form.Timeout, MaxKeys: form.MaxKeys, MaxRowsPerKey: form.MaxRowsPerKey, MaxResponseBytes: form.MaxResponseBytes,
		Consistency: form.Consistency, Consistencies: form.Consistencies,
	}})
	for key, bad := range map[string]bool{
		"timeout": s.Timeout <= 0, "max_keys": s.MaxKeys < 1, "max_rows_per_key": s.MaxRowsPerKey < 1, "max_response_bytes": s.MaxResponseBytes < 1,
	} {
		if bad {
			b.refuse(path+"."+key, "must be above 0")
		}
	}
	out := lookup.Settings{
		Keyspace: form.Name.Keyspace, Table: form.Name.Table, Consistency: partition.Level(s.Consistency),
		Timeout: s.Timeout, Grouping: planner.Single, Coalesce: coalesce.Never, Alone: true,
		MaxKeys: s.MaxKeys, MaxRowsPerKey: s.MaxRowsPerKey, MaxResponseBytes: int(s.MaxResponseBytes),
	}
	for _, l := range s.Consistencies {
		out.Consistencies = append(out.Consistencies, partition.Level(l))
	}
	return out
}
