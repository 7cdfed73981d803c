//go:build unix

package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
	"github.com/qosproxy/qosproxy/internal/server"
)

// What an error must not contain: a key, a secret, and the address of a node. The ring
// of the tests has the addresses 10.0.0.x.
const (
	markKey     = "KEYMARK7391946"
	markSecret  = "SECRETMARKabcdefghijklmnop"
	markAddress = "10.0.0."
	markPort    = ":9042"
)

var marks = []string{markKey, markSecret, markAddress, markPort}

// leaked returns the first mark in a text; empty if there is none. It ignores case, and
// how a header escapes.
func leaked(text string) string {
	for _, m := range marks {
		if strings.Contains(strings.ToLower(text), strings.ToLower(m)) {
			return m
		}
	}
	return ""
}

// hostileError returns an error as a driver or a system may word it.
func hostileError(t *rapid.T) error {
	text := "node " + markAddress + "3" + markPort + " refused " + markSecret + " for key " + markKey
	err := rapid.SampledFrom([]error{
		errors.New(text), fmt.Errorf("%s: %w", text, io.EOF), context.DeadlineExceeded,
		&net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 3), Port: 9042}, Err: syscall.ECONNREFUSED},
		errors.Join(io.ErrUnexpectedEOF, errors.New(text)),
	}).Draw(t, "error")
	reasons := []executor.Reason{
		executor.ReasonUnreachable, executor.ReasonDisconnected, executor.ReasonUnavailable, executor.ReasonTimeout, executor.ReasonOverloaded,
		executor.ReasonReadFailure, executor.ReasonInvalid, executor.ReasonOther,
	}
	if rapid.IntRange(0, 4).Draw(t, "classified") > 0 {
		err = &executor.ReadError{Reason: rapid.SampledFrom(reasons).Draw(t, "reason"), Err: err}
	}
	return err
}

// hostileProxy is a proxy whose reader fails as told, with its clients.
type hostileProxy struct {
	http string
	rpc  qosproxyv1.QosProxyClient
	// fails is the error of every read; set between requests only.
	fails error
	// spill gives keys the errors of the reader, which the layers between the reader
	// and the client must prevent.
	spill bool
}

// spilling is a Lookup without the layer that words errors for clients.
type spilling struct {
	server.Lookup
	p *hostileProxy
}

func (s spilling) Get(ctx context.Context, req *lookup.Request) (*lookup.Response, error) {
	resp, err := s.Lookup.Get(ctx, req)
	if err == nil && s.p.spill {
		for i := range resp.Results {
			resp.Results[i].Err = s.p.fails
		}
	}
	return resp, err
}

func startHostile(t *testing.T, spill bool) *hostileProxy {
	t.Helper()
	p := &hostileProxy{spill: spill}
	snapshot := benchRing(t)
	products, _ := benchTable()
	tables := schema.New([]*schema.Table{products})
	e := executor.New(executor.Config{
		Ring: func() *ring.Ring { return snapshot },
		Reader: executor.ReaderFunc(func(_ context.Context, q *executor.SubQuery) ([]partition.Result, error) {
			q.Settled()
			return nil, p.fails
		}),
	})
	t.Cleanup(e.Close)
	lookups := lookup.New(lookup.Config{
		Tables: []lookup.Settings{{
			Keyspace: "shop", Table: "products", Consistency: "LOCAL_ONE", Timeout: 200 * time.Millisecond,
			SpeculativeRetry: hedge.Fixed(20 * time.Millisecond), HedgeBudget: 0.02, MaxKeys: 5, MaxRowsPerKey: 10, MaxResponseBytes: 1 << 20,
		}},
		Ring: func() *ring.Ring { return snapshot }, Schema: func() *schema.Schema { return tables }, Executor: e,
	})
	clients := identity.NewRegistry(nil, nil)
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(markSecret+"\n"), 0o600))
	require.NoError(t, clients.Replace([]identity.Member{{TokenFile: file, Client: identity.Client{
		Name: "client", Priority: identity.Standard, Access: identity.NewAccess([]identity.Grant{{Keyspace: "shop", Table: "products"}}),
	}}}))
	anywhere := server.Listener{Address: "127.0.0.1:0"}
	s := server.New(server.Config{GRPC: anywhere, HTTP: anywhere}, server.Deps{Lookup: spilling{lookups, p}, Clients: clients})
	require.NoError(t, s.Start(t.Context()))
	t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	conn, err := grpc.NewClient(s.Addr("grpc").String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	p.http, p.rpc = "http://"+s.Addr("http").String(), qosproxyv1.NewQosProxyClient(conn)
	return p
}

// body draws a request, most of them wrong in some way, all with marked keys.
func body(t *rapid.T) string {
	key := `"` + markKey + `"`
	return rapid.SampledFrom([]string{
		`{"keys":[` + key + `]}`, `{"keys":[` + key + `,"x` + markKey + `"]}`,
		`{"keys":[[` + key + `]]}`, `{"keys":[{` + key + `:` + key + `}]}`, `{"keys":[{"id":[` + key + `]}]}`, `{"keys":[` + key + ` ` + key + `]}`,
		`{"keys":[` + key, `{"keys":` + key + `}`, `{"keys":[` + key + `],"optional_keys":["other` + markKey + `"]}`,
		`{"keys":[` + strings.TrimSuffix(strings.Repeat(key+",", 9), ",") + `]}`, `{"keys":["\ud800` + markKey + `"]}`,
		`{"keys":[` + key + `],"limit_per_key":-1}`, `{"keys":[` + key + `],"timeout":"-1s"}`, `{"keys":[` + key + `],"columns":["nope"]}`,
	}).Draw(t, "body")
}

// overHTTP sends a request over HTTP and returns all of the answer but the keys, which
// are the client's own.
func (p *hostileProxy) overHTTP(t *rapid.T, token string) string {
	method, path := http.MethodPost, "/v1/shop/products:batchGet"
	if rapid.IntRange(0, 3).Draw(t, "one") == 0 {
		method, path = http.MethodGet, "/v1/shop/products/"+markKey+rapid.SampledFrom([]string{"", "?limit_per_key=x", "?timeout=1h1"}).Draw(t, "query")
	}
	req, err := http.NewRequest(method, p.http+path, strings.NewReader(body(t)))
	require.NoError(t, err)
	req.Header.Set("Authorization", token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	var answer struct {
		Error   any `json:"error"`
		Results []struct {
			Status string `json:"status"`
			Error  string `json:"error"`
		} `json:"results"`
	}
	require.NoError(t, json.Unmarshal(data, &answer), "%s", data)
	return fmt.Sprint(resp.Status, resp.Header, resp.Trailer, answer)
}

// overGRPC does the same over gRPC.
func (p *hostileProxy) overGRPC(t *rapid.T, token string) string {
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(context.Background(), "authorization", token), 5*time.Second)
	defer cancel()
	value := rapid.SampledFrom([]*qosproxyv1.Value{
		{Kind: &qosproxyv1.Value_Text{Text: markKey}}, {Kind: &qosproxyv1.Value_Blob{Blob: []byte(markKey)}},
		{Kind: &qosproxyv1.Value_Cql{Cql: []byte(markKey + "\xff")}}, {Kind: &qosproxyv1.Value_Inet{Inet: []byte(markKey)}}, {},
	}).Draw(t, "value")
	keys := []*qosproxyv1.Key{{Components: []*qosproxyv1.Value{value}}}
	for range rapid.SampledFrom([]int{0, 1, 8}).Draw(t, "more") {
		keys = append(keys, keys[0])
	}
	var header, trailer metadata.MD
	if rapid.Bool().Draw(t, "stream") {
		stream, err := p.rpc.StreamBatchGet(ctx, &qosproxyv1.StreamBatchGetRequest{Keyspace: "shop", Table: "products", Keys: keys})
		var seen []string
		for err == nil {
			var part *qosproxyv1.StreamBatchGetResponse
			if part, err = stream.Recv(); err == nil {
				seen = append(seen, part.String())
			}
		}
		header, _ = stream.Header()
		return fmt.Sprint(seen, header, stream.Trailer(), err, status.Convert(err).Details())
	}
	resp, err := p.rpc.BatchGet(ctx, &qosproxyv1.BatchGetRequest{Keyspace: "shop", Table: "products", Keys: keys}, grpc.Header(&header), grpc.Trailer(&trailer))
	return fmt.Sprint(resp, header, trailer, err, status.Convert(err).Details())
}

// No error that a client of either listener sees contains a key, a secret or an
// address, whatever the hosts said.
func TestNoErrorTellsAKeyASecretOrAnAddress(t *testing.T) {
	p := startHostile(t, false)
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		p.fails = hostileError(t)
		token := "Bearer " + rapid.SampledFrom([]string{markSecret, markSecret, markSecret, "wrong" + markSecret}).Draw(t, "token")
		for listener, answer := range map[string]string{"http": p.overHTTP(t, token), "grpc": p.overGRPC(t, token)} {
			if mark := leaked(answer); mark != "" {
				t.Fatalf("%s: %q in %s", listener, mark, answer)
			}
			for _, word := range []string{"UNAVAILABLE", "SHED", "FAILED", "TIMED_OUT", "INVALID_ARGUMENT", "UNAUTHENTICATED"} {
				if strings.Contains(answer, word) {
					seen[word]++
				}
			}
		}
	})
	for word, n := range seen {
		t.Log(word, n)
	}
	require.GreaterOrEqual(t, len(seen), 3, "too few kinds of errors to tell: %v", seen)
}

// Without the layers that word errors for clients, the test above must find leaks.
func TestWhatLeaksIsSeen(t *testing.T) {
	p := startHostile(t, true)
	http, rpc := 0, 0
	// One draw in twenty is a valid gRPC request with an error that has a text.
	for tries := 0; tries < 50 && (http == 0 || rpc == 0); tries++ {
		rapid.Check(t, func(t *rapid.T) {
			p.fails = hostileError(t)
			if leaked(p.overHTTP(t, "Bearer "+markSecret)) != "" {
				http++
			}
			if leaked(p.overGRPC(t, "Bearer "+markSecret)) != "" {
				rpc++
			}
		})
	}
	require.Positive(t, http)
	require.Positive(t, rpc)
}
