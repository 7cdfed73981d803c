package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
)

const twoColumns = "name: two\nkeyspace: ks\ntable: t\npartitions: 400\nkey_prefix: {name: tenant, type: text}\nkey: {name: id, type: text}\n" +
	"columns: [{name: v, type: int}]\nkeys: {distribution: uniform, share_prefix: %t}\nmix: [{keys: 20}]\n"

// sixHosts returns a ring of two hosts in each of three racks, RF 3, so that the two hosts of a
// rack together have all keys.
func sixHosts(t *testing.T, keyspace string) *ring.Ring {
	t.Helper()
	topology := ring.Topology{LocalDC: "dc1", Keyspaces: map[string]ring.Replication{
		keyspace: {Strategy: "NetworkTopologyStrategy", Factors: map[string]int{"dc1": 3}},
	}}
	for i := range 6 {
		h := ring.Host{ID: fmt.Sprintf("host%d", i), Addr: fmt.Sprintf("127.0.0.%d:9042", i+1), DC: "dc1", Rack: fmt.Sprintf("rack%d", i%3)}
		for v := range 16 {
			h.Tokens = append(h.Tokens, int64(mix(uint64(100*i+v))))
		}
		topology.Hosts = append(topology.Hosts, h)
	}
	r, err := ring.New(topology)
	require.NoError(t, err)
	return r
}

// coverOver returns the target cover over an honest reader, and a function that returns its
// statements.
func coverOver(t *testing.T, d *Dataset, l *Lookup, broken string) (*coverTarget, func() []statement) {
	t.Helper()
	snapshot := sixHosts(t, d.Profile.Keyspace)
	var mu sync.Mutex
	var asked []statement
	at := map[string]int{}
	for i := range l.Keys {
		at[string(d.keys[l.Keys[i]].cql.Routing())] = i
	}
	open := Open{Data: d, kinds: []*kind{l.kind}}
	c := &coverTarget{data: d, ring: func() *ring.Ring { return snapshot }, queries: open.queries(), close: func() {}}
	c.read = func(_ context.Context, host string, _ *executor.Query, keys []partition.Key) ([]partition.Result, error) {
		s, results := statement{host: host}, make([]partition.Result, len(keys))
		for i, k := range keys {
			n := at[string(k.Routing())]
			s.keys = append(s.keys, n)
			results[i] = partition.Result{Status: partition.Found, Rows: rowsOf(d, l, n)}
		}
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, s)
		if host == broken {
			return nil, errors.New("broken")
		}
		return results, nil
	}
	return c, func() []statement { return asked }
}

func TestACoverIsTheTwoHostsOfARack(t *testing.T) {
	d := dataset(t, small, 7)
	l := newWorkload(d, d.resolve(d.Profile.Mix), 1).next()
	c, asked := coverOver(t, d, l, "")
	assert.Equal(t, Outcome{SubQueries: 2}, c.Do(t.Context(), l))
	placement, _ := c.ring().Placement(d.Profile.Keyspace)
	seen := map[int]bool{}
	for _, s := range asked() {
		for _, k := range s.keys {
			require.False(t, seen[k], "a key is asked once")
			seen[k] = true
			owner := slices.ContainsFunc(placement.Replicas(ring.Token(d.keys[l.Keys[k]].cql.Routing())), func(h ring.HostIndex) bool {
				return c.ring().Host(h).ID == s.host
			})
			assert.True(t, owner, "key %d at %s", k, s.host)
		}
	}
	assert.Len(t, seen, len(l.Keys))
}

func TestHostsOfACoverTakeTurns(t *testing.T) {
	d := dataset(t, small, 7)
	l := newWorkload(d, d.resolve([]Kind{{Weight: 1, Keys: 1}}), 1).next()
	c, asked := coverOver(t, d, l, "")
	for range 60 {
		c.Do(t.Context(), l)
	}
	hosts := map[string]int{}
	for _, s := range asked() {
		hosts[s.host]++
	}
	assert.Len(t, hosts, 3, "all replicas of the key")
	for h, n := range hosts {
		assert.GreaterOrEqual(t, n, 10, h)
	}
}

func TestAStatementOfACoverHasOnePrefix(t *testing.T) {
	for _, share := range []bool{true, false} {
		d := dataset(t, fmt.Sprintf(twoColumns, share), 7)
		l := newWorkload(d, d.resolve(d.Profile.Mix), 1).next()
		c, asked := coverOver(t, d, l, "")
		got := c.Do(t.Context(), l)
		assert.Equal(t, Outcome{SubQueries: len(asked())}, got)
		for _, s := range asked() {
			for _, k := range s.keys {
				assert.Equal(t, l.Keys[s.keys[0]]%prefixes, l.Keys[k]%prefixes)
			}
		}
		if share {
			assert.Len(t, asked(), 2)
		} else {
			assert.Greater(t, len(asked()), 2)
		}
	}
}

func TestAHostThatFailsIsNoAnswerToItsKeys(t *testing.T) {
	d := dataset(t, small, 7)
	l := newWorkload(d, d.resolve(d.Profile.Mix), 1).next()
	probe, asked := coverOver(t, d, l, "")
	probe.Do(t.Context(), l)
	first := asked()[0]
	c, _ := coverOver(t, d, l, first.host)
	got := c.Do(t.Context(), l)
	assert.Equal(t, len(first.keys), got.Failed)
	assert.ErrorContains(t, got.Err, "broken")
}

// The statements of quorum-cover go to two different replicas of each key, and answers that differ
// in a write time are no answer.
func TestAQuorumCoverComparesTwoReplicas(t *testing.T) {
	for name, differ := range map[string]bool{"alike": false, "written at other times": true} {
		t.Run(name, func(t *testing.T) {
			d := dataset(t, small, 7)
			l := newWorkload(d, d.resolve(d.Profile.Mix), 1).next()
			c, asked := coverOver(t, d, l, "")
			c.quorum = true
			addVersions(c.queries)
			values := c.read
			c.read = func(ctx context.Context, host string, q *executor.Query, keys []partition.Key) ([]partition.Result, error) {
				results, err := values(ctx, host, q, keys)
				for _, r := range results {
					for i := range r.Rows {
						for range (len(q.Columns) - len(r.Rows[i])) / 2 {
							written := make([]byte, 8)
							if differ {
								written[7] = host[len(host)-1]
							}
							r.Rows[i] = append(r.Rows[i], written, nil)
						}
					}
				}
				return results, err
			}
			got := c.Do(t.Context(), l)
			require.Len(t, asked(), 4)
			hosts := map[int]map[string]bool{}
			for _, s := range asked() {
				for _, k := range s.keys {
					if hosts[k] == nil {
						hosts[k] = map[string]bool{}
					}
					hosts[k][s.host] = true
				}
			}
			require.Len(t, hosts, len(l.Keys))
			for k, two := range hosts {
				assert.Len(t, two, 2, k)
			}
			if !differ {
				assert.Equal(t, Outcome{SubQueries: 4}, got)
				return
			}
			assert.Equal(t, len(l.Keys), got.Failed)
			assert.ErrorContains(t, got.Err, "mismatched")
		})
	}
}

// With SimpleStrategy the replicas of a key may all be in one datacenter, so that the local one has
// between none and all of them.
func TestAQuorumCoverNeedsEquallyManyReplicasOfEachKey(t *testing.T) {
	d := dataset(t, small, 7)
	topology := ring.Topology{LocalDC: "dc1", Keyspaces: map[string]ring.Replication{d.Profile.Keyspace: {Strategy: ring.SimpleStrategy, Factor: 3}}}
	for i := range 6 {
		h := ring.Host{ID: fmt.Sprintf("host%d", i), Addr: fmt.Sprintf("127.0.0.%d:9042", i+1), DC: fmt.Sprintf("dc%d", i%3%2+1), Rack: "r"}
		for v := range 16 {
			h.Tokens = append(h.Tokens, int64(mix(uint64(100*i+v))))
		}
		topology.Hosts = append(topology.Hosts, h)
	}
	snapshot, err := ring.New(topology)
	require.NoError(t, err)
	placement, _ := snapshot.Placement(d.Profile.Keyspace)
	byReplicas := map[int]partition.Key{}
	for _, k := range d.keys {
		byReplicas[len(placement.Local(ring.Token(k.cql.Routing())))] = k.cql
	}
	require.Contains(t, byReplicas, 1)
	require.Contains(t, byReplicas, 3)
	c := &coverTarget{data: d, ring: func() *ring.Ring { return snapshot }, quorum: true}
	for _, keys := range [][]partition.Key{{byReplicas[1], byReplicas[3]}, {byReplicas[3], byReplicas[1]}} {
		_, err := c.plan(keys)
		require.ErrorContains(t, err, "keyspace "+d.Profile.Keyspace+" NetworkTopologyStrategy")
	}
	covers, err := c.plan([]partition.Key{byReplicas[3]})
	require.NoError(t, err)
	assert.Len(t, covers, 2)
}

func TestWhatIsAbsentOnAllReplicasIsAbsent(t *testing.T) {
	columns := []schema.Column{{Name: "a", Kind: schema.Regular}, {Name: "b", Kind: schema.Regular}}
	for _, c := range columns {
		columns = append(columns, c.With(schema.WriteTime), c.With(schema.TTL))
	}
	row := func() partition.Result {
		cells := partition.Row{[]byte("x"), nil, make([]byte, 8), nil, nil, nil}
		return partition.Result{Status: partition.Found, Rows: []partition.Row{cells}}
	}
	none := partition.Result{Status: partition.NotFound}
	got := compare([][]partition.Result{{row(), none, none}, {row(), none, row()}}, columns)
	assert.Equal(t, []partition.Row{{[]byte("x"), nil}}, got[0].Rows, "a cell")
	assert.Equal(t, partition.NotFound, got[1].Status, "a key")
	assert.Equal(t, partition.Failed, got[2].Status, "a key of which one replica has a row")
}
