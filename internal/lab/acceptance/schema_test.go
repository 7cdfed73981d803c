package acceptance

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/lab/devcluster"
)

// testSchemaChanges alters a table under load. Lookups of other columns must never fail, and new
// tables and columns must appear.
func testSchemaChanges(t *testing.T, p *proxy, client *cassandra.Client) {
	ctx, stop := context.WithCancel(t.Context())
	var lookups atomic.Int64
	var load sync.WaitGroup
	load.Go(func() {
		for i := 0; ctx.Err() == nil; i = (i + 1) % 100 {
			code, a, err := p.post(ctx, "data.changing", fmt.Sprintf(`{"keys": [%q], "columns": ["id", "v"]}`, plainKey(i)))
			if ctx.Err() != nil {
				return
			}
			if !assert.NoError(t, err) || !assert.Equal(t, 200, code) || !assert.Equal(t, "FOUND", a.Results[0].Status, a.Results[0].Error) {
				return
			}
			assert.JSONEq(t, fmt.Sprintf(`{"id": %q, "v": %q}`, plainKey(i), value(plainKey(i))), string(a.Results[0].Rows[0]))
			lookups.Add(1)
		}
	})
	columns := func() string {
		code, a, err := p.post(t.Context(), "data.changing", fmt.Sprintf(`{"keys": [%q]}`, plainKey(0)))
		require.NoError(t, err)
		if code != 200 || len(a.Results[0].Rows) != 1 {
			return ""
		}
		return compact(t, string(a.Results[0].Rows[0]))
	}
	for range 2 {
		execute(t, client, "ALTER TABLE data.changing ADD extra int")
		require.Eventually(t, func() bool { return strings.Contains(columns(), `"extra":null`) }, patience, 50*time.Millisecond, "the new column appears")
		execute(t, client, "ALTER TABLE data.changing DROP extra")
		require.Eventually(t, func() bool { c := columns(); return c != "" && !strings.Contains(c, "extra") }, patience, 50*time.Millisecond, "the dropped column goes")
	}
	stop()
	load.Wait()
	t.Logf("%d lookups while the table changed", lookups.Load())
	assert.Greater(t, lookups.Load(), int64(50))

	status := func() int {
		code, _, err := p.post(t.Context(), "data.appearing", `{"keys": [1]}`)
		require.NoError(t, err)
		return code
	}
	assert.Equal(t, 404, status(), "a listed table that does not exist")
	execute(t, client, "CREATE TABLE data.appearing (id int PRIMARY KEY)", "INSERT INTO data.appearing (id) VALUES (1)")
	require.Eventually(t, func() bool { return status() == 200 }, patience, 50*time.Millisecond, "a created table is noticed")
	execute(t, client, "DROP TABLE data.appearing")
	require.Eventually(t, func() bool { return status() == 404 }, patience, 50*time.Millisecond, "a dropped table is noticed")
	execute(t, client, "CREATE TABLE data.appearing (id int PRIMARY KEY, again text)", "INSERT INTO data.appearing (id, again) VALUES (1, 'x')")
	require.Eventually(t, func() bool {
		code, a, err := p.post(t.Context(), "data.appearing", `{"keys": [1]}`)
		return err == nil && code == 200 && len(a.Results[0].Rows) == 1 && compact(t, string(a.Results[0].Rows[0])) == `{"id":1,"again":"x"}`
	}, patience, 50*time.Millisecond, "the same name with another definition")
}

// testDeadline freezes every node but one. At the client's deadline the keys of that node are
// answered, and the others have timed out.
func testDeadline(t *testing.T, p *proxy, cluster *devcluster.Cluster) {
	frozen := cluster.Nodes()[1:]
	for _, n := range frozen {
		require.NoError(t, n.Pause())
	}
	defer func() {
		for _, n := range frozen {
			require.NoError(t, n.Resume())
		}
		require.Eventually(t, func() bool {
			code, a, err := p.post(t.Context(), "data.plain", `{"keys": ["key-000001","key-000002","key-000003","key-000004"], "timeout": "200ms"}`)
			return err == nil && code == 200 && !a.Partial
		}, patience, 100*time.Millisecond, "the cluster recovers")
	}()
	keys := make([]string, 60)
	for i := range keys {
		keys[i] = fmt.Sprintf("%q", plainKey(i))
	}
	// The healthy node may be slow at the moment, or its dynamic snitch may read a key from a frozen
	// replica. Then no key is found, and another lookup is made.
	var (
		code int
		a    *answer
		took time.Duration
	)
	for range 20 {
		start := time.Now()
		var err error
		code, a, err = p.post(t.Context(), "data.plain", `{"keys": [`+strings.Join(keys, ",")+`], "timeout": "400ms"}`)
		took = time.Since(start)
		require.NoError(t, err)
		require.Less(t, took, 2*time.Second)
		if code != 504 {
			break
		}
	}
	require.Equal(t, 200, code)
	assert.True(t, a.Partial)
	statuses := map[string]int{}
	timedOut := []string{}
	for i, r := range a.Results {
		statuses[r.Status]++
		if r.Status != "FOUND" {
			assert.NotEmpty(t, r.Error)
			timedOut = append(timedOut, keys[i])
		}
	}
	unprocessed := []string{}
	for _, k := range a.Unprocessed {
		unprocessed = append(unprocessed, string(k))
	}
	assert.Equal(t, timedOut, unprocessed)
	assert.NotZero(t, statuses["FOUND"], "the keys of the healthy node: %v", statuses)
	assert.NotZero(t, statuses["TIMED_OUT"], "the keys of the frozen ones: %v", statuses)
	t.Logf("after %s: %v", took.Round(time.Millisecond), statuses)
}
