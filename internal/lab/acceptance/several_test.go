package acceptance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/lab/devcluster"
)

const (
	// severalRate is how many lookups a second each table gets, and severalBurst how many
	// around the moment at which a node is killed, one each burstGap, so that it dies with
	// some of their statements answered and some not. More would be load: a lookup of pairs,
	// of which none share a column, is fifty statements, and two CPUs do some thousand a second on nodes that are cold.
	severalRate  = 5
	severalBurst = 10
	burstGap     = 20 * time.Millisecond
	// severalTimeout is longer than a busy machine needs, so that a lookup is lost because of a
	// failure and not because of slowness.
	severalTimeout = 3 * time.Second
	severalKills   = 2
)

// testSeveralStatements kills one of three nodes under load and starts it again. A sub-query of
// keys that share no column is several statements: some are answered, and others break with their
// connections.
func testSeveralStatements(t *testing.T, cluster *devcluster.Cluster, client *cassandra.Client) {
	define(t, client,
		"CREATE KEYSPACE several WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3}",
		"CREATE TABLE several.pairs (tenant text, id int, v text, PRIMARY KEY ((tenant, id)))",
		"CREATE TABLE several.rows (user text, feature int, v text, PRIMARY KEY (user, feature))")
	const pairs, users, features = 2000, 400, 5
	load(t, client, "INSERT INTO several.pairs (tenant, id, v) VALUES (?, ?, ?)", pairs, func(i int) []any {
		return []any{fmt.Sprintf("tenant-%d", i), i, value(plainKey(i))}
	})
	load(t, client, "INSERT INTO several.rows (user, feature, v) VALUES (?, ?, ?)", users*features, func(i int) []any {
		return []any{plainKey(i / features), i % features, value(plainKey(i))}
	})
	p := serve(t, cluster, "tables: [{name: several.pairs}, {name: several.rows}]\n")
	tables := map[string]func() *qosproxyv1.Key{
		"pairs": func() *qosproxyv1.Key {
			i := rand.IntN(pairs)
			tenant, id := &qosproxyv1.Value_Text{Text: fmt.Sprintf("tenant-%d", i)}, &qosproxyv1.Value_Int{Int: int32(i)}
			return &qosproxyv1.Key{Components: []*qosproxyv1.Value{{Kind: tenant}, {Kind: id}}}
		},
		"rows": func() *qosproxyv1.Key { return textKey(plainKey(rand.IntN(users))) },
	}
	ctx, stop := context.WithCancel(t.Context())
	reports := make(map[string]*report)
	var loads sync.WaitGroup
	for table, key := range tables {
		r := &report{reasons: make(map[string]int)}
		reports[table] = r
		loads.Go(func() { r.load(ctx, p, table, key) })
	}
	time.Sleep(2 * time.Second)
	victim := cluster.Nodes()[2]
	// Which sub-queries a node has when it dies is up to chance.
	lost := func() [][]string {
		_, metrics := p.get(t, "/metrics")
		return regexp.MustCompile(`qosproxy_failovers_total\{reason="(\w+)"\} ([1-9]\d*)`).FindAllStringSubmatch(metrics, -1)
	}
	for kills := 0; kills < severalKills || kills < 4*severalKills && len(lost()) == 0; kills++ {
		for table, key := range tables {
			loads.Go(func() {
				for range severalBurst {
					loads.Go(func() { reports[table].lookup(p.grpc, severalRequest(table, key), time.Now()) })
					time.Sleep(burstGap)
				}
			})
		}
		time.Sleep(severalBurst / 2 * burstGap)
		require.NoError(t, victim.Kill())
		time.Sleep(2 * time.Second)
		require.NoError(t, victim.Start(t.Context()))
		time.Sleep(2 * time.Second)
	}
	stop()
	loads.Wait()
	for table, r := range reports {
		t.Logf("%s: %s", table, r)
		assert.NotEmpty(t, r.latencies)
		assert.Zero(t, r.failed, "%s: lookups with keys that were not found: %v", table, r.reasons)
	}
	// No partition is at fault here: what is lost is lost with a connection.
	assert.NotEmpty(t, lost(), "if no sub-query was lost, this test proves nothing")
	for _, l := range lost() {
		t.Logf("%s sub-queries were sent for keys that were lost by %s", l[2], l[1])
		assert.NotEqual(t, string(executor.ReasonReadFailure), l[1])
	}
}

// load sends lookups at a fixed rate until its context ends, whatever is answered.
func (r *report) load(ctx context.Context, p *proxy, table string, key func() *qosproxyv1.Key) {
	var lookups sync.WaitGroup
	defer lookups.Wait()
	for begin, i := time.Now(), 0; ctx.Err() == nil; i++ {
		due := begin.Add(time.Duration(i) * time.Second / severalRate)
		time.Sleep(time.Until(due))
		req := severalRequest(table, key)
		lookups.Go(func() { r.lookup(p.grpc, req, due) })
	}
}

func severalRequest(table string, key func() *qosproxyv1.Key) *qosproxyv1.BatchGetRequest {
	req := &qosproxyv1.BatchGetRequest{Keyspace: "several", Table: table, Timeout: durationpb.New(severalTimeout)}
	for range faultKeys {
		req.Keys = append(req.Keys, key())
	}
	return req
}
