//go:build chaos

package chaos

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/lab/bench"
	"github.com/qosproxy/qosproxy/internal/lab/devcluster"
	"github.com/qosproxy/qosproxy/internal/lab/experiment"
	"github.com/qosproxy/qosproxy/internal/lab/profiles"
	"github.com/qosproxy/qosproxy/internal/lab/report"
)

// The default load of scenarios.
const (
	rate     = 50 // lookups per second, arriving as a Poisson process
	deadline = 125 * time.Millisecond
)

// partitions returns the number of keys; each is one row of 450 bytes. The short form has fewer,
// since cold nodes would take a quarter of its time to write so many.
func partitions() int {
	if *short {
		return 2000
	}
	return 10_000
}

// oneColumn is the default table of scenarios: its partition key is one column.
const oneColumn = "one key column"

// otherTables are read beside it where nodes fail. share is a table's part of the load; the first
// table gets the rest. A lookup of keys of several columns is a statement for each tenant and costs
// the nodes more, so it comes half as often.
var otherTables = []struct {
	name  string
	share float64
	make  func(*bench.Profile)
}{
	{"two key columns", 0.2, func(p *bench.Profile) {
		p.Table, p.KeyPrefix = "tenants", &bench.Column{Name: "tenant", Type: "text", Bytes: []int{16}}
	}},
	{"clustered", 0.4, func(p *bench.Profile) {
		p.Table, p.Clustering, p.RowsPerPartition = "orders", &bench.Column{Name: "line", Type: "int", Bytes: []int{16}}, 4
		p.Columns[len(p.Columns)-1].Bytes = []int{80}
	}},
}

// arena is a cluster of three nodes, tables with three replicas and one with a single replica, and
// proxies as separate processes. The proxy with all safeguards runs through all scenarios, as in
// production.
type arena struct {
	t         *testing.T
	site      *experiment.Site
	cluster   *devcluster.Cluster
	data      map[int]*bench.Dataset // by replication factor
	others    []*bench.Dataset       // of otherTables
	proxies   map[string]*subject    // by settings
	wide      *bench.Dataset         // of the scenario memory; nil until filled
	mebibytes *bench.Dataset         // of the scenarios flood-…; nil until filled
	tombs     bool                   // whether fillTombs has run
	callers   map[string]int         // by settings, how many get the most lookups in time from busy nodes; see busiest
	static    bool                   // whether dynamic_snitch is off
	stalls    *stallWatch
}

// subject is a proxy under test with a client.
type subject struct {
	proxy  *experiment.Proxy
	driver *bench.Driver
	data   *bench.Dataset
	// others are the drivers of otherTables, if these are loaded too.
	others []*bench.Driver
	// target is the target that the client loads; empty for the proxy over gRPC.
	target string
	// token is the bearer token that ask sends; empty for none.
	token string
}

// close ends a proxy that a scenario has to itself.
func (s *subject) close() {
	s.leave()
	_ = s.proxy.Stop() // the error of one that was killed is expected
}

// leave ends the connections of a client.
func (s *subject) leave() {
	s.driver.Close()
	for _, d := range s.others {
		d.Close()
	}
}

func newArena(t *testing.T) *arena {
	ctx := t.Context()
	lab := &experiment.Lab{Binary: binary, Seed: uint64(time.Now().UnixNano()), Say: t.Logf}
	t.Logf("seed %d", lab.Seed)
	layout := experiment.Layout{Nodes: 3, Racks: 3, VNodes: 16, YAML: map[string]any{
		"tombstone_warn_threshold": tombstoneLimit, "tombstone_failure_threshold": tombstoneLimit,
	}}
	layout.JVMArgs = []string{
		"-Dcassandra.enable_nodelocal_queries=true", // used only by reads at NODE_LOCAL
		// With 35 MiB, the default of small heaps, threads stop for up to 50 ms every three seconds.
		"-Xms256M", "-Xmn128M",
	}
	if *short {
		layout.JVMArgs = append(layout.JVMArgs, devcluster.ShortLived)
	}
	site, err := lab.Boot(ctx, layout)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, site.Close()) })
	// Otherwise the first node would write it, for ten seconds of CPU, whenever a scenario stops it,
	// and all nodes would take twice as long to start.
	require.NoError(t, site.Cluster.SaveArchive(ctx))
	a := &arena{t: t, site: site, cluster: site.Cluster, data: map[int]*bench.Dataset{}, proxies: map[string]*subject{}, callers: map[string]int{}, stalls: watchStalls(ctx)}
	for _, replication := range []int{1, 3} {
		require.NoError(t, site.Load(ctx, products(fmt.Sprintf("chaos_rf%d", replication), "products", partitions()), replication))
		a.data[replication] = site.Data
	}
	for _, table := range otherTables {
		p := products("chaos_rf3", "", partitions()/4)
		table.make(p)
		require.NoError(t, site.Load(ctx, p, 3))
		a.others = append(a.others, site.Data)
	}
	a.warm()
	return a
}

// The limits of the warm-up. In the short form no scenario measures latencies on warm nodes.
const (
	warmUnderLoad  = time.Minute
	warmTurns      = 30
	warmTurnsShort = 2
	// warmInTurn is how many consecutive turns must be good.
	warmInTurn = 2
	// cool is how long nodes are left alone after a turn that was not good: the compiler threads have
	// the lowest priority and get nothing of busy CPUs.
	cool = 4 * time.Second
)

// warm makes the nodes compile their code: under far more load than in scenarios, and then under
// the load of scenarios, with rests in between, until that is answered in time. It takes six
// minutes at most; the load before each fault shows whether it was enough.
func (a *arena) warm() {
	a.t.Helper()
	turns := warmTurns
	if *short {
		turns = warmTurnsShort
	}
	s := a.tables()
	_, err := bench.Compare(a.t.Context(), a.unguarded().driver.Contenders("", bench.ProxyGRPC), bench.Comparison{
		Load: bench.Load{Concurrency: 4}, Warmup: span(warmUnderLoad), Rounds: 1, Length: time.Second,
	})
	a.must(err)
	for good := 0; turns > 0 && good < warmInTurn; turns-- {
		l := a.load(s, 5*time.Second)
		a.t.Logf("warm-up: %s", l)
		if inTime(l) {
			good++
			continue
		}
		good = 0
		a.hold(span(cool))
	}
}

// subject returns a proxy for the table of one key column with a replication factor and further
// settings of the table. Proxies with equal settings are started once.
func (a *arena) subject(replication int, settings ...string) *subject {
	return a.start(true, replication, settings).alone()
}

// tables returns such a proxy with three replicas, which loads all three tables.
func (a *arena) tables(settings ...string) *subject { return a.start(true, 3, settings) }

// alone returns a subject that loads only the first table.
func (s *subject) alone() *subject {
	one := *s
	one.others = nil
	return &one
}

// unguarded returns a proxy without admission, which refuses nothing, and takes no brown-out step.
func (a *arena) unguarded(settings ...string) *subject { return a.start(false, 3, settings).alone() }

// unprotected returns a proxy that neither hedges nor avoids hosts, and loads all tables. Fail-over
// stays on, because a frozen node returns no failure that would trigger it.
func (a *arena) unprotected() *subject {
	return a.start(true, 3, noHedge, "CHAOS_AVOIDANCE=nothing")
}

func (a *arena) start(admission bool, replication int, settings []string, env ...string) *subject {
	name := fmt.Sprint(admission, replication, settings, env)
	if s := a.proxies[name]; s != nil {
		return s
	}
	all := []*bench.Dataset{a.data[replication]}
	if replication == 3 {
		all = append(all, a.others...)
	}
	var yaml strings.Builder
	fmt.Fprintf(&yaml, "listen: {%s}\nshutdown: {delay: 0s}\nadmission: {enabled: %t}\ntables:\n", anywhere, admission)
	for _, d := range all {
		table := append([]string{"name: " + d.Profile.Keyspace + "." + d.Profile.Table, "timeout: 2s", "max_response_bytes: 64MiB"}, settings...)
		fmt.Fprintf(&yaml, "  - {%s}\n", strings.Join(table, ", "))
	}
	proxy, err := a.site.Start(context.WithoutCancel(a.t.Context()), yaml.String(), env...)
	a.must(err)
	patient := func(o *bench.Open) { o.Timeout = deadline }
	s := a.metered(proxy, a.site.Meter(proxy), all[0], patient)
	for _, d := range all[1:] {
		s.others = append(s.others, a.metered(proxy, a.site.Meter(proxy), d, patient).driver)
	}
	a.proxies[name] = s
	return s
}

// anywhere is the configuration of listeners on any free ports.
const anywhere = `grpc: "127.0.0.1:0", http: "127.0.0.1:0", admin: "127.0.0.1:0"`

// own starts a proxy that a scenario has to itself, for the table of a data set, with a complete
// configuration and environment variables.
func (a *arena) own(d *bench.Dataset, yaml string, env ...string) *subject {
	a.t.Helper()
	proxy, err := a.site.Start(context.WithoutCancel(a.t.Context()), yaml, env...)
	a.must(err)
	return a.client(proxy, d, nil)
}

// client returns a subject with a further client of a proxy. change may modify it; it may be nil.
func (a *arena) client(proxy *experiment.Proxy, d *bench.Dataset, change func(*bench.Open)) *subject {
	a.t.Helper()
	// The cost of a proxy that may not survive its scenario cannot be read.
	return a.metered(proxy, a.site.Meter(nil), d, change)
}

// metered is client with a meter.
func (a *arena) metered(proxy *experiment.Proxy, meter bench.Meter, d *bench.Dataset, change func(*bench.Open)) *subject {
	a.t.Helper()
	a.site.Data = d
	open := a.site.Open(proxy)
	if change != nil {
		change(&open)
	}
	driver, err := bench.NewDriver(open, meter)
	a.must(err)
	return &subject{proxy: proxy, driver: driver, data: d}
}

// plain returns a configuration with the table of a data set and defaults, except for a long
// timeout, so that late answers count as late.
func plain(d *bench.Dataset) string {
	return fmt.Sprintf("listen: {%s}\nshutdown: {delay: 0s}\ntables:\n  - {name: %s.%s, timeout: 2s}\n", anywhere, d.Profile.Keyspace, d.Profile.Table)
}

// fill drops the table of a profile, creates it again and fills it.
func (a *arena) fill(p *bench.Profile) *bench.Dataset {
	a.t.Helper()
	a.cql("CREATE KEYSPACE IF NOT EXISTS "+p.Keyspace+" WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3}",
		"DROP TABLE IF EXISTS "+p.Keyspace+"."+p.Table)
	a.must(a.site.Load(a.t.Context(), p, 3))
	return a.site.Data
}

// products returns the profile products under another name.
func products(keyspace, table string, partitions int) *bench.Profile {
	source, err := profiles.Files.ReadFile("products.yaml")
	if err != nil {
		panic(err) // it is part of the binary
	}
	p, err := bench.ParseProfile(source)
	if err != nil {
		panic(err)
	}
	p.Keyspace, p.Table, p.Partitions = keyspace, table, partitions
	return p
}

// cql runs statements one after the other.
func (a *arena) cql(statements ...string) {
	a.t.Helper()
	for _, s := range statements {
		err := a.site.Client.Exec(a.t.Context(), s)
		for tries := 1; err != nil && tries < 3 && strings.Contains(err.Error(), "connection reset"); tries++ {
			// A connection may have gone through a relay that is gone.
			a.hold(time.Second)
			err = a.site.Client.Exec(a.t.Context(), s)
		}
		a.must(err)
	}
}

// load makes lookups of 50 keys at the default rate and checks every row.
func (a *arena) load(s *subject, length time.Duration) *Load {
	return a.loadAt(s, bench.Load{Rate: rate}, length)
}

// loadAt loads all tables of a subject, each with its share of the rate.
func (a *arena) loadAt(s *subject, load bench.Load, length time.Duration) *Load {
	a.t.Helper()
	begin := time.Now()
	l := a.loadTables(s, load, length)
	l.Stalls = a.stalls.since(begin)
	return l
}

func (a *arena) loadTables(s *subject, load bench.Load, length time.Duration) *Load {
	a.t.Helper()
	if len(s.others) == 0 {
		return NewLoad(a.round(s.driver, s.target, load, length))
	}
	rounds := make([]*Load, 1+len(s.others))
	var all sync.WaitGroup
	one := func(i int, d *bench.Driver, name string, share float64) {
		part := load
		part.Rate *= share
		all.Go(func() {
			l := NewLoad(a.round(d, s.target, part, length))
			l.Tables = []TableLoad{{name, l.Lookups, l.Failed}}
			rounds[i] = l
		})
	}
	rest := 1.0
	for i, d := range s.others {
		one(1+i, d, otherTables[i].name, otherTables[i].share)
		rest -= otherTables[i].share
	}
	one(0, s.driver, oneColumn, rest)
	all.Wait()
	sum := &Load{}
	for _, l := range rounds {
		sum.Add(l)
		sum.Seconds = max(sum.Seconds, l.Seconds)
	}
	return sum
}

// calm loads a proxy until it answers two seconds of load in time, for a minute at most, since
// nodes and proxy may have just started. The load before the fault shows whether it was enough.
func (a *arena) calm(s *subject) {
	a.t.Helper()
	for begin := time.Now(); time.Since(begin) < span(time.Minute); {
		if inTime(a.load(s, 2*time.Second)) {
			return
		}
	}
}

// inTime reports whether answers are so fast that the nodes are warm.
func inTime(l *Load) bool { return l.Failed == 0 && l.P99 < 0.040 }

// round loads one table.
func (a *arena) round(d *bench.Driver, target string, load bench.Load, length time.Duration) *report.Round {
	a.t.Helper()
	runs, err := bench.Compare(a.t.Context(), d.Contenders("", cmp.Or(target, bench.ProxyGRPC)), bench.Comparison{
		Load: load, Rounds: 1, Length: length, Seed: uint64(time.Now().UnixNano()),
		SLA: report.SLA{Percentile: 95, TargetSeconds: deadline.Seconds()},
	})
	if err != nil {
		a.t.Errorf("load: %v", err) // not FailNow, which needs the goroutine of the test
		return &report.Round{}
	}
	return &runs[0].Rounds[0]
}

// during loads a proxy while do runs, for at least length.
func (a *arena) during(s *subject, length time.Duration, do func()) *Load {
	a.t.Helper()
	return a.duringAt(s, bench.Load{Rate: rate}, length, do)
}

func (a *arena) duringAt(s *subject, at bench.Load, length time.Duration, do func()) *Load {
	a.t.Helper()
	var loaded *Load
	var load sync.WaitGroup
	enough := make(chan struct{})
	at.Until = enough
	load.Go(func() { loaded = a.loadAt(s, at, time.Hour) })
	func() {
		defer load.Wait() // also when do ends the test
		defer close(enough)
		start := time.Now()
		do()
		a.hold(length - time.Since(start))
	}()
	return loaded
}

// span returns the length of a load, which is shorter in the short form.
func span(long time.Duration) time.Duration {
	if *short {
		return long / 4
	}
	return long
}

// hold waits.
func (a *arena) hold(d time.Duration) {
	select {
	case <-time.After(d):
	case <-a.t.Context().Done():
		a.t.FailNow()
	}
}

// restart restarts all nodes, whatever their state, and warms them.
func (a *arena) restart() {
	for _, n := range a.cluster.Nodes() {
		_ = n.Kill()
	}
	for _, n := range a.cluster.Nodes() {
		a.must(n.Start(a.t.Context()))
	}
	a.warm()
}

// staticNodes is appended to the fault of scenarios that are static.
const staticNodes = "; nodes with `dynamic_snitch: false`"

// snitch restarts the nodes with the dynamic snitch off, or on, if it is not so already. While it
// is on, replicas ask a node that has just started for data that they have themselves, because it
// has not been slow yet, and wait for its first answer.
func (a *arena) snitch(static bool) {
	a.t.Helper()
	if static == a.static {
		return
	}
	for _, n := range a.cluster.Nodes() {
		a.must(n.Configure(snitch(static)))
	}
	a.static = static
	a.restart()
}

// snitch returns the setting for nodes with the dynamic snitch off, or on.
func snitch(static bool) map[string]any { return map[string]any{"dynamic_snitch": !static} }

// node returns a node by its number, from 1.
func (a *arena) node(n int) *devcluster.Node { return a.cluster.Nodes()[n-1] }

// must ends the scenario when one of its tools fails.
func (a *arena) must(err error) {
	a.t.Helper()
	require.NoError(a.t, err)
}

// sum adds up the series of a metric of a proxy with the given labels, in pairs: counters and
// gauges by value, histograms by count.
func (a *arena) sum(s *subject, name string, labels ...string) float64 {
	total := 0.0
	for _, m := range a.metrics(s)[name].GetMetric() {
		if matches(m, labels) {
			total += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return total
}

func matches(m *dto.Metric, labels []string) bool {
	for i := 0; i+1 < len(labels); i += 2 {
		if label(m, labels[i]) != labels[i+1] {
			return false
		}
	}
	return true
}

// asked returns how many first attempts a host has answered.
func (a *arena) asked(s *subject, n *devcluster.Node) float64 {
	return a.sum(s, "qosproxy_subquery_duration_seconds", "host", n.Addr(), "attempt", "first")
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// metrics scrapes a proxy.
func (a *arena) metrics(s *subject) map[string]*dto.MetricFamily {
	families, err := s.proxy.Metrics(context.WithoutCancel(a.t.Context()))
	a.must(err)
	return families
}

// back loads a proxy until a host answers first attempts again, and returns how long that took; a
// minute or more means never.
func (a *arena) back(s *subject, n *devcluster.Node) time.Duration {
	const patience = time.Minute
	start, before := time.Now(), a.asked(s, n)
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	for ctx.Err() == nil {
		a.load(s, time.Second)
		// The threshold is above what an avoided host is asked, and below a third of the lookups, each of
		// which may be one group.
		if a.asked(s, n) >= before+rate/10 {
			return time.Since(start)
		}
		before = a.asked(s, n)
	}
	return patience
}

// ended counts the lookups that a proxy has ended since it started: all, those answered in full,
// those of them within the deadline, which is an edge of the histogram, and those refused for load.
type ended struct{ all, full, inTime, refused float64 }

func (e ended) minus(o ended) ended {
	return ended{e.all - o.all, e.full - o.full, e.inTime - o.inTime, e.refused - o.refused}
}

// ended counts lookups with the given labels, from one scrape: refusals continue after the load,
// and if they were counted a moment later they would be more than all lookups.
func (a *arena) ended(s *subject, labels ...string) ended {
	var e ended
	for _, m := range a.metrics(s)["qosproxy_lookup_duration_seconds"].GetMetric() {
		if !matches(m, labels) {
			continue
		}
		h := m.GetHistogram()
		n := float64(h.GetSampleCount())
		e.all += n
		switch label(m, "code") {
		case "RESOURCE_EXHAUSTED":
			e.refused += n
		case "OK":
			e.full += n
			for _, b := range h.GetBucket() {
				if b.GetUpperBound() == deadline.Seconds() {
					e.inTime += float64(b.GetCumulativeCount())
				}
			}
		}
	}
	return e
}

// answer has the fields of an HTTP answer that are used.
type answer struct {
	Results []struct {
		Status string                       `json:"status"`
		Rows   []map[string]json.RawMessage `json:"rows"`
	} `json:"results"`
	Keys []struct {
		Token    string   `json:"token"`
		Replicas []string `json:"replicas"`
	} `json:"keys"`
}

// ask sends a request for a table to a proxy over HTTP. verb is batchGet or explain and body is
// JSON. An answer with any status is not an error.
func ask(ctx context.Context, s *subject, table, verb, body string) (*answer, error) {
	url := fmt.Sprintf("http://%s/v1/%s:%s", s.proxy.HTTP, strings.Replace(table, ".", "/", 1), verb)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	resp, err := manyConnections.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	out := &answer{}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return nil, fmt.Errorf("%s: %w", resp.Status, err)
	}
	return out, nil
}

// manyConnections keeps connections for a thousand callers.
var manyConnections = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2000}}
