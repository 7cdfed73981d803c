// Package bench decides how a lookup is measured. It loads a proxy, or Cassandra
// through the plain driver, with multi-key lookups, checks every row of every answer
// against what was written, and reports the latency and the cost of a lookup.
package bench

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// Profile describes a benchmark: the schema of one table, its data and the mix of lookups. The tags
// are the keys of its YAML form.
type Profile struct {
	// Name is the profile's name in reports; Description says which use case it stands for.
	Name        string `yaml:"name"`
	Description string `yaml:"description"`
	// Keyspace and Table are the names of keyspace and table, in lower case.
	Keyspace string `yaml:"keyspace"`
	Table    string `yaml:"table"`
	// Options are table options as they stand after WITH, such as
	// "speculative_retry = 'NONE'"; empty for Cassandra's defaults.
	Options string `yaml:"options"`
	// Partitions is the number of partitions written.
	Partitions int `yaml:"partitions"`
	// RowsPerPartition is the number of rows in each partition; more than 1 needs Clustering.
	RowsPerPartition int `yaml:"rows_per_partition"`
	// Key is the partition key column, of type text, bigint or uuid.
	Key Column `yaml:"key"`
	// KeyPrefix is the first column of a partition key of two, of the same types as Key; nil for a key
	// of one column. It has one of 16 values. The targets in and in-unpaged do not support it.
	KeyPrefix *Column `yaml:"key_prefix"`
	// Clustering is the clustering column, of type text or int; nil for none.
	Clustering *Column `yaml:"clustering"`
	// Columns are the other columns; at least one.
	Columns []Column `yaml:"columns"`
	// Keys says how keys are drawn.
	Keys Draw `yaml:"keys"`
	// Mix are the kinds of lookups with their weights; at least one.
	Mix []Kind `yaml:"mix"`
}

// Column is a column of the table of a profile.
type Column struct {
	// Name is the name, in lower case.
	Name string `yaml:"name"`
	// Type is text, blob, int, bigint, double, boolean or uuid.
	Type string `yaml:"type"`
	// Bytes lists the sizes of the values of a text or blob column, all equally frequent. Default 16.
	Bytes []int `yaml:"bytes"`
}

// Draw says how the keys of a lookup are drawn.
type Draw struct {
	// Distribution is uniform or zipf.
	Distribution string `yaml:"distribution"`
	// Exponent is the exponent of zipf, above 1; the larger, the more often the hottest keys are
	// drawn.
	Exponent float64 `yaml:"exponent"`
	// SharePrefix draws all keys of a lookup with the same value of key_prefix, drawn anew for each
	// lookup.
	SharePrefix bool `yaml:"share_prefix"`
	// Unknown is the share of keys that were never written, 0 to 1.
	Unknown float64 `yaml:"unknown"`
}

// The distributions of keys.
const (
	uniform = "uniform"
	zipf    = "zipf"
)

// Kind is one kind of lookup in the mix.
type Kind struct {
	// Weight is how often this kind is drawn, relative to the others; default 1.
	Weight int `yaml:"weight"`
	// Keys is the number of distinct keys of a lookup; default 50.
	Keys int `yaml:"keys"`
	// Columns are the columns of a lookup; empty for all outside of the partition key.
	Columns []string `yaml:"columns"`
	// Limit is the most rows of a key; 0 for all.
	Limit int `yaml:"limit_per_key"`
	// Rows asks for one row of each partition by its full primary key. The clustering value is the
	// same for all keys of a lookup. Only proxy-grpc and proxy-grpc-cql support it.
	Rows bool `yaml:"rows"`
}

// ReadProfile reads a profile from a YAML file. The error names the file and the key at fault.
func ReadProfile(file string) (*Profile, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	p, err := ParseProfile(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return p, nil
}

// ParseProfile parses the YAML of a profile, fills in the defaults and validates
// it.
func ParseProfile(data []byte) (*Profile, error) {
	p := &Profile{}
	if err := yaml.UnmarshalWithOptions(data, p, yaml.Strict()); err != nil {
		return nil, errors.New(yaml.FormatError(err, false, true))
	}
	p.complete()
	if err := p.validate(); err != nil {
		return nil, err
	}
	return p, nil
}

// complete fills in the defaults.
func (p *Profile) complete() {
	p.RowsPerPartition = orDefault(p.RowsPerPartition, 1)
	p.Keys.Distribution = orDefault(p.Keys.Distribution, uniform)
	p.Keys.Exponent = orDefault(p.Keys.Exponent, 1.1)
	p.Key.complete()
	if p.KeyPrefix != nil {
		p.KeyPrefix.complete()
	}
	if p.Clustering != nil {
		p.Clustering.complete()
	}
	for i := range p.Columns {
		p.Columns[i].complete()
	}
	if len(p.Mix) == 0 {
		p.Mix = []Kind{{}}
	}
	for i := range p.Mix {
		k := &p.Mix[i]
		k.Weight = orDefault(k.Weight, 1)
		k.Keys = orDefault(k.Keys, 50)
	}
}

func (c *Column) complete() {
	if len(c.Bytes) == 0 {
		c.Bytes = []int{16}
	}
}

func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// validate returns an error that names the first invalid key, or nil.
func (p *Profile) validate() error {
	switch {
	case !isName(p.Name):
		return fmt.Errorf("name: %q is not a name; use lower-case letters, digits and _", p.Name)
	case !isName(p.Keyspace):
		return fmt.Errorf("keyspace: %q is not a name; use lower-case letters, digits and _", p.Keyspace)
	case !isName(p.Table):
		return fmt.Errorf("table: %q is not a name; use lower-case letters, digits and _", p.Table)
	case p.Partitions < 1 || p.Partitions > maxPartitions:
		return fmt.Errorf("partitions: %d; use 1 to %d", p.Partitions, maxPartitions)
	case p.RowsPerPartition < 1 || p.RowsPerPartition > maxRows:
		return fmt.Errorf("rows_per_partition: %d; use 1 to %d", p.RowsPerPartition, maxRows)
	case p.RowsPerPartition > 1 && p.Clustering == nil:
		return errors.New("rows_per_partition: more than one row needs a clustering column")
	case len(p.Columns) == 0:
		return errors.New("columns: name at least one")
	}
	if err := p.validateColumns(); err != nil {
		return err
	}
	return p.validateLookups()
}

// The limits of a profile, whose keys are all kept in memory.
const (
	maxPartitions = 10_000_000
	maxRows       = 10_000
	maxBytes      = 1 << 20
)

func (p *Profile) validateColumns() error {
	if !slices.Contains([]string{"text", "bigint", "uuid"}, p.Key.Type) {
		return fmt.Errorf("key.type: %q; use text, bigint or uuid", p.Key.Type)
	}
	all := append([]Column{p.Key}, p.Columns...)
	if p.KeyPrefix != nil {
		if !slices.Contains([]string{"text", "bigint", "uuid"}, p.KeyPrefix.Type) {
			return fmt.Errorf("key_prefix.type: %q; use text, bigint or uuid", p.KeyPrefix.Type)
		}
		all = append(all, *p.KeyPrefix)
	}
	if p.Clustering != nil {
		if p.Clustering.Type != "text" && p.Clustering.Type != "int" {
			return fmt.Errorf("clustering.type: %q; use text or int", p.Clustering.Type)
		}
		all = append(all, *p.Clustering)
	}
	seen := map[string]bool{}
	for _, c := range all {
		switch {
		case !isName(c.Name):
			return fmt.Errorf("column %q is not a name; use lower-case letters, digits and _", c.Name)
		case seen[c.Name]:
			return fmt.Errorf("column %s is there twice", c.Name)
		case !slices.Contains(columnTypes, c.Type):
			return fmt.Errorf("column %s: type %q; use one of %s", c.Name, c.Type, strings.Join(columnTypes, ", "))
		}
		for _, n := range c.Bytes {
			if n < 1 || n > maxBytes {
				return fmt.Errorf("column %s: bytes %d; use 1 to %d", c.Name, n, maxBytes)
			}
		}
		seen[c.Name] = true
	}
	return nil
}

func (p *Profile) validateLookups() error {
	switch {
	case p.Keys.Distribution != uniform && p.Keys.Distribution != zipf:
		return fmt.Errorf("keys.distribution: %q; use uniform or zipf", p.Keys.Distribution)
	case p.Keys.Exponent <= 1:
		return fmt.Errorf("keys.exponent: %g; use more than 1", p.Keys.Exponent)
	case p.Keys.SharePrefix && p.KeyPrefix == nil:
		return errors.New("keys.share_prefix: it needs key_prefix")
	case p.Keys.SharePrefix && p.Keys.Unknown > 0:
		return errors.New("keys.share_prefix: all keys are written; leave out keys.unknown")
	case p.Keys.Unknown < 0 || p.Keys.Unknown > 1:
		return fmt.Errorf("keys.unknown: %g; use 0 to 1", p.Keys.Unknown)
	}
	for i, k := range p.Mix {
		switch {
		case k.Weight < 1:
			return fmt.Errorf("mix[%d].weight: %d; use at least 1", i, k.Weight)
		case p.Keys.SharePrefix && k.Keys > p.Partitions/prefixes:
			return fmt.Errorf("mix[%d].keys: %d; a prefix has %d of the partitions", i, k.Keys, p.Partitions/prefixes)
		case k.Keys < 1 || k.Keys > p.Partitions:
			return fmt.Errorf("mix[%d].keys: %d; use 1 to %d, the number of partitions", i, k.Keys, p.Partitions)
		case k.Rows && p.Clustering == nil:
			return fmt.Errorf("mix[%d].rows: without a clustering column a row is a partition", i)
		case k.Limit < 0:
			return fmt.Errorf("mix[%d].limit_per_key: %d; use 0 for all rows, or more", i, k.Limit)
		}
		for _, name := range k.Columns {
			if !slices.ContainsFunc(p.readable(), func(c Column) bool { return c.Name == name }) {
				return fmt.Errorf("mix[%d].columns: the profile has no column %s besides its key", i, name)
			}
		}
	}
	return nil
}

// keyColumns returns the columns of the partition key, in order.
func (p *Profile) keyColumns() []*Column {
	if p.KeyPrefix == nil {
		return []*Column{&p.Key}
	}
	return []*Column{p.KeyPrefix, &p.Key}
}

// readable returns the columns that lookups may ask for, the clustering column first.
func (p *Profile) readable() []Column {
	if p.Clustering == nil {
		return p.Columns
	}
	return append([]Column{*p.Clustering}, p.Columns...)
}

// isName reports whether s is an identifier that needs no quotes in CQL.
func isName(s string) bool {
	for i, r := range s {
		if (r < 'a' || r > 'z') && (i == 0 || (r < '0' || r > '9') && r != '_') {
			return false
		}
	}
	return s != ""
}
