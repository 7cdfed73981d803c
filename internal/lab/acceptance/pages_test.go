package acceptance

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/qosproxy/qosproxy/internal/cassandra"
)

// pages reads a lookup page by page through both listeners in turn, and returns the rows of each
// key.
func (p *proxy) pages(ctx context.Context, q *rowLookup, r *rand.Rand) ([][]string, error) {
	out := make([][]string, len(q.keys))
	left, tokens := make([]int, len(q.keys)), []string(nil) // by position in q.keys
	for i := range left {
		left[i] = i
	}
	page := *q
	page.limit = 1 + r.IntN(5)
	for turn := r.IntN(2); len(left) > 0; turn++ {
		page.keys = nil
		for _, i := range left {
			page.keys = append(page.keys, q.keys[i])
		}
		rows, next, err := p.page(ctx, &page, r, tokens, turn%2 == 0)
		if err != nil {
			return nil, fmt.Errorf("page %d of %d rows: %w", turn, page.limit, err)
		}
		var still []int
		tokens = nil
		for n, i := range left {
			out[i] = append(out[i], rows[n]...)
			switch more := next[n] != ""; {
			case more && len(rows[n]) != page.limit:
				return nil, fmt.Errorf("key %d has %d rows on a page of %d, and more behind it", i, len(rows[n]), page.limit)
			case more:
				still, tokens = append(still, i), append(tokens, next[n])
			}
		}
		left = still
	}
	return out, nil
}

// page reads one page of each key, and returns its rows and the tokens of the next.
func (p *proxy) page(ctx context.Context, q *rowLookup, r *rand.Rand, tokens []string, overHTTP bool) (rows [][]string, next []string, err error) {
	if !overHTTP {
		req, err := q.grpc()
		if err != nil {
			return nil, nil, err
		}
		req.Paging, req.PageTokens = true, tokens
		resp, err := p.grpc.BatchGet(ctx, req)
		if err != nil {
			return nil, nil, err
		}
		for _, res := range resp.GetResults() {
			next = append(next, res.GetNextPageToken())
		}
		rows, err = q.rowsOf(resp)
		return rows, next, err
	}
	body := strings.TrimSuffix(q.body(r), "}") + `, "paging": true`
	if tokens != nil {
		list, err := json.Marshal(tokens)
		if err != nil {
			return nil, nil, err
		}
		body += `, "page_tokens": ` + string(list)
	}
	code, a, err := p.post(ctx, q.table.name, body+"}")
	if err != nil {
		return nil, nil, err
	}
	for _, res := range a.Results {
		next = append(next, res.NextPageToken)
	}
	rows, err = rowsOfHTTP(code, a)
	return rows, next, err
}

// The partition of fillLog: the lines of a day, of which every tenth changes.
const (
	logLines    = 1000
	logChanging = 10
)

// logTable creates slices.log, with mixed clustering orders.
const logTable = `CREATE TABLE slices.log (host text, day int, line int, v text, state text static, PRIMARY KEY (host, day, line))
	WITH CLUSTERING ORDER BY (day DESC, line ASC)`

// fillLog writes logLines rows a day to partition a of slices.log.
func fillLog(t *testing.T, client *cassandra.Client, days int) {
	t.Helper()
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(lookupWorkers)
	const batch = 100
	for i := range days * logLines / batch {
		group.Go(func() error {
			from := i * batch % logLines
			return insertLog(ctx, client, i*batch/logLines, from, from+batch, 1)
		})
	}
	require.NoError(t, group.Wait())
	execute(t, client, "UPDATE slices.log SET state = 'up' WHERE host = 'a'")
}

// insertLog writes every step-th line of a day. Its values are bound, because nodes keep the text
// of each prepared statement.
func insertLog(ctx context.Context, client *cassandra.Client, day, from, to, step int) error {
	var values []any
	for line := from; line < to; line += step {
		values = append(values, day, line)
	}
	insert := strings.Repeat("INSERT INTO slices.log (host, day, line, v) VALUES ('a', ?, ?, 'x');", len(values)/2)
	return client.Exec(ctx, "BEGIN UNLOGGED BATCH "+insert+" APPLY BATCH", values...)
}

// changeLog writes and deletes rows until ctx ends, and returns how often.
func changeLog(ctx context.Context, client *cassandra.Client, days int) int {
	r := rand.New(rand.NewPCG(24, 1))
	for n := 0; ; n++ {
		var err error
		day := r.IntN(days)
		if n%2 == 0 {
			err = client.Exec(ctx, "DELETE FROM slices.log WHERE host = 'a' AND day = ? AND line = ?", day, logChanging*r.IntN(logLines/logChanging))
		} else {
			err = insertLog(ctx, client, day, logChanging*r.IntN(10), logLines, 10*logChanging)
		}
		if err != nil {
			return n
		}
	}
}

// testPagesOfAChangingPartition pages through the partition of fillLog with two proxies in turn
// while rows are written and deleted. Rows that exist all the time come exactly once, no row comes
// twice, and no memory is held for earlier pages.
func testPagesOfAChangingPartition(t *testing.T, proxies [2]*proxy, client *cassandra.Client, days int) {
	const size = 1000
	fillLog(t, client, days)
	ctx, stop := context.WithCancel(t.Context())
	changes := make(chan int, 1)
	go func() { changes <- changeLog(ctx, client, days) }()
	var (
		seen              = make([]bool, days*logLines)
		token             string
		rows, kept, pages int
		early, late       runtime.MemStats
	)
	for done := false; !done; pages++ {
		code, a, err := proxies[pages%2].post(t.Context(), "slices.log",
			fmt.Sprintf(`{"keys": ["a"], "paging": true, "limit_per_key": %d, "page_tokens": ["%s"], "consistency": "LOCAL_QUORUM"}`, size, token))
		require.NoError(t, err)
		require.Equal(t, 200, code, "%+v", a)
		for _, row := range a.Results[0].Rows {
			var cells struct {
				Day, Line int
				State     string
			}
			require.NoError(t, json.Unmarshal(row, &cells))
			at := cells.Day*logLines + cells.Line
			require.False(t, seen[at], "row %s came twice", row)
			require.Equal(t, "up", cells.State)
			rows++
			if seen[at] = true; cells.Line%logChanging != 0 {
				kept++
			}
		}
		token = a.Results[0].NextPageToken
		if done = token == ""; done || pages == days/10 {
			runtime.GC()
			runtime.ReadMemStats(&late)
			if !done {
				early = late
			}
		}
	}
	stop()
	require.Equal(t, days*logLines*(logChanging-1)/logChanging, kept, "rows that were there all the time")
	require.Less(t, late.HeapAlloc, early.HeapAlloc+16<<20)
	t.Logf("%d rows in %d pages, %d of them there all the time, %d changes meanwhile; heap %.1f MiB after a tenth, %.1f MiB at the end",
		rows, pages, kept, <-changes, float64(early.HeapAlloc)/(1<<20), float64(late.HeapAlloc)/(1<<20))
}
