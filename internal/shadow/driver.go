package shadow

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/reasons"
)

// Baseline is how the plain driver reads the keys of a lookup.
type Baseline string

// The baselines.
const (
	// In is one unpaged IN. If keys differ in more than the last column of the partition key,
	// there is one statement for each combination of the values of the other columns.
	In Baseline = "in"
	// Single is one statement for each key, sent to one of its replicas, all at the same time.
	Single Baseline = "single"
)

// Reader reads as the plain driver does: the proxy is not involved, and the driver chooses the
// coordinator. *cassandra.Baseline is one.
type Reader interface {
	// In reads keys by one statement. The keys may differ only in the last column of the
	// partition key. An error applies to all keys.
	In(ctx context.Context, q *partition.Query, keys []partition.Key) ([]partition.Result, error)
	// Single reads each key by a statement of its own. The failure of a key is in its result.
	Single(ctx context.Context, q *partition.Query, keys []partition.Key) ([]partition.Result, error)
}

// Driver is the Path of an application without the proxy.
type Driver struct {
	Reader   Reader
	Baseline Baseline
	// Timeout bounds a lookup; 0 leaves that to the reader.
	Timeout time.Duration
}

// nodeLocal is a level that the plain driver does not have: it uses localOne in its place.
const nodeLocal, localOne partition.Level = "NODE_LOCAL", "LOCAL_ONE"

// Read implements Path.
func (d *Driver) Read(ctx context.Context, req *lookup.Request) (*Answer, error) {
	if d.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.Timeout)
		defer cancel()
	}
	start := time.Now()
	q := queryOf(req)
	keys, at := distinct(req.Keys)
	groups := d.groups(q, keys)
	results := make([]partition.Result, len(keys))
	sent := len(groups)
	if d.Baseline == Single || q.Slice.Reversed() {
		// In reverse order a node would sort the rows of all partitions together.
		all, err := d.Reader.Single(ctx, q, keys)
		if err != nil {
			return nil, err
		}
		results, sent = all, len(keys)
	} else {
		d.in(ctx, q, keys, groups, results)
	}
	a := &Answer{Columns: q.Columns, Results: make([]partition.Result, len(at)), Sent: sent, Elapsed: time.Since(start)}
	for i, k := range at {
		a.Results[i] = results[k]
	}
	return a, nil
}

// in reads each group by one statement, all at the same time.
func (d *Driver) in(ctx context.Context, q *partition.Query, keys []partition.Key, groups [][]int, results []partition.Result) {
	var all sync.WaitGroup
	for _, group := range groups {
		all.Go(func() {
			part := make([]partition.Key, len(group))
			for i, k := range group {
				part[i] = keys[k]
			}
			answers, err := d.Reader.In(ctx, q, part)
			if err == nil && len(answers) != len(part) {
				err = fmt.Errorf("%d results for %d keys", len(answers), len(part))
			}
			for i, k := range group {
				if err != nil {
					results[k] = partition.Unanswered(reasons.HostError, err)
				} else {
					results[k] = answers[i]
				}
			}
		})
	}
	all.Wait()
}

// groups returns the keys of each statement, by position. The keys of a group differ only in
// the last column of the partition key.
func (d *Driver) groups(q *partition.Query, keys []partition.Key) [][]int {
	varying := len(q.Table.PartitionKey) - 1
	var groups [][]int
	of := map[string]int{}
	for i, k := range keys {
		var shared []byte
		for c, value := range k.Components() {
			if c != varying {
				shared = append(fmt.Appendf(shared, "%d:", len(value)), value...)
			}
		}
		g, known := of[string(shared)]
		if !known {
			g = len(groups)
			of[string(shared)], groups = g, append(groups, nil)
		}
		groups[g] = append(groups[g], i)
	}
	return groups
}

// queryOf returns the query that the proxy would read for every key, at a level that the
// driver has.
func queryOf(req *lookup.Request) *partition.Query {
	settings := req.Table.Settings
	q := &partition.Query{
		Table: req.Table.Schema, Columns: columnsOf(req),
		Consistency: partition.LevelOf(string(cmp.Or(req.Consistency, settings.Consistency))),
		Limit:       cmp.Or(req.LimitPerKey, settings.MaxRowsPerKey),
		Strict:      req.LimitPerKey == 0,
		Slice:       req.Slice,
		MaxBytes:    settings.MaxResponseBytes,
	}
	if q.Consistency == nodeLocal {
		q.Consistency = localOne
	}
	// A full primary key names one row, which has no order.
	full := len(req.Table.Schema.PartitionKey) + len(req.Table.Schema.Clustering)
	for _, k := range req.Keys {
		if len(k.Components()) < full {
			return q
		}
	}
	q.Slice = nil
	return q
}

// distinct returns each key once, and for each key its position among these.
func distinct(keys []partition.Key) (once []partition.Key, at []int) {
	at = make([]int, len(keys))
	seen := make(map[partition.ID]int, len(keys))
	for i, k := range keys {
		n, known := seen[k.ID()]
		if !known {
			n = len(once)
			seen[k.ID()], once = n, append(once, k)
		}
		at[i] = n
	}
	return once, at
}
