//go:build register

package register

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/qosproxy/qosproxy/api/qosproxy"
	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/lab/devcluster"
	"github.com/qosproxy/qosproxy/internal/lab/experiment"
)

var (
	binary = flag.String("register.proxy", "", "the qosproxy to check; without one the check is skipped")
	goal   = flag.Int64("register.keys", 1_000_000, "how many keys to read from tables whose replicas are compared; faults are repeated until then")
	only   = flag.String("register.faults", ".", "a regular expression of the faults to have")
	direct = flag.Bool("register.direct", false, "nodes refuse NODE_LOCAL, so that replicas are asked at LOCAL_ONE")
)

// The contenders, each with its own proxy: the first is checked, the others are controls.
var contenders = []struct {
	name, settings string
	readers        int
}{
	{"quorum_reads: replicas", "consistency: LOCAL_QUORUM, quorum_reads: replicas", 6},
	{"control: LOCAL_ONE", "consistency: LOCAL_ONE, coalesce: false", 1},
	{"control: not compared", "consistency: NODE_LOCAL, coalesce: false", 1},
}

const (
	keysPerLookup = 50
	// A reader makes a lookup every 60 ms at most, and each seventh key is written twice as
	// often as the next, the first 3 times a second.
	readPause, writePause = 60 * time.Millisecond, 300 * time.Millisecond
	readTimeout           = time.Second
	// writeTimeout is when the outcome of a write becomes unknown.
	writeTimeout = time.Second
	bootTimeout  = 10 * time.Minute
	checkTimeout = time.Minute
)

var columns = []string{"v", "w"}

// table is a table and its keys, each of which has one row.
type table struct {
	name, definition string
	where, all       string // which row an UPDATE is of, and which ones a DELETE
	insert           string
	compared         bool // whether reads compare its replicas
	size             int
	keys             []*key
}

func tables() []*table {
	plain := table{definition: "(id text PRIMARY KEY, v text, w text) WITH speculative_retry = ", where: "id = ?", all: "id = ?",
		insert: "(id, v, w) VALUES (?, ?, ?)", compared: true}
	first, second := plain, plain
	first.name, first.size, first.definition = "plain", 150, plain.definition+"'NONE'"
	second.name, second.size, second.definition = "speculating", 90, plain.definition+"'99p'"
	return []*table{&first, &second, {name: "clustered", size: 60, definition: "(id text, c int, v text, w text, PRIMARY KEY (id, c))",
		where: "id = ? AND c = 1", all: "id = ? AND c >= 0", insert: "(id, v, w, c) VALUES (?, ?, ?, 1)"}}
}

// key has the history of one key, by column and, for reads, by contender.
type key struct {
	id     string
	mu     sync.Mutex
	writes [2][]Write
	reads  [3][2][]Read
}

// suite is the cluster, its load and the outcomes.
type suite struct {
	t       *testing.T
	site    *experiment.Site
	writer  *cassandra.Client
	proxies []*experiment.Proxy
	tables  []*table
	start   time.Time
	read    [3]atomic.Int64 // keys answered from compared tables, by contender
	other   atomic.Int64    // keys answered from other tables, by the first contender
	failed  [3]atomic.Int64
	unknown atomic.Int64 // writes

	mu sync.Mutex
	// reasons counts the failed keys of the first contender, by table and reason.
	reasons map[string]int
}

// fail counts keys that were not answered.
func (s *suite) fail(contender int, tab *table, reason string, keys int) {
	s.failed[contender].Add(int64(keys))
	if contender != 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reasons[tab.name+" "+reason] += keys
}

func (s *suite) now() time.Duration { return time.Since(s.start) }

// TestQuorumReads checks that tables with quorum_reads: replicas are linearizable per cell while
// nodes of a real cluster fail, join and leave, and that the controls are not.
func TestQuorumReads(t *testing.T) {
	if *binary == "" {
		t.Skip("boots a cluster: make check-quorum")
	}
	s := &suite{t: t, tables: tables(), start: time.Now(), reasons: map[string]int{}}
	s.boot()
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	defer load.Wait()
	defer stop()
	for _, tab := range s.tables {
		for i, k := range tab.keys {
			load.Go(func() { s.write(ctx, tab, k, writePause<<(i%7)) })
		}
	}
	for c, contender := range contenders {
		client, err := qosproxy.Dial(s.proxies[c].GRPC, qosproxy.Options{})
		require.NoError(t, err)
		defer client.Close()
		for range contender.readers {
			load.Go(func() { s.reads(ctx, c, client) })
		}
	}
	s.hold(15 * time.Second) // until the proxy may ask replicas
	for s.read[0].Load() < *goal {
		for _, f := range s.faults() {
			if !regexp.MustCompile(*only).MatchString(f.name) {
				continue
			}
			s.during(f)
		}
	}
	outcomes := s.outcomes()
	stop()
	load.Wait()
	s.judge(outcomes)
}

// boot starts cluster, tables and proxies.
func (s *suite) boot() {
	t := s.t
	layout := experiment.Layout{Nodes: 3, Racks: 3, VNodes: 16, JVMArgs: []string{devcluster.ShortLived}, YAML: map[string]any{
		"hinted_handoff_enabled": false, "dynamic_snitch": false,
		// An acknowledged write survives kill -9.
		"commitlog_sync": "batch", "commitlog_sync_period": "0ms",
	}}
	if !*direct {
		layout.JVMArgs = append(layout.JVMArgs, "-Dcassandra.enable_nodelocal_queries=true")
	}
	lab := &experiment.Lab{Binary: *binary, Say: t.Logf}
	ctx, cancel := context.WithTimeout(t.Context(), bootTimeout)
	defer cancel()
	var err error
	s.site, err = lab.Boot(ctx, layout)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.site.Close()) })
	cfg := s.site.Cassandra()
	cfg.Consistency = "QUORUM"
	s.writer, err = cassandra.Connect(ctx, cfg)
	require.NoError(t, err)
	t.Cleanup(s.writer.Close)
	definitions := []string{"CREATE KEYSPACE reg WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3}"}
	var names []string
	for _, tab := range s.tables {
		definitions = append(definitions, "CREATE TABLE reg."+tab.name+" "+tab.definition)
		names = append(names, "reg."+tab.name)
		for i := range tab.size {
			tab.keys = append(tab.keys, &key{id: fmt.Sprintf("key-%03d", i)})
		}
	}
	require.NoError(t, s.writer.Define(ctx, definitions...))
	for _, c := range contenders {
		yaml := `listen: {grpc: "127.0.0.1:0", http: "127.0.0.1:0", admin: "127.0.0.1:0"}` + "\nshutdown: {delay: 0s}\nadmission: {enabled: false}\ntables:\n" +
			"  - {timeout: 2s, " + c.settings + ", name: " + strings.Join(names, "}\n  - {timeout: 2s, "+c.settings+", name: ") + "}\n"
		p, err := s.site.Start(ctx, yaml)
		require.NoError(t, err)
		s.proxies = append(s.proxies, p)
	}
}

// write writes to one key, one write after the other, until ctx ends.
func (s *suite) write(ctx context.Context, tab *table, k *key, pause time.Duration) {
	into := "INSERT INTO reg." + tab.name + " " + tab.insert + " USING TIMESTAMP ?"
	gone := false // whether the row is deleted, so that the next write is a value
	for ts := int64(0); ctx.Err() == nil; {
		ts = max(ts+1, time.Now().UnixMicro())
		value, one := strconv.FormatInt(ts, 10), rand.IntN(2)
		w := Write{Version: ts}
		wait := time.Duration(float64(pause) * (0.5 + rand.Float64()))
		touched, cql, args := []int{0, 1}, into, []any{k.id, value, value, ts}
		kind := rand.IntN(20)
		if gone {
			kind = rand.IntN(11)
		}
		gone = false
		switch {
		case kind < 6:
		case kind < 11:
			touched = []int{one}
			cql, args = "UPDATE reg."+tab.name+" USING TIMESTAMP ? SET "+columns[one]+" = ? WHERE "+tab.where, []any{ts, value, k.id}
		case kind < 14: // a TTL of 2 or 3 s, whose expiry may be observed
			w.Life = time.Duration(2+rand.IntN(2)) * time.Second
			cql, args = into+" AND TTL ?", append(args, int(w.Life.Seconds()))
			if wait = w.Life/2 + min(wait, w.Life); wait > w.Life {
				gone = true
			}
		case kind < 17:
			w.Null, gone = true, true
			cql, args = "DELETE FROM reg."+tab.name+" USING TIMESTAMP ? WHERE "+tab.all, []any{ts, k.id}
		default:
			w.Null, gone = true, true
			touched = []int{one}
			cql, args = "DELETE "+columns[one]+" FROM reg."+tab.name+" USING TIMESTAMP ? WHERE "+tab.where, []any{ts, k.id}
		}
		w.Begin = s.now()
		writing, cancel := context.WithTimeout(ctx, writeTimeout)
		err := s.writer.Exec(writing, cql, args...)
		cancel()
		if err == nil {
			w.End = s.now()
		} else if ctx.Err() == nil {
			s.unknown.Add(1)
		}
		k.mu.Lock()
		for _, c := range touched {
			k.writes[c] = append(k.writes[c], w)
		}
		k.mu.Unlock()
		if w.Null {
			wait = min(wait, writePause)
		}
		sleep(ctx, wait)
	}
}

// reads makes lookups until ctx ends. An unanswered key is no observation.
func (s *suite) reads(ctx context.Context, contender int, client *qosproxy.Client) {
	for ; ctx.Err() == nil; sleep(ctx, time.Duration(rand.Int64N(int64(2*readPause)))) {
		tab := s.tables[[]int{0, 0, 0, 1, 1, 2}[rand.IntN(6)]]
		keys, ids := make([]*key, keysPerLookup), make([]string, keysPerLookup)
		for i, at := range rand.Perm(len(tab.keys))[:keysPerLookup] {
			keys[i], ids[i] = tab.keys[at], tab.keys[at].id
		}
		begin := s.now()
		answer, err := client.Get(ctx, qosproxy.Lookup{Table: "reg." + tab.name, Keys: qosproxy.Keys(ids...), Columns: columns, Timeout: readTimeout})
		end := s.now()
		if err != nil {
			if ctx.Err() == nil {
				s.fail(contender, tab, "whole lookups", keysPerLookup)
			}
			continue
		}
		for i, r := range answer.All() {
			rows, err := r.Rows()
			if err != nil {
				s.fail(contender, tab, fmt.Sprintf("%v %v", r.Status(), r.Reason()), 1)
				continue
			}
			var found [2]int64
			for c := range columns {
				if len(rows) > 0 {
					found[c] = s.version(rows[0], columns[c])
				}
			}
			k := keys[i]
			k.mu.Lock()
			for c, version := range found {
				k.reads[contender][c] = append(k.reads[contender][c], Read{version, begin, end})
			}
			k.mu.Unlock()
			if tab.compared {
				s.read[contender].Add(1)
			} else if contender == 0 {
				s.other.Add(1)
			}
		}
	}
}

// version returns the version stored in a cell, 0 for null.
func (s *suite) version(row qosproxy.Row, column string) int64 {
	text, err := qosproxy.Get[*string](row, column)
	if err != nil || text == nil {
		assert.NoError(s.t, err)
		return 0
	}
	v, err := strconv.ParseInt(*text, 10, 64)
	assert.NoError(s.t, err)
	return v
}

type fault struct {
	name string
	do   func(context.Context) error
}

// faults returns one fault of each kind, to be run in this order.
func (s *suite) faults() []fault {
	nodes := s.site.Cluster.Nodes()
	all := []fault{
		{"freeze 1", s.freeze(nodes[0])}, {"freeze 2", s.freeze(nodes[1])}, {"freeze 3", s.freeze(nodes[2])},
		{"partition 1", s.partition(nodes[0])},
		{"kill 3", func(ctx context.Context) error { return s.again(ctx, nodes[2], nodes[2].Kill) }},
		{"restart 2", func(ctx context.Context) error { return s.again(ctx, nodes[1], nodes[1].Stop) }},
		{"join and leave", s.joinAndLeave},
	}
	if os.Getenv(insideVariable) == "" {
		s.t.Log("nothing is partitioned: that needs root")
		all = slices.DeleteFunc(all, func(f fault) bool { return strings.HasPrefix(f.name, "partition") })
	}
	return all
}

func (s *suite) freeze(n *devcluster.Node) func(context.Context) error {
	return func(context.Context) error {
		if err := n.Pause(); err != nil {
			return err
		}
		s.hold(3*time.Second + rand.N(2*time.Second))
		return n.Resume()
	}
}

func (s *suite) partition(n *devcluster.Node) func(context.Context) error {
	return func(context.Context) error {
		heal, err := partition(n)
		if err != nil {
			return err
		}
		s.hold(8 * time.Second)
		return heal()
	}
}

// again ends a node and starts it a few seconds later.
func (s *suite) again(ctx context.Context, n *devcluster.Node, end func() error) error {
	if err := end(); err != nil {
		return err
	}
	s.hold(5 * time.Second)
	return n.Start(ctx)
}

// joinAndLeave adds a node and removes it again. The node announces itself for as long as in
// production, so that the proxy hears of it in time.
func (s *suite) joinAndLeave(ctx context.Context) error {
	n, err := s.site.Cluster.AddNode(ctx, devcluster.NodeConfig{DC: "dc1", Rack: "rack1", JVMArgs: []string{devcluster.ShortLived, "-Dcassandra.ring_delay_ms=30000",
		"-Dcassandra.enable_nodelocal_queries=" + strconv.FormatBool(!*direct)}})
	if err != nil {
		return err
	}
	s.hold(20 * time.Second)
	return s.site.Cluster.Decommission(ctx, n)
}

// during runs a fault, waits for some time after it, and logs what was read meanwhile.
func (s *suite) during(f fault) {
	before, from, read, failed := s.outcomes(), s.now(), s.read[0].Load(), s.failed[0].Load()
	ctx, cancel := context.WithTimeout(s.t.Context(), bootTimeout)
	defer cancel()
	require.NoError(s.t, f.do(ctx), f.name)
	over := s.now()
	s.hold(15 * time.Second)
	after := s.outcomes()
	for outcome := range after {
		after[outcome] -= before[outcome]
	}
	s.t.Logf("%-14s from %.1f to %.1f s, then 15 s: %d keys read, %d failed; %s", f.name, from.Seconds(), over.Seconds(),
		s.read[0].Load()-read, s.failed[0].Load()-failed, shares(after))
}

func (s *suite) hold(d time.Duration) { sleep(s.t.Context(), d) }

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// outcomes returns the number of keys of compared tables that the checked proxy has read, by
// outcome.
func (s *suite) outcomes() map[string]float64 {
	families, err := s.proxies[0].Metrics(s.t.Context())
	require.NoError(s.t, err)
	out := map[string]float64{}
	for _, m := range families["qosproxy_quorum_reads_total"].GetMetric() {
		if label(m, "table") != "reg.clustered" {
			out[label(m, "outcome")] += m.GetCounter().GetValue()
		}
	}
	return out
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// shares formats the share of each outcome.
func shares(outcomes map[string]float64) string {
	total := 0.0
	for _, n := range outcomes {
		total += n
	}
	var parts []string
	for outcome, n := range outcomes {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s %.1f %%", outcome, 100*n/total))
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// judge checks all histories.
func (s *suite) judge(outcomes map[string]float64) {
	t := s.t
	t.Logf("%d keys read of compared tables (%s), %d of others; %d failed; %d writes of unknown outcome",
		s.read[0].Load(), shares(outcomes), s.other.Load(), s.failed[0].Load(), s.unknown.Load())
	t.Logf("failed: %v", s.reasons)
	total := 0.0
	for _, n := range outcomes {
		total += n
	}
	assert.Greater(t, outcomes["matched"]/total, 0.3, "too few keys were answered by replicas")
	for c, contender := range contenders {
		var mu sync.Mutex
		verdicts, told := map[Verdict]int{}, 0
		var checks errgroup.Group
		checks.SetLimit(runtime.GOMAXPROCS(0))
		for _, tab := range s.tables {
			for _, k := range tab.keys {
				for column := range columns {
					checks.Go(func() error {
						h := &History{k.writes[column], k.reads[c][column]}
						verdict := h.Check(checkTimeout)
						mu.Lock()
						defer mu.Unlock()
						if verdicts[verdict]++; verdict == Violated && (c == 0 && told < 5 || told < 1) {
							told++
							_, why := h.Explain(2*time.Second, checkTimeout)
							t.Logf("%s: %s, %s of %s is not linearizable:\n%s", contender.name, tab.name, columns[column], k.id, why)
						}
						return nil
					})
				}
			}
		}
		_ = checks.Wait()
		t.Logf("%s: %d keys read, %d failed; cells: %d linearizable, %d violated, %d undecided", contender.name, s.read[c].Load(), s.failed[c].Load(),
			verdicts[Linearizable], verdicts[Violated], verdicts[Undecided])
		if c == 0 {
			assert.Zero(t, verdicts[Violated]+verdicts[Undecided], "%s", contender.name)
		} else {
			assert.Positive(t, verdicts[Violated], "%s: the check finds nothing, so that it proves nothing", contender.name)
		}
	}
}
