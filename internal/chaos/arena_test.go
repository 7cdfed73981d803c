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
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	profiles "github.com/qosproxy/qosproxy/deploy/bench"
	"github.com/qosproxy/qosproxy/internal/bench"
	"github.com/qosproxy/qosproxy/internal/devcluster"
	"github.com/qosproxy/qosproxy/internal/experiment"
	"github.com/qosproxy/qosproxy/internal/report"
)

// The load of every scenario that does not say another.
const (
	rate     = 50 // lookups per second, arriving as a Poisson process
	deadline = 125 * time.Millisecond
)

// partitions is how many keys there are; each is one row of 450 bytes.
const partitions = 10_000

// arena is a cluster of three nodes, a table with three replicas and one with a
// single one, and proxies in processes of their own. The proxy with everything on
// lives through all scenarios, as one in production does.
type arena struct {
	t       *testing.T
	site    *experiment.Site
	cluster *devcluster.Cluster
	data    map[int]*bench.Dataset // by replication factor
	proxies map[string]*subject    // by settings
}

// subject is a proxy under test with a client.
type subject struct {
	proxy  *experiment.Proxy
	driver *bench.Driver
	data   *bench.Dataset
	// target is what the client asks; empty for the proxy over gRPC.
	target string
	// token is what ask brings; empty for none.
	token string
}

// close ends a proxy that a scenario has to itself.
func (s *subject) close() {
	s.driver.Close()
	_ = s.proxy.Stop() // one that was killed has been seen to be
}

func newArena(t *testing.T) *arena {
	ctx := t.Context()
	lab := &experiment.Lab{Binary: binary, Seed: uint64(time.Now().UnixNano()), Say: t.Logf}
	t.Logf("seed %d", lab.Seed)
	site, err := lab.Boot(ctx, experiment.Layout{Nodes: 3, Racks: 3, VNodes: 16, YAML: map[string]any{
		"tombstone_warn_threshold": tombstoneLimit, "tombstone_failure_threshold": tombstoneLimit,
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, site.Close()) })
	a := &arena{t: t, site: site, cluster: site.Cluster, data: map[int]*bench.Dataset{}, proxies: map[string]*subject{}}
	for _, replication := range []int{1, 3} {
		require.NoError(t, site.Load(ctx, products(fmt.Sprintf("chaos_rf%d", replication), "products", partitions), replication))
		a.data[replication] = site.Data
	}
	a.warm()
	return a
}

// warm has the nodes compile their code: under far more load than they have to carry,
// and left alone in between, they do so sooner.
func (a *arena) warm() {
	a.t.Helper()
	s := a.subject(3)
	runs, err := bench.Compare(a.t.Context(), a.unguarded().driver.Contenders("", bench.ProxyGRPC), bench.Comparison{
		Load: bench.Load{Concurrency: 4}, Warmup: 2 * time.Minute, Rounds: 1, Length: 5 * time.Second,
	})
	a.must(err)
	a.t.Logf("warm-up: %s", seen(&runs[0].Rounds[0]))
	for range 36 {
		r := a.load(s, 5*time.Second)
		a.t.Logf("warm-up: %s", seen(r))
		if failed(r) == 0 && r.Latency.P99 < 0.040 && !r.Compiling() {
			break
		}
	}
}

// subject returns a proxy for the table of a replication factor with further
// settings of the table; equal ones are started once.
func (a *arena) subject(replication int, settings ...string) *subject {
	return a.start(true, replication, settings)
}

// unguarded returns a proxy that refuses nothing.
func (a *arena) unguarded() *subject { return a.start(false, 3, nil) }

func (a *arena) start(admission bool, replication int, settings []string) *subject {
	name := fmt.Sprint(admission, replication, settings)
	if s := a.proxies[name]; s != nil {
		return s
	}
	a.site.Data, a.site.Admission = a.data[replication], admission
	driver, proxy, err := a.site.Driver(context.WithoutCancel(a.t.Context()), func(o *bench.Open) { o.Timeout = deadline }, settings...)
	require.NoError(a.t, err)
	s := &subject{proxy: proxy, driver: driver, data: a.site.Data}
	a.proxies[name] = s
	return s
}

// anywhere are the addresses of the listeners of a configuration.
const anywhere = `grpc: "127.0.0.1:0", http: "127.0.0.1:0", admin: "127.0.0.1:0"`

// explained returns a proxy with a further client, which is told what was tried for each key.
func (a *arena) explained(s *subject) *subject {
	return a.metered(s.proxy, a.site.Meter(s.proxy), s.data, func(o *bench.Open) { o.Explain, o.Timeout = true, deadline })
}

// tell logs what was tried for keys that were not answered.
func (a *arena) tell(r *report.Round) {
	for text, n := range r.Counts.Errors {
		a.t.Logf("%d × %s", n, text)
	}
}

// denied counts the hedges that a proxy had no budget for, or took for a burden.
func (a *arena) denied(s *subject) float64 {
	return a.sum(s, "qosproxy_hedges_total", "outcome", "denied")
}

// own starts a proxy that a scenario has to itself, for its table of some data,
// with a whole configuration and variables of the environment.
func (a *arena) own(d *bench.Dataset, yaml string, env ...string) *subject {
	a.t.Helper()
	proxy, err := a.site.Start(context.WithoutCancel(a.t.Context()), yaml, env...)
	a.must(err)
	return a.client(proxy, d, nil)
}

// client returns a proxy with a further client; change, which may be nil, says how
// it differs.
func (a *arena) client(proxy *experiment.Proxy, d *bench.Dataset, change func(*bench.Open)) *subject {
	a.t.Helper()
	// A proxy that does not live through its scenario cannot tell what it spent.
	return a.metered(proxy, a.site.Meter(nil), d, change)
}

// metered is client with a meter of what is spent.
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

// plain is a configuration with a table of some data and everything else at its
// default but the timeout, so that what is late is seen as late.
func plain(d *bench.Dataset) string {
	return fmt.Sprintf("listen: {%s}\nshutdown: {delay: 0s}\ntables:\n  - {name: %s.%s, timeout: 2s}\n", anywhere, d.Profile.Keyspace, d.Profile.Table)
}

// fill makes the table of a profile anew and fills it.
func (a *arena) fill(p *bench.Profile) *bench.Dataset {
	a.t.Helper()
	a.cql("CREATE KEYSPACE IF NOT EXISTS "+p.Keyspace+" WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3}",
		"DROP TABLE IF EXISTS "+p.Keyspace+"."+p.Table)
	a.must(a.site.Load(a.t.Context(), p, 3))
	return a.site.Data
}

// products returns the profile of the catalogue under another name.
func products(keyspace, table string, partitions int) *bench.Profile {
	source, err := profiles.Profiles.ReadFile("products.yaml")
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
			// A connection that went through a relay which is gone.
			a.hold(time.Second)
			err = a.site.Client.Exec(a.t.Context(), s)
		}
		a.must(err)
	}
}

// load makes lookups of 50 keys for a while and checks every row.
func (a *arena) load(s *subject, length time.Duration) *report.Round {
	return a.loadAt(s, bench.Load{Rate: rate}, length)
}

func (a *arena) loadAt(s *subject, load bench.Load, length time.Duration) *report.Round {
	a.t.Helper()
	runs, err := bench.Compare(a.t.Context(), s.driver.Contenders("", cmp.Or(s.target, bench.ProxyGRPC)), bench.Comparison{
		Load: load, Rounds: 1, Length: length, Seed: uint64(time.Now().UnixNano()),
		SLA: report.SLA{Percentile: 95, TargetSeconds: deadline.Seconds()},
	})
	if err != nil {
		a.t.Errorf("load: %v", err) // not FailNow: it may not be the goroutine of the test
		return &report.Round{}
	}
	return &runs[0].Rounds[0]
}

// during loads a proxy while do runs, for length at the least.
func (a *arena) during(s *subject, length time.Duration, do func()) *report.Round {
	a.t.Helper()
	return a.duringAt(s, bench.Load{Rate: rate}, length, do)
}

func (a *arena) duringAt(s *subject, at bench.Load, length time.Duration, do func()) *report.Round {
	a.t.Helper()
	var loaded *report.Round
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

// span returns the length of a stretch, shorter in the short form.
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

// lost counts lookups with a key that was not answered, or with a wrong or missing
// row, whenever the answer came.
func lost(r *report.Round) int64 { return failed(r) - r.Counts.Late }

// failed counts lookups with a key that was not answered, with a wrong or missing
// row, or that were late.
func failed(r *report.Round) int64 {
	c := r.Counts
	return c.Partial + c.Failed + c.Late + c.WrongRows + c.MissingKeys
}

// extra is the share of sub-queries beyond the first attempts.
func extra(r *report.Round) float64 {
	p := r.PerLookup
	if p.SubQueries == nil || p.Hedges == nil || p.Failovers == nil {
		return 0
	}
	return (*p.Hedges + *p.Failovers) * float64(r.Counts.Lookups) / max(firstAttempts(r), 1e-9)
}

// firstAttempts is how many sub-queries were the first for their keys.
func firstAttempts(r *report.Round) float64 {
	p := r.PerLookup
	if p.SubQueries == nil || p.Hedges == nil || p.Failovers == nil {
		return 0
	}
	return (*p.SubQueries - *p.Hedges - *p.Failovers) * float64(r.Counts.Lookups)
}

// seen is a round in a few words.
func seen(r *report.Round) string {
	errors := map[string]int64{}
	for text, n := range r.Counts.Errors {
		first, _, _ := strings.Cut(text, "\n")
		errors[first] += n
	}
	return fmt.Sprintf("%d lookups, %d failed, p50 %.1f ms, p99 %.1f ms, max %.0f ms, %.1f %% extra, %v",
		r.Counts.Lookups, failed(r), r.Latency.P50*1e3, r.Latency.P99*1e3, r.Latency.Max*1e3, extra(r)*100, errors)
}

// restart starts all nodes anew, whatever has become of them, and warms them.
func (a *arena) restart() {
	for _, n := range a.cluster.Nodes() {
		_ = n.Kill()
	}
	for _, n := range a.cluster.Nodes() {
		a.must(n.Start(a.t.Context()))
	}
	a.warm()
}

// spent tells who took how much CPU in a round, in CPUs.
func spent(r *report.Round) string {
	of := func(perLookup *float64) float64 {
		if perLookup == nil {
			return 0
		}
		return *perLookup / 1e3 * float64(r.Counts.Lookups) / r.Seconds
	}
	return fmt.Sprintf("nodes %.2f, proxy %.2f, load generator %.2f CPUs", of(r.PerLookup.CassandraCPUMillis), of(r.PerLookup.ProxyCPUMillis), of(r.PerLookup.ClientCPUMillis))
}

// node returns a node by its number, from 1.
func (a *arena) node(n int) *devcluster.Node { return a.cluster.Nodes()[n-1] }

// must stops the scenario at an error of the tools it uses.
func (a *arena) must(err error) {
	a.t.Helper()
	require.NoError(a.t, err)
}

// sum adds up the series of a metric of a proxy whose labels are as given, in
// pairs: counters and gauges by value, histograms by count.
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

// asked is how many first sub-queries a host has answered.
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
	resp, err := http.Get("http://" + s.proxy.Admin + "/metrics")
	a.must(err)
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	a.must(err)
	return families
}

// untilAsked waits until a host answers first attempts again under the load there is,
// for a minute at most.
func (a *arena) untilAsked(s *subject, n *devcluster.Node) {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		before := a.asked(s, n)
		a.hold(time.Second)
		if a.asked(s, n) >= before+rate/2 {
			return
		}
	}
}

// untilWell waits until a proxy has found a host well for 5 s under the load there is and
// asks it again, for three minutes at most.
func (a *arena) untilWell(s *subject, n *devcluster.Node) {
	start, well := time.Now(), time.Now()
	for time.Since(start) < 3*time.Minute && time.Since(well) < 5*time.Second {
		a.untilAsked(s, n)
		if a.sum(s, "qosproxy_host_state", "host", n.Addr()) > 0 {
			well = time.Now()
		}
	}
	a.t.Logf("%s was well %.0f s after its start", n.Addr(), time.Since(start).Seconds())
}

// back loads until a host answers first attempts again, and returns how
// long that took; a minute and more means never.
func (a *arena) back(s *subject, n *devcluster.Node) time.Duration {
	const patience = time.Minute
	start, before := time.Now(), a.asked(s, n)
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	for ctx.Err() == nil {
		a.load(s, time.Second)
		// More than the probes of a host that is avoided.
		if a.asked(s, n) >= before+rate/2 {
			return time.Since(start)
		}
		before = a.asked(s, n)
	}
	return patience
}

// within returns how many lookups a proxy has ended since it started, of those with
// the labels given, how many of them it answered in full, and how many of these
// within the deadline, which is an edge of the histogram.
func (a *arena) within(s *subject, labels ...string) (all, full, inTime float64) {
	for _, m := range a.metrics(s)["qosproxy_lookup_duration_seconds"].GetMetric() {
		if !matches(m, labels) {
			continue
		}
		h := m.GetHistogram()
		all += float64(h.GetSampleCount())
		if label(m, "code") != "OK" {
			continue
		}
		full += float64(h.GetSampleCount())
		for _, b := range h.GetBucket() {
			if b.GetUpperBound() == deadline.Seconds() {
				inTime += float64(b.GetCumulativeCount())
			}
		}
	}
	return all, full, inTime
}

// answer is what is read of an answer over HTTP.
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

// ask posts to a table of a proxy over HTTP: verb is batchGet or explain and body is
// JSON. An answer of any status is one.
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
