package shadow_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/shadow"
)

// slow returns a path that takes d for each lookup.
func slow(p shadow.Path, d time.Duration) shadow.Path {
	return shadow.PathFunc(func(ctx context.Context, req *lookup.Request) (*shadow.Answer, error) {
		time.Sleep(d)
		a, err := p.Read(ctx, req)
		if a != nil {
			a.Elapsed = d
		}
		return a, err
	})
}

// parser returns a parser for the table of this package.
func parser(t *testing.T) shadow.Parser {
	t.Helper()
	return shadow.Parser{
		Body: func(line []byte) (*lookup.Request, error) {
			if bytes.Contains(line, []byte("hidden")) {
				return nil, errors.New("table shop.hidden may not be read")
			}
			return &lookup.Request{Table: events(), Keys: []partition.Key{key(t, len(line))}, Paging: bytes.Contains(line, []byte("paging"))}, nil
		},
		Keys: func(keys []string) (*lookup.Request, error) { return request(t, len(keys)), nil },
	}
}

// compared runs a comparison of an input and returns the report.
func compared(t *testing.T, input string, driver, proxy shadow.Path, with func(*shadow.Run)) *shadow.Report {
	t.Helper()
	r := &shadow.Report{Baseline: shadow.In, Proxy: "a test", MaxDifferences: 2, CPU: "a test has no nodes"}
	run := &shadow.Run{
		Judge: shadow.Judge{Driver: driver, Proxy: proxy, Pauses: shadow.DefaultPauses},
		Next:  shadow.NewInput(strings.NewReader(input), parser(t)), Concurrency: 1, Report: r,
	}
	if with != nil {
		with(run)
	}
	require.NoError(t, run.Do(t.Context()))
	return r
}

func TestARunReportsBothSides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		input := strings.Repeat("{}\n", 250)
		var spent time.Duration
		r := compared(t, input, slow(store(nil), 3*time.Millisecond), slow(store(nil), 2*time.Millisecond), func(run *shadow.Run) {
			run.CPU = func() (time.Duration, error) { spent += time.Second; return spent, nil }
			run.Report.CPU = ""
		})
		assert.Equal(t, shadow.Same, r.Result)
		assert.Equal(t, "No difference in 250 keys of 250 lookups", r.Verdict)
		assert.Equal(t, int64(100), r.WarmUp)
		assert.Equal(t, int64(150), r.Driver.Lookups)
		assert.Equal(t, [2]float64{3, 2}, [2]float64{*r.Driver.P99, *r.Proxied.P99})
		assert.Equal(t, int64(150), r.Driver.Statements)
		// After the warm-up turn there are two turns of one second for each side.
		assert.InDelta(t, 2000.0/150, *r.Proxied.CPUMillis, 1e-9)
	})
}

func TestASmallSampleHasNoHighPercentile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for lookups, want := range map[int][3]bool{1: {}, 2: {true}, 19: {true}, 20: {true, true}, 99: {true, true}, 100: {true, true, true}} {
			r := compared(t, strings.Repeat("{}\n", lookups), slow(store(nil), time.Millisecond), store(nil), nil)
			d := r.Driver
			assert.Equal(t, want, [3]bool{d.P50 != nil, d.P95 != nil, d.P99 != nil}, "%d lookups", lookups)
			assert.NotNil(t, d.Max)
		}
	})
}

func TestSidesTakeTurnsToBeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		note := func(name string) shadow.Path {
			return shadow.PathFunc(func(ctx context.Context, req *lookup.Request) (*shadow.Answer, error) {
				order = append(order, name)
				return store(nil)(ctx, req)
			})
		}
		compared(t, strings.Repeat("{}\n", 4), note("driver"), note("proxy"), func(run *shadow.Run) { run.Turn = 2 })
		assert.Equal(t, []string{"driver", "driver", "proxy", "proxy", "proxy", "proxy", "driver", "driver"}, order)
	})
}

func TestARateIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		compared(t, strings.Repeat("{}\n", 20), store(nil), store(nil), func(run *shadow.Run) { run.Rate, run.Turn = 10, 5 })
		assert.Equal(t, 2*time.Second, time.Since(start))
	})
}

func TestDifferencesAreCountedBeyondTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wrong := store(func(_ string, r *partition.Result) { r.Rows[0][2], r.Rows[1][2] = []byte("<b>"), nil })
		r := compared(t, strings.Repeat("{}\n", 10), store(nil), wrong, nil)
		assert.Equal(t, shadow.Differs, r.Result)
		assert.Equal(t, int64(10), r.DifferentKeys)
		assert.Equal(t, map[shadow.Kind]int64{shadow.Cell: 20}, r.Kinds)
		assert.Len(t, r.Differences, 2)
		assert.Equal(t, "20 differences (20 cell), of which 2 are listed", r.ListTitle())

		var text, html, encoded bytes.Buffer
		require.NoError(t, r.Text(&text))
		assert.Contains(t, text.String(), "10 keys of 10 that both have answered differ\n")
		assert.Contains(t, text.String(), "shop.events \"k2\" row [1] v, lookup 1: cell\n  driver \"value\"\n  proxy  \"<b>\"\n")
		assert.Contains(t, text.String(), "10 lookups were timed: p95 needs 20, p99 needs 100.\n")
		assert.Contains(t, text.String(), "CPU of Cassandra not measured: a test has no nodes.\n")
		require.NoError(t, r.HTML(&html))
		assert.Contains(t, html.String(), `<h1 class="different">10 keys of 10`)
		assert.Contains(t, html.String(), "&lt;b&gt;")
		assert.NotContains(t, html.String(), "<b>", "values are escaped")
		assert.NotContains(t, html.String(), "http", "the page needs no other file")
		require.NoError(t, r.JSON(&encoded))
		var back map[string]any
		require.NoError(t, json.Unmarshal(encoded.Bytes(), &back))
		assert.InDelta(t, 10, back["different_keys"], 0)
		assert.Equal(t, "a test has no nodes", back["cpu_not_measured"])
		assert.Nil(t, back["driver"].(map[string]any)["p99_ms"])
	})
}

func TestWhatIsRefusedIsNoAgreement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := compared(t, "{}\n{hidden}\n{hidden}\n{paging}\n", store(nil), store(nil), nil)
		assert.Equal(t, shadow.Open, r.Result)
		assert.Equal(t, int64(3), r.Refused)
		assert.Equal(t, shadow.Reason{Side: "input", Text: "table shop.hidden may not be read", Lookups: 2, First: 2}, r.Reasons[0])
		assert.Contains(t, r.Reasons[1].Text, "paging")

		refusing := shadow.PathFunc(func(context.Context, *lookup.Request) (*shadow.Answer, error) { return nil, errors.New("no") })
		r = compared(t, "{}\n", store(nil), refusing, nil)
		assert.Equal(t, shadow.Nothing, r.Result)
		assert.Equal(t, "proxy", r.Reasons[0].Side)
		short := shadow.PathFunc(func(context.Context, *lookup.Request) (*shadow.Answer, error) { return &shadow.Answer{}, nil })
		assert.Equal(t, shadow.Nothing, compared(t, "{}\n", short, store(nil), nil).Result)
		assert.Equal(t, shadow.Nothing, compared(t, "", store(nil), store(nil), nil).Result)
	})
}

func TestKeysBecomeLookups(t *testing.T) {
	var numbers, sizes []int
	next := shadow.NewInput(strings.NewReader(strings.Repeat("key\n", 120)+"\n\na\nb\n{}\nc\n"), parser(t))
	for {
		item, err := next(t.Context())
		if err != nil {
			break
		}
		numbers, sizes = append(numbers, int(item.Number)), append(sizes, len(item.Request.Keys))
	}
	assert.Equal(t, []int{50, 50, 20, 2, 1, 1}, sizes)
	assert.Equal(t, []int{1, 51, 101, 123, 125, 126}, numbers)
}

// groupReader is a driver that records its statements.
type groupReader struct {
	mu         sync.Mutex
	in, single [][]string
}

func (g *groupReader) answer(keys []partition.Key, into *[][]string) []partition.Result {
	g.mu.Lock()
	defer g.mu.Unlock()
	var names []string
	out := make([]partition.Result, len(keys))
	for i, k := range keys {
		names = append(names, string(bytes.Join(k.Components(), []byte("/"))))
		out[i] = partition.Result{Status: partition.Found, Rows: []partition.Row{{k.Components()[0]}}}
	}
	*into = append(*into, names)
	return out
}

func (g *groupReader) In(_ context.Context, _ *partition.Query, keys []partition.Key) ([]partition.Result, error) {
	return g.answer(keys, &g.in), nil
}

func (g *groupReader) Single(_ context.Context, q *partition.Query, keys []partition.Key) ([]partition.Result, error) {
	if q.Consistency != "LOCAL_ONE" {
		return nil, errors.New("no such level")
	}
	return g.answer(keys, &g.single), nil
}

func TestTheDriverReadsAsAnApplicationDoes(t *testing.T) {
	req := request(t, 3)
	req.Keys = append(req.Keys, key(t, 0)) // a duplicate
	req.Consistency = "NODE_LOCAL"
	g := &groupReader{}
	a, err := (&shadow.Driver{Reader: g, Baseline: shadow.In, Timeout: time.Second}).Read(t.Context(), req)
	require.NoError(t, err)
	assert.Equal(t, [][]string{{"k0", "k1", "k2"}}, g.in)
	assert.Equal(t, 1, a.Sent)
	require.Len(t, a.Results, 4)
	assert.Equal(t, a.Results[0], a.Results[3])

	a, err = (&shadow.Driver{Reader: g, Baseline: shadow.Single}).Read(t.Context(), req)
	require.NoError(t, err)
	assert.Equal(t, 3, a.Sent)
	assert.Len(t, g.single, 1)

	// One statement cannot return the rows of several partitions in reverse order.
	req.Slice = &partition.Slice{Reverse: true}
	_, err = (&shadow.Driver{Reader: g, Baseline: shadow.In}).Read(t.Context(), req)
	require.NoError(t, err)
	assert.Len(t, g.single, 2)

	// Keys with the same clustering values share a statement.
	g, req.Slice, req.Keys = &groupReader{}, nil, nil
	for _, k := range [][2]string{{"a", "1"}, {"b", "1"}, {"a", "2"}} {
		rowKey, err := partition.NewRowKey(1, []byte(k[0]), []byte(k[1]))
		require.NoError(t, err)
		req.Keys = append(req.Keys, rowKey)
	}
	a, err = (&shadow.Driver{Reader: g, Baseline: shadow.In}).Read(t.Context(), req)
	require.NoError(t, err)
	assert.ElementsMatch(t, [][]string{{"a/1", "b/1"}, {"a/2"}}, g.in)
	assert.Equal(t, 2, a.Sent)
}

func TestCPUOfNodesOfThisMachine(t *testing.T) {
	proc := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Join(proc, filepath.Dir(name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(proc, name), []byte(text), 0o600))
	}
	head := "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	write("net/tcp", head+"   0: 0100007F:2352 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1\n"+
		"   1: 0200007F:2352 00000000:0000 01 00000000:00000000 00:00000000 00000000     0        0 13 1\n")
	write("net/tcp6", head+"   0: 0000000000000000FFFF00000300007F:2352 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12 1\n")
	for pid, inode := range map[string]string{"71": "11", "72": "12"} {
		write(pid+"/stat", pid+" (java (x) y) S 1 1 1 0 -1 4194304 1 0 0 0 250 50 0 0 20 0 1 0 1\n")
		require.NoError(t, os.Mkdir(filepath.Join(proc, pid, "fd"), 0o700))
		require.NoError(t, os.Symlink("socket:["+inode+"]", filepath.Join(proc, pid, "fd", "7")))
	}
	nodes, err := shadow.FindNodesIn(proc, []string{"127.0.0.1:9042", "127.0.0.3:9042"})
	require.NoError(t, err)
	spent, err := nodes.Spent()
	require.NoError(t, err)
	assert.Equal(t, 6*time.Second, spent)

	for name, addresses := range map[string][]string{
		"a connection is no listener": {"127.0.0.2:9042"}, "another machine": {"192.0.2.1:9042"}, "another port": {"127.0.0.1:9043"},
		"no node": nil, "no address": {"x"},
	} {
		_, err := shadow.FindNodesIn(proc, addresses)
		assert.Error(t, err, name)
	}
	_, err = shadow.FindNodesIn(t.TempDir(), []string{"127.0.0.1:9042"})
	assert.Error(t, err, "no /proc")
	write("net/tcp", head)
	write("net/tcp6", head)
	_, err = shadow.FindNodesIn(proc, []string{"127.0.0.1:9042"})
	assert.EqualError(t, err, "no listening socket can be seen from here")
	require.NoError(t, os.Remove(filepath.Join(proc, "72", "stat")))
	_, err = nodes.Spent()
	assert.Error(t, err, "a node that has ended")
}
