package server

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/ring"
)

func twoHosts(t testing.TB) *ring.Ring {
	t.Helper()
	r, err := ring.New(ring.Topology{
		Hosts: []ring.Host{
			{ID: "a", Addr: "10.0.0.1:9042", DC: "dc1", Rack: "r1", Release: "5.0.9", Tokens: []int64{0}},
			{ID: "b", Addr: "10.0.0.2:9042", DC: "dc1", Rack: "r2", Release: "5.0.9", Tokens: []int64{-9223372036854775808}},
		},
		Keyspaces: map[string]ring.Replication{
			"shop":   {Strategy: "SimpleStrategy", Factor: 1},
			"broken": {Strategy: "NopeStrategy"},
		},
		LocalDC: "dc1",
	})
	require.NoError(t, err)
	return r
}

func TestAdminPages(t *testing.T) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "qosproxy_test"}, func() float64 { return 7 }))
	level := new(slog.LevelVar)
	s := New(Config{Version: "1.2.3", Pprof: true}, Deps{
		Lookup: &fake{tables: []*lookup.Table{products(t)}, ring: twoHosts(t)}, Gatherer: reg, LogLevel: level,
		Hosts: func() any { return map[string]string{"10.0.0.1:9042": "up"} }, SLA: func() any { return []int{95} },
	})
	s.started = time.Now()
	h := s.admin.Handler
	for name, c := range map[string]struct {
		method, target, accept string
		status                 int
		has                    []string
	}{
		"livez":            {"GET", "/livez", "", 200, []string{"ok"}},
		"readyz":           {"GET", "/readyz", "", 200, []string{"ok"}},
		"metrics":          {"GET", "/metrics", "", 200, []string{"qosproxy_test 7"}},
		"OpenMetrics":      {"GET", "/metrics", "application/openmetrics-text", 200, []string{"qosproxy_test 7.0", "# EOF"}},
		"status":           {"GET", "/status", "", 200, []string{`"version": "1.2.3"`, `"ready": true`, `"ks.products"`, `"10.0.0.1:9042": "up"`, `"hosts": 2`, "95"}},
		"ring":             {"GET", "/ring", "", 200, []string{`"10.0.0.1:9042": 0.5`, `"problem": "`}},
		"ring as text":     {"GET", "/ring?format=text", "", 200, []string{"shop (", "10.0.0.2:9042  dc1  r2    1       50.0%"}},
		"ring by Accept":   {"GET", "/ring", "text/plain", 200, []string{"HOST"}},
		"pprof":            {"GET", "/debug/pprof/goroutine?debug=1", "", 200, []string{"goroutine profile"}},
		"a level unknown":  {"PUT", "/log/level?level=loud", "", 400, []string{`"field":"level"`}},
		"no such page":     {"GET", "/nope", "", 404, nil},
		"a write to a get": {"POST", "/status", "", 405, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := do(h, c.method, c.target, "", "Accept", c.accept)
			assert.Equal(t, c.status, w.Code)
			for _, part := range c.has {
				assert.Contains(t, w.Body.String(), part)
			}
		})
	}
	assert.Equal(t, "info\n", do(h, "GET", "/log/level", "").Body.String())
	assert.Equal(t, "debug\n", do(h, "PUT", "/log/level?level=debug", "").Body.String())
	assert.Equal(t, slog.LevelDebug, level.Level())
}

func TestAdminWithoutACluster(t *testing.T) {
	s := New(Config{}, Deps{Lookup: &fake{}, Ready: func() string { return "no contact point answers" }})
	w := do(s.admin.Handler, "GET", "/ring", "")
	assert.Equal(t, http.StatusServiceUnavailable, w.Code)
	assert.Equal(t, problem{"UNAVAILABLE", "", "no contact point answers"}, httpProblem(t, w.Body.Bytes()))
	var page map[string]any
	require.NoError(t, json.Unmarshal(do(s.admin.Handler, "GET", "/status", "").Body.Bytes(), &page))
	assert.Equal(t, false, page["ready"])
	assert.Nil(t, page["ring"])
	assert.Equal(t, http.StatusNotFound, do(s.admin.Handler, "GET", "/debug/pprof/", "").Code, "off unless it is asked for")
}

func TestDescribeRing(t *testing.T) {
	d := open(t, Deps{Lookup: &fake{ring: twoHosts(t)}})
	all, err := d.rpc.DescribeRing(t.Context(), &qosproxyv1.DescribeRingRequest{})
	require.NoError(t, err)
	assert.Len(t, all.GetHosts(), 2)
	assert.Equal(t, "dc1", all.GetLocalDatacenter())
	require.Len(t, all.GetKeyspaces(), 1, "the broken one has no placement")
	assert.Equal(t, []float64{0.5, 0.5}, all.GetKeyspaces()[0].GetOwnership())
	assert.Empty(t, all.GetKeyspaces()[0].GetRanges())

	one, err := d.rpc.DescribeRing(t.Context(), &qosproxyv1.DescribeRingRequest{Keyspace: "shop", IncludeRanges: true})
	require.NoError(t, err)
	ranges := one.GetKeyspaces()[0].GetRanges()
	require.Len(t, ranges, 2)
	assert.EqualValues(t, 0, ranges[1].GetEnd())
	assert.Equal(t, "a", one.GetHosts()[ranges[1].GetReplicas()[0]].GetId())

	_, err = d.rpc.DescribeRing(t.Context(), &qosproxyv1.DescribeRingRequest{Keyspace: "broken"})
	assert.Equal(t, "keyspace", rpcProblem(err).field)
	_, err = open(t, Deps{Lookup: &fake{}}).rpc.DescribeRing(t.Context(), &qosproxyv1.DescribeRingRequest{})
	assert.Equal(t, codes.Unavailable, status.Code(err))
}

func TestListTables(t *testing.T) {
	d := open(t, Deps{Lookup: &fake{tables: []*lookup.Table{products(t)}}})
	out, err := d.rpc.ListTables(t.Context(), &qosproxyv1.ListTablesRequest{})
	require.NoError(t, err)
	tbl := out.GetTables()[0]
	assert.Equal(t, "ks.products", tbl.GetKeyspace()+"."+tbl.GetName())
	assert.Equal(t, "id", tbl.GetPartitionKey()[0].GetName())
	assert.Equal(t, qosproxyv1.ColumnKind_COLUMN_KIND_PARTITION_KEY, tbl.GetPartitionKey()[0].GetKind())
	assert.Equal(t, qosproxyv1.ColumnKind_COLUMN_KIND_REGULAR, tbl.GetColumns()[1].GetKind())
	assert.EqualValues(t, 100, tbl.GetMaxKeys())
	assert.Equal(t, 125*time.Millisecond, tbl.GetTimeout().AsDuration())
	w := do(d.http.Handler, http.MethodGet, "/v1/tables", "")
	assert.Contains(t, w.Body.String(), `"partition_key":[{"name":"id","type":"text"}]`)
}
