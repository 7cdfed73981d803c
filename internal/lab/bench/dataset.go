package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// Dataset is the data of a profile. Every value follows from the profile and the seed, so a reader
// that knows both can check each row. A Dataset is safe for concurrent use.
type Dataset struct {
	// Profile describes the table and its data.
	Profile *Profile
	// Seed determines every value outside of the partition key.
	Seed uint64

	noise   []byte
	columns []Column // the columns that lookups may ask for
	keys    []key
}

// key is a partition key, encoded for each kind of target.
type key struct {
	cql   partition.Key
	proto *qosproxyv1.Key
	json  []byte
}

// NewDataset returns the data of a profile. It encodes all keys in advance, and half as many that
// are never written.
func NewDataset(p *Profile, seed uint64) (*Dataset, error) {
	d := &Dataset{Profile: p, Seed: seed, noise: newNoise(seed), columns: p.readable()}
	d.keys = make([]key, p.Partitions+p.Partitions/2+1)
	for i := range d.keys {
		cells := d.keyCells(i)
		cql, err := partition.NewKey(cells...)
		if err != nil {
			return nil, fmt.Errorf("key %d of profile %s: %w", i, p.Name, err)
		}
		d.keys[i] = key{cql: cql, proto: &qosproxyv1.Key{}}
		for c, column := range p.keyColumns() {
			d.keys[i].proto.Components = append(d.keys[i].proto.Components, column.protoValue(cells[c]))
			if c > 0 {
				d.keys[i].json = append(d.keys[i].json, ',')
			}
			d.keys[i].json = column.appendJSON(d.keys[i].json, cells[c])
		}
		if len(cells) > 1 {
			d.keys[i].json = slices.Concat([]byte("["), d.keys[i].json, []byte("]"))
		}
	}
	return d, nil
}

// prefixes is the number of values of the first column in a key of two columns.
const prefixes = 16

// keyCells returns the components of the partition key of partition i. They do not depend on the
// seed: data of another seed have the same partitions with other rows.
func (d *Dataset) keyCells(i int) [][]byte {
	id := d.keyCell(&d.Profile.Key, i)
	if d.Profile.KeyPrefix == nil {
		return [][]byte{id}
	}
	return [][]byte{d.keyCell(d.Profile.KeyPrefix, i%prefixes), id}
}

// keyCell returns the i-th value of a column of the partition key.
func (d *Dataset) keyCell(c *Column, i int) []byte {
	if c.Type == "text" {
		return fmt.Appendf(nil, "%s-%07d", c.Name, i)
	}
	return c.appendCell(nil, d.noise, mix(uint64(i)))
}

// protoKey returns the key for a gRPC request: of one row of partition i, or with noRow of the
// whole partition.
func (d *Dataset) protoKey(i, row int) *qosproxyv1.Key {
	k := d.keys[i].proto
	if row == noRow {
		return k
	}
	value := d.columns[0].protoValue(d.cell(nil, i, row, 0))
	return &qosproxyv1.Key{Components: append(slices.Clip(k.GetComponents()), value)}
}

// keyNames returns the names of the partition key's columns, joined by the separator.
func (p *Profile) keyNames(separator string) string {
	var names []string
	for _, c := range p.keyColumns() {
		names = append(names, c.Name)
	}
	return strings.Join(names, separator)
}

// cell returns the cell of partition i, row r and column c of d.columns. The result may be backed
// by room or by the shared noise, and must not be modified.
func (d *Dataset) cell(room []byte, i, r, c int) []byte {
	column := &d.columns[c]
	if d.Profile.Clustering != nil && c == 0 {
		if column.Type == "text" {
			return fmt.Appendf(room, "%s-%05d", column.Name, r)
		}
		return column.appendCell(room, d.noise, uint64(r))
	}
	number := mix(mix(mix(d.Seed^uint64(i))^uint64(r)) ^ uint64(c))
	if column.Type == "text" || column.Type == "blob" {
		return column.piece(d.noise, number)
	}
	return column.appendCell(room, d.noise, number)
}

// rows returns how many rows of partition i a lookup with this limit must return; 0 is no limit.
func (d *Dataset) rows(i, limit int) int {
	switch {
	case i >= d.Profile.Partitions:
		return 0
	case limit > 0:
		return min(limit, d.Profile.RowsPerPartition)
	default:
		return d.Profile.RowsPerPartition
	}
}

// verify compares the rows returned for key k of a lookup with what was written and counts
// differences in o. equal reports whether the returned cell in a row and column of the lookup
// equals cell.
func (d *Dataset) verify(o *Outcome, l *Lookup, k, rows int, equal func(row, column int, cell []byte) bool) {
	want, first := d.rows(l.Keys[k], l.kind.Limit), 0
	if l.row != noRow {
		want, first = min(want, 1), l.row
	}
	switch {
	case rows == 0 && want > 0:
		o.Missing++
		return
	case rows > want:
		o.Wrong += rows - want
	case rows < want:
		o.Wrong += want - rows
	}
	var room [64]byte
	for r := range min(rows, want) {
		for j, c := range l.kind.columns {
			if !equal(r, j, d.cell(room[:0], l.Keys[k], first+r, c)) {
				o.Wrong++
				break
			}
		}
	}
}

// equalRaw returns an equal function for verify that compares cells in CQL's encoding.
func equalRaw(rows []partition.Row) func(int, int, []byte) bool {
	return func(r, c int, cell []byte) bool { return bytes.Equal(rows[r][c], cell) }
}

// Create creates keyspace and table with the given replication, such as "{'class':
// 'NetworkTopologyStrategy', 'dc1': 3}". If they exist, they stay as they are.
func (d *Dataset) Create(ctx context.Context, client *cassandra.Client, replication string) error {
	p := d.Profile
	if err := client.Exec(ctx, "CREATE KEYSPACE IF NOT EXISTS "+p.Keyspace+" WITH replication = "+replication); err != nil {
		return err
	}
	var cql strings.Builder
	fmt.Fprintf(&cql, "CREATE TABLE IF NOT EXISTS %s.%s (", p.Keyspace, p.Table)
	for _, c := range p.keyColumns() {
		fmt.Fprintf(&cql, "%s %s, ", c.Name, c.Type)
	}
	primary := "(" + p.keyNames(", ") + ")"
	for _, c := range d.columns {
		fmt.Fprintf(&cql, "%s %s, ", c.Name, c.Type)
	}
	if p.Clustering != nil {
		primary += ", " + p.Clustering.Name
	}
	fmt.Fprintf(&cql, "PRIMARY KEY (%s))", primary)
	if p.Options != "" {
		cql.WriteString(" WITH " + p.Options)
	}
	return client.Exec(ctx, cql.String())
}

// loadWriters is how many rows are written at the same time.
const loadWriters = 64

// Load writes all rows. It reports to progress, which may be nil, how many of them are written.
func (d *Dataset) Load(ctx context.Context, client *cassandra.Client, progress func(done, all int)) error {
	p := d.Profile
	if progress == nil {
		progress = func(int, int) {}
	}
	if err := client.Load(ctx, d.insert(), d.all(progress), loadWriters); err != nil {
		return fmt.Errorf("load %s.%s: %w", p.Keyspace, p.Table, err)
	}
	return nil
}

// insert returns the statement that writes a row.
func (d *Dataset) insert() string {
	p := d.Profile
	names := []string{p.keyNames(", ")}
	for _, c := range d.columns {
		names = append(names, c.Name)
	}
	marks := strings.TrimSuffix(strings.Repeat("?, ", len(names)+len(p.keyColumns())-1), ", ")
	return fmt.Sprintf("INSERT INTO %s.%s (%s) VALUES (%s)", p.Keyspace, p.Table, strings.Join(names, ", "), marks)
}

// Differ writes a share of the rows, from 0 to 1, once more to each of the hosts alone, at
// NODE_LOCAL, which the hosts must allow. The values stay the same, but each host has its own write
// time. Differ returns the first error.
func (d *Dataset) Differ(ctx context.Context, client *cassandra.Client, hosts []string, share float64) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(loadWriters)
	now, rows := time.Now().UnixMicro(), 0
	for row := range d.all(func(int, int) {}) {
		chosen := float64(mix(uint64(rows))>>11)/(1<<53) < share
		rows++
		if !chosen {
			continue
		}
		for i, host := range hosts {
			g.Go(func() error {
				return client.ExecNodeLocal(ctx, host, fmt.Sprintf("%s USING TIMESTAMP %d", d.insert(), now+int64(i)), row...)
			})
		}
	}
	return g.Wait()
}

// all yields the values of every row.
func (d *Dataset) all(progress func(done, all int)) iter.Seq[[]any] {
	return func(yield func([]any) bool) {
		all := d.Profile.Partitions * d.Profile.RowsPerPartition
		for n := range all {
			i, r := n/d.Profile.RowsPerPartition, n%d.Profile.RowsPerPartition
			row := d.keyValues(i)
			for c := range d.columns {
				row = append(row, d.columns[c].goValue(d.cell(nil, i, r, c)))
			}
			if !yield(row) {
				return
			}
			if (n+1)%500 == 0 || n+1 == all {
				progress(n+1, all)
			}
		}
	}
}

// keyValues returns the partition key of partition i as Go values for the driver.
func (d *Dataset) keyValues(i int) []any {
	var values []any
	for c, cell := range d.keyCells(i) {
		values = append(values, d.Profile.keyColumns()[c].goValue(cell))
	}
	return values
}

// Loaded returns an error if the data are missing or differ, judged by three partitions. The error
// says what to do.
func (d *Dataset) Loaded(ctx context.Context, client *cassandra.Client) error {
	p := d.Profile
	hint := errors.New("write the data first: qoslab bench load, with the same profile and seed")
	cql := fmt.Sprintf("SELECT %s FROM %s.%s WHERE %s = ?", d.columns[0].Name, p.Keyspace, p.Table, p.keyNames(" = ? AND "))
	for _, i := range []int{0, p.Partitions / 2, p.Partitions - 1} {
		rows, err := client.QueryRaw(ctx, cql, d.keyValues(i)...)
		if err != nil {
			return fmt.Errorf("%w; %w", err, hint)
		}
		if len(rows) != p.RowsPerPartition || !bytes.Equal(rows[0][0], d.cell(nil, i, 0, 0)) {
			return fmt.Errorf("%s.%s does not hold the data of profile %s with seed %d; %w", p.Keyspace, p.Table, p.Name, d.Seed, hint)
		}
	}
	return nil
}

// Routing returns the routing key of partition i, whose hash is its token.
func (d *Dataset) Routing(i int) []byte { return d.keys[i].cql.Routing() }
