//go:build unix

package app

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/qosproxy/qosproxy/internal/admin"
	"github.com/qosproxy/qosproxy/internal/admission"
	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/config"
	"github.com/qosproxy/qosproxy/internal/cost"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/merge"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/quorum"
	"github.com/qosproxy/qosproxy/internal/reload"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
	"github.com/qosproxy/qosproxy/internal/server"
	"github.com/qosproxy/qosproxy/internal/shadow"
	"github.com/qosproxy/qosproxy/internal/sla"
)

// reloadable is a proxy whose rows come from memory and whose configuration is a file.
type reloadable struct {
	*App
	file    string
	log     *bytes.Buffer
	metrics *prometheus.Registry
}

// version returns configuration n; the versions differ in every setting that the reader sees.
func version(n int) string {
	if n%2 == 0 {
		return "tables: [{name: shop.products, timeout: 10s, consistency: ONE, max_rows_per_key: 10, max_response_bytes: 1MiB, columns: [id], hedge_budget: 1%}]\n"
	}
	return "tables: [{name: shop.products, timeout: 10s, consistency: TWO, max_rows_per_key: 20, max_response_bytes: 2MiB, columns: [name], hedge_budget: 2%, sla: {target: 50ms}},\n" +
		" {name: shop.other}]\nlog: {level: debug}\n"
}

// half counts sub-queries that mix two versions.
var half atomic.Int64

func startReloadable(t *testing.T) *reloadable {
	t.Helper()
	r := &reloadable{file: filepath.Join(t.TempDir(), "q.yaml"), log: &bytes.Buffer{}, metrics: prometheus.NewRegistry()}
	require.NoError(t, os.WriteFile(r.file, []byte(version(0)), 0o600))
	read := func() (*config.Config, error) { return config.Load(r.file, nil) }
	cfg, err := read()
	require.NoError(t, err)
	r.App = New(cfg, Options{Log: slog.New(slog.NewTextHandler(r.log, nil)), Level: new(slog.LevelVar), Reload: read})
	snapshot := benchRing(t)
	products, row := benchTable()
	tables := schema.New([]*schema.Table{products})
	r.meter = cost.NewMeter(nil)
	r.merge, err = merge.New(merge.Config{Registerer: r.metrics})
	require.NoError(t, err)
	r.merge.SetTables(tableNames(cfg))
	r.executor = executor.New(executor.Config{
		Registerer: r.metrics,
		Ring:       func() *ring.Ring { return snapshot },
		Reader: executor.ReaderFunc(func(_ context.Context, q *executor.SubQuery) ([]partition.Result, error) {
			switch got := fmt.Sprint(q.Consistency, q.Limit, q.MaxBytes, q.Columns[0].Name); got {
			case fmt.Sprint("ONE", 10, 1<<20, "id"), fmt.Sprint("TWO", 20, 2<<20, "name"):
			default:
				half.Add(1)
			}
			results := make([]partition.Result, len(q.Keys))
			for i := range results {
				results[i] = partition.Result{Status: partition.Found, Rows: []partition.Row{row[:1]}}
			}
			q.Settled()
			return results, nil
		}),
	})
	r.lookups = lookup.New(lookup.Config{
		Tables: lookupSettings(cfg), Ring: func() *ring.Ring { return snapshot }, Schema: func() *schema.Schema { return tables }, Executor: r.executor,
	})
	r.recorder, err = sla.New(r.metrics, targets(cfg))
	require.NoError(t, err)
	r.shadow, err = shadow.NewLive(r.lookups, shadow.LiveConfig{Sample: 1, Registerer: r.metrics})
	require.NoError(t, err)
	r.clients = identity.NewRegistry(nil, nil)
	r.admission, err = admission.New(admission.Config{Limits: limitsOf(cfg, 1<<30), Tables: slos(cfg), Registerer: r.metrics})
	require.NoError(t, err)
	r.reloader, err = reload.New(r.reloads(r.metrics))
	require.NoError(t, err)
	anywhere := server.Listener{Address: "127.0.0.1:0"}
	r.server = server.New(server.Config{GRPC: anywhere, HTTP: anywhere, Admin: anywhere}, server.Deps{
		Lookup: r.lookups, Admission: r.admission, Observer: server.ObserverFunc(r.observe),
		Pages: admin.New(admin.Config{}, admin.Deps{Lookup: r.lookups, NotReady: func() string { return "" }, Config: func() any { return r.configStatus() }}),
	})
	require.NoError(t, r.server.Start(t.Context()))
	return r
}

func (r *reloadable) stop() {
	_ = r.server.Shutdown(context.Background())
	r.executor.Close()
}

// rewrite replaces the configuration by rename, as an editor does, and reloads it.
func (r *reloadable) rewrite(t *testing.T, text string) error {
	t.Helper()
	require.NoError(t, os.WriteFile(r.file+".new", []byte(text), 0o600))
	require.NoError(t, os.Rename(r.file+".new", r.file))
	_, err := r.load()
	return err
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc")
	}
	return len(entries)
}

func TestAHundredReloadsUnderLoadLoseNothing(t *testing.T) {
	others := goleak.IgnoreCurrent()
	r := startReloadable(t)
	half.Store(0)
	before := descriptors(t)
	ctx, cancel := context.WithCancel(t.Context())
	var load sync.WaitGroup
	var asked, failed atomic.Int64
	for range 4 {
		load.Go(func() {
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport}
			for ctx.Err() == nil {
				resp, err := client.Post("http://"+r.Addr("http")+"/v1/shop/products:batchGet", "application/json", strings.NewReader(`{"keys":["a","b","c"]}`))
				if err != nil {
					failed.Add(1)
					continue
				}
				body, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				asked.Add(1)
				if err != nil || resp.StatusCode != http.StatusOK || bytes.Contains(body, []byte(`"partial":true`)) {
					failed.Add(1)
				}
			}
		})
	}
	for i := 1; i <= 100; i++ {
		require.NoError(t, r.rewrite(t, version(i)))
		if i%10 == 0 {
			require.Error(t, r.rewrite(t, "tables: [{name: shop.products, timeout: -1s}]"))
		}
		for seen := asked.Load(); asked.Load() < seen+4; {
			runtime.Gosched()
		}
	}
	cancel()
	load.Wait()
	assert.Zero(t, failed.Load())
	assert.Zero(t, half.Load(), "a lookup reads with the settings of one version")
	assert.Greater(t, asked.Load(), int64(400))
	assert.Eventually(t, func() bool { return descriptors(t) <= before+2 }, 10*time.Second, 10*time.Millisecond)
	r.stop()
	goleak.VerifyNone(t, others)
}

// families returns the names of the metrics that have series of a table.
func (r *reloadable) families(t *testing.T, table string) (names []string) {
	t.Helper()
	gathered, err := r.metrics.Gather()
	require.NoError(t, err)
	for _, family := range gathered {
		if slices.ContainsFunc(family.GetMetric(), func(m *dto.Metric) bool {
			return slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == "table" && l.GetValue() == table })
		}) {
			names = append(names, family.GetName())
		}
	}
	return names
}

func TestARemovedTableLeavesNoSeriesBehind(t *testing.T) {
	r := startReloadable(t)
	defer r.stop()
	require.NoError(t, r.rewrite(t, version(1)))
	r.executor.Table("shop.products", 0.02).CountQuorum(quorum.Ring, 1)
	products, err := r.Table("shop", "products")
	require.NoError(t, err)
	key, err := partition.NewKey([]byte("a"))
	require.NoError(t, err)
	_, err = r.shadow.Get(t.Context(), &lookup.Request{Table: products, Keys: []partition.Key{key}, Paging: true})
	require.NoError(t, err)
	before := r.families(t, "shop.products")
	for _, name := range []string{"keys_total", "sla_target_seconds", "statement_keys", "quorum_reads_total", "shadow_lookups_total"} {
		assert.Contains(t, before, "qosproxy_"+name)
	}
	require.NoError(t, r.rewrite(t, "tables: [{name: shop.other}]"))
	assert.Empty(t, r.families(t, "shop.products"))
	assert.NotEmpty(t, r.families(t, "shop.other"))
}

func TestAMistakeChangesNothing(t *testing.T) {
	r := startReloadable(t)
	defer r.stop()
	hash := r.configStatus().Hash
	for text, says := range map[string]string{
		"tables: [{name: shop.products, timeout: -1s}]\nlog: {level: debug}":                                                                             r.file + ":1:41: tables[0].timeout: -1s is not above 0",
		"log: {level: debug}\ncassandra: {username: u, password_file: /nope}":                                                                            r.file + ":2:41: cassandra.password_file: open /nope",
		"log: {level: debug}\nlisten: {tls: {http: {cert_file: " + r.file + ", key_file: " + r.file + "}}}\ncassandra: {tls: {ca_file: " + r.file + "}}": "cassandra.tls: ca_file " + r.file + " holds no PEM certificate",
	} {
		err := r.rewrite(t, text)
		require.ErrorContains(t, err, says)
		assert.Equal(t, hash, r.configStatus().Hash)
		assert.Equal(t, slog.LevelInfo, r.options.Level.Level())
		assert.Len(t, r.lookups.Tables(), 1)
	}
	require.NoError(t, r.rewrite(t, version(1)))
	assert.Equal(t, slog.LevelDebug, r.options.Level.Level())
	assert.Equal(t, []string{"shop.other", "shop.products"}, r.recorder.Tables())
	assert.NotEqual(t, hash, r.configStatus().Hash)
	target, _ := r.recorder.Target("shop.products")
	assert.Equal(t, 50*time.Millisecond, target.Target)
}

func TestKeysThatNeedARestartAreNamedAndTheRestIsApplied(t *testing.T) {
	r := startReloadable(t)
	defer r.stop()
	require.NoError(t, r.rewrite(t, version(1)+"listen: {grpc: '127.0.0.1:1', max_connections: 7}\ncassandra: {contact_points: [x], username: u, password_file: "+r.file+"}\n"))
	assert.Equal(t, []string{"cassandra.contact_points", "listen.grpc"}, r.configStatus().NeedRestart)
	assert.InDelta(t, 1, testutil.ToFloat64(r.restartNeeded()), 0)
	assert.Contains(t, r.log.String(), `keys="[cassandra.contact_points listen.grpc]"`)
	assert.Equal(t, slog.LevelDebug, r.options.Level.Level())
	assert.Equal(t, "u", r.access.Load().Username)
	require.NoError(t, r.rewrite(t, version(1)))
	assert.Empty(t, r.configStatus().NeedRestart)
	assert.InDelta(t, 0, testutil.ToFloat64(r.restartNeeded()), 0)
}

func TestNewConnectionsVerifyAsTheFileSays(t *testing.T) {
	r := startReloadable(t)
	defer r.stop()
	node := httptest.NewTLSServer(nil)
	defer node.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: node.Certificate().Raw}), 0o600))
	for verify, anyName := range map[string]bool{"ca": true, "full": false} {
		require.NoError(t, r.rewrite(t, version(1)+"cassandra: {tls: {ca_file: "+ca+", verify: "+verify+"}}\n"))
		assert.Equal(t, anyName, r.access.Load().AnyName)
		assert.Empty(t, r.configStatus().NeedRestart)
		of, err := CassandraConfig(r.cfg.Load(), r.App.log)
		require.NoError(t, err)
		assert.Equal(t, anyName, of.AnyName)
	}
	require.ErrorContains(t, r.rewrite(t, version(1)+"cassandra: {tls: {ca_file: "+ca+", verify: none}}\n"), "cassandra.tls.verify")
	assert.NotNil(t, r.access.Load().TLS)
}

func TestALevelSetByHandStaysUntilTheFileSaysAnother(t *testing.T) {
	r := startReloadable(t)
	defer r.stop()
	r.options.Level.Set(slog.LevelError)
	require.NoError(t, r.rewrite(t, version(2)+"\n# a comment\n"))
	assert.Equal(t, slog.LevelError, r.options.Level.Level())
	require.NoError(t, r.rewrite(t, version(1)))
	assert.Equal(t, slog.LevelDebug, r.options.Level.Level())
}

// writable returns a configuration file of a proxy without a cluster, to be written and read.
func writable(t *testing.T) (put func(text string), read func() (*config.Config, error)) {
	file := filepath.Join(t.TempDir(), "q.yaml")
	put = func(text string) {
		require.NoError(t, os.WriteFile(file, []byte("cassandra: {contact_points: ['127.0.0.1:1']}\n"+
			"listen: {grpc: '127.0.0.1:0', http: '127.0.0.1:0', admin: '127.0.0.1:0'}\n"+text), 0o600))
	}
	return put, func() (*config.Config, error) { return config.Load(file, nil) }
}

// TestAFileThatIsWrittenDuringTheStartIsRead changes the file after the configuration was read
// and before the proxy watches files.
func TestAFileThatIsWrittenDuringTheStartIsRead(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(tokens, []byte("0123456789abcdef0123456789abcdef\n"), 0o600))
	for changed, text := range map[string]string{
		"tables":  version(1),
		"clients": version(0) + "clients: [{name: shop, token_file: " + tokens + ", tables: [{name: shop.products}]}]\n",
	} {
		t.Run(changed, func(t *testing.T) {
			put, read := writable(t)
			put(version(0))
			cfg, err := read()
			require.NoError(t, err)
			put(text)
			want, err := read()
			require.NoError(t, err)
			a := New(cfg, Options{Level: new(slog.LevelVar), Reload: read, reloadInterval: 10 * time.Millisecond})
			require.NoError(t, a.Start(t.Context()))
			defer func() { assert.NoError(t, a.Stop(context.Background())) }()
			assert.Eventually(t, func() bool { return a.cfg.Load().Digest() == want.Digest() }, 5*time.Second, 10*time.Millisecond)
		})
	}
}

// TestAReloadWaitsForTheTokensOfAClient has the configuration arrive before a token file that it
// names, as the volumes of a pod do.
func TestAReloadWaitsForTheTokensOfAClient(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens")
	put, read := writable(t)
	put(version(0))
	cfg, err := read()
	require.NoError(t, err)
	a := New(cfg, Options{Level: new(slog.LevelVar), Reload: read, reloadInterval: 10 * time.Millisecond})
	require.NoError(t, a.Start(t.Context()))
	defer func() { assert.NoError(t, a.Stop(context.Background())) }()
	put(version(0) + "clients: [{name: shop, token_file: " + tokens + ", tables: [{name: shop.products}]}]\n")
	require.Eventually(t, func() bool { return a.reloader.Status().Err != nil }, 5*time.Second, 10*time.Millisecond)
	require.NoError(t, os.WriteFile(tokens, []byte("0123456789abcdef0123456789abcdef\n"), 0o600))
	want, err := read()
	require.NoError(t, err)
	assert.Eventually(t, func() bool { return a.cfg.Load().Digest() == want.Digest() }, 5*time.Second, 10*time.Millisecond)
}

// TestTheDriverOfShadowNeedsNoFileOfTheStart moves the password of the cluster to another file
// after the start, and removes the first one.
func TestTheDriverOfShadowNeedsNoFileOfTheStart(t *testing.T) {
	r := startReloadable(t)
	defer r.stop()
	r.started = r.cfg.Load()
	r.started.Cassandra.Username, r.started.Cassandra.PasswordFile = "u", filepath.Join(t.TempDir(), "gone")
	r.cluster = new(cassandra.Cluster)
	_, err := r.OpenDriver(t.Context())
	require.ErrorContains(t, err, "the ring of the cluster is not known yet")
}
