package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// The world: which tables exist and which the configuration lists, each with its
// columns. The first column of a table is its key.
var (
	existing = map[[2]string][]string{
		{"shop", "products"}: {"c_id", "c_name", "c_price", "c_stock"},
		{"shop", "users"}:    {"c_id", "c_email", "c_name", "c_secret"},
		{"shop", "hidden"}:   {"c_id", "c_name"},
		{"other", "things"}:  {"c_id", "c_name"},
	}
	listed = map[[2]string][]string{
		{"shop", "products"}: nil,
		{"shop", "users"}:    {"c_id", "c_email", "c_name", "c_planned"},
		{"shop", "gone"}:     nil,
		{"other", "things"}:  {"c_name"},
	}
	anyTable  = [][2]string{{"shop", "products"}, {"shop", "users"}, {"shop", "hidden"}, {"shop", "gone"}, {"shop", "nothing"}, {"other", "things"}, {"none", "things"}}
	anyColumn = []string{"c_id", "c_name", "c_price", "c_stock", "c_email", "c_secret", "c_planned", "c_ghost"}
)

// world returns a service over that world, in which every key has one row.
func world(t testing.TB) *lookup.Service {
	t.Helper()
	text := &cqltype.Type{Kind: cqltype.Text}
	var tables []*schema.Table
	for name, columns := range existing {
		defined := []schema.Column{{Name: columns[0], Type: text, Kind: schema.PartitionKey}}
		for _, c := range columns[1:] {
			defined = append(defined, schema.Column{Name: c, Type: text, Kind: schema.Regular})
		}
		tables = append(tables, schema.NewTable(name[0], name[1], "", defined))
	}
	replication := ring.Replication{Strategy: "SimpleStrategy", Factor: 1}
	snapshot, err := ring.New(ring.Topology{
		Hosts:     []ring.Host{{ID: "a", Addr: "10.0.0.1:9042", DC: "dc1", Rack: "r1", Tokens: []int64{0}}},
		Keyspaces: map[string]ring.Replication{"shop": replication, "other": replication}, LocalDC: "dc1",
	})
	require.NoError(t, err)
	e := executor.New(executor.Config{
		Ring: func() *ring.Ring { return snapshot },
		Reader: executor.ReaderFunc(func(_ context.Context, q *executor.SubQuery) ([]partition.Result, error) {
			defer q.Settled()
			results := make([]partition.Result, len(q.Keys))
			for i := range results {
				row := make(partition.Row, len(q.Columns))
				for c := range row {
					row[c] = []byte("x")
				}
				results[i] = partition.Result{Status: partition.Found, Rows: []partition.Row{row}, Bytes: len(row)}
			}
			return results, nil
		}),
	})
	t.Cleanup(e.Close)
	var settings []lookup.Settings
	for _, name := range anyTable {
		if columns, ok := listed[name]; ok {
			settings = append(settings, lookup.Settings{
				Keyspace: name[0], Table: name[1], Columns: columns, Consistency: "LOCAL_ONE", Timeout: 10 * time.Second,
				SpeculativeRetry: hedge.Fixed(5 * time.Second), MaxKeys: 10, MaxRowsPerKey: 10, MaxResponseBytes: 1 << 20,
			})
		}
	}
	known := schema.New(tables)
	return lookup.New(lookup.Config{
		Tables: settings, Executor: e,
		Ring: func() *ring.Ring { return snapshot }, Schema: func() *schema.Schema { return known },
	})
}

// grants are what one client may read, columns by table; none means all.
type grants map[[2]string][]string

func (g grants) access() *identity.Access {
	var out []identity.Grant
	for name, columns := range g {
		out = append(out, identity.Grant{Keyspace: name[0], Table: name[1], Columns: columns})
	}
	return identity.NewAccess(out)
}

// ruling is the code of an answer, and its columns.
type ruling struct {
	code    string
	columns []string
}

// rule is the reference: how a client with these grants must be answered. Nil grants
// are those of an unknown caller.
func (g grants) rule(table [2]string, columns []string) ruling {
	if g == nil {
		return ruling{code: "UNAUTHENTICATED"}
	}
	own, granted := g[table]
	exist, exists := existing[table]
	list, isListed := listed[table]
	switch {
	case !granted:
		return ruling{code: "PERMISSION_DENIED"}
	case !exists:
		return ruling{code: "NOT_FOUND"}
	case !isListed:
		return ruling{code: "PERMISSION_DENIED"}
	}
	may := func(c string) bool {
		return (len(list) == 0 || slices.Contains(list, c)) && (len(own) == 0 || slices.Contains(own, c))
	}
	if len(columns) == 0 {
		all := slices.DeleteFunc(slices.Clone(exist), func(c string) bool { return !may(c) })
		if len(all) == 0 {
			return ruling{code: "PERMISSION_DENIED"}
		}
		return ruling{"OK", all}
	}
	for i, c := range columns {
		switch {
		case !may(c):
			return ruling{code: "PERMISSION_DENIED"}
		case !slices.Contains(exist, c) || slices.Contains(columns[:i], c):
			return ruling{code: "INVALID_ARGUMENT"}
		}
	}
	return ruling{"OK", columns}
}

// tables is the reference for lists: tables with their columns.
func (g grants) tables() map[string][]string {
	out := map[string][]string{}
	for table := range g {
		exist, exists := existing[table]
		if _, isListed := listed[table]; !exists || !isListed {
			continue
		}
		columns := []string{}
		for _, c := range exist {
			if g.rule(table, []string{c}).code == "OK" {
				columns = append(columns, c)
			}
		}
		out[table[0]+"."+table[1]] = columns
	}
	return out
}

// caller calls both listeners with one credential.
type caller struct {
	d     *served
	token string
}

func (c caller) ctx() context.Context {
	if c.token == "" {
		return context.Background()
	}
	return metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer "+c.token)
}

// rpc returns the outcome of a gRPC call.
func rpc(err error, names []string, complain func(string)) ruling {
	if err == nil {
		return ruling{"OK", names}
	}
	// The details must not say more than the message, either.
	complain(err.Error() + status.Convert(err).Proto().String())
	return ruling{code: rpcProblem(err).code}
}

func columnNames(columns []*qosproxyv1.Column) []string {
	out := []string{}
	for _, c := range columns {
		out = append(out, c.GetName())
	}
	return out
}

// ask asks in every possible way and returns the answers by the name of the way.
func (c caller) ask(t require.TestingT, table [2]string, columns []string, complain func(string)) map[string]ruling {
	out := map[string]ruling{}
	keys := []*qosproxyv1.Key{key(text("k"))}
	resp, err := c.d.rpc.BatchGet(c.ctx(), &qosproxyv1.BatchGetRequest{Keyspace: table[0], Table: table[1], Columns: columns, Keys: keys})
	out["BatchGet"] = rpc(err, columnNames(resp.GetColumns()), complain)

	stream, err := c.d.rpc.StreamBatchGet(c.ctx(), &qosproxyv1.StreamBatchGetRequest{Keyspace: table[0], Table: table[1], Columns: columns, Keys: keys})
	require.NoError(t, err)
	var names []string
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			out["StreamBatchGet"] = ruling{"OK", names}
			break
		}
		if err != nil {
			out["StreamBatchGet"] = rpc(err, nil, complain)
			break
		}
		if h := part.GetHeader(); h != nil {
			names = columnNames(h.GetColumns())
		}
	}

	body, _ := json.Marshal(map[string]any{"keys": []string{"k"}, "columns": columns})
	path := "/v1/" + table[0] + "/" + table[1]
	out["POST"] = c.browse(t, "POST", path+":batchGet", string(body), complain)
	get := path + "/k"
	if len(columns) > 0 {
		get += "?columns=" + strings.Join(columns, ",")
	}
	out["GET"] = c.browse(t, "GET", get, "", complain)
	return out
}

func (c caller) browse(t require.TestingT, method, target, body string, complain func(string)) ruling {
	status, answer := c.http(method, target, body)
	if status != http.StatusOK {
		complain(string(answer))
		var e struct{ Error struct{ Code string } }
		require.NoError(t, json.Unmarshal(answer, &e), "%s", answer)
		return ruling{code: e.Error.Code}
	}
	var found struct {
		Results []struct{ Rows []map[string]string }
	}
	require.NoError(t, json.Unmarshal(answer, &found), "%s", answer)
	return ruling{"OK", slices.Collect(maps.Keys(found.Results[0].Rows[0]))}
}

func (c caller) http(method, target, body string) (int, []byte) {
	var header []string
	if c.token != "" {
		header = []string{"Authorization", "Bearer " + c.token}
	}
	w := do(c.d.http.Handler, method, target, body, header...)
	return w.Code, w.Body.Bytes()
}

// withClients starts a server over the world with clients c0, c1, ..., and returns
// their tokens. The returned function sets their grants.
func withClients(t *testing.T, n int, deps Deps) (*served, []string, func(...grants) error) {
	t.Helper()
	deps.Lookup, deps.Clients = world(t), identity.NewRegistry(nil, nil)
	dir := t.TempDir()
	tokens, files := make([]string, n), make([]string, n)
	for i := range n {
		tokens[i] = strings.Repeat(string(rune('a'+i)), 20)
		files[i] = filepath.Join(dir, tokens[i])
		require.NoError(t, os.WriteFile(files[i], []byte(tokens[i]), 0o600))
	}
	replace := func(of ...grants) error {
		members := make([]identity.Member, len(of))
		for i, g := range of {
			members[i] = identity.Member{Client: identity.Client{Name: "client-" + string(rune('0'+i)), Access: g.access()}, TokenFile: files[i]}
		}
		return deps.Clients.Replace(members)
	}
	return open(t, deps), tokens, replace
}

// TestBothListenersRuleAsTheReference draws clients, tables and columns, and compares
// every way to ask, at both listeners, with the reference.
func TestBothListenersRuleAsTheReference(t *testing.T) {
	d, tokens, replace := withClients(t, 3, Deps{})
	rapid.Check(t, func(t *rapid.T) {
		clients := make([]grants, len(tokens))
		for i := range clients {
			clients[i] = grants{}
			for _, table := range anyTable {
				if rapid.Bool().Draw(t, "granted") {
					clients[i][table] = rapid.SliceOfNDistinct(rapid.SampledFrom(anyColumn), 0, 5, rapid.ID[string]).Draw(t, "of columns")
				}
			}
		}
		require.NoError(t, replace(clients...))

		who := rapid.IntRange(-2, len(clients)-1).Draw(t, "who")
		asks, may := caller{d, ""}, grants(nil)
		switch {
		case who >= 0:
			asks.token, may = tokens[who], clients[who]
		case who == -1:
			asks.token = tokens[0] + "x"
		}
		table := rapid.SampledFrom(anyTable).Draw(t, "table")
		columns := rapid.SliceOfN(rapid.SampledFrom(anyColumn), 0, 3).Draw(t, "columns")
		complain := func(answer string) {
			for _, c := range anyColumn {
				if !slices.Contains(columns, c) {
					require.NotContains(t, answer, c, "an error names a column that the client did not")
				}
			}
			for _, other := range anyTable {
				if other[1] != table[1] {
					require.NotContains(t, answer, other[1], "an error names a table that the client did not")
				}
			}
		}
		want := may.rule(table, columns)
		for way, got := range asks.ask(t, table, columns, complain) {
			require.Equal(t, want.code, got.code, way)
			require.ElementsMatch(t, want.columns, got.columns, way)
		}

		_, err := d.rpc.Explain(asks.ctx(), &qosproxyv1.ExplainRequest{Keyspace: table[0], Table: table[1], Keys: []*qosproxyv1.Key{key(text("k"))}})
		require.Equal(t, may.rule(table, nil).code, rpc(err, nil, func(string) {}).code, "Explain")
		checkLists(t, asks, may)
		checkRing(t, asks, may, table[0])
	})
}

// checkLists compares the lists of tables with the reference.
func checkLists(t *rapid.T, c caller, may grants) {
	tables, err := c.d.rpc.ListTables(c.ctx(), &qosproxyv1.ListTablesRequest{})
	status, body := c.http("GET", "/v1/tables", "")
	if may == nil {
		require.Equal(t, "UNAUTHENTICATED", rpcProblem(err).code)
		require.Equal(t, http.StatusUnauthorized, status)
		return
	}
	require.NoError(t, err)
	got := map[string][]string{}
	for _, table := range tables.GetTables() {
		got[table.GetKeyspace()+"."+table.GetName()] = columnNames(table.GetColumns())
	}
	require.Equal(t, may.tables(), got)

	var page struct {
		Tables []struct {
			Keyspace, Name string
			Columns        []struct{ Name string }
		}
	}
	require.NoError(t, json.Unmarshal(body, &page))
	got = map[string][]string{}
	for _, table := range page.Tables {
		columns := []string{}
		for _, column := range table.Columns {
			columns = append(columns, column.Name)
		}
		got[table.Keyspace+"."+table.Name] = columns
	}
	require.Equal(t, may.tables(), got)
}

// checkRing compares the keyspaces that are described with the reference.
func checkRing(t *rapid.T, c caller, may grants, keyspace string) {
	granted := map[string]bool{}
	for table := range may {
		granted[table[0]] = true
	}
	want := "OK"
	switch {
	case may == nil:
		want = "UNAUTHENTICATED"
	case !granted[keyspace]:
		want = "PERMISSION_DENIED"
	case keyspace == "none":
		want = "NOT_FOUND"
	}
	_, err := c.d.rpc.DescribeRing(c.ctx(), &qosproxyv1.DescribeRingRequest{Keyspace: keyspace})
	require.Equal(t, want, rpc(err, nil, func(string) {}).code)

	all, err := c.d.rpc.DescribeRing(c.ctx(), &qosproxyv1.DescribeRingRequest{IncludeRanges: true})
	require.Equal(t, may == nil, err != nil)
	for _, k := range all.GetKeyspaces() {
		require.True(t, granted[k.GetKeyspace()], k.GetKeyspace())
		delete(granted, k.GetKeyspace())
	}
	delete(granted, "none")
	if may != nil {
		require.Empty(t, granted, "keyspaces that are not described")
	}
}

func TestAKeyColumnThatIsNotAllowedServesAsKeyAndIsNotReturned(t *testing.T) {
	d, tokens, replace := withClients(t, 1, Deps{})
	require.NoError(t, replace(grants{{"shop", "products"}: {"c_name"}}))
	for way, got := range (caller{d, tokens[0]}).ask(t, [2]string{"shop", "products"}, nil, func(string) {}) {
		assert.Equal(t, ruling{"OK", []string{"c_name"}}, got, way)
	}
}

func TestRefusedRequestsAreAudited(t *testing.T) {
	var log bytes.Buffer
	registry := prometheus.NewRegistry()
	d, tokens, replace := withClients(t, 1, Deps{Audit: identity.NewAudit(registry, slog.New(slog.NewTextHandler(&log, nil)))})
	require.NoError(t, replace(grants{{"shop", "products"}: {"c_name"}}))

	known, complain := caller{d, tokens[0]}, func(string) {}
	caller{d, ""}.ask(t, [2]string{"shop", "products"}, nil, complain)
	caller{d, "not-the-token"}.ask(t, [2]string{"shop", "products"}, nil, complain)
	known.ask(t, [2]string{"shop", "products"}, nil, complain)
	known.ask(t, [2]string{"shop", "products"}, []string{"c_price"}, complain)
	known.ask(t, [2]string{"shop", "users"}, nil, complain)
	_, _ = d.rpc.DescribeRing(known.ctx(), &qosproxyv1.DescribeRingRequest{Keyspace: "other"})
	_, _ = d.rpc.ListTables(known.ctx(), &qosproxyv1.ListTablesRequest{})

	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP qosproxy_requests_refused_total Requests refused for who sent them: not known (missing, token, header, certificate, conflict) or not allowed (table, column, keyspace).
# TYPE qosproxy_requests_refused_total counter
qosproxy_requests_refused_total{reason="certificate"} 0
qosproxy_requests_refused_total{reason="column"} 4
qosproxy_requests_refused_total{reason="conflict"} 0
qosproxy_requests_refused_total{reason="header"} 0
qosproxy_requests_refused_total{reason="keyspace"} 1
qosproxy_requests_refused_total{reason="missing"} 4
qosproxy_requests_refused_total{reason="table"} 4
qosproxy_requests_refused_total{reason="token"} 4
`)))
	lines := log.String()
	assert.Equal(t, 5, strings.Count(lines, "request refused"), "one for each client and reason: %s", lines)
	assert.Contains(t, lines, "client=client-0 reason=table table=shop.users")
	assert.Contains(t, lines, "client=client-0 reason=column table=shop.products")
	assert.Contains(t, lines, "reason=token peer=")
	assert.NotContains(t, lines, tokens[0])
	assert.NotContains(t, lines, "not-the-token")
}

// TestTablesThatNobodyListsAreNotLogged checks that free text of a client is not
// logged.
func TestTablesThatNobodyListsAreNotLogged(t *testing.T) {
	var log bytes.Buffer
	d, tokens, replace := withClients(t, 1, Deps{Audit: identity.NewAudit(nil, slog.New(slog.NewTextHandler(&log, nil)))})
	require.NoError(t, replace(grants{}))
	caller{d, tokens[0]}.ask(t, [2]string{"shop", "sku-00001"}, nil, func(string) {})
	assert.Contains(t, log.String(), "reason=table")
	assert.NotContains(t, log.String(), "sku-00001")
}

func TestAnUnknownCallerIsChallenged(t *testing.T) {
	d, tokens, replace := withClients(t, 1, Deps{})
	require.NoError(t, replace(grants{{"shop", "products"}: nil}))
	for what, c := range map[string]struct {
		header    []string
		challenge string
	}{
		"nothing":       {nil, `Bearer realm="qosproxy"`},
		"a wrong token": {[]string{"Authorization", "Bearer " + tokens[0] + "x"}, `Bearer realm="qosproxy", error="invalid_token"`},
		"a password":    {[]string{"Authorization", "Basic eDp5"}, `Bearer realm="qosproxy", error="invalid_token"`},
		"a header":      {[]string{"Authorization", "Bearer " + tokens[0], "Qosproxy-Client", "c"}, `Bearer realm="qosproxy"`},
	} {
		for _, target := range []string{"/v1/shop/products/k", "/v1/tables", "/no/such/path"} {
			w := do(d.http.Handler, "GET", target, "", c.header...)
			assert.Equal(t, http.StatusUnauthorized, w.Code, "%s: %s", what, target)
			assert.Equal(t, c.challenge, w.Header().Get("WWW-Authenticate"), what)
			assert.Equal(t, "UNAUTHENTICATED", httpProblem(t, w.Body.Bytes()).code)
		}
		assert.Equal(t, http.StatusOK, do(d.http.Handler, "GET", "/openapi.json", "", c.header...).Code, what)
	}
}

func TestTheClientIsKnownBehindTheListeners(t *testing.T) {
	var seen []string
	d, tokens, replace := withClients(t, 1, Deps{Observer: ObserverFunc(func(ctx context.Context, _ string, _ int, _ lookup.Code, _ time.Duration, _ *lookup.Response) {
		seen = append(seen, identity.FromContext(ctx).Name)
	})})
	table := [2]string{"shop", "products"}
	(caller{d, ""}).ask(t, table, nil, func(string) {})
	assert.Equal(t, []string{"anonymous", "anonymous", "anonymous", "anonymous"}, seen)
	seen = nil
	require.NoError(t, replace(grants{table: nil}))
	(caller{d, tokens[0]}).ask(t, table, nil, func(string) {})
	assert.Equal(t, []string{"client-0", "client-0", "client-0", "client-0"}, seen)
}

// TestWithoutClientsNothingChanges checks the behavior without configured clients.
func TestWithoutClientsNothingChanges(t *testing.T) {
	d, _, _ := withClients(t, 1, Deps{})
	everything := grants{}
	for _, table := range anyTable {
		everything[table] = nil
	}
	for _, token := range []string{"", "anything"} {
		c := caller{d, token}
		for way, got := range c.ask(t, [2]string{"shop", "users"}, nil, func(string) {}) {
			assert.Equal(t, "OK", got.code, way)
			assert.ElementsMatch(t, []string{"c_id", "c_email", "c_name"}, got.columns, way)
		}
		for way, got := range c.ask(t, [2]string{"shop", "users"}, []string{"c_ghost"}, func(string) {}) {
			assert.Equal(t, "INVALID_ARGUMENT", got.code, way)
		}
		for way, got := range c.ask(t, [2]string{"shop", "users"}, []string{"c_secret"}, func(string) {}) {
			assert.Equal(t, "PERMISSION_DENIED", got.code, way)
		}
		for way, got := range c.ask(t, [2]string{"shop", "nothing"}, nil, func(string) {}) {
			assert.Equal(t, "NOT_FOUND", got.code, way)
		}
		tables, err := d.rpc.ListTables(c.ctx(), &qosproxyv1.ListTablesRequest{})
		require.NoError(t, err)
		assert.Len(t, tables.GetTables(), len(everything.tables()))
	}
}
