package app

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/admin"
	"github.com/qosproxy/qosproxy/internal/admission"
	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/merge"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
	"github.com/qosproxy/qosproxy/internal/status"
)

var update = flag.Bool("update", false, "write the golden file anew")

// threeHosts has a suspect host, one in another datacenter and one without tokens.
func threeHosts(t *testing.T) *ring.Ring {
	t.Helper()
	r, err := ring.New(ring.Topology{
		Hosts: []ring.Host{
			{ID: "0c1f3ee4-8a07-4d2c-9d3a-000000000001", Addr: "10.0.0.1:9042", DC: "dc1", Rack: "r1", Release: "5.0.9", Tokens: []int64{0}},
			{ID: "0c1f3ee4-8a07-4d2c-9d3a-000000000002", Addr: "10.0.1.1:9042", DC: "dc2", Rack: "r1", Release: "5.0.9", Tokens: []int64{-9223372036854775808}},
			{ID: "0c1f3ee4-8a07-4d2c-9d3a-000000000003", Addr: "10.0.0.2:9042", DC: "dc1", Rack: "r2", Release: "5.0.9"},
		},
		Keyspaces: map[string]ring.Replication{"shop": {Strategy: "SimpleStrategy", Factor: 1}},
		LocalDC:   "dc1",
	})
	require.NoError(t, err)
	return r
}

// oneTable is what /status needs of the lookups.
type oneTable struct{ ring *ring.Ring }

func (o oneTable) Table(string, string) (*lookup.Table, error) { return o.Tables()[0], nil }
func (o oneTable) Tables() []*lookup.Table {
	return []*lookup.Table{{Schema: schema.NewTable("shop", "products", "", nil)}}
}
func (o oneTable) Ring() *ring.Ring { return o.ring }

// statusJSON returns /status with every part filled.
func statusJSON(t *testing.T) []byte {
	t.Helper()
	r := threeHosts(t)
	health := []executor.HostHealth{{
		Host: r.Hosts()[0], State: executor.Suspect, InflightKeys: 50, InflightSubQueries: 2, Latency: 2500 * time.Microsecond, Price: 1.25,
		OldestOutstanding: 812 * time.Millisecond, Failures: 1, ProbeIn: 1500 * time.Millisecond, SubQueries: 900, Hedges: 4, HedgedAway: 30,
	}}
	queue := func(string) (merge.Queue, bool) {
		return merge.Queue{InFlight: 3, Waiting: 5, Sent: 700, SentKeys: 18000}, true
	}
	window := status.Window{Count: 1200, P50MS: 3.2, P95MS: 9.8, P99MS: 18.4, P999MS: 61.2, MaxMS: 140, Ratio: 0.9991, BurnRate: 0.02}
	table := tableSLA{
		Percentile: 95, TargetMS: 125, OperateAtMS: 62.5, Windows: map[string]status.Window{"1m": window, "5m": window},
		Cost:        status.Cost{StatementCostMS: 0.9, KeyCostMS: 0.02, GroupSize: 32},
		QuorumReads: &status.QuorumReads{Keys: map[string]uint64{"matched": 3}, Again: 0.01, Closed: "it needs a restart of the proxy"},
	}
	pages := admin.New(admin.Config{Version: "1.2.3"}, admin.Deps{
		Lookup: oneTable{r}, NotReady: func() string { return "draining" },
		Hosts: func() any { return hostsOf(r, health, queue) },
		SLA:   func() any { return map[string]tableSLA{"shop.products": table} },
		Config: func() any {
			return status.Config{File: "qosproxy.yaml", Hash: "5f0c2a9e", Loaded: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
				NeedRestart: []string{"listen.grpc"}, Error: "qosproxy.yaml:3:1: no such key"}
		},
		Admission: func() any {
			return admission.Status{Enabled: true, LimitKeys: 4200, InflightKeys: 180, MemoryBytes: 1 << 20, MaxMemoryBytes: 1 << 28,
				InflightLookups: map[string]int{"interactive": 4, "standard": 0, "batch": 0},
				Tables:          map[string]admission.TableStatus{"shop.products": {Level: 1, Name: "hedges", ShortBurn: 3, LongBurn: 2}}}
		},
	})
	w := httptest.NewRecorder()
	pages.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/status", nil))
	require.Equal(t, 200, w.Code)
	body := regexp.MustCompile(`"started": "[^"]+"`).ReplaceAll(w.Body.Bytes(), []byte(`"started": "2026-01-02T03:00:00Z"`))
	return regexp.MustCompile(`"uptime_seconds": [^,]+`).ReplaceAll(body, []byte(`"uptime_seconds": 245.5`))
}

// namesOf adds the names of all fields to names. If data is set the names of v are data,
// such as tables, and not fields.
func namesOf(v any, data bool, names map[string]bool) {
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			namesOf(x, false, names)
		}
	case map[string]any:
		for name, x := range v {
			if !data {
				names[name] = true
			}
			_, isObject := x.(map[string]any)
			namesOf(x, !data && isObject && (name == "sla" || name == "tables" || name == "windows" || name == "keys" || name == "inflight_lookups"), names)
		}
	}
}

func TestStatusHasADocumentedShape(t *testing.T) {
	const golden = "testdata/status.json"
	body := statusJSON(t)
	if *update {
		require.NoError(t, os.WriteFile(golden, body, 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), string(body), "run with -update after an intended change, and write it into deploy/observability.md")

	var page any
	require.NoError(t, json.NewDecoder(bytes.NewReader(body)).Decode(&page))
	names := map[string]bool{}
	namesOf(page, false, names)
	text, err := os.ReadFile("../../deploy/observability.md")
	require.NoError(t, err)
	_, documented, found := strings.Cut(string(text), "## /status as JSON")
	require.True(t, found)
	for name := range names {
		assert.Regexp(t, `^[a-z0-9]+(_[a-z0-9]+)*$`, name, "snake_case")
		assert.Contains(t, documented, "`"+name+"`", "of deploy/observability.md")
	}
}

func TestBeforeTheClusterIsKnownThereAreNoHosts(t *testing.T) {
	assert.Equal(t, []status.Host{}, (&App{cluster: &cassandra.Cluster{}}).hosts())
}
