package cassandra

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/quorum"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// asksOwn is the same query for a host's own data.
func asksOwn(q *executor.Query) *executor.Query {
	q.Consistency = partition.OwnData
	return q
}

func TestStatementsOfOwnDataSelectWriteTimes(t *testing.T) {
	simple := testTable([]string{"id"}, nil, []string{"name", `quo"ted`})
	composite := testTable([]string{"a", "B"}, nil, []string{"v"})
	for name, test := range map[string]struct {
		query     *executor.Query
		many, one string
		asked     []int
	}{
		"of one column": {
			ask(simple, "name"),
			`SELECT "id", "name", writetime("name"), ttl("name") FROM "ks"."t" WHERE "id" IN ?`,
			`SELECT "id", "name", writetime("name"), ttl("name") FROM "ks"."t" WHERE "id" = ?`,
			[]int{1, 2, 3},
		},
		"of several in another order": {
			ask(simple, `quo"ted`, "id", "name"),
			`SELECT "id", "name", "quo""ted", writetime("name"), ttl("name"), writetime("quo""ted"), ttl("quo""ted") FROM "ks"."t" WHERE "id" IN ?`,
			`SELECT "id", "name", "quo""ted", writetime("name"), ttl("name"), writetime("quo""ted"), ttl("quo""ted") FROM "ks"."t" WHERE "id" = ?`,
			[]int{2, 0, 1, 5, 6, 3, 4},
		},
		"of keys of two columns": {
			ask(composite, "v"),
			`SELECT "v", writetime("v"), ttl("v"), "B" FROM "ks"."t" WHERE "a" = ? AND "B" IN ?`,
			`SELECT "v", writetime("v"), ttl("v") FROM "ks"."t" WHERE "a" = ? AND "B" = ?`,
			[]int{0, 1, 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSelection(asksOwn(test.query))
			s.vary(len(test.query.Table.PartitionKey) - 1)
			assert.Equal(t, test.many, s.in(len(s.table.PartitionKey)))
			assert.Equal(t, test.one, s.one(len(s.table.PartitionKey)))
			assert.Equal(t, test.asked, s.asked)
		})
	}
}

func TestOneStatementForAllSetsOfColumnsLeavesOutWhatHasNoWriteTime(t *testing.T) {
	list := schema.Column{Name: "tags", Type: &cqltype.Type{Kind: cqltype.List}, Kind: schema.Regular}
	plain := testTable([]string{"id"}, nil, []string{"name", "note"})
	table := schema.NewTable("ks", "t", "id", append(plain.Columns, list))
	q := asksOwn(ask(table, "note"))
	s := wholeSelection(q, table.Columns)
	assert.Equal(t, `SELECT "id", "name", "note", "tags", writetime("name"), ttl("name"), writetime("note"), ttl("note") FROM "ks"."t" WHERE "id" = ?`, s.one(len(s.table.PartitionKey)))
	assert.Equal(t, []int{2, 6, 7}, s.asked)
}

// owns returns at which level each host is asked for its own data, by plans of the ring that
// serves: n for NODE_LOCAL, o for LOCAL_ONE, - for none.
func (f *fakeNodes) owns(t *schema.Table) string {
	r, out := f.cluster.ring(), ""
	for _, h := range r.Hosts() {
		switch level, err := f.ownLevel(&executor.SubQuery{Query: &executor.Query{Table: t}, Host: h, Ring: r}); {
		case err != nil:
			out += "-"
		case level == levelNodeLocal:
			out += "n"
		case level == gocql.LocalOne:
			out += "o"
		}
	}
	return out
}

func TestOwnData(t *testing.T) {
	speculating, direct := testTable([]string{"id"}, nil, nil), testTable([]string{"id"}, nil, nil)
	direct.NoSpeculation = true
	synctest.Test(t, func(t *testing.T) {
		f := newFakeNodes(t, 3)
		settings := map[string]bool{"id-1": true, "id-2": true}
		unknown := error(nil)
		f.cluster.direct = func(_ context.Context, h ring.Host) (bool, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			return settings[h.ID], unknown
		}
		f.refused["id-2"], f.refused["id-3"] = errRefused, errNoLevel
		why := func(table *schema.Table) quorum.Outcome {
			hosts, why := f.ownData(f.cluster.ring(), table)
			require.Equal(t, why == quorum.None, hosts != nil)
			return why
		}
		f.watchedFor(t, func() {
			assert.Equal(t, "---", f.owns(direct), "a ring that is new")
			assert.Equal(t, quorum.Ring, why(direct))
			after(restPeriod + lookAgain)
			assert.Equal(t, "n--", f.owns(speculating))
			assert.Equal(t, "no-", f.owns(direct))
			hosts, _ := f.ownData(f.now, direct)
			assert.Equal(t, []bool{true, true, false}, hosts)
			hosts, _ = f.ownData(f.now, speculating)
			assert.Equal(t, []bool{true, false, false}, hosts)
			_, outdated := f.ownData(nil, direct)
			assert.Equal(t, quorum.Ring, outdated, "a plan of another ring")

			f.refuse(f.now.Host(0))
			assert.Equal(t, "-o-", f.owns(direct), "a refused read counts at once")
			assert.Equal(t, quorum.Refused, why(speculating))

			f.set(func() { f.refused["id-1"] = errRefused })
			after(2 * probeInterval)
			assert.Equal(t, "oo-", f.owns(direct), "with no host that allows NODE_LOCAL")
			f.set(func() { f.members = turned(members(3), 2, "LEAVING") })
			after(lookAgain)
			assert.Equal(t, "---", f.owns(direct))
			assert.Equal(t, quorum.Ring, why(direct))
			f.set(func() { f.members = members(3) })
			after(restPeriod + 2*lookAgain)
			assert.Equal(t, "oo-", f.owns(direct))

			f.set(func() { unknown = errNoGrant; clear(settings) })
			after(2 * probeInterval)
			assert.Equal(t, "---", f.owns(direct), "settings that cannot be read")
			assert.Equal(t, quorum.Refused, why(direct))
		})
	})
}

func TestWhichCoordinatorsReadFromThemselves(t *testing.T) {
	for _, c := range []struct {
		dynamic, snitch string
		want            bool
	}{
		{"false", "GossipingPropertyFileSnitch", true},
		{"false", "org.apache.cassandra.locator.Ec2Snitch", true},
		{"true", "GossipingPropertyFileSnitch", false},
		{"false", "SimpleSnitch", false},
		{"false", "com.example.GossipingPropertyFileSnitch2", false},
		{"", "", false},
	} {
		assert.Equal(t, c.want, direct(c.dynamic, c.snitch), "%+v", c)
	}
	for policy, want := range map[string]bool{"NONE": true, "NEVER": true, "never": true, "99p": false, "ALWAYS": false, "": false} {
		assert.Equal(t, want, noSpeculation(policy), policy)
	}
}

// TestOwnDataIsReadWhileTheGateIsOpen closes the gate between a statement and its answer.
func TestOwnDataIsReadWhileTheGateIsOpen(t *testing.T) {
	table := testTable([]string{"id"}, nil, []string{"v"})
	synctest.Test(t, func(t *testing.T) {
		f := newFakeNodes(t, 3)
		f.watchedFor(t, func() {
			f.opened(t)
			q := asksOwn(ask(table, "id", "v"))
			host := &fakeHost{table: table, rows: map[string]int{}}
			var keys []partition.Key
			for _, name := range []string{"a", "b"} {
				k, err := partition.NewKey([]byte(name))
				require.NoError(t, err)
				host.rows[name] = 1
				keys = append(keys, k)
			}
			read := func(s sender, v *volume) ([]partition.Result, error) {
				r := host.reading(q, v, new(inLimits), nil, keys...)
				r.Host, r.Ring, r.level, r.own, r.sender = f.now.Host(0), f.now, levelNodeLocal, f.nodeLocal, s
				return r.run(t.Context())
			}
			got, err := read(host, new(volume))
			require.NoError(t, err)
			require.Equal(t, partition.Found, got[0].Status)
			assert.Len(t, got[0].Rows[0], 4, "a value, when it was written and when it expires")

			_, err = read(senderFunc(func(ctx context.Context, s statement) rows {
				defer f.disturb("an event")
				return host.send(ctx, s)
			}), new(volume))
			assert.Equal(t, executor.ReasonRing, ownReason(t, err))
			f.opened(t)

			large := new(volume)
			large.observe(1, 1, 3<<20, false)
			_, err = read(host, large)
			assert.Equal(t, executor.ReasonSize, ownReason(t, err))

			fails := func(err error) sender {
				return senderFunc(func(context.Context, statement) rows { return &fakeRows{err: err} })
			}
			_, err = read(fails(errTombs), new(volume))
			assert.Equal(t, executor.ReasonRefused, ownReason(t, err), "which blames no host")
			_, err = read(fails(errLoaded), new(volume))
			assert.ErrorIs(t, err, errLoaded)
			_, err = read(fails(errRefused), new(volume))
			assert.Equal(t, executor.ReasonRefused, ownReason(t, err))
			assert.Equal(t, "23", f.passes(), "the host is not asked again")
			time.Sleep(time.Second)
		})
	})
}

// TestOwnDataOfAPartIsHandedOnWhileTheGateIsOpen reads from a host that refuses the IN, while
// ownership changes before its parts are answered.
func TestOwnDataOfAPartIsHandedOnWhileTheGateIsOpen(t *testing.T) {
	table := testTable([]string{"id"}, nil, []string{"v"})
	synctest.Test(t, func(t *testing.T) {
		f := newFakeNodes(t, 3)
		f.watchedFor(t, func() {
			f.opened(t)
			host := &fakeHost{table: table, rows: map[string]int{}, most: 2}
			var keys []partition.Key
			for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
				keys = append(keys, textKey(t, name))
				host.rows[name] = 1
			}
			read := func(s sender) map[int]partition.Result {
				early := &handedOn{at: map[int]time.Duration{}, got: map[int]partition.Result{}}
				r := host.reading(asksOwn(ask(table, "id", "v")), new(volume), new(inLimits), early, keys...)
				r.Host, r.Ring, r.level, r.own, r.sender = f.now.Host(0), f.now, levelNodeLocal, f.nodeLocal, s
				_, _ = r.run(t.Context())
				return early.got
			}
			early := read(host)
			require.NotEmpty(t, early)
			for _, res := range early {
				require.Equal(t, partition.Found, res.Status)
			}
			early = read(senderFunc(func(ctx context.Context, s statement) rows {
				defer f.disturb("an event")
				return host.send(ctx, s)
			}))
			for k, res := range early {
				assert.Equal(t, executor.ReasonRing, ownReason(t, res.Err), "key %d is %s", k, res.Status)
			}
			time.Sleep(time.Second)
		})
	})
}

func ownReason(t *testing.T, err error) executor.Reason {
	t.Helper()
	re, ok := errors.AsType[*executor.ReadError](err)
	require.True(t, ok, "%v", err)
	return re.Reason
}

// senderFunc makes a function a sender.
type senderFunc func(context.Context, statement) rows

func (f senderFunc) send(ctx context.Context, s statement) rows { return f(ctx, s) }

func TestViewsSpeculationAndReadRepairAreInTheSchema(t *testing.T) {
	columns := func(table string) row {
		return row{"keyspace_name": "ks", "table_name": table, "column_name": "id", "kind": "partition_key", "position": 0, "type": "text"}
	}
	s := definitions{
		tables: []row{
			{"keyspace_name": "ks", "table_name": "t", "id": "1", "speculative_retry": "99p", "read_repair": "BLOCKING"},
			{"keyspace_name": "ks", "table_name": "never", "id": "2", "speculative_retry": "NEVER", "read_repair": "NONE"},
		},
		views:   []row{{"keyspace_name": "ks", "view_name": "v", "id": "3", "speculative_retry": "NONE"}},
		columns: []row{columns("t"), columns("never"), columns("v")},
	}.schema()
	for name, want := range map[string][3]bool{"t": {false, false, false}, "never": {false, true, true}, "v": {true, true, false}} {
		table, ok := s.Table("ks", name)
		require.True(t, ok, name)
		assert.Equal(t, want, [3]bool{table.View, table.NoSpeculation, table.NoReadRepair}, name)
	}
}
