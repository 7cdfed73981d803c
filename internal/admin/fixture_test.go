package admin

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/reasons"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ready is a NotReady of a proxy that is ready.
func ready() string { return "" }

// fake is a Lookup with the given tables and ring.
type fake struct {
	tables []*lookup.Table
	ring   *ring.Ring
}

func (f *fake) Table(keyspace, name string) (*lookup.Table, error) {
	for _, t := range f.tables {
		if t.Schema.Keyspace == keyspace && t.Schema.Name == name {
			return t, nil
		}
	}
	return nil, &lookup.Error{Reason: reasons.UnknownTable, Field: "table", Message: "no such table"}
}

func (f *fake) Tables() []*lookup.Table { return f.tables }
func (f *fake) Ring() *ring.Ring        { return f.ring }

// table returns a table with columns written as "name type". The first keys of them are
// the partition key.
func table(t testing.TB, name string, keys int, columns ...string) *lookup.Table {
	t.Helper()
	var cs []schema.Column
	for i, c := range columns {
		n, text, _ := strings.Cut(c, " ")
		typ, err := cqltype.Parse(text, nil, "ks")
		require.NoError(t, err)
		kind := schema.Regular
		if i < keys {
			kind = schema.PartitionKey
		}
		cs = append(cs, schema.Column{Name: n, Type: typ, Kind: kind})
	}
	s := schema.NewTable("ks", name, "", cs)
	return &lookup.Table{Schema: s, Columns: s.Columns, Settings: &lookup.Settings{Keyspace: "ks", Table: name, Timeout: 125 * time.Millisecond}}
}

// products is a table with a single text key.
func products(t testing.TB) *lookup.Table {
	t.Helper()
	return table(t, "products", 1, "id text", "name text", "price double")
}

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

// do sends a request to a handler.
func do(h http.Handler, method, target string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}
