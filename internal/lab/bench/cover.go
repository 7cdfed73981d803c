package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/quorum"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// coverTarget reads with the driver alone, as a client could that knows the replicas of its keys:
// without prices, hedges or retries.
type coverTarget struct {
	data    *Dataset
	ring    func() *ring.Ring
	read    func(ctx context.Context, host string, q *executor.Query, keys []partition.Key) ([]partition.Result, error)
	queries map[*kind]*executor.Query
	quorum  bool          // asks a quorum of the replicas of each key, and compares their answers
	turn    atomic.Uint32 // rotates the choice among hosts with equally many keys
	close   func()
}

// newCover returns the target cover or quorum-cover. It waits until the ring is known.
func (o *Open) newCover(ctx context.Context, quorum bool) (*coverTarget, error) {
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
	t := &coverTarget{
		data: o.Data, ring: cluster.Ring, read: driver.At, queries: o.queries(), quorum: quorum,
		close: func() { driver.Close(); cluster.Close() },
	}
	if quorum {
		addVersions(t.queries)
	}
	return t, nil
}

// addVersions adds to queries the write time and TTL of each column that has them, in the order
// that quorum.Compare expects.
func addVersions(queries map[*kind]*executor.Query) {
	for _, q := range queries {
		for _, c := range partition.Versioned(q.Columns) {
			q.Columns = append(q.Columns, c.With(schema.WriteTime), c.With(schema.TTL))
		}
	}
}

// Close implements Target.
func (t *coverTarget) Close() { t.close() }

// Do implements Target.
func (t *coverTarget) Do(ctx context.Context, l *Lookup) Outcome {
	keys := t.data.cqlKeys(l)
	covers, err := t.plan(keys)
	if err != nil {
		return Outcome{Failed: len(keys), Err: err}
	}
	var o Outcome
	var all sync.WaitGroup
	answers := make([][]partition.Result, len(covers))
	for i, statements := range covers {
		answers[i] = make([]partition.Result, len(keys))
		o.SubQueries += len(statements)
		for _, s := range statements {
			all.Go(func() { t.ask(ctx, t.queries[l.kind], keys, &s, answers[i]) })
		}
	}
	all.Wait()
	results := answers[0]
	if t.quorum {
		results = compare(answers, t.queries[l.kind].Columns)
	}
	t.data.verifyAll(&o, l, results)
	return o
}

// ask sends a statement and stores the results of its keys.
func (t *coverTarget) ask(ctx context.Context, q *executor.Query, keys []partition.Key, s *statement, results []partition.Result) {
	part := make([]partition.Key, len(s.keys))
	for i, k := range s.keys {
		part[i] = keys[k]
	}
	got, err := t.read(ctx, s.host, q, part)
	for i, k := range s.keys {
		if err != nil {
			results[k] = partition.Result{Status: partition.Failed, Err: err}
		} else {
			results[k] = got[i]
		}
	}
}

// compare returns for each key what its replicas say together. Keys that one of them did not
// answer, or whose answers differ, have failed. What is absent on all of them is believed to be,
// unlike by the proxy, which reads it again. columns are those of a query with addVersions.
func compare(answers [][]partition.Result, columns []schema.Column) []partition.Result {
	columns = slices.DeleteFunc(slices.Clone(columns), func(c schema.Column) bool { return c.Function != schema.Value })
	out := make([]partition.Result, len(answers[0]))
	for k := range out {
		replicas := make([]partition.Result, len(answers))
		for i := range answers {
			replicas[i] = answers[i][k]
		}
		if bad := slices.IndexFunc(replicas, func(r partition.Result) bool { return !r.Status.Answered() }); bad >= 0 {
			out[k] = replicas[bad]
			continue
		}
		result, outcome := quorum.Compare(replicas, columns)
		switch outcome {
		case quorum.Matched:
		case quorum.Absent:
			result = replicas[0]
			for i, row := range result.Rows {
				result.Rows[i] = row[:len(columns)]
			}
		default:
			result = partition.Result{Status: partition.Failed, Err: fmt.Errorf("the answers of the replicas: %s", outcome)}
		}
		out[k] = result
	}
	return out
}

// statement is one statement to one host, for the keys at these positions in the lookup.
type statement struct {
	host string
	keys []int
}

// plan returns the statements of a lookup: one cover of its keys or, for a quorum, as many as make
// one, each over other replicas of each key.
func (t *coverTarget) plan(keys []partition.Key) ([][]statement, error) {
	snapshot := t.ring()
	placement, ok := snapshot.Placement(t.data.Profile.Keyspace)
	if !ok {
		return nil, fmt.Errorf("the ring has no keyspace %s", t.data.Profile.Keyspace)
	}
	replicas, covers := make([][]ring.HostIndex, len(keys)), 1
	for i, k := range keys {
		replicas[i] = slices.Clone(placement.Local(ring.Token(k.Routing())))
		if len(replicas[i]) == 0 {
			return nil, fmt.Errorf("key %d has no replica in the local datacenter", i)
		}
		if t.quorum && len(replicas[i]) != len(replicas[0]) {
			return nil, fmt.Errorf("some keys have more replicas in the local datacenter than others, so that quorum-cover cannot ask a quorum of each: "+
				"give the keyspace %s NetworkTopologyStrategy", t.data.Profile.Keyspace)
		}
	}
	if t.quorum {
		covers = quorum.Of(len(replicas[0]))
	}
	out := make([][]statement, covers)
	for i := range out {
		out[i] = t.cover(snapshot, keys, replicas)
	}
	return out, nil
}

// cover returns statements for all keys, by greedy set cover: it picks the host with the most keys
// that are not covered yet, until all are. Ties go to the hosts in rotation. The keys of one host
// go into one statement for each value of the key columns before the last. The host of a key is
// removed from its replicas.
func (t *coverTarget) cover(snapshot *ring.Ring, keys []partition.Key, replicas [][]ring.HostIndex) []statement {
	hosts := snapshot.Len()
	holds := make([][]int, hosts) // by host, the keys that it holds
	for i := range keys {
		for _, h := range replicas[i] {
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
			replicas[k] = slices.DeleteFunc(replicas[k], func(h ring.HostIndex) bool { return int(h) == best })
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
	return out
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
