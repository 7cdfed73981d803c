package acceptance

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/durationpb"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/lab/devcluster"
)

// The load of TestALostDatacenter.
const (
	twiceRate = 25 // lookups per second
	twiceKeys = 20 // keys per lookup
	// twiceTimeout suits a busy machine: half of it is far above the hedge delay.
	twiceTimeout = 2 * time.Second
)

// twiceConfig lets lookups fail over from dc1 to dc2.
const twiceConfig = `
cassandra: {local_dc: [dc1, dc2]}
tables:
  - name: twice.plain
    timeout: %s
    consistencies: [LOCAL_QUORUM]
    dc_failover: %s
`

// TestALostDatacenter freezes and kills one of two datacenters under load. No lookup is lost,
// and all go back once it answers again. A proxy that does not fail over loses nearly all of them.
func TestALostDatacenter(t *testing.T) {
	cluster, client := boot(t, devcluster.Config{Nodes: slices.Concat(nodes("dc1", 2, 1, 1), nodes("dc2", 2, 1, 256))})
	t.Run("placement is Cassandra's", func(t *testing.T) { comparePlacement(t, cluster, client, "dc1", "dc2") })
	createTwice(t, cluster)
	here := cluster.Nodes()[:2]
	failingOver := func(how string) *proxy { return serve(t, cluster, fmt.Sprintf(twiceConfig, twiceTimeout, how)) }
	p, quorum, off := failingOver("auto"), failingOver("quorum"), failingOver("off")
	there := serve(t, cluster, "cassandra: {local_dc: dc2}\ntables: [{name: twice.plain, timeout: 1s}]\n")
	for range 2 { // so that the nodes compile their code
		warmTwice(p, off, there)
	}
	rest := runTwice(p, 3*time.Second)
	t.Logf("at rest: %s", rest)
	require.Zero(t, rest.failed, rest.reasons)
	// Cold nodes on a busy machine are silent at times, which looks like a loss.
	comesBack(t, p, patience)

	t.Run("frozen", func(t *testing.T) {
		var load sync.WaitGroup
		var during, without *report
		load.Go(func() { during = runTwice(p, 14*time.Second) })
		time.Sleep(time.Second)
		for _, n := range here {
			require.NoError(t, n.Pause())
		}
		load.Go(func() { without = runTwice(off, 5*time.Second) }) // all of them end before the thaw
		time.Sleep(5 * time.Second)
		assert.Equal(t, "dc2", p.activeDC(t))
		assert.Positive(t, p.failoverKeys(t))
		_, page := p.get(t, "/status")
		assert.Regexp(t, `(?s)"dc": "dc2",\s*"active": true`, page)
		assertExplained(t, p)
		assert.False(t, quorumAnswered(t, p), "LOCAL_QUORUM stays unless the table says otherwise")
		assert.True(t, quorumAnswered(t, quorum), "dc_failover: quorum")
		time.Sleep(2 * time.Second)
		for _, n := range here {
			require.NoError(t, n.Resume())
		}
		load.Wait()
		t.Logf("fails over: %s", during)
		t.Logf("does not:   %s", without)
		assert.Zero(t, during.failed, "lookups lost: %v", during.reasons)
		assert.Greater(t, without.failed, len(without.latencies)*9/10, "the control")
		assert.Zero(t, off.failoverKeys(t))
		comesBack(t, p, patience)
	})
	t.Run("killed", func(t *testing.T) {
		var load sync.WaitGroup
		var during *report
		load.Go(func() { during = runTwice(p, 8*time.Second) })
		time.Sleep(time.Second)
		for _, n := range here {
			require.NoError(t, n.Kill())
		}
		load.Wait()
		t.Logf("fails over: %s", during)
		assert.Zero(t, during.failed, "lookups lost: %v", during.reasons)
		assert.Equal(t, "dc2", p.activeDC(t))
		var booting errgroup.Group
		for _, n := range here {
			booting.Go(func() error { return n.Start(t.Context()) })
		}
		load.Go(func() { during = runTwice(p, 15*time.Second) })
		require.NoError(t, booting.Wait())
		load.Wait()
		t.Logf("while it comes back: %s", during)
		assert.Zero(t, during.failed, "lookups lost: %v", during.reasons)
		comesBack(t, p, patience)
	})
}

// createTwice creates a table that is replicated to both datacenters, with all rows in both.
func createTwice(t *testing.T, cluster *devcluster.Cluster) {
	t.Helper()
	settings := cassandra.Default()
	settings.ContactPoints, settings.Consistency, settings.Logger = cluster.ContactPoints(), "ALL", slog.New(slog.DiscardHandler)
	client, err := cassandra.Connect(t.Context(), settings)
	require.NoError(t, err)
	defer client.Close()
	define(t, client,
		"CREATE KEYSPACE twice WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 2, 'dc2': 2}",
		"CREATE TABLE twice.plain (id text PRIMARY KEY, v text)")
	load(t, client, "INSERT INTO twice.plain (id, v) VALUES (?, ?)", plainKeys, func(i int) []any {
		return []any{plainKey(i), value(plainKey(i))}
	})
}

func twiceRequest() *qosproxyv1.BatchGetRequest {
	req := &qosproxyv1.BatchGetRequest{Keyspace: "twice", Table: "plain", Timeout: durationpb.New(twiceTimeout)}
	for range twiceKeys {
		req.Keys = append(req.Keys, textKey(plainKey(rand.IntN(plainKeys))))
	}
	return req
}

// runTwice loads a proxy for length, at a fixed rate whatever it answers.
func runTwice(p *proxy, length time.Duration) *report {
	r := &report{reasons: map[string]int{}}
	var lookups sync.WaitGroup
	begin := time.Now()
	for i := range int(length.Seconds() * twiceRate) {
		due := begin.Add(time.Duration(i) * time.Second / twiceRate)
		time.Sleep(time.Until(due))
		req := twiceRequest()
		lookups.Go(func() { r.lookup(p.grpc, req, due) })
	}
	lookups.Wait()
	return r
}

func warmTwice(proxies ...*proxy) {
	var load sync.WaitGroup
	for _, p := range proxies {
		load.Go(func() { runTwice(p, 2*time.Second) })
	}
	load.Wait()
}

// quorumAnswered reports whether a lookup at LOCAL_QUORUM is answered.
func quorumAnswered(t *testing.T, p *proxy) bool {
	t.Helper()
	_, answer, err := p.post(t.Context(), "twice.plain", fmt.Sprintf(`{"keys": [%q], "consistency": "LOCAL_QUORUM"}`, plainKey(1)))
	require.NoError(t, err)
	require.Len(t, answer.Results, 1)
	t.Logf("LOCAL_QUORUM: %s %s", answer.Results[0].Status, answer.Results[0].Error)
	return answer.Results[0].Status == "FOUND"
}

// assertExplained checks that an explanation names the lost hosts and who is asked instead.
func assertExplained(t *testing.T, p *proxy) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	req := twiceRequest()
	e, err := p.grpc.Explain(ctx, &qosproxyv1.ExplainRequest{Keyspace: req.GetKeyspace(), Table: req.GetTable(), Keys: req.GetKeys()})
	require.NoError(t, err)
	for _, g := range e.GetPlan().GetGroups() {
		assert.Equal(t, "dc2", g.GetHost().GetDatacenter())
	}
	for _, h := range e.GetPlan().GetHosts() {
		assert.Equal(t, h.GetHost().GetDatacenter() == "dc1", h.GetAvoided() == "lost", "%s is avoided: %q", h.GetHost().GetAddress(), h.GetAvoided())
	}
}

// comesBack loads a proxy until nothing is read in dc2 any more, and fails if that takes too long.
func comesBack(t *testing.T, p *proxy, within time.Duration) {
	t.Helper()
	begin := time.Now()
	for time.Since(begin) < within {
		before := p.failoverKeys(t)
		r := runTwice(p, 2*time.Second)
		assert.Zero(t, r.failed, "lookups lost on the way back: %v", r.reasons)
		if p.failoverKeys(t) == before && p.activeDC(t) == "dc1" {
			t.Logf("back after %s", (time.Since(begin) - 2*time.Second).Round(100*time.Millisecond))
			return
		}
	}
	assert.Fail(t, "keys are still read in dc2", "%s after dc1 was healed", within)
}

var (
	dcActive   = regexp.MustCompile(`(?m)^qosproxy_dc_active\{dc="(\w+)"\} 1`)
	dcFailover = regexp.MustCompile(`(?m)^qosproxy_dc_failover_keys_total\{dc="dc2"\} (\S+)`)
)

// activeDC returns the datacenter that the proxy asks.
func (p *proxy) activeDC(t *testing.T) string {
	t.Helper()
	_, metrics := p.get(t, "/metrics")
	found := dcActive.FindAllStringSubmatch(metrics, -1)
	require.Len(t, found, 1, "one datacenter is active")
	return found[0][1]
}

// failoverKeys returns how many keys were read in dc2.
func (p *proxy) failoverKeys(t *testing.T) float64 {
	t.Helper()
	_, metrics := p.get(t, "/metrics")
	found := dcFailover.FindStringSubmatch(metrics)
	require.NotNil(t, found)
	keys, err := strconv.ParseFloat(found[1], 64)
	require.NoError(t, err)
	return keys
}
