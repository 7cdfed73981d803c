//go:build lab

package cassandra_test

import (
	"context"
	"encoding/binary"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/quorum"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// TestRealOwnData reads the own data of three replicas, of which the first two allow NODE_LOCAL,
// and compares them.
func TestRealOwnData(t *testing.T) {
	cluster, admin := shared.get(t)
	name := shared.table(t, `CREATE TABLE %s (id text PRIMARY KEY, v text, n int, tags frozen<list<text>>)`)
	insert := "INSERT INTO test." + name + " (id, v, n, tags) VALUES (?, 'x', 7, ['a', 'b'])"
	for i := range 20 {
		require.NoError(t, admin.Exec(t.Context(), insert, strconv.Itoa(i)))
	}
	cfg := config(cluster)
	cfg.NodeLocal = true
	c := open(t, cfg)
	var hosts []ring.Host
	for _, n := range cluster.Nodes() {
		hosts = append(hosts, hostOf(t, c, n))
	}
	table := definition(t, c, name)
	q := executor.Query{Table: table, Columns: columns(t, table, "v", "id", "n", "tags"), Consistency: partition.OwnData}
	read := func(host ring.Host, ids ...string) ([]partition.Result, error) {
		keys := make([]partition.Key, len(ids))
		for i, id := range ids {
			keys[i] = textKey(t, id)
		}
		sub, s := query(q, host, keys...)
		sub.Ring = c.Ring()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		res, err := c.Read(ctx, sub)
		<-s.done
		return res, err
	}
	_, err := read(hosts[0], "1")
	assert.Equal(t, executor.ReasonRing, reason(err), "not before the nodes have been looked at for a while")
	require.Eventually(t, func() bool {
		allowed, why := c.OwnData(c.Ring(), table)
		return why == quorum.None && len(allowed) == 3
	}, patience, 20*time.Millisecond)
	assert.Empty(t, c.OwnDataClosed())

	// compare asks the first two hosts for a key.
	compare := func(id string) (partition.Result, quorum.Outcome) {
		var answers []partition.Result
		for _, h := range hosts[:2] {
			res, err := read(h, id, "19")
			require.NoError(t, err)
			answers = append(answers, res[0])
		}
		return quorum.Compare(answers, q.Columns)
	}
	at := func(host int, cql string) {
		require.NoError(t, admin.ExecNodeLocal(t.Context(), hosts[host].ID, cql))
	}
	res, outcome := compare("1")
	require.Equal(t, quorum.Matched, outcome)
	assert.Equal(t, []string{"x", "1"}, []string{string(res.Rows[0][0]), string(res.Rows[0][1])})
	assert.Len(t, res.Rows[0], 4)

	_, outcome = compare("none")
	assert.Equal(t, quorum.Absent, outcome)
	for what, c := range map[string]struct {
		id   string
		cql  []string // at both hosts, in turns
		want quorum.Outcome
	}{
		"a value that one has not seen":      {"2", []string{"UPDATE test." + name + " SET v = 'y' WHERE id = '2'"}, quorum.Mismatched},
		"the same value, written once more":  {"3", []string{"UPDATE test." + name + " SET v = 'x' WHERE id = '3'"}, quorum.Mismatched},
		"a deletion that one has not seen":   {"4", []string{"DELETE FROM test." + name + " WHERE id = '4'"}, quorum.Mismatched},
		"a row that the other never had":     {"none2", []string{"DELETE FROM test." + name + " WHERE id = 'none2'"}, quorum.Absent},
		"a cell that both have deleted":      {"5", []string{"DELETE v FROM test." + name + " WHERE id = '5'", "DELETE v FROM test." + name + " WHERE id = '5'"}, quorum.Absent},
		"equal writes whose lives end apart": {"6", []string{"UPDATE test." + name + " USING TIMESTAMP 9000000000000000 AND TTL 100 SET v = 'z' WHERE id = '6'", "UPDATE test." + name + " USING TIMESTAMP 9000000000000000 AND TTL 200 SET v = 'z' WHERE id = '6'"}, quorum.Mismatched},
		"equal writes whose lives are equal": {"7", []string{"UPDATE test." + name + " USING TIMESTAMP 9000000000000000 AND TTL 100 SET v = 'z' WHERE id = '7'", "UPDATE test." + name + " USING TIMESTAMP 9000000000000000 AND TTL 100 SET v = 'z' WHERE id = '7'"}, quorum.Matched},
	} {
		for host, cql := range c.cql {
			at(host, cql)
		}
		_, outcome := compare(c.id)
		assert.Equal(t, c.want, outcome, what)
	}
	one, err := read(hosts[0], "7")
	require.NoError(t, err)
	row := one[0].Rows[0]
	require.Len(t, row, 4+2*3)
	assert.EqualValues(t, 9000000000000000, binary.BigEndian.Uint64(row[4]))
	assert.InDelta(t, 100, binary.BigEndian.Uint32(row[5]), 5)
	assert.Nil(t, row[7], "n lives for ever")

	require.NoError(t, admin.Exec(t.Context(), "ALTER TABLE test."+name+" WITH read_repair = 'NONE'"))
	require.Eventually(t, func() bool {
		table = definition(t, c, name)
		_, why := c.OwnData(c.Ring(), table)
		return table.NoReadRepair && why == quorum.None
	}, patience, 20*time.Millisecond)
	q.Table = table
	for what, c := range map[string]struct {
		id   string
		want quorum.Outcome
		v    []byte
	}{
		"a value that one has not seen":      {"2", quorum.Reconciled, []byte("y")},
		"the same value, written once more":  {"3", quorum.Reconciled, []byte("x")},
		"a deletion that one has not seen":   {"4", quorum.Mismatched, nil},
		"no row":                             {"none2", quorum.Matched, nil},
		"a cell that both have deleted":      {"5", quorum.Matched, nil},
		"equal writes whose lives end apart": {"6", quorum.Mismatched, nil},
	} {
		var answers []partition.Result
		for _, h := range hosts[:2] {
			res, err := read(h, c.id, "19")
			require.NoError(t, err)
			answers = append(answers, res[0])
		}
		res, outcome := quorum.Reconcile(answers, q.Columns)
		assert.Equal(t, c.want, outcome, what)
		if outcome.Answered() && res.Status == partition.Found {
			assert.Equal(t, c.v, res.Rows[0][0], what)
		}
	}

	_, err = read(hosts[2], "1")
	assert.Equal(t, executor.ReasonRefused, reason(err), "a host that does not allow it")
	require.NoError(t, admin.Exec(t.Context(), "ALTER TABLE test."+name+" WITH comment = 'changed'"))
	require.Eventually(t, func() bool {
		_, err := read(hosts[0], "1")
		return reason(err) == executor.ReasonRing
	}, patience, time.Millisecond, "a change of the schema is an event")
}
