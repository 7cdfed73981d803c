package acceptance

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/durationpb"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/cassandra"
)

// dataset describes what createData has written. The rows follow from the key.
type dataset struct{ keys int }

// value returns the value of a key. It follows from the key, so that a wrong row is seen without a
// second read.
func value(key string) string {
	h := fnv.New64a()
	h.Write([]byte(key))
	return fmt.Sprintf("%s=%x", key, h.Sum64())
}

func plainKey(i int) string { return fmt.Sprintf("key-%06d", i) }

// Writing a row costs cold nodes some milliseconds of CPU time, so there are no more rows than
// needed to tell a wrong answer from a right one.
const (
	plainKeys  = 5000
	pairKeys   = 100 // first columns, with pairRows second ones each
	pairRows   = 4
	users      = 100 // of features, with userRows rows each
	userRows   = 10
	beyondRows = 1100 // more than max_rows_per_key
)

// createData creates all tables of keyspace data and fills them.
func createData(t *testing.T, client *cassandra.Client) *dataset {
	t.Helper()
	define(t, client,
		"CREATE KEYSPACE data WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3}",
		"CREATE TABLE data.plain (id text PRIMARY KEY, v text, n bigint) WITH speculative_retry = 'NONE'",
		"CREATE TABLE data.pair (a text, b int, v text, PRIMARY KEY ((a, b)))",
		"CREATE TABLE data.features (user text, feature int, v text, s text static, PRIMARY KEY (user, feature)) WITH CLUSTERING ORDER BY (feature DESC)",
		"CREATE TABLE data.features_small (user text, feature int, v text, PRIMARY KEY (user, feature))",
		"CREATE TABLE data.guarded (id text PRIMARY KEY, open text, hidden text)",
		"CREATE TABLE data.hidden (id text PRIMARY KEY)",
		"CREATE TABLE data.changing (id text PRIMARY KEY, v text)",
	)
	load(t, client, "INSERT INTO data.plain (id, v, n) VALUES (?, ?, ?)", plainKeys, func(i int) []any {
		return []any{plainKey(i), value(plainKey(i)), int64(i)}
	})
	execute(t, client, "INSERT INTO data.guarded (id, open, hidden) VALUES ('a', 'yes', 'no')")
	load(t, client, "INSERT INTO data.pair (a, b, v) VALUES (?, ?, ?)", pairKeys*pairRows, func(i int) []any {
		a, b := plainKey(i/pairRows), i%pairRows
		return []any{a, b, value(fmt.Sprintf("%s/%d", a, b))}
	})
	for _, table := range []string{"features", "features_small"} {
		load(t, client, "INSERT INTO data."+table+" (user, feature, v) VALUES (?, ?, ?)", users*userRows, func(i int) []any {
			user, feature := plainKey(i/userRows), i%userRows
			return []any{user, feature, value(fmt.Sprintf("%s/%d", user, feature))}
		})
	}
	load(t, client, "INSERT INTO data.features (user, feature, v) VALUES ('wide', ?, 'x')", beyondRows, func(i int) []any { return []any{i} })
	load(t, client, "INSERT INTO data.changing (id, v) VALUES (?, ?)", 100, func(i int) []any { return []any{plainKey(i), value(plainKey(i))} })
	return &dataset{keys: plainKeys}
}

func load(t *testing.T, client *cassandra.Client, cql string, n int, row func(i int) []any) {
	t.Helper()
	require.NoError(t, client.Load(t.Context(), cql, func(yield func([]any) bool) {
		for i := range n {
			if !yield(row(i)) {
				return
			}
		}
	}, 64))
}

// lookupWorkers is how many random lookups run at once.
const lookupWorkers = 4

// testRandomLookups makes lookups of 1 to 200 keys, including repeated and unknown ones, through
// both listeners in turn, and checks every row of every key.
func testRandomLookups(t *testing.T, p *proxy, d *dataset, lookups int) {
	group, ctx := errgroup.WithContext(t.Context())
	for worker := range lookupWorkers {
		group.Go(func() error {
			r := rand.New(rand.NewPCG(9, uint64(worker)))
			for i := worker; i < lookups; i += lookupWorkers {
				keys := randomKeys(r, d, 1+r.IntN(200))
				check := p.checkGRPC
				if i%2 == 1 {
					check = p.checkHTTP
				}
				if err := check(ctx, keys); err != nil {
					return fmt.Errorf("lookup %d of %d keys: %w", i, len(keys), err)
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	t.Logf("%d random lookups, every row as written", lookups)
}

// randomKeys draws keys: one in ten unknown, one in ten a repetition.
func randomKeys(r *rand.Rand, d *dataset, n int) []string {
	keys := make([]string, n)
	for i := range keys {
		switch {
		case r.IntN(10) == 0:
			keys[i] = fmt.Sprintf("unknown-%d", r.IntN(1000))
		case i > 0 && r.IntN(10) == 0:
			keys[i] = keys[r.IntN(i)]
		default:
			keys[i] = plainKey(r.IntN(d.keys))
		}
	}
	return keys
}

// expect returns the status and the value that a key of data.plain must have.
func expect(key string) (status, v string) {
	if strings.HasPrefix(key, "unknown") {
		return "NOT_FOUND", ""
	}
	return "FOUND", value(key)
}

func (p *proxy) checkGRPC(ctx context.Context, keys []string) error {
	req := &qosproxyv1.BatchGetRequest{Keyspace: "data", Table: "plain", Columns: []string{"v"}, Timeout: durationpb.New(10e9)}
	for _, k := range keys {
		req.Keys = append(req.Keys, textKey(k))
	}
	resp, err := p.grpc.BatchGet(ctx, req)
	if err != nil {
		return err
	}
	if len(resp.GetResults()) != len(keys) || resp.GetPartial() {
		return fmt.Errorf("%d results, partial %t", len(resp.GetResults()), resp.GetPartial())
	}
	for i, r := range resp.GetResults() {
		status, v := expect(keys[i])
		got := ""
		if len(r.GetRows()) == 1 {
			got = r.GetRows()[0].GetValues()[0].GetText()
		}
		if name := strings.TrimPrefix(r.GetStatus().String(), "KEY_STATUS_"); name != status || got != v || len(r.GetRows()) > 1 {
			return fmt.Errorf("key %d %q is %s %q (%d rows, %s), want %s %q", i, keys[i], name, got, len(r.GetRows()), r.GetError(), status, v)
		}
	}
	return nil
}

func (p *proxy) checkHTTP(ctx context.Context, keys []string) error {
	body, err := json.Marshal(map[string]any{"keys": keys, "columns": []string{"v"}})
	if err != nil {
		return err
	}
	code, a, err := p.post(ctx, "data.plain", string(body))
	if err != nil {
		return err
	}
	if code != 200 || len(a.Results) != len(keys) || a.Partial {
		return fmt.Errorf("status %d, %d results, partial %t, error %v", code, len(a.Results), a.Partial, a.Error)
	}
	for i, r := range a.Results {
		status, v := expect(keys[i])
		var row struct{ V string }
		if len(r.Rows) == 1 {
			if err := json.Unmarshal(r.Rows[0], &row); err != nil {
				return err
			}
		}
		if string(r.Key) != `"`+keys[i]+`"` || r.Status != status || row.V != v || len(r.Rows) > 1 {
			return fmt.Errorf("key %d %q is %s %s %q (%d rows, %s), want %s %q", i, keys[i], r.Key, r.Status, row.V, len(r.Rows), r.Error, status, v)
		}
	}
	return nil
}

// textKey returns the key of one text component.
func textKey(k string) *qosproxyv1.Key {
	return &qosproxyv1.Key{Components: []*qosproxyv1.Value{{Kind: &qosproxyv1.Value_Text{Text: k}}}}
}

// testManyRows reads partitions of several rows and of more rows than allowed.
func testManyRows(t *testing.T, p *proxy) {
	features := func(table, body string) *answer {
		code, a, err := p.post(t.Context(), table, body)
		require.NoError(t, err)
		require.Contains(t, []int{200, 413}, code)
		return a
	}
	all := features("data.features", `{"keys": ["key-000001", "key-000002", "nobody"], "columns": ["feature", "v"]}`)
	for i, key := range []string{"key-000001", "key-000002"} {
		require.Len(t, all.Results[i].Rows, userRows)
		for n, row := range all.Results[i].Rows {
			feature := userRows - 1 - n // in clustering order, which is descending
			assert.JSONEq(t, fmt.Sprintf(`{"feature": %d, "v": %q}`, feature, value(fmt.Sprintf("%s/%d", key, feature))), string(row))
		}
	}
	assert.Equal(t, "NOT_FOUND", all.Results[2].Status)

	some := features("data.features", `{"keys": ["key-000001", "wide"], "columns": ["feature"], "limit_per_key": 2}`)
	for _, r := range some.Results {
		assert.Len(t, r.Rows, 2, "what the caller asked for, no more")
		assert.Equal(t, "FOUND", r.Status)
	}

	wide := features("data.features", `{"keys": ["wide", "key-000003"], "columns": ["feature"]}`)
	assert.Equal(t, "TOO_LARGE", wide.Results[0].Status, "more rows than max_rows_per_key")
	assert.NotEmpty(t, wide.Results[0].Error)
	assert.Empty(t, wide.Results[0].Rows)
	assert.Equal(t, "FOUND", wide.Results[1].Status, "its neighbours are unharmed")

	small := features("data.features_small", `{"keys": ["key-000001"]}`)
	assert.Equal(t, "TOO_LARGE", small.Results[0].Status, "10 rows are more than 3")
	exact := features("data.features_small", `{"keys": ["key-000001"], "limit_per_key": 3}`)
	assert.Len(t, exact.Results[0].Rows, 3)
}
