package acceptance

import (
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/lab/devcluster"
)

// allowNodeLocal makes nodes answer at NODE_LOCAL.
func allowNodeLocal(nodes []devcluster.NodeConfig) []devcluster.NodeConfig {
	for i := range nodes {
		nodes[i].JVMArgs = append(nodes[i].JVMArgs, "-Dcassandra.enable_nodelocal_queries=true")
	}
	return nodes
}

// The keys of the ownership test. The first few are written over and over; the others are new for
// most of the test.
const (
	ownedKeys = 10_000
	ownedHot  = 200
)

// ownership is a table that is read at NODE_LOCAL and written at ALL. So a row that is missing, or
// older than the last write that had ended before the read began, was read from a node that does
// not own it, or no longer owns it.
//
// At LOCAL_ONE that can happen as well, for the moment in which the coordinator has not yet heard
// what others have. Such rows, around whose lookup no read went at NODE_LOCAL, are counted
// separately.
type ownership struct {
	*proxy
	writes *cassandra.Client
	// written is the last version of each key whose write has ended; 0 for none.
	written [ownedKeys]atomic.Int64
	// passed is the number of reads at NODE_LOCAL according to the last scrape.
	passed atomic.Int64

	lookups, keys, missing, stale, atLocalOne, failed, unwritten atomic.Int64
}

// createOwned creates the table of testOwnershipChanges.
func createOwned(t *testing.T, client *cassandra.Client) {
	t.Helper()
	define(t, client,
		"CREATE KEYSPACE owned WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 2}",
		"CREATE TABLE owned.rows (id text PRIMARY KEY, v text)",
	)
}

// testOwnershipChanges adds a node and removes it again while a table is written and read. No row
// may ever be missing or stale at NODE_LOCAL.
func testOwnershipChanges(t *testing.T, p *proxy, cluster *devcluster.Cluster) {
	settings := cassandra.Default()
	settings.ContactPoints, settings.Consistency = cluster.ContactPoints(), "ALL"
	settings.Logger = slog.New(slog.DiscardHandler)
	writes, err := cassandra.Connect(t.Context(), settings)
	require.NoError(t, err)
	defer writes.Close()
	o := &ownership{proxy: p, writes: writes}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var load sync.WaitGroup
	for worker := range uint64(2) {
		load.Go(func() { o.write(ctx, int(worker)) })
		load.Go(func() { o.read(ctx, rand.New(rand.NewPCG(4, worker))) })
	}
	load.Go(func() {
		for ctx.Err() == nil {
			o.passed.Store(o.nodeLocal("node_local"))
			time.Sleep(100 * time.Millisecond)
		}
	})
	o.awaitNodeLocal(t)
	begin := time.Now()
	// The ring delay, for which a node announces that it joins or leaves, is 30 s by default, but in a
	// development cluster shorter than a look of the proxy.
	node, err := cluster.AddNode(t.Context(), devcluster.NodeConfig{DC: "dc1", Rack: "rack1", JVMArgs: []string{
		"-Dcassandra.enable_nodelocal_queries=true", "-Dcassandra.ring_delay_ms=6000",
	}})
	require.NoError(t, err)
	t.Logf("a node joined within %s", time.Since(begin).Round(time.Second))
	// Nodes still have the rows that they gave away, as they were.
	o.awaitNodeLocal(t)
	time.Sleep(2 * time.Second)
	begin = time.Now()
	require.NoError(t, cluster.Decommission(t.Context(), node))
	t.Logf("it left within %s", time.Since(begin).Round(time.Second))
	time.Sleep(2 * time.Second)
	stop()
	load.Wait()
	t.Logf("%d lookups of %d keys, %d sub-queries at NODE_LOCAL, %d withheld; %d missing, %d stale, %d of either at LOCAL_ONE, "+
		"%d keys failed, %d writes failed", o.lookups.Load(), o.keys.Load(), o.nodeLocal("node_local"), o.nodeLocal("withheld"),
		o.missing.Load(), o.stale.Load(), o.atLocalOne.Load(), o.failed.Load(), o.unwritten.Load())
	assert.Zero(t, o.missing.Load(), "rows missing")
	assert.Zero(t, o.stale.Load(), "rows older than a write that had ended")
	assert.Positive(t, o.nodeLocal("withheld"))
}

// awaitNodeLocal waits until lookups are read at NODE_LOCAL.
func (o *ownership) awaitNodeLocal(t *testing.T) {
	t.Helper()
	before := o.nodeLocal("node_local")
	require.Eventually(t, func() bool { return o.nodeLocal("node_local") > before+20 }, patience, 100*time.Millisecond,
		"reads go at NODE_LOCAL")
}

// nodeLocal returns a count of qosproxy_node_local_reads_total, or -1 when it is not available.
func (o *ownership) nodeLocal(outcome string) int64 {
	resp, err := http.Get(o.admin + "/metrics")
	if err != nil {
		return -1
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return -1
	}
	found := regexp.MustCompile(`qosproxy_node_local_reads_total\{outcome="` + outcome + `"\} (\S+)`).FindSubmatch(text)
	if found == nil {
		return -1
	}
	n, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		return -1
	}
	return int64(n)
}

// ownedKey draws a key: every other one is of those written often.
func ownedKey(r *rand.Rand) int {
	if r.IntN(2) == 0 {
		return r.IntN(ownedHot)
	}
	return r.IntN(ownedKeys)
}

// write writes the keys of one worker, the versions of each key in order.
func (o *ownership) write(ctx context.Context, worker int) {
	r := rand.New(rand.NewPCG(5, uint64(worker)))
	for version := int64(1); ctx.Err() == nil; version++ {
		time.Sleep(3 * time.Millisecond)
		k := ownedKey(r)/2*2 + worker
		if err := o.writes.Exec(ctx, "INSERT INTO owned.rows (id, v) VALUES (?, ?)", plainKey(k), strconv.FormatInt(version, 10)); err != nil {
			o.unwritten.Add(1)
			continue
		}
		o.written[k].Store(version)
	}
}

// read looks keys up and compares them with what had been written before.
func (o *ownership) read(ctx context.Context, r *rand.Rand) {
	for ctx.Err() == nil {
		time.Sleep(15 * time.Millisecond)
		req := &qosproxyv1.BatchGetRequest{Keyspace: "owned", Table: "rows", Columns: []string{"v"}, Timeout: durationpb.New(5 * time.Second)}
		passed := o.passed.Load()
		var before [50]int64
		for i := range before {
			k := ownedKey(r)
			before[i] = o.written[k].Load()
			req.Keys = append(req.Keys, textKey(plainKey(k)))
		}
		resp, err := o.grpc.BatchGet(ctx, req)
		if err != nil {
			continue // an unanswered lookup is not wrong
		}
		o.lookups.Add(1)
		for i, res := range resp.GetResults() {
			wrong := o.judge(res, before[i])
			switch {
			case wrong == nil:
			case passed >= 0 && o.nodeLocal("node_local") == passed:
				o.atLocalOne.Add(1)
			default:
				wrong.Add(1)
			}
		}
	}
}

// judge returns the counter for a wrong result, or nil for a right one.
func (o *ownership) judge(res *qosproxyv1.KeyResult, before int64) *atomic.Int64 {
	o.keys.Add(1)
	switch res.GetStatus() {
	case qosproxyv1.KeyStatus_KEY_STATUS_NOT_FOUND:
		if before > 0 {
			return &o.missing
		}
	case qosproxyv1.KeyStatus_KEY_STATUS_FOUND:
		if v, err := strconv.ParseInt(res.GetRows()[0].GetValues()[0].GetText(), 10, 64); err != nil || v < before {
			return &o.stale
		}
	default:
		o.failed.Add(1)
	}
	return nil
}
