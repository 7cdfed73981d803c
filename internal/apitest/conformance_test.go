package apitest

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/clienttest"
	"github.com/qosproxy/qosproxy/internal/server"
	"github.com/qosproxy/qosproxy/internal/standin"
)

// typed is a CQL type with values of it as JSON, including those that clients often get wrong.
type typed struct {
	cql    string
	noKey  bool
	values []string
}

var everyType = []typed{
	{cql: "ascii", values: []string{`"abc"`, `""`, `"\u007f \"'"`}},
	{cql: "text", values: []string{`"é 日本 🫖"`, `""`, `"\u0000\n\u2028</script>"`}},
	{cql: "bigint", values: []string{`9223372036854775807`, `-9223372036854775808`, `9007199254740993`, `-9007199254740993`, `0`, `7`}},
	{cql: "counter", noKey: true, values: []string{`9007199254740993`, `-1`}},
	{cql: "int", values: []string{`2147483647`, `-2147483648`, `0`}},
	{cql: "smallint", values: []string{`32767`, `-32768`}},
	{cql: "tinyint", values: []string{`127`, `-128`}},
	{cql: "varint", values: []string{`0`, `-129`, `128`, `18446744073709551616`, `-170141183460469231731687303715884105729`}},
	{cql: "decimal", values: []string{`"-1.50"`, `"1.5"`, `"0"`, `"12345678901234567890123456789.0123456789"`, `"1E+30"`, `"1E-300"`}},
	{cql: "double", values: []string{`1.5`, `7.0`, `-0.0`, `1.7976931348623157E308`, `4.9E-324`, `0.1`}},
	{cql: "float", values: []string{`0.5`, `3.4028235E38`, `1.4E-45`, `0.1`, `-7`}},
	{cql: "boolean", values: []string{`true`, `false`}},
	{cql: "blob", values: []string{`"0x00ff80"`, `"0x"`}},
	{cql: "uuid", values: []string{`"550e8400-e29b-41d4-a716-446655440000"`, `"ffffffff-ffff-ffff-ffff-ffffffffffff"`}},
	{cql: "timeuuid", values: []string{`"00000000-0000-1000-8080-808080808080"`}},
	{cql: "inet", values: []string{`"127.0.0.1"`, `"::1"`, `"2001:db8::ff00:42:8329"`, `"255.255.255.255"`}},
	{cql: "timestamp", values: []string{`"1970-01-01 00:00:01.500Z"`, `"1583-01-01 00:00:00.001Z"`, `9223372036854775807`, `-9223372036854775808`, `-1`}},
	{cql: "date", values: []string{`"1969-12-31"`, `"2026-02-28"`, `"9999-12-31"`, `"-5877641-06-23"`, `"+5881580-07-11"`}},
	{cql: "time", values: []string{`"00:00:00.000000001"`, `"23:59:59.999999999"`}},
	{cql: "duration", noKey: true, values: []string{`"1mo2d3ns"`, `"-1mo2d3ns"`, `"2562047h47m16s854ms775us807ns"`}},
	{cql: "list<bigint>", values: []string{`[9007199254740993, 1]`, `[]`}},
	{cql: "set<text>", values: []string{`["b", "a"]`, `[]`}},
	{cql: "set<varint>", values: []string{`[3, -1, 18446744073709551616]`}},
	{cql: "map<text, bigint>", values: []string{`{"a": 9223372036854775807, "b": -1}`, `{}`}},
	{cql: "map<int, frozen<list<decimal>>>", values: []string{`{"1": ["1.50"], "-2": []}`}},
	{cql: "map<frozen<set<uuid>>, frozen<map<text, int>>>", values: []string{`{"[\"550e8400-e29b-41d4-a716-446655440000\"]": {"x": 1}}`}},
	{cql: "set<frozen<list<int>>>", values: []string{`[[1, 2], []]`}},
	{cql: "set<frozen<tuple<int, frozen<address>>>>", values: []string{`[[1, {"street": "x", "\"Zip\"": 7, "tags": ["a"]}]]`}},
	{cql: "tuple<int, text, bigint>", values: []string{`[1, null, 9007199254740993]`, `[null, null, null]`}},
	{cql: "frozen<address>", values: []string{`{"street": "x", "\"Zip\"": 7, "tags": ["a", "b"]}`, `{"street": null, "\"Zip\"": null, "tags": null}`}},
	{cql: "vector<float, 3>", values: []string{`[0.5, -1, 0.1]`}},
	{cql: "vector<bigint, 2>", values: []string{`[9007199254740993, -1]`}},
	{cql: "vector<text, 2>", values: []string{`["a", ""]`}},
}

var address = map[string][]string{"address": {"street text", "Zip int", "tags frozen<list<text>>"}}

// wide returns a table with a column of each type, and a table for each type that can be a key by itself. In the
// last row of the first table all columns are null.
func wide() []standin.Table {
	table := standin.Table{Name: "types.wide", Columns: []string{"id int"}, Types: address}
	rows := 1
	var keys []standin.Table
	for i, t := range everyType {
		table.Columns = append(table.Columns, fmt.Sprintf("c%d %s", i, t.cql))
		rows = max(rows, len(t.values)+1)
		if t.noKey {
			continue
		}
		cql := t.cql
		if regexp.MustCompile("^(list|set|map)<").MatchString(cql) {
			cql = "frozen<" + cql + ">"
		}
		key := standin.Table{Name: fmt.Sprintf("types.c%d", i), Columns: []string{"k " + cql, "b int"}, Key: 2, Types: address}
		for _, v := range t.values {
			key.Rows = append(key.Rows, []string{v, "1"})
		}
		keys = append(keys, key)
	}
	for r := range rows {
		row := []string{strconv.Itoa(r)}
		for _, t := range everyType {
			value := "null"
			if r < len(t.values) {
				value = t.values[r]
			}
			row = append(row, value)
		}
		table.Rows = append(table.Rows, row)
	}
	return append(keys, table)
}

// proxyOf runs a proxy with the tables. It returns its address and a generated client of it.
func proxyOf(t *testing.T, tables ...standin.Table) (string, qosproxyv1.QosProxyClient) {
	t.Helper()
	s, stop, err := standin.Serve(t.Context(), server.Config{GRPC: server.Listener{Address: "127.0.0.1:0"}}, server.Deps{}, tables...)
	require.NoError(t, err)
	t.Cleanup(stop)
	conn, err := grpc.NewClient(s.Addr("grpc").String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return s.Addr("grpc").String(), qosproxyv1.NewQosProxyClient(conn)
}

// integer returns a component of a key.
func integer(n int) any { return map[string]any{"int": strconv.Itoa(n)} }

// wideIDs returns the keys of all rows of types.wide and of one that does not exist.
func wideIDs(rows int) (asked [][]any, proto []*qosproxyv1.Key) {
	for id := range rows + 1 {
		asked = append(asked, []any{integer(id)})
		proto = append(proto, &qosproxyv1.Key{Components: []*qosproxyv1.Value{{Kind: &qosproxyv1.Value_Int{Int: int32(id)}}}})
	}
	return asked, proto
}

// eachLanguage runs a test for each language that is installed.
func eachLanguage(t *testing.T, test func(t *testing.T, language string)) {
	if testing.Short() && os.Getenv(required) == "" {
		t.Skip("builds the clients of other languages")
	}
	for _, language := range clienttest.Languages {
		t.Run(language, func(t *testing.T) { test(t, language) })
	}
}

// Every value of every type arrives as the proxy sends it, and is a key that finds its row again.
func TestTypesRoundTrip(t *testing.T) {
	target, api := proxyOf(t, wide()...)
	altered := wide()
	last := &altered[len(altered)-1]
	last.Rows[0][3] = "9223372036854775806" // column 3 is the bigint
	alteredTarget, _ := proxyOf(t, altered...)

	asked, proto := wideIDs(len(last.Rows))
	want, err := api.BatchGet(t.Context(), &qosproxyv1.BatchGetRequest{Keyspace: "types", Table: "wide", Keys: proto})
	require.NoError(t, err)
	eachLanguage(t, func(t *testing.T, language string) {
		program := clienttest.Start(t, ".", language, target)
		got := program.Ask(t, clienttest.Ask{Table: "types.wide", Keys: asked})
		assert.Empty(t, clienttest.Differences(got, want))
		require.Equal(t, map[string]any{"bigint": "9223372036854775807"}, got.Results[0].Rows[0]["c2"])
		require.Equal(t, map[string]any{"bigint": "9007199254740993"}, got.Results[2].Rows[0]["c2"])
		assert.Empty(t, got.Unprocessed)

		for i, of := range everyType {
			if of.noKey {
				continue
			}
			ask := clienttest.Ask{Table: fmt.Sprintf("types.c%d", i), Columns: []string{"k"}}
			for r := range of.values {
				ask.Keys = append(ask.Keys, []any{got.Results[r].Rows[0][fmt.Sprintf("c%d", i)], integer(1)})
			}
			back := program.Ask(t, ask)
			require.Len(t, back.Results, len(ask.Keys), "%s: %+v", of.cql, back)
			for r, result := range back.Results {
				assert.Equal(t, []map[string]any{{"k": ask.Keys[r][0]}}, result.Rows, "%s %s", of.cql, of.values[r])
			}
		}

		fewer := program.Ask(t, clienttest.Ask{Table: "types.wide", Keys: asked[len(last.Rows)-1:], Columns: []string{"c2", "id"}})
		require.Len(t, fewer.Results, 2)
		assert.Equal(t, []map[string]any{{"c2": nil, "id": integer(len(last.Rows) - 1)}}, fewer.Results[0].Rows, "null is no absence")

		control := program.Ask(t, clienttest.Ask{Table: "types.wide", Keys: asked, Client: &clienttest.Options{}, Target: alteredTarget})
		assert.Len(t, clienttest.Differences(control, want), 1, "one value is another")
	})
}

// By the deadline, the proxy answers with the keys that it has.
func TestDeadlinesOfClients(t *testing.T) {
	target := serve(t)
	eachLanguage(t, func(t *testing.T, language string) {
		program := clienttest.Start(t, ".", language, target)
		key := func(s string) []any { return []any{map[string]any{"text": s}} }
		// The timeout of the table applies, because an answer at the client's own deadline has only 10 ms to
		// arrive.
		part := program.Ask(t, clienttest.Ask{Table: "shop.products", Keys: [][]any{key("sku-00001"), key("slow"), key("nope")}})
		require.Len(t, part.Results, 3, "%+v", part)
		assert.Equal(t, "FOUND", part.Results[0].Status)
		assert.Equal(t, "TIMED_OUT", part.Results[1].Status)
		assert.NotEmpty(t, part.Results[1].Error)
		assert.Equal(t, "deadline", part.Results[1].Reason)
		assert.Empty(t, part.Results[2].Reason)
		assert.Equal(t, "NOT_FOUND", part.Results[2].Status)
		assert.Equal(t, []int{1}, part.Unprocessed)

		none := program.Ask(t, clienttest.Ask{Table: "shop.products", Keys: [][]any{key("slow")}, TimeoutMillis: 300})
		assert.Equal(t, "DEADLINE_EXCEEDED", none.Code)
		if none.Statuses != nil { // The proxy answered before the client's deadline.
			assert.Equal(t, []string{"TIMED_OUT"}, none.Statuses)
			assert.Equal(t, "deadline", none.Reason)
		}
		wrong := program.Ask(t, clienttest.Ask{Table: "shop.products", Keys: [][]any{key("a"), key("")}})
		assert.Equal(t, clienttest.Outcome{Code: "INVALID_ARGUMENT", Reason: "invalid_request", Field: "keys[1]"}, wrong)
	})
}

// call is a call that a scripted proxy received.
type call struct {
	keys     int
	deadline time.Duration // 0 for none
	at       time.Time
	headers  metadata.MD
}

// scripted is a proxy that answers the calls of a table by its script in tells. Calls without a scripted answer
// get NOT_FOUND for all keys.
type scripted struct {
	qosproxyv1.UnimplementedQosProxyServer
	mu    sync.Mutex
	calls map[string][]call
	tells map[string]func(n int, in *qosproxyv1.BatchGetRequest) (*qosproxyv1.BatchGetResponse, error)
}

func (s *scripted) BatchGet(ctx context.Context, in *qosproxyv1.BatchGetRequest) (*qosproxyv1.BatchGetResponse, error) {
	got := call{keys: len(in.GetKeys()), at: time.Now()}
	if d, ok := ctx.Deadline(); ok {
		got.deadline = time.Until(d)
	}
	got.headers, _ = metadata.FromIncomingContext(ctx)
	s.mu.Lock()
	n := len(s.calls[in.GetTable()])
	s.calls[in.GetTable()] = append(s.calls[in.GetTable()], got)
	s.mu.Unlock()
	if tell := s.tells[in.GetTable()]; tell != nil {
		if out, err := tell(n, in); out != nil || err != nil {
			return out, err
		}
	}
	return answered(make([]qosproxyv1.KeyStatus, len(in.GetKeys()))...), nil
}

// taken returns the calls of a table and clears them.
func (s *scripted) taken(table string) []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls[table]
	delete(s.calls, table)
	return calls
}

// answered returns an answer with these statuses, where 0 means NOT_FOUND.
func answered(statuses ...qosproxyv1.KeyStatus) *qosproxyv1.BatchGetResponse {
	out := &qosproxyv1.BatchGetResponse{}
	for i, s := range statuses {
		s = cmp.Or(s, notFound)
		out.Results = append(out.Results, &qosproxyv1.KeyResult{Status: s})
		if s == timedOut || s == shed || s == qosproxyv1.KeyStatus_KEY_STATUS_UNAVAILABLE {
			out.UnprocessedKeys, out.Partial = append(out.UnprocessedKeys, int32(i)), true
			out.Results[i].Error = "why"
		}
	}
	return out
}

const (
	notFound = qosproxyv1.KeyStatus_KEY_STATUS_NOT_FOUND
	timedOut = qosproxyv1.KeyStatus_KEY_STATUS_TIMED_OUT
	shed     = qosproxyv1.KeyStatus_KEY_STATUS_SHED
)

// failing is an error of a proxy, or of a connection if reason is empty.
func failing(code codes.Code, reason string, retry time.Duration, more ...protoadapt.MessageV1) error {
	s := status.New(code, "no")
	if reason != "" {
		s, _ = s.WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: "qosproxy", Metadata: map[string]string{"reason": strings.ToLower(reason)}})
	}
	if retry > 0 {
		s, _ = s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(retry)})
	}
	s, err := s.WithDetails(more...)
	if err != nil {
		return err
	}
	return s.Err()
}

// serve runs the proxy and returns its address.
func (s *scripted) serve(t *testing.T, network, at string, o ...grpc.ServerOption) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), network, at)
	require.NoError(t, err)
	g := grpc.NewServer(o...)
	qosproxyv1.RegisterQosProxyServer(g, s)
	healthpb.RegisterHealthServer(g, health.NewServer())
	go func() { _ = g.Serve(l) }()
	t.Cleanup(g.Stop)
	return l.Addr().String()
}

// always is a script that fails each call of a table; first scripts only the first call.
func always(err error) func(int, *qosproxyv1.BatchGetRequest) (*qosproxyv1.BatchGetResponse, error) {
	return func(int, *qosproxyv1.BatchGetRequest) (*qosproxyv1.BatchGetResponse, error) { return nil, err }
}

func first(out *qosproxyv1.BatchGetResponse, err error) func(int, *qosproxyv1.BatchGetRequest) (*qosproxyv1.BatchGetResponse, error) {
	return func(n int, _ *qosproxyv1.BatchGetRequest) (*qosproxyv1.BatchGetResponse, error) {
		if n > 0 {
			return nil, nil //nolint:nilnil // The default answer.
		}
		return out, err
	}
}

// soon is the pause that a scripted proxy asks for.
const soon = 300 * time.Millisecond

func newScripted() *scripted {
	type tell = func(int, *qosproxyv1.BatchGetRequest) (*qosproxyv1.BatchGetResponse, error)
	return &scripted{calls: map[string][]call{}, tells: map[string]tell{
		"lost":      first(nil, failing(codes.Unavailable, "", 0)),
		"starting":  first(nil, failing(codes.Unavailable, "NOT_READY", soon)),
		"later":     always(failing(codes.Unavailable, "NOT_READY", time.Hour)),
		"failed":    always(failing(codes.Unavailable, "FAILED", 0)),
		"shed":      first(nil, failing(codes.ResourceExhausted, "SHED", soon)),
		"trouble":   always(failing(codes.Unavailable, "NOT_READY", time.Millisecond)),
		"forbidden": always(failing(codes.PermissionDenied, "FORBIDDEN", 0)),
		"partial":   first(answered(notFound, timedOut, notFound, shed), nil),
		"none":      first(nil, failing(codes.DeadlineExceeded, "TIMED_OUT", soon, protoadapt.MessageV1Of(answered(timedOut, timedOut)))),
		"never": func(_ int, in *qosproxyv1.BatchGetRequest) (*qosproxyv1.BatchGetResponse, error) {
			statuses := make([]qosproxyv1.KeyStatus, len(in.GetKeys()))
			statuses[0] = timedOut
			return answered(statuses...), nil
		},
		"worse": func(n int, _ *qosproxyv1.BatchGetRequest) (*qosproxyv1.BatchGetResponse, error) {
			if n == 0 {
				return answered(notFound, timedOut), nil
			}
			return nil, failing(codes.PermissionDenied, "FORBIDDEN", 0)
		},
	}}
}

// asker makes lookups in the tables of a scripted proxy.
type asker struct {
	t       *testing.T
	program *clienttest.Program
	proxy   *scripted
}

func (a asker) ask(table string, keys int, ask clienttest.Ask) (clienttest.Outcome, []call) {
	a.t.Helper()
	ask.Table = "a." + table
	for i := range keys {
		ask.Keys = append(ask.Keys, []any{map[string]any{"text": fmt.Sprintf("k%d", i)}})
	}
	out := a.program.Ask(a.t, ask)
	return out, a.proxy.taken(table)
}

func statusesOf(o clienttest.Outcome) []string {
	out := make([]string, len(o.Results))
	for i, r := range o.Results {
		out[i] = r.Status
	}
	return out
}

// Every client retries as clients.md says.
func TestRetriesOfClients(t *testing.T) {
	eachLanguage(t, func(t *testing.T, language string) {
		proxy := newScripted()
		a := asker{t, clienttest.Start(t, ".", language, proxy.serve(t, "tcp", "127.0.0.1:0")), proxy}
		anew := clienttest.Ask{Client: &clienttest.Options{}, TimeoutMillis: 60_000}
		short := clienttest.Ask{Client: &clienttest.Options{}, TimeoutMillis: 5000}
		for _, c := range []struct {
			table string
			ask   clienttest.Ask
			calls int
			code  string
		}{
			{"nothing", anew, 1, ""},
			{"lost", anew, 2, ""},
			{"starting", short, 2, ""},
			{"later", anew, 1, "UNAVAILABLE"},
			{"failed", anew, 1, "UNAVAILABLE"},
			{"forbidden", anew, 1, "PERMISSION_DENIED"},
			{"shed", anew, 1, "RESOURCE_EXHAUSTED"},
			{"shed", clienttest.Ask{Client: &clienttest.Options{RetryShed: true}}, 2, ""},
		} {
			out, calls := a.ask(c.table, 1, c.ask)
			assert.Equal(t, c.code, out.Code, "%s: %+v", c.table, out)
			assert.Len(t, calls, c.calls, c.table)
			switch c.table {
			case "starting":
				assert.Greater(t, calls[1].at.Sub(calls[0].at), soon, "the proxy has asked for a pause")
				// Python's gRPC rounds the deadline up to a tenth of a second.
				assert.Less(t, calls[1].deadline, 5*time.Second-soon+150*time.Millisecond, "the deadline is that of the lookup")
			case "later":
				require.NotNil(t, out.RetryMillis)
				assert.Equal(t, 3_600_000, *out.RetryMillis)
				assert.Equal(t, "not_ready", out.Reason)
			}
		}
		total := 0
		for i := range 20 {
			ask := clienttest.Ask{}
			if i == 0 {
				ask = anew
			}
			out, calls := a.ask("trouble", 1, ask)
			assert.Equal(t, "UNAVAILABLE", out.Code)
			total += len(calls)
		}
		assert.Equal(t, 20+5, total, "half of ten tokens are spent on retries")
	})
}

func TestUnprocessedKeysOfClients(t *testing.T) {
	eachLanguage(t, func(t *testing.T, language string) {
		proxy := newScripted()
		a := asker{t, clienttest.Start(t, ".", language, proxy.serve(t, "tcp", "127.0.0.1:0")), proxy}
		anew := func(rounds int) clienttest.Ask {
			return clienttest.Ask{Client: &clienttest.Options{}, TimeoutMillis: 60_000, Rounds: &rounds}
		}
		out, calls := a.ask("partial", 4, anew(0))
		assert.Equal(t, []string{"NOT_FOUND", "TIMED_OUT", "NOT_FOUND", "SHED"}, statusesOf(out))
		assert.Equal(t, []int{1, 3}, out.Unprocessed)
		assert.Len(t, calls, 1)

		out, calls = a.ask("partial", 4, anew(3))
		assert.Equal(t, []string{"NOT_FOUND", "NOT_FOUND", "NOT_FOUND", "NOT_FOUND"}, statusesOf(out))
		assert.Empty(t, out.Unprocessed)
		require.Len(t, calls, 2)
		assert.Equal(t, 2, calls[1].keys, "those alone")

		out, calls = a.ask("none", 2, anew(1))
		assert.Equal(t, []string{"NOT_FOUND", "NOT_FOUND"}, statusesOf(out))
		assert.Len(t, calls, 2)

		out, calls = a.ask("never", 2, anew(100))
		assert.Equal(t, []string{"TIMED_OUT", "NOT_FOUND"}, statusesOf(out))
		assert.Equal(t, []int{0}, out.Unprocessed)
		assert.Len(t, calls, 1+5, "the budget ends it")

		out, _ = a.ask("worse", 2, anew(1))
		assert.Equal(t, "PERMISSION_DENIED", out.Code)
	})
}

func TestWhatClientsSend(t *testing.T) {
	dir := t.TempDir()
	certificate := selfSigned(t, dir)
	eachLanguage(t, func(t *testing.T, language string) {
		proxy := newScripted()
		socket := filepath.Join(t.TempDir(), "grpc.sock")
		proxy.serve(t, "unix", socket)
		overTLS := proxy.serve(t, "tcp", "127.0.0.1:0", grpc.Creds(credentials.NewServerTLSFromCert(&certificate)))
		_, port, err := net.SplitHostPort(overTLS)
		require.NoError(t, err)
		a := asker{t, clienttest.Start(t, ".", language, proxy.serve(t, "tcp", "127.0.0.1:0")), proxy}
		sent := func(ask clienttest.Ask) call {
			t.Helper()
			out, calls := a.ask("nothing", 1, ask)
			require.Empty(t, out.Code, "%+v", out)
			require.Len(t, calls, 1)
			return calls[0]
		}
		assert.Zero(t, sent(clienttest.Ask{}).deadline, "the timeout of the table applies")
		byDefault := sent(clienttest.Ask{Client: &clienttest.Options{TimeoutMillis: 3_600_000}})
		assert.InDelta(t, time.Hour, byDefault.deadline, float64(time.Minute))
		assert.InDelta(t, 2*time.Hour, sent(clienttest.Ask{TimeoutMillis: 7_200_000}).deadline, float64(time.Minute), "that of the lookup prevails")
		assert.Empty(t, byDefault.headers.Get("authorization"))

		token := clienttest.Options{Token: "secret", CAFile: filepath.Join(dir, "cert.pem")}
		assert.Equal(t, []string{"Bearer secret"}, sent(clienttest.Ask{Client: &token, Target: "localhost:" + port}).headers.Get("authorization"))
		named := clienttest.Options{SocketName: "checkout", Token: "secret"}
		overSocket := sent(clienttest.Ask{Client: &named, Target: "unix://" + socket})
		assert.Equal(t, []string{"checkout"}, overSocket.headers.Get("qosproxy-client"))
		assert.Equal(t, []string{"Bearer secret"}, overSocket.headers.Get("authorization"))
	})
}

// selfSigned writes cert.pem, a certificate of localhost that is its own authority. It returns the certificate
// with its key.
func selfSigned(t *testing.T, dir string) tls.Certificate {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cert.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}
}
