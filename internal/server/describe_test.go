package server

import (
	"net/http"
	"testing"
	"time"

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

func TestThePagesAreBesideTheProbes(t *testing.T) {
	pages := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "page") })
	s := New(Config{}, Deps{Lookup: &fake{}, Pages: pages})
	for path, want := range map[string]string{"/livez": "ok\n", "/readyz": "ok\n", "/status": "page", "/": "page"} {
		assert.Equal(t, want, do(s.admin.Handler, http.MethodGet, path, "").Body.String(), path)
	}
	for _, path := range []string{"/livez", "/readyz"} {
		w := do(s.admin.Handler, http.MethodPost, path, "")
		assert.Equal(t, http.StatusMethodNotAllowed, w.Code, path)
		assert.Equal(t, "GET, HEAD", w.Header().Get("Allow"), path)
		assert.Equal(t, http.StatusOK, do(s.admin.Handler, http.MethodHead, path, "").Code, path)
	}
	assert.Equal(t, http.StatusNotFound, do(New(Config{}, Deps{Lookup: &fake{}}).admin.Handler, http.MethodGet, "/status", "").Code)
}
