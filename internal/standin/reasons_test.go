package standin_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/admission"
	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/memory"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/planner"
	"github.com/qosproxy/qosproxy/internal/reasons"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
	"github.com/qosproxy/qosproxy/internal/server"
)

// These tests make each reason reach a client through the real listeners. Lookup service and
// executor are those of the proxy. The name of a key tells a fake reader which failure of a host
// or of the driver to simulate. Reasons that only internal/cassandra and internal/admission can
// find are returned by the reader, or by a refusal before the lookup; the tests of these packages
// verify that they return them.

const maxRequestBytes = 64 << 10

var (
	textType   = &cqltype.Type{Kind: cqltype.Text}
	doubleType = &cqltype.Type{Kind: cqltype.Double}
)

// items returns the definition of a table with a text key and a double.
func items(keyspace, name string) *schema.Table {
	return schema.NewTable(keyspace, name, "1", []schema.Column{
		{Name: "id", Type: textType, Kind: schema.PartitionKey},
		{Name: "price", Type: doubleType, Kind: schema.Regular},
	})
}

// lost are the keys that fail at a host, with the reason.
var lost = map[string]executor.Reason{
	"replica_timeout": executor.ReasonTimeout, "unreachable": executor.ReasonUnreachable, "too_few_replicas": executor.ReasonUnavailable,
	"hosts_overloaded": executor.ReasonOverloaded, "query_refused": executor.ReasonInvalid, "host_error": executor.ReasonOther,
}

// read simulates the hosts.
func read(ctx context.Context, q *executor.SubQuery) ([]partition.Result, error) {
	results := make([]partition.Result, len(q.Keys))
	for i, k := range q.Keys {
		name := string(k.Components()[0])
		row := partition.Row{[]byte(name), make([]byte, 8)}[2-len(q.Columns):]
		results[i] = partition.Result{Status: partition.Found, Rows: []partition.Row{row}, Bytes: 8}
		reason, fails := lost[name]
		switch {
		case fails:
			results[i] = partition.Unanswered(reasons.ReadFailure, &executor.ReadError{Reason: reason, Err: errors.New(name)})
		case name == "read_failure", name == "tombstones", name == "too_many_rows", name == "too_many_bytes", name == "partition_too_large":
			results[i] = partition.Unanswered(named(name), errors.New("said by the driver"))
		case name == "answer_full", name == "big":
			results[i].Bytes = 300
		case name == "undecodable":
			results[i].Rows[0][len(row)-1] = []byte{1, 2, 3}
		case name == "internal":
			panic("a mistake")
		case name == "slow", strings.HasPrefix(name, "holds"):
			<-ctx.Done()
			if name == "slow" {
				q.Settled()
			}
			return nil, context.Cause(ctx)
		}
	}
	q.Settled()
	return results, nil
}

// named returns the reason of a word.
func named(word string) reasons.Reason {
	for _, r := range reasons.All {
		if r.String() == word {
			return r
		}
	}
	panic(word)
}

// before can refuse lookups before they reach the service.
type before struct {
	*lookup.Service
	mu sync.Mutex
	do func(*lookup.Request) error
}

func (b *before) set(do func(*lookup.Request) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.do = do
}

func (b *before) refuse(req *lookup.Request) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.do == nil {
		return nil
	}
	return b.do(req)
}

func (b *before) Get(ctx context.Context, req *lookup.Request) (*lookup.Response, error) {
	if err := b.refuse(req); err != nil {
		return nil, err
	}
	return b.Service.Get(ctx, req)
}

func (b *before) Stream(ctx context.Context, req *lookup.Request, emit func(int, partition.Result) error) (lookup.Stats, error) {
	if err := b.refuse(req); err != nil {
		return lookup.Stats{}, err
	}
	return b.Service.Stream(ctx, req, emit)
}

// proxy is a proxy with its listeners.
type proxy struct {
	url    string
	rpc    qosproxyv1.QosProxyClient
	conn   *grpc.ClientConn
	before *before
	// results receives the results of each lookup.
	results chan []partition.Result
}

// start runs a proxy; change, which may be nil, changes its parts.
func start(t *testing.T, change func(*lookup.Config, *server.Deps)) *proxy {
	t.Helper()
	snapshot, err := ring.New(ring.Topology{LocalDC: "dc1",
		Keyspaces: map[string]ring.Replication{
			"ks":   {Strategy: ring.SimpleStrategy, Factor: 1},
			"away": {Strategy: ring.NetworkTopologyStrategy, Factors: map[string]int{"dc2": 1}},
		},
		Hosts: []ring.Host{
			{ID: "1", Addr: "192.0.2.1:9042", DC: "dc1", Rack: "r1", Tokens: []int64{0}},
			{ID: "2", Addr: "192.0.2.2:9042", DC: "dc2", Rack: "r1", Tokens: []int64{100}},
		}})
	require.NoError(t, err)
	current := func() *ring.Ring { return snapshot }
	tables := []*schema.Table{items("ks", "items"), items("away", "items"), items("new", "items"), items("ks", "hidden")}
	limits := executor.DefaultLimits()
	limits.InflightKeys = 2
	asking := executor.New(executor.Config{Ring: current, Reader: executor.ReaderFunc(read), Limits: limits})
	all := schema.New(tables)
	cfg := lookup.Config{Ring: current, Schema: func() *schema.Schema { return all }, Executor: asking}
	for _, table := range tables[:3] {
		cfg.Tables = append(cfg.Tables, lookup.Settings{Keyspace: table.Keyspace, Table: table.Name, Consistency: "LOCAL_ONE",
			Timeout: time.Minute, Grouping: planner.Single, MaxKeys: 10, MaxRowsPerKey: 100, MaxResponseBytes: 500})
	}
	p := &proxy{results: make(chan []partition.Result, 100)}
	deps := server.Deps{Observer: server.ObserverFunc(func(_ context.Context, _ string, _ int, _ lookup.Code, _ time.Duration, resp *lookup.Response) {
		if resp != nil {
			p.results <- resp.Results
		}
	})}
	if change != nil {
		change(&cfg, &deps)
	}
	p.before = &before{Service: lookup.New(cfg)}
	deps.Lookup = p.before
	on := server.Listener{Address: "127.0.0.1:0"}
	s := server.New(server.Config{GRPC: on, HTTP: on, MaxRequestBytes: maxRequestBytes}, deps)
	require.NoError(t, s.Start(t.Context()))
	t.Cleanup(func() {
		_ = s.Shutdown(context.Background())
		asking.Close()
	})
	p.url = "http://" + s.Addr("http").String()
	p.conn, err = grpc.NewClient(s.Addr("grpc").String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.conn.Close() })
	p.rpc = qosproxyv1.NewQosProxyClient(p.conn)
	return p
}

// ask sends an HTTP request, and returns status and body of the answer.
func (p *proxy) ask(t *testing.T, method, path, media string, body io.Reader) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, p.url+path, body)
	require.NoError(t, err)
	req.Header.Set("Content-Type", media)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, text
}

// question is a lookup that can be sent to both listeners.
type question struct {
	keyspace, table string
	keys, columns   []string
	soft, timeout   time.Duration
	consistency     string
}

func (q question) json() string {
	body := map[string]any{"keys": q.keys, "columns": q.columns}
	if q.soft > 0 {
		body["soft_deadline"] = q.soft.String()
	}
	if q.timeout > 0 {
		body["timeout"] = q.timeout.String()
	}
	if q.consistency != "" {
		body["consistency"] = q.consistency
	}
	text, _ := json.Marshal(body)
	return string(text)
}

func (q question) proto() *qosproxyv1.BatchGetRequest {
	in := &qosproxyv1.BatchGetRequest{Keyspace: q.keyspace, Table: q.table, Columns: q.columns, Consistency: q.consistency}
	for _, k := range q.keys {
		in.Keys = append(in.Keys, &qosproxyv1.Key{Components: []*qosproxyv1.Value{{Kind: &qosproxyv1.Value_Text{Text: k}}}})
	}
	if q.soft > 0 {
		in.SoftDeadline = durationpb.New(q.soft)
	}
	if q.timeout > 0 {
		in.Timeout = durationpb.New(q.timeout)
	}
	return in
}

// told is what a client receives for a lookup.
type told struct {
	// keys are the reasons of the keys, empty for those that are answered; nil if the request was
	// refused.
	keys, texts []string
	statuses    []string
	// request is the reason of an error of the request, and kind its ErrorInfo.reason.
	request, kind string
}

// overHTTP asks the HTTP listener.
func (p *proxy) overHTTP(t *testing.T, q question) told {
	t.Helper()
	_, text := p.ask(t, http.MethodPost, "/v1/"+q.keyspace+"/"+q.table+":batchGet", "application/json", strings.NewReader(q.json()))
	var body struct {
		Results []struct{ Status, Reason, Error string }
		Error   struct{ Reason string }
	}
	require.NoError(t, json.Unmarshal(text, &body), "%s", text)
	out := told{request: body.Error.Reason}
	for _, r := range body.Results {
		out.keys, out.statuses, out.texts = append(out.keys, r.Reason), append(out.statuses, r.Status), append(out.texts, r.Error)
	}
	return out
}

// word returns a gRPC reason as the HTTP API writes it.
func word(r qosproxyv1.Reason) string {
	if r == qosproxyv1.Reason_REASON_UNSPECIFIED {
		return ""
	}
	return strings.ToLower(strings.TrimPrefix(r.String(), "REASON_"))
}

func (o *told) add(results ...*qosproxyv1.KeyResult) {
	for _, r := range results {
		o.keys, o.texts = append(o.keys, word(r.GetReason())), append(o.texts, r.GetError())
		o.statuses = append(o.statuses, strings.TrimPrefix(r.GetStatus().String(), "KEY_STATUS_"))
	}
}

// failed records the details of an error.
func (o *told) failed(err error) {
	for _, d := range status.Convert(err).Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			o.request, o.kind = d.GetMetadata()["reason"], d.GetReason()
		case *qosproxyv1.BatchGetResponse:
			o.add(d.GetResults()...)
		}
	}
}

// overGRPC asks the gRPC listener by BatchGet.
func (p *proxy) overGRPC(t *testing.T, q question) (out told) {
	t.Helper()
	resp, err := p.rpc.BatchGet(t.Context(), q.proto())
	out.add(resp.GetResults()...)
	out.failed(err)
	return out
}

// overStream asks the gRPC listener by StreamBatchGet.
func (p *proxy) overStream(t *testing.T, q question) (out told) {
	t.Helper()
	in := q.proto()
	stream, err := p.rpc.StreamBatchGet(t.Context(), &qosproxyv1.StreamBatchGetRequest{
		Keyspace: in.GetKeyspace(), Table: in.GetTable(), Keys: in.GetKeys(), Columns: in.GetColumns(), SoftDeadline: in.GetSoftDeadline(),
		Consistency: in.GetConsistency(), Timeout: in.GetTimeout(),
	})
	require.NoError(t, err)
	results := make([]*qosproxyv1.KeyResult, len(q.keys))
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			out.add(results...)
			return out
		}
		if err != nil {
			out.failed(err)
			return out
		}
		if r := part.GetResult(); r != nil {
			results[r.GetIndex()] = r.GetResult()
		}
	}
}

// statusOf returns the status of a reason, by the name that clients see.
func statusOf(word string) string { return partition.StatusOf(named(word)).String() }

// keyReasons returns lookups whose last key is not answered, by the reason.
func keyReasons() map[string]question {
	one := func(keys ...string) question {
		return question{keyspace: "ks", table: "items", keys: keys, columns: []string{"price"}}
	}
	soft := one("found", "slow")
	soft.soft = 10 * time.Millisecond
	late := one("slow")
	late.timeout = 30 * time.Millisecond
	away := one("found")
	away.keyspace = "away"
	out := map[string]question{"soft_deadline": soft, "deadline": late, "no_replica": away, "answer_full": one("big", "answer_full")} // only one of them fits
	for _, word := range []string{"read_failure", "tombstones", "too_many_rows", "too_many_bytes", "partition_too_large", "undecodable"} {
		out[word] = one(word)
	}
	for word := range lost {
		out[word] = one(word)
	}
	return out
}

func TestAKeyTellsWhyItIsNotAnswered(t *testing.T) {
	for why, q := range keyReasons() {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			for name, over := range map[string]func(*proxy, *testing.T, question) told{
				"HTTP": (*proxy).overHTTP, "gRPC": (*proxy).overGRPC, "stream": (*proxy).overStream,
			} {
				// Each lookup has a proxy of its own: keys that the previous lookup gave up may
				// still be outstanding, and the host full.
				p := start(t, nil)
				if why == "undecodable" && name == "HTTP" {
					q.columns = nil
				}
				got := over(p, t, q)
				require.Len(t, got.keys, len(q.keys), name)
				last := len(q.keys) - 1
				if why == "answer_full" && got.keys[0] != "" {
					slices.Reverse(got.keys)
					slices.Reverse(got.statuses)
					slices.Reverse(got.texts)
				}
				assert.Equal(t, why, got.keys[last], name)
				assert.Equal(t, statusOf(why), got.statuses[last], name)
				assert.NotEmpty(t, got.texts[last], name)
				for i := range last {
					assert.Empty(t, got.keys[i], "%s: it is answered", name)
				}
				if name == "gRPC" && last == 0 {
					assert.Equal(t, why, got.request, "the error has the reason of the key")
					assert.NotEmpty(t, got.kind)
				}
			}
		})
	}
}

func TestAKeyOfFullHostsTellsSo(t *testing.T) {
	p := start(t, nil)
	q := question{keyspace: "ks", table: "items", keys: []string{"holds 1", "holds 2"}, columns: []string{"price"}, timeout: 30 * time.Millisecond}
	p.overGRPC(t, q) // its keys stay outstanding, as with a frozen host
	q.keys = []string{"found"}
	for name, ask := range map[string]func(*testing.T, question) told{"HTTP": p.overHTTP, "gRPC": p.overGRPC, "stream": p.overStream} {
		got := ask(t, q)
		assert.Equal(t, []string{"hosts_full"}, got.keys, name)
		assert.Equal(t, []string{"SHED"}, got.statuses, name)
	}
}

func TestAnOptionalKeyTellsSo(t *testing.T) {
	p := start(t, nil)
	p.before.set(func(req *lookup.Request) error {
		req.ShedOptional, req.Optional = true, []bool{false, true} // as admission would
		return nil
	})
	q := question{keyspace: "ks", table: "items", keys: []string{"found", "other"}, columns: []string{"price"}}
	for name, ask := range map[string]func(*testing.T, question) told{"HTTP": p.overHTTP, "gRPC": p.overGRPC, "stream": p.overStream} {
		assert.Equal(t, []string{"", "optional"}, ask(t, q).keys, name)
	}
}

func TestARefusedLookupTellsWhyOfEachKey(t *testing.T) {
	for why, reason := range map[string]admission.Reason{
		"client_concurrency": admission.ReasonConcurrency, "client_rate": admission.ReasonRate, "brown_out": admission.ReasonLadder,
		"deadline_too_short": admission.ReasonDeadline, "overload": admission.ReasonOverload, "memory": admission.ReasonMemory,
	} {
		p := start(t, nil)
		p.before.set(func(*lookup.Request) error {
			return &admission.Refusal{Reason: reason, RetryAfter: time.Second, Message: "no"}
		})
		q := question{keyspace: "ks", table: "items", keys: []string{"a", "b"}}
		for name, ask := range map[string]func(*testing.T, question) told{"HTTP": p.overHTTP, "gRPC": p.overGRPC, "stream": p.overStream} {
			got := ask(t, q)
			assert.Equal(t, []string{why, why}, got.keys, name)
			assert.Equal(t, []string{"SHED", "SHED"}, got.statuses, name)
			if name != "HTTP" {
				assert.Equal(t, why, got.request, name)
				assert.Equal(t, "SHED", got.kind, name)
			}
		}
	}
}

// requestReasons returns lookups that are refused as a whole, by the reason.
func requestReasons() map[string]question {
	one := func(keyspace, table string, keys ...string) question {
		return question{keyspace: keyspace, table: table, keys: keys}
	}
	level, column := one("ks", "items", "a"), one("ks", "items", "a")
	level.consistency = "ALL"
	column.columns = []string{"id", "id"}
	return map[string]question{
		"invalid_request": column, "too_many_keys": one("ks", "items", strings.Split(strings.Repeat("a,", 10)+"a", ",")...),
		"forbidden_table": one("ks", "hidden", "a"), "forbidden_level": level, "unknown_table": one("ks", "none", "a"),
		"no_placement": one("new", "items", "a"), "internal": one("ks", "items", "internal"),
	}
}

func TestARefusedRequestTellsWhy(t *testing.T) {
	for why, q := range requestReasons() {
		p := start(t, nil)
		for name, ask := range map[string]func(*testing.T, question) told{"HTTP": p.overHTTP, "gRPC": p.overGRPC, "stream": p.overStream} {
			got := ask(t, q)
			assert.Equal(t, why, got.request, name)
			assert.Empty(t, got.keys, "%s, %s", why, name)
		}
	}
}

// configured returns the configurations for the refusals that depend on one, by the reason.
func configured(t *testing.T) map[string]func(*lookup.Config, *server.Deps) {
	file := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(file, []byte("0123456789abcdef"), 0o600))
	clients := func(m identity.Member) *identity.Registry {
		r := identity.NewRegistry(nil, nil)
		require.NoError(t, r.Replace([]identity.Member{m}))
		return r
	}
	return map[string]func(*lookup.Config, *server.Deps){
		"not_ready": func(c *lookup.Config, _ *server.Deps) { c.Ring = func() *ring.Ring { return nil } },
		"unauthenticated": func(_ *lookup.Config, d *server.Deps) {
			d.Clients = clients(identity.Member{Client: identity.Client{Name: "x"}, TokenFile: file})
		},
		"forbidden_column": func(c *lookup.Config, _ *server.Deps) {
			c.Tables[0].Columns = []string{"id"}
		},
		"memory": func(_ *lookup.Config, d *server.Deps) { d.Memory = memory.New(1) },
	}
}

func TestAProxyThatDoesNotLookUpTellsWhy(t *testing.T) {
	for why, change := range configured(t) {
		p := start(t, change)
		q := question{keyspace: "ks", table: "items", keys: []string{"found"}, columns: []string{"price"}}
		for name, ask := range map[string]func(*testing.T, question) told{"HTTP": p.overHTTP, "gRPC": p.overGRPC, "stream": p.overStream} {
			assert.Equal(t, why, ask(t, q).request, name)
		}
	}
}

func TestAnHTTPRequestThatIsNoLookupTellsWhy(t *testing.T) {
	p := start(t, nil)
	const batchGet = "/v1/ks/items:batchGet"
	for name, c := range map[string]struct{ method, path, media, body, why string }{
		"no such path":   {"GET", "/v2", "", "", "unknown_method"},
		"another method": {"PUT", batchGet, "application/json", "{}", "unknown_method"},
		"text":           {"POST", batchGet, "text/plain", "{}", "unsupported_media"},
		"no JSON":        {"POST", batchGet, "application/json", "{", "invalid_request"},
		"a long body":    {"POST", batchGet, "application/json", strings.Repeat(" ", maxRequestBytes+1), "request_too_large"},
		"no such field":  {"POST", "/v1/ks/items:explain", "application/json", `{"x":1}`, "invalid_request"},
		"a hidden table": {"POST", "/v1/ks/hidden:explain", "application/json", `{"keys":["a"]}`, "forbidden_table"},
		"a bad path":     {"GET", "/v1/ks/items/a?x=1", "", "", "invalid_request"},
	} {
		_, text := p.ask(t, c.method, c.path, c.media, strings.NewReader(c.body))
		var body struct{ Error struct{ Reason string } }
		require.NoError(t, json.Unmarshal(text, &body), "%s: %s", name, text)
		assert.Equal(t, c.why, body.Error.Reason, name)
	}
}

func TestAnUnknownMethodTellsSo(t *testing.T) {
	p := start(t, nil)
	var out told
	out.failed(p.conn.Invoke(t.Context(), "/qosproxy.v1.QosProxy/None", &qosproxyv1.ListTablesRequest{}, &qosproxyv1.ListTablesResponse{}))
	assert.Equal(t, "unknown_method", out.request)
	assert.Equal(t, "UNKNOWN_METHOD", out.kind)
}

// An error that the gRPC library makes by itself has no details.
func TestAnErrorOfTheLibraryTellsNothing(t *testing.T) {
	p := start(t, nil)
	_, err := p.rpc.BatchGet(t.Context(), question{keyspace: "ks", table: "items", keys: []string{strings.Repeat("x", maxRequestBytes)}}.proto())
	assert.Equal(t, codes.ResourceExhausted, status.Code(err))
	assert.Empty(t, status.Convert(err).Details())
}

func TestACallerThatHangsUpLeavesItsReason(t *testing.T) {
	p := start(t, nil)
	hangUp := func() bool {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		time.AfterFunc(20*time.Millisecond, cancel)
		_, err := p.rpc.BatchGet(ctx, question{keyspace: "ks", table: "items", keys: []string{"slow"}}.proto())
		select {
		case results := <-p.results:
			assert.Equal(t, codes.Canceled, status.Code(err))
			assert.Equal(t, reasons.Cancelled, results[0].Reason)
			return true
		case <-time.After(time.Second):
			return false // on a busy machine the call may have ended before it was sent
		}
	}
	for range 20 {
		if hangUp() {
			return
		}
	}
	t.Fatal("no call has reached the service")
}

// elsewhere are the reasons that no test of this package produces, with the test that does.
var elsewhere = map[string]string{
	"request_timeout": "internal/server: TestARequestThatDoesNotArriveTellsSo",
	"busy":            "internal/server: TestOneRingAtATimeTellsItsReason",
	"resets":          "internal/server: TestResetsTellTheirReason",
}

func TestEveryReasonIsProduced(t *testing.T) {
	seen := map[string]bool{
		"hosts_full": true, "optional": true, "cancelled": true, "unknown_method": true, "unsupported_media": true, "request_too_large": true,
		"client_concurrency": true, "client_rate": true, "brown_out": true, "deadline_too_short": true, "overload": true,
	}
	for why := range keyReasons() {
		seen[why] = true
	}
	for why := range requestReasons() {
		seen[why] = true
	}
	for why := range configured(t) {
		seen[why] = true
	}
	for _, r := range reasons.All {
		assert.True(t, seen[r.String()] || elsewhere[r.String()] != "", "no test has %s reach a client", r)
	}
}
