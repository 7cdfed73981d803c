package acceptance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/lab/devcluster"
)

// shadowLookups is how many lookups are compared on each way; QOSPROXY_ACCEPTANCE_SCALE=50 makes
// them 100,000.
const shadowLookups = 2000

// shadowReport is what qosproxy shadow -o json prints.
type shadowReport struct {
	Result, Verdict        string
	Lookups, Keys, Refused int64
	Compared               int64            `json:"compared_keys"`
	Different              int64            `json:"different_keys"`
	Changed                int64            `json:"changed_keys"`
	Unsettled              int64            `json:"unsettled_keys"`
	Kinds                  map[string]int64 `json:"differences_by_kind"`
	NotMeasured            string           `json:"cpu_not_measured"`
	Driver, Proxied        struct {
		Unanswered map[string]int64 `json:"unanswered_keys"`
		P50        *float64         `json:"p50_ms"`
		P99        *float64         `json:"p99_ms"`
		Statements int64
		CPU        *float64 `json:"cassandra_cpu_ms_per_lookup"`
	}
	Differences []struct{ Table, Key, Kind string }
}

// shadowed runs qosproxy shadow and returns its exit code and output.
func shadowed(t *testing.T, binary, config, input string, args ...string) (int, string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, append([]string{"shadow", "--config", config, "--keys", input}, args...)...)
	out, err := cmd.Output()
	exit, failed := errors.AsType[*exec.ExitError](err)
	if !failed {
		require.NoError(t, err)
		return 0, string(out)
	}
	assert.Equal(t, 1, strings.Count(string(exit.Stderr), "\n"), "one line on stderr: %s", exit.Stderr)
	return exit.ExitCode(), string(out)
}

func reportOf(t *testing.T, out string) *shadowReport {
	t.Helper()
	r := new(shadowReport)
	require.NoError(t, json.Unmarshal([]byte(out), r), out)
	return r
}

// liar is a proxy that forwards lookups and changes the results of some keys, always in the
// same way.
type liar struct {
	qosproxyv1.UnimplementedQosProxyServer
	to qosproxyv1.QosProxyClient
}

// BatchGet forwards a lookup.
func (l *liar) BatchGet(ctx context.Context, req *qosproxyv1.BatchGetRequest) (*qosproxyv1.BatchGetResponse, error) {
	resp, err := l.to.BatchGet(ctx, req)
	if err != nil {
		return nil, err
	}
	for i, r := range resp.GetResults() {
		key := req.GetKeys()[i].GetComponents()
		lie(req.GetTable(), string(key[0].GetCql()), r)
	}
	return resp, nil
}

// lieOf returns how the result of a key is changed, and under which name that is reported; empty
// for no change.
func lieOf(table string, n int) string {
	switch {
	case n%50 != 0:
		return ""
	case table == "plain" && n >= plainKeys:
		return "extra_row"
	case table == "plain":
		return []string{"missing_row", "cell", "cell", "bytes"}[n/50%4]
	case table == "features":
		return []string{"missing_row", "row_order"}[n/50%2]
	}
	return "missing_row"
}

// lie changes a result. It must change exactly one thing, or the counts are off.
func lie(table, key string, r *qosproxyv1.KeyResult) {
	var n int
	if _, err := fmt.Sscanf(key, "key-%d", &n); err != nil {
		return
	}
	value := func(cell []byte) *qosproxyv1.Value { return &qosproxyv1.Value{Kind: &qosproxyv1.Value_Cql{Cql: cell}} }
	switch kind := lieOf(table, n); kind {
	case "missing_row":
		if r.Rows = r.GetRows()[1:]; len(r.GetRows()) == 0 {
			r.Status = qosproxyv1.KeyStatus_KEY_STATUS_NOT_FOUND
		}
	case "extra_row":
		r.Status = qosproxyv1.KeyStatus_KEY_STATUS_FOUND
		r.Rows = []*qosproxyv1.Row{{Values: []*qosproxyv1.Value{value([]byte(key)), {}, {}}}}
	case "cell":
		// Null where something was, or another value.
		if r.GetRows()[0].Values[2] = value(nil); n/50%4 == 1 {
			r.GetRows()[0].Values[2] = &qosproxyv1.Value{Kind: &qosproxyv1.Value_Null{}}
		}
		if n/50%4 == 2 {
			r.GetRows()[0].Values[2] = value([]byte("wrong"))
		}
	case "bytes":
		r.GetRows()[0].Values[1] = value([]byte{0, 0, 0, 1}) // an int where a bigint is
	case "row_order":
		slices.Reverse(r.Rows)
	}
}

// planned is an input file with the lies planted in it.
type planned struct {
	file  string
	keys  int64
	lies  int64
	kinds map[string]int64
}

// plan writes lookups of all three tables, including repeated and unknown keys.
func plan(t *testing.T, lookups int) planned {
	t.Helper()
	p := planned{file: filepath.Join(t.TempDir(), "lookups.jsonl"), kinds: map[string]int64{}}
	file, err := os.Create(p.file)
	require.NoError(t, err)
	defer file.Close()
	r := rand.New(rand.NewPCG(20, 11))
	for i := range lookups {
		body := map[string]any{}
		var keys []any
		table, n := "plain", 1+r.IntN(50)
		switch i % 10 {
		case 3:
			table, n = "features", 1+r.IntN(8)
		case 7:
			table, n = "pair", 1+r.IntN(8)
		}
		for range n {
			k := r.IntN(plainKeys + plainKeys/10)
			key := any(plainKey(k))
			switch table {
			case "features":
				k = r.IntN(users)
				key = plainKey(k)
			case "pair":
				k = r.IntN(pairKeys)
				key = []any{plainKey(k), r.IntN(pairRows)}
			}
			keys = append(keys, key)
			if kind := lieOf(table, k); kind != "" {
				p.lies++
				p.kinds[kind]++
			}
		}
		body["table"], body["keys"] = "data."+table, keys
		line, err := json.Marshal(body)
		require.NoError(t, err)
		_, err = fmt.Fprintln(file, string(line))
		require.NoError(t, err)
		p.keys += int64(len(keys))
	}
	return p
}

// testShadow compares lookups of all tables of createData with qosproxy shadow. Through an honest
// proxy it must find nothing, and through one that lies every lie.
func testShadow(t *testing.T, binary string, cluster *devcluster.Cluster, client *cassandra.Client) {
	yaml := "defaults: {timeout: 10s}\nadmission: {enabled: false}\ntables: [{name: data.plain, columns: [id, n, v]}, {name: data.features}, {name: data.pair, consistency: LOCAL_QUORUM}, {name: data.changing}]\n"
	config := filepath.Join(t.TempDir(), "qosproxy.yaml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, "cassandra: {contact_points: [%s]}\n%s", strings.Join(cluster.ContactPoints(), ", "), yaml), 0o600))
	input := plan(t, scale(shadowLookups))

	p := serve(t, cluster, yaml+"shadow: {sample: 20%, concurrency: 4}\n")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	lying := grpc.NewServer()
	qosproxyv1.RegisterQosProxyServer(lying, &liar{to: p.grpc})
	healthpb.RegisterHealthServer(lying, health.NewServer()) // clients check the health service
	go func() { _ = lying.Serve(listener) }()
	t.Cleanup(lying.Stop)

	right := func(t *testing.T, code int, r *shadowReport) {
		t.Helper()
		assert.Equal(t, "same", r.Result, r.Verdict)
		assert.Equal(t, 0, code)
		assert.Zero(t, r.Different+r.Unsettled+r.Changed+r.Refused)
		assert.Equal(t, input.keys, r.Compared, "every key: %v %v", r.Driver.Unanswered, r.Proxied.Unanswered)
		require.NotNil(t, r.Driver.P99)
		require.NotNil(t, r.Proxied.P99)
		require.NotNil(t, r.Driver.CPU, r.NotMeasured)
		assert.Positive(t, *r.Driver.CPU)
		assert.Positive(t, *r.Proxied.CPU)
		t.Logf("%s: p50 %.1f and %.1f ms, %.2f and %.2f ms of CPU, %d and %d statements", r.Verdict, *r.Driver.P50, *r.Proxied.P50,
			*r.Driver.CPU, *r.Proxied.CPU, r.Driver.Statements, r.Proxied.Statements)
	}
	t.Run("a proxy in its process has no difference", func(t *testing.T) {
		code, out := shadowed(t, binary, config, input.file, "-o", "json")
		right(t, code, reportOf(t, out))
	})
	t.Run("a running proxy against single reads has none", func(t *testing.T) {
		code, out := shadowed(t, binary, config, input.file, "-o", "json", "--addr", p.Addr("grpc"), "--baseline", "single")
		right(t, code, reportOf(t, out))
	})
	t.Run("every lie of a proxy is found", func(t *testing.T) {
		// A lookup that differs waits before it is repeated, and holds up the others.
		code, out := shadowed(t, binary, config, input.file, "-o", "json", "--addr", listener.Addr().String(), "--concurrency", "16")
		r := reportOf(t, out)
		assert.Equal(t, 1, code)
		assert.Equal(t, "different", r.Result)
		assert.Equal(t, input.lies, r.Different)
		assert.Equal(t, input.kinds, r.Kinds)
		assert.Equal(t, input.keys, r.Compared)
		assert.Len(t, r.Differences, int(min(input.lies, 100)))
		t.Logf("%s: %v", r.Verdict, r.Kinds)
	})
	t.Run("rows that are written meanwhile are no difference", func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		written := make(chan int)
		go func() {
			n := 0
			for ; ctx.Err() == nil; n++ {
				if client.Exec(ctx, "INSERT INTO data.changing (id, v) VALUES (?, ?)", plainKey(n%20), strconv.Itoa(n)) != nil {
					break
				}
			}
			written <- n
		}()
		keys := filepath.Join(t.TempDir(), "keys")
		require.NoError(t, os.WriteFile(keys, []byte(strings.Repeat(strings.Join(plainKeyList(50), "\n")+"\n", 40)), 0o600))
		code, out := shadowed(t, binary, config, keys, "-o", "json", "--table", "data.changing")
		stop()
		r := reportOf(t, out)
		assert.Equal(t, 0, code, r.Verdict)
		assert.Positive(t, r.Changed, "if no key was seen in between, this proves nothing")
		t.Logf("%d writes; %d of %d keys changed meanwhile", <-written, r.Changed, r.Compared)
	})
	t.Run("what the proxy would refuse is told", func(t *testing.T) {
		lines := filepath.Join(t.TempDir(), "lines")
		require.NoError(t, os.WriteFile(lines, []byte(`{"table": "data.hidden", "keys": ["a"]}`+"\n"+`{"table": "data.plain", "keys": ["key-000001"]}`+"\n"), 0o600))
		code, out := shadowed(t, binary, config, lines)
		assert.Equal(t, 1, code)
		assert.Contains(t, out, "table data.hidden may not be read through this proxy")
	})
	t.Run("serve compares a sample", func(t *testing.T) {
		require.Eventually(t, func() bool {
			_, metrics := p.get(t, "/metrics")
			return strings.Contains(metrics, `qosproxy_shadow_lookups_total{outcome="same",table="data.plain"}`)
		}, patience, 50*time.Millisecond)
		_, metrics := p.get(t, "/metrics")
		assert.NotContains(t, metrics, `outcome="different"`)
		assert.NotContains(t, metrics, "qosproxy_shadow_differences_total{")
		_, status := p.get(t, "/status")
		assert.Contains(t, status, `"compared_lookups"`)
	})
}

func plainKeyList(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = plainKey(i)
	}
	return out
}
