package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// coverTarget reads with the driver alone, as a client could that knows the replicas of its keys:
// without prices, hedges or retries.
type coverTarget struct {
	data    *Dataset
	ring    func() *ring.Ring
	read    func(ctx context.Context, host string, q *executor.Query, keys []partition.Key) ([]partition.Result, error)
	queries map[*kind]*executor.Query
	turn    atomic.Uint32 // rotates the choice among hosts with equally many keys
	close   func()
}

// newCover returns the target cover. It waits until the ring is known.
func (o *Open) newCover(ctx context.Context) (*coverTarget, error) {
	cluster, err := cassandra.Open(ctx, o.Cassandra)
	if err != nil {
		return nil, err
	}
	if err := cluster.WaitReady(ctx); err != nil {
		cluster.Close()
		return nil, err
	}
	driver, err := cassandra.OpenBaseline(ctx, cassandra.BaselineConfig{Config: o.Cassandra})
	if err != nil {
		cluster.Close()
		return nil, err
	}
	return &coverTarget{
		data: o.Data, ring: cluster.Ring, read: driver.At, queries: o.queries(),
		close: func() { driver.Close(); cluster.Close() },
	}, nil
}

// Close implements Target.
func (t *coverTarget) Close() { t.close() }

// Do implements Target.
func (t *coverTarget) Do(ctx context.Context, l *Lookup) Outcome {
	keys := t.data.cqlKeys(l)
	statements, err := t.cover(keys)
	if err != nil {
		return Outcome{Failed: len(keys), Err: err}
	}
	results := make([]partition.Result, len(keys))
	var all sync.WaitGroup
	for _, s := range statements {
		all.Go(func() {
			part := make([]partition.Key, len(s.keys))
			for i, k := range s.keys {
				part[i] = keys[k]
			}
			got, err := t.read(ctx, s.host, t.queries[l.kind], part)
			for i, k := range s.keys {
				if err != nil {
					results[k] = partition.Result{Status: partition.Failed, Err: err}
				} else {
					results[k] = got[i]
				}
			}
		})
	}
	all.Wait()
	o := Outcome{SubQueries: len(statements)}
	t.data.verifyAll(&o, l, results)
	return o
}

// statement is one statement to one host, for the keys at these positions in the lookup.
type statement struct {
	host string
	keys []int
}

// cover returns the statements of a lookup, by greedy set cover: it picks the host with the most
// keys that are not covered yet, until all are. Ties go to the hosts in rotation. The keys of one
// host go into one statement for each value of the key columns before the last.
func (t *coverTarget) cover(keys []partition.Key) ([]statement, error) {
	snapshot := t.ring()
	placement, ok := snapshot.Placement(t.data.Profile.Keyspace)
	if !ok {
		return nil, fmt.Errorf("the ring has no keyspace %s", t.data.Profile.Keyspace)
	}
	hosts := snapshot.Len()
	holds := make([][]int, hosts) // by host, the keys that it holds
	for i, k := range keys {
		replicas := placement.Local(ring.Token(k.Routing()))
		if len(replicas) == 0 {
			return nil, fmt.Errorf("key %d has no replica in the local datacenter", i)
		}
		for _, h := range replicas {
			holds[h] = append(holds[h], i)
		}
	}
	var out []statement
	covered, first := make([]bool, len(keys)), int(t.turn.Add(1))
	for left := len(keys); left > 0; {
		best, most := 0, 0
		for n := range hosts {
			h, open := (first+n)%hosts, 0
			for _, k := range holds[h] {
				if !covered[k] {
					open++
				}
			}
			if open > most {
				best, most = h, open
			}
		}
		byPrefix := map[string]int{} // position in out
		for _, k := range holds[best] {
			if covered[k] {
				continue
			}
			covered[k] = true
			prefix := prefixOf(keys[k])
			at, ok := byPrefix[prefix]
			if !ok {
				at = len(out)
				byPrefix[prefix] = at
				out = append(out, statement{host: snapshot.Host(ring.HostIndex(best)).ID})
			}
			out[at].keys = append(out[at].keys, k)
		}
		left -= most
	}
	return out, nil
}

// prefixOf returns the encoded key columns before the last; empty for a key of one column. In the
// routing key each component has a length of two bytes before it and one byte after it.
func prefixOf(k partition.Key) string {
	last := len(k.Components()) - 1
	if last == 0 {
		return ""
	}
	return string(k.Routing()[:len(k.Routing())-len(k.Components()[last])-3])
}
