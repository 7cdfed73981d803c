package cassandra

import (
	"bytes"
	"context"
	"strings"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/qosproxy/qosproxy/internal/doctor"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// table examines one table: the statistics of the nodes, whether it can be read, and how long a
// lookup of one of its keys takes at each replica.
func (s *inspection) table(ctx context.Context, first *site, r *ring.Ring, q doctor.Question, out *doctor.Table) {
	asking, cancel := context.WithTimeout(ctx, siteTimeout)
	defer cancel()
	out.MeanBytes = first.meanBytes(asking, q)
	most, err := first.mostRows(asking, q)
	out.MostRows, out.CountsDenied = most, denied(err)
	key, err := first.anyKey(asking, out.Definition)
	switch {
	case denied(err):
		out.Denied = true
	case err != nil:
		out.Failure = plainCause(err)
	}
	if key == nil || r == nil {
		return
	}
	placement, ok := r.Placement(q.Keyspace)
	if !ok {
		return
	}
	selected := newSelection(&executor.Query{Table: out.Definition, Columns: readable(q, out.Definition), Consistency: "LOCAL_ONE"})
	args := make([]any, 0, len(key.Components())+1)
	for _, c := range key.Components() {
		args = append(args, rawValue(c))
	}
	named := len(args)
	if selected.limited(named) {
		args = append(args, q.Rows)
	}
	for _, h := range placement.Local(ring.Token(key.Routing())) {
		host := r.Host(h)
		at := s.sites[host.Addr]
		if at == nil || at.failure != "" {
			continue
		}
		lookup := doctor.Lookup{Host: host.Addr}
		if lookup.Took, err = at.timed(ctx, selected.one(named), args); err != nil {
			lookup.Took, lookup.Failure = 0, plainCause(err)
		}
		out.Lookups = append(out.Lookups, lookup)
	}
}

// meanBytes returns the mean size of a partition in bytes by the estimates of the node, 0 when it
// has none. They cover what it has on disk, and are some minutes old.
func (at *site) meanBytes(ctx context.Context, q doctor.Question) int64 {
	rows, err := at.rows(ctx, "SELECT mean_partition_size, partitions_count FROM system.size_estimates WHERE keyspace_name = ? AND table_name = ?", q.Keyspace, q.Table)
	if err != nil {
		return 0
	}
	return meanOf(rows)
}

// meanOf returns the mean over the ranges of an estimate, each weighted by its partitions.
func meanOf(rows []row) int64 {
	var total, partitions int64
	for _, r := range rows {
		mean, _ := r["mean_partition_size"].(int64)
		n, _ := r["partitions_count"].(int64)
		total += mean * n
		partitions += n
	}
	if partitions == 0 {
		return 0
	}
	return total / partitions
}

// mostRows returns the most rows that a read of the table has returned at the node, 0 when unknown.
func (at *site) mostRows(ctx context.Context, q doctor.Question) (int64, error) {
	rows, err := at.rows(ctx, "SELECT * FROM system_views.rows_per_read WHERE keyspace_name = ? AND table_name = ?", q.Keyspace, q.Table)
	if err != nil || len(rows) != 1 {
		return 0, err
	}
	switch most := rows[0]["max"].(type) {
	case float64:
		return int64(most), nil
	case int64:
		return most, nil
	}
	return 0, nil
}

// anyKey returns the key of some partition, nil when the table is empty.
func (at *site) anyKey(ctx context.Context, t *schema.Table) (*partition.Key, error) {
	names := make([]string, len(t.PartitionKey))
	for i, c := range t.PartitionKey {
		names[i] = quote(c.Name)
	}
	cells, err := at.read(ctx, "SELECT "+strings.Join(names, ", ")+" FROM "+quote(t.Keyspace)+"."+quote(t.Name)+" LIMIT 1", nil)
	if err != nil || cells == nil {
		return nil, err
	}
	key, err := partition.NewKey(cells...)
	if err != nil {
		return nil, err
	}
	return &key, nil
}

// timed returns the least of three times that a statement takes at the node, after a first run that
// prepares it.
func (at *site) timed(ctx context.Context, text string, args []any) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, siteTimeout)
	defer cancel()
	var least time.Duration
	for i := range 4 {
		begin := time.Now()
		if _, err := at.read(ctx, text, args); err != nil {
			return 0, err
		}
		if took := time.Since(begin); i > 0 && (least == 0 || took < least) {
			least = took
		}
	}
	return least, nil
}

// read runs a statement at LOCAL_ONE and returns the cells of its first row, nil when there is
// none.
func (at *site) read(ctx context.Context, text string, args []any) ([][]byte, error) {
	scan := at.session.Query(text, args...).Consistency(gocql.LocalOne).PageSize(0).IterContext(ctx)
	cells := make([]rawCell, len(scan.Columns()))
	dest := make([]any, len(cells))
	for i := range cells {
		dest[i] = &cells[i]
	}
	var first [][]byte
	for scan.Scan(dest...) {
		if first == nil {
			first = make([][]byte, len(cells))
			for i, c := range cells {
				first[i] = bytes.Clone(c)
			}
		}
	}
	return first, scan.Close()
}
