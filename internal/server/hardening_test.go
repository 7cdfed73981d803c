package server

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcgzip "google.golang.org/grpc/encoding/gzip"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// patience is how long these tests wait for a safeguard that takes some tens of milliseconds:
// long enough for a busy machine.
const patience = 10 * time.Second

// closedBy reports whether the peer closes a connection within d.
func closedBy(c net.Conn, d time.Duration) bool {
	_ = c.SetReadDeadline(time.Now().Add(d))
	_, err := io.Copy(io.Discard, c)
	var late net.Error
	return !errors.As(err, &late) || !late.Timeout()
}

func connect(t *testing.T, s *Server, listener string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr(listener).String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// good sends a lookup over a new connection, as a real client does.
func good(t *testing.T, s *Server) {
	t.Helper()
	conn := dial(t, s.Addr("grpc").String())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := qosproxyv1.NewQosProxyClient(conn).BatchGet(ctx,
		&qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "products", Keys: []*qosproxyv1.Key{key(text("a"))}}, grpc.WaitForReady(true))
	require.NoError(t, err)
	code, _ := browse(t, "http://"+s.Addr("http").String()+"/v1/ks/products/a")
	assert.Equal(t, http.StatusNotFound, code)
}

// both configures the gRPC and the HTTP listener without TLS.
func both(l Limits) Config {
	return Config{GRPC: Listener{Address: anyPort}, HTTP: Listener{Address: anyPort}, Limits: l}
}

// called returns a connection on which a client has called, if it was accepted.
func called(t *testing.T, s *Server, listener string) net.Conn {
	t.Helper()
	if listener == "grpc" {
		p := &rawPeer{t: t, conn: connect(t, s, listener)}
		p.framer, p.hpack = http2.NewFramer(p.conn, p.conn), hpack.NewEncoder(&p.block)
		_, _ = io.WriteString(p.conn, http2.ClientPreface)
		_ = errors.Join(p.framer.WriteSettings(),
			p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.headers(), EndHeaders: true}),
			p.framer.WriteData(1, true, askProducts(t)))
		p.until(http2.FrameHeaders, patience)
		return p.conn
	}
	c := connect(t, s, listener)
	_, _ = io.WriteString(c, "GET /v1/tables HTTP/1.1\r\nHost: x\r\n\r\n")
	_ = c.SetReadDeadline(time.Now().Add(patience))
	_, _ = c.Read(make([]byte, 1))
	return c
}

func TestConnectionsAboveTheLimitAreClosedAtOnce(t *testing.T) {
	for _, c := range []struct{ most, closed int }{{4, 6}, {100, 0}} { // the second case is without the safeguard
		s := start(t, both(Limits{MaxConnections: c.most}), Deps{Lookup: &fake{}})
		for _, listener := range []string{"grpc", "http"} {
			var closed int
			for range 10 {
				// A connection without a call of a client would give way.
				if closedBy(called(t, s, listener), 50*time.Millisecond) {
					closed++
				}
			}
			assert.GreaterOrEqual(t, closed, c.closed, listener)
			if c.closed == 0 {
				assert.Zero(t, closed, listener)
			}
			assert.InDelta(t, closed, testutil.ToFloat64(s.metrics.refused.WithLabelValues(listener, string(refusedFull))), 0, listener)
		}
	}
}

// TestConnectionsWithoutAClientGiveWay fills a listener with peers that only watch the health
// or have not called at all, and then calls as a client.
func TestConnectionsWithoutAClientGiveWay(t *testing.T) {
	const most = 8
	s := start(t, both(Limits{MaxConnections: most, HandshakeTimeout: time.Hour}), Deps{Lookup: &fake{tables: []*lookup.Table{products(t)}}, Clients: known(t)})
	watching := newPeer(t, s, "grpc")
	require.NoError(t, watching.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, BlockFragment: watching.fields(
		":method", "POST", ":scheme", "http", ":path", healthpb.Health_Watch_FullMethodName,
		":authority", "x", "content-type", "application/grpc", "te", "trailers")}))
	require.NoError(t, watching.framer.WriteData(1, true, make([]byte, 5)))
	require.True(t, watching.until(http2.FrameHeaders, patience))
	for range most - 1 {
		require.True(t, newPeer(t, s, "grpc").until(http2.FrameSettings, patience))
	}
	refused := func() float64 {
		return testutil.ToFloat64(s.metrics.refused.WithLabelValues("grpc", string(refusedFull)))
	}
	assert.Zero(t, refused())
	ask := func() error {
		ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer 0123456789abcdef"), patience)
		defer cancel()
		_, err := qosproxyv1.NewQosProxyClient(dial(t, s.Addr("grpc").String())).BatchGet(ctx,
			&qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "products", Keys: []*qosproxyv1.Key{key(text("a"))}}, grpc.WaitForReady(true))
		return err
	}
	require.NoError(t, ask())
	assert.True(t, closedBy(watching.conn, patience), "the oldest gives way")
	for range most - 1 {
		require.NoError(t, ask())
	}
	assert.InDelta(t, most, refused(), 0)
	assert.True(t, closedBy(connect(t, s, "grpc"), patience), "clients do not give way")
}

func TestTheLimitOfConnectionsCanChange(t *testing.T) {
	cfg := both(Limits{MaxConnections: 1})
	s := start(t, cfg, Deps{Lookup: &fake{}})
	first := called(t, s, "http")
	assert.True(t, closedBy(connect(t, s, "http"), patience))
	cfg.Limits.MaxConnections = 3
	commit, err := s.Prepare(cfg)
	require.NoError(t, err)
	commit()
	second := connect(t, s, "http")
	_, _ = io.WriteString(second, "G")
	assert.False(t, closedBy(second, 50*time.Millisecond))
	_ = first.Close()
	assert.Eventually(t, func() bool { return testutil.ToFloat64(s.metrics.open.WithLabelValues("http")) == 1 }, patience, time.Millisecond)
}

func TestHalfOpenHandshakesDoNotKeepClientsOut(t *testing.T) {
	dir := t.TempDir()
	pair := issue(t, dir, "proxy.test")
	roots := x509.NewCertPool()
	roots.AddCert(pair.Leaf)
	s := start(t, Config{HTTP: Listener{Address: anyPort, TLS: filesIn(dir)}, Limits: Limits{MaxConnections: 40, HandshakeTimeout: time.Minute}}, Deps{Lookup: &fake{}})
	for range 100 { // more than the connections allowed
		connect(t, s, "http")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "proxy.test"}}
	defer transport.CloseIdleConnections()
	require.Eventually(t, func() bool {
		return testutil.ToFloat64(s.metrics.refused.WithLabelValues("http", string(refusedFresh))) >= 90
	}, patience, time.Millisecond)
	resp, err := (&http.Client{Transport: transport, Timeout: patience}).Get("https://" + s.Addr("http").String() + "/v1/tables")
	require.NoError(t, err)
	_ = resp.Body.Close()
	assert.LessOrEqual(t, testutil.ToFloat64(s.metrics.open.WithLabelValues("http")), 11.0)
}

func TestAHandshakeHasItsTime(t *testing.T) {
	dir := t.TempDir()
	issue(t, dir, "proxy.test")
	for timeout, ends := range map[time.Duration]bool{50 * time.Millisecond: true, time.Hour: false} {
		l := Listener{Address: anyPort, TLS: filesIn(dir)}
		s := start(t, Config{GRPC: l, HTTP: l, Limits: Limits{HandshakeTimeout: timeout}}, Deps{Lookup: &fake{}})
		for _, listener := range []string{"grpc", "http"} {
			wait := patience
			if !ends {
				wait = 200 * time.Millisecond
			}
			assert.Equal(t, ends, closedBy(connect(t, s, listener), wait), listener)
		}
	}
}

func TestSlowloris(t *testing.T) {
	for timeout, ends := range map[time.Duration]bool{50 * time.Millisecond: true, time.Hour: false} {
		s := start(t, both(Limits{HandshakeTimeout: timeout}), Deps{Lookup: &fake{}})
		for listener, begin := range map[string]string{"http": "GET / HTTP/1.1\r\nHost: x\r\nX-A", "grpc": "PRI * HTTP"} {
			c := connect(t, s, listener)
			_, err := io.WriteString(c, begin)
			require.NoError(t, err)
			wait := patience
			if !ends {
				wait = 200 * time.Millisecond
			}
			assert.Equal(t, ends, closedBy(c, wait), listener)
		}
	}
}

func TestIdleAndOldConnectionsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		limits Limits
		ends   bool
	}{
		"idle":      {Limits{IdleTimeout: 50 * time.Millisecond}, true},
		"not so":    {Limits{IdleTimeout: time.Hour}, false},
		"never old": {Limits{IdleTimeout: time.Hour, MaxConnectionAge: time.Hour}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, both(c.limits), Deps{Lookup: &fake{}})
			h := connect(t, s, "http")
			_, _ = io.WriteString(h, "GET /v1/tables HTTP/1.1\r\nHost: x\r\n\r\n")
			p := newPeer(t, s, "grpc")
			wait := patience
			if !c.ends {
				wait = 200 * time.Millisecond
			}
			assert.Equal(t, c.ends, closedBy(h, wait), "http")
			assert.Equal(t, c.ends, closedBy(p.conn, wait), "grpc")
		})
	}
	t.Run("old", func(t *testing.T) {
		s := start(t, both(Limits{MaxConnectionAge: 50 * time.Millisecond}), Deps{Lookup: &fake{}})
		h := connect(t, s, "http")
		time.Sleep(100 * time.Millisecond)
		_, _ = io.WriteString(h, "GET /v1/tables HTTP/1.1\r\nHost: x\r\n\r\n")
		_ = h.SetReadDeadline(time.Now().Add(patience))
		answer, err := io.ReadAll(h)
		require.NoError(t, err)
		assert.Contains(t, string(answer), "Connection: close")
		assert.Contains(t, string(answer), "200 OK")
		assert.Eventually(t, func() bool { return newPeer(t, s, "grpc").until(http2.FrameGoAway, patience) }, patience, time.Millisecond)
	})
}

// TestTheDeadlineOfAnAnswerEndsWithIt reuses a connection after an answer with a short
// deadline.
func TestTheDeadlineOfAnAnswerEndsWithIt(t *testing.T) {
	const brief = 300 * time.Millisecond
	s := start(t, Config{Admin: Listener{Address: anyPort}}, Deps{Lookup: &fake{}, Pages: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		assert.NoError(t, http.NewResponseController(w).SetWriteDeadline(time.Now().Add(brief)))
	})})
	c := connect(t, s, "admin")
	_ = c.SetReadDeadline(time.Now().Add(patience))
	answers := bufio.NewReader(c)
	get := func(path string) {
		_, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n")
		require.NoError(t, err)
		resp, err := http.ReadResponse(answers, nil)
		require.NoError(t, err, path)
		_ = resp.Body.Close()
		assert.Equal(t, http.StatusOK, resp.StatusCode)
	}
	get("/status")
	time.Sleep(2 * brief)
	get("/livez")
}

// TestSlowReaders has clients that ask for much and read nothing.
func TestSlowReaders(t *testing.T) {
	row := partition.Row{[]byte("a"), bytes.Repeat([]byte("x"), 8<<20), nil}
	var asked atomic.Int32
	f := &fake{tables: []*lookup.Table{products(t)}, get: func(_ context.Context, req *lookup.Request) (*lookup.Response, error) {
		asked.Add(1)
		results := make([]partition.Result, len(req.Keys))
		for i := range results {
			results[i] = partition.Result{Status: partition.Found, Rows: []partition.Row{row}}
		}
		return &lookup.Response{Results: results}, nil
	}}
	for timeout, ends := range map[time.Duration]bool{100 * time.Millisecond: true, time.Hour: false} {
		s := start(t, both(Limits{WriteTimeout: timeout}), Deps{Lookup: f})
		h := connect(t, s, "http")
		_ = h.(*net.TCPConn).SetReadBuffer(4096)
		_, err := io.WriteString(h, "GET /v1/ks/products/a HTTP/1.1\r\nHost: x\r\n\r\n")
		require.NoError(t, err)
		p := newPeer(t, s, "grpc")
		_ = p.conn.(*net.TCPConn).SetReadBuffer(4096)
		// The windows of HTTP/2 are wide open: only the reader is slow.
		require.NoError(t, p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30}))
		require.NoError(t, p.framer.WriteWindowUpdate(0, 1<<30))
		p.ask(1, askProducts(t))
		require.Eventually(t, func() bool { return asked.Load() == 2 }, patience, time.Millisecond)
		asked.Store(0)
		for _, listener := range []string{"grpc", "http"} {
			gone := func() bool { return testutil.ToFloat64(s.metrics.open.WithLabelValues(listener)) == 0 }
			if ends {
				assert.Eventually(t, gone, patience, time.Millisecond, listener)
			} else {
				assert.Never(t, gone, 300*time.Millisecond, 10*time.Millisecond, listener)
			}
		}
		_ = h.Close()
		_ = p.conn.Close()
	}
}

func TestCompressedBodies(t *testing.T) {
	s := start(t, Config{GRPC: Listener{Address: anyPort}, HTTP: Listener{Address: anyPort}, MaxRequestBytes: 64 << 10}, Deps{Lookup: &fake{tables: []*lookup.Table{products(t)}}})
	t.Run("HTTP takes none", func(t *testing.T) {
		var bomb bytes.Buffer
		w := gzip.NewWriter(&bomb)
		_, _ = w.Write(bytes.Repeat([]byte(" "), 10<<20))
		require.NoError(t, w.Close())
		req, err := http.NewRequest(http.MethodPost, "http://"+s.Addr("http").String()+"/v1/ks/products:batchGet", &bomb)
		require.NoError(t, err)
		req.Header.Set("Content-Encoding", "gzip")
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		resp, err := (&http.Client{Transport: transport}).Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		assert.Equal(t, http.StatusUnsupportedMediaType, resp.StatusCode)
		assert.Equal(t, "identity", resp.Header.Get("Accept-Encoding"))
	})
	// Importing the compressor for the client registers it for the server as well, like the
	// exporter of traces in the binary.
	t.Run("gRPC counts what they become", func(t *testing.T) {
		rpc := qosproxyv1.NewQosProxyClient(dial(t, s.Addr("grpc").String()))
		ask := func(n int) error {
			_, err := rpc.BatchGet(t.Context(), &qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "products",
				Keys: []*qosproxyv1.Key{key(text(strings.Repeat("x", n)))}}, grpc.UseCompressor(grpcgzip.Name))
			return err
		}
		require.NoError(t, ask(32<<10))
		assert.Equal(t, codes.ResourceExhausted, status.Code(ask(16<<20)))
	})
}

func TestABodyThatIsOnlyAnnouncedTakesNoMemory(t *testing.T) {
	s := start(t, Config{HTTP: Listener{Address: anyPort}, MaxRequestBytes: 64 << 20}, Deps{Lookup: &fake{}})
	const clients = 20
	var before, during runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range clients {
		c := connect(t, s, "http")
		_, err := fmt.Fprintf(c, "POST /v1/ks/products:batchGet HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n{", 64<<20)
		require.NoError(t, err)
	}
	time.Sleep(300 * time.Millisecond)
	runtime.ReadMemStats(&during)
	assert.Less(t, during.TotalAlloc-before.TotalAlloc, uint64(clients*(1<<20)))
}

// rawPeer sends HTTP/2 frame by frame, to do what no client does.
type rawPeer struct {
	t      *testing.T
	conn   net.Conn
	framer *http2.Framer
	hpack  *hpack.Encoder
	block  bytes.Buffer
}

func newPeer(t *testing.T, s *Server, listener string) *rawPeer {
	t.Helper()
	p := &rawPeer{t: t, conn: connect(t, s, listener)}
	_ = p.conn.SetWriteDeadline(time.Now().Add(patience))
	p.framer = http2.NewFramer(p.conn, p.conn)
	p.framer.AllowIllegalWrites = true
	p.hpack = hpack.NewEncoder(&p.block)
	_, err := io.WriteString(p.conn, http2.ClientPreface)
	require.NoError(t, err)
	require.NoError(t, p.framer.WriteSettings())
	return p
}

// until reads frames until one is of that type.
func (p *rawPeer) until(kind http2.FrameType, d time.Duration) bool {
	_ = p.conn.SetReadDeadline(time.Now().Add(d))
	for {
		f, err := p.framer.ReadFrame()
		if err != nil {
			return false
		}
		if f.Header().Type == kind {
			return true
		}
	}
}

// headers returns the header block of a call of BatchGet.
func (p *rawPeer) headers() []byte {
	return p.fields(":method", "POST", ":scheme", "http", ":path", qosproxyv1.QosProxy_BatchGet_FullMethodName,
		":authority", "x", "content-type", "application/grpc", "te", "trailers")
}

// fields returns a header block with these names and values.
func (p *rawPeer) fields(fields ...string) []byte {
	p.block.Reset()
	for ; len(fields) > 0; fields = fields[2:] {
		_ = p.hpack.WriteField(hpack.HeaderField{Name: fields[0], Value: fields[1]})
	}
	return bytes.Clone(p.block.Bytes())
}

// ask sends a whole call.
func (p *rawPeer) ask(stream uint32, message []byte) {
	p.t.Helper()
	require.NoError(p.t, p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: p.headers(), EndHeaders: true}))
	require.NoError(p.t, p.framer.WriteData(stream, true, message))
}

// askProducts is a BatchGet of one key as a gRPC message.
func askProducts(t *testing.T) []byte {
	t.Helper()
	body, err := (newCodec()).Marshal(&qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "products", Keys: []*qosproxyv1.Key{key(text("a"))}})
	require.NoError(t, err)
	data := body.Materialize()
	return append([]byte{0, 0, 0, byte(len(data) >> 8), byte(len(data))}, data...)
}

func TestRapidReset(t *testing.T) {
	resetting := defaultProtocol
	resetting.unwanted = math.MaxInt64 - 1
	boundless := resetting
	boundless.streams = math.MaxUint32
	t.Run("held to the limit", func(t *testing.T) {
		most, good := rapidReset(t, resetting, 20_000)
		require.NoError(t, good)
		assert.LessOrEqual(t, most, maxStreams, "streams that were reset still count while their handlers run")
		assert.Less(t, runtime.NumGoroutine(), maxStreams+500)
	})
	t.Run("control: without the limit handlers pile up", func(t *testing.T) {
		most, _ := rapidReset(t, boundless, 20_000)
		assert.Greater(t, most, maxStreams)
	})
}

func TestAPeerThatOnlyResetsLosesItsConnection(t *testing.T) {
	const streams = 4000
	run := func(t *testing.T, without bool) (s *Server, asked int) {
		var calls atomic.Int64
		f := &fake{tables: []*lookup.Table{products(t)}, get: func(ctx context.Context, req *lookup.Request) (*lookup.Response, error) {
			calls.Add(1)
			return respond(absent)(ctx, req)
		}}
		cfg := both(Limits{})
		if without {
			cfg.protocol = defaultProtocol
			cfg.protocol.unwanted = math.MaxInt64 - 1
		}
		s = start(t, cfg, Deps{Lookup: f})
		p := newPeer(t, s, "grpc")
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = io.Copy(io.Discard, p.conn)
		}()
		message := askProducts(t)
		sent := 0
		for i := range uint32(streams) {
			err := errors.Join(
				p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: p.headers(), EndHeaders: true}),
				p.framer.WriteData(2*i+1, true, message),
				p.framer.WriteRSTStream(2*i+1, http2.ErrCodeCancel))
			if err != nil {
				break
			}
			sent++
		}
		if without {
			assert.Equal(t, streams, sent)
		} else {
			select {
			case <-ended:
			case <-time.After(patience):
				t.Error("the connection is open still")
			}
		}
		return s, int(calls.Load())
	}
	closed := func(s *Server) float64 {
		return testutil.ToFloat64(s.metrics.refused.WithLabelValues("grpc", string(refusedResets)))
	}
	t.Run("closed", func(t *testing.T) {
		s, asked := run(t, false)
		assert.LessOrEqual(t, asked, maxUnwanted)
		assert.Equal(t, 1.0, closed(s))
	})
	t.Run("control: it goes on", func(t *testing.T) {
		s, _ := run(t, true)
		assert.Zero(t, closed(s))
	})
}

// A wanted call may lower the count of a connection that is being closed below the limit again.
func TestAConnectionIsCountedOnceAsReset(t *testing.T) {
	m := newMetrics()
	a, b := net.Pipe()
	defer b.Close()
	c := &conn{Conn: a, gate: newGate(nil, Limits{}, nil, nil, m.listener("grpc"))}
	for range 3 {
		for c.begin(10) {
			assert.LessOrEqual(t, c.unwanted.Load(), int64(10))
		}
		c.want()
	}
	assert.Equal(t, 1.0, testutil.ToFloat64(m.refused.WithLabelValues("grpc", string(refusedResets))))
}

func TestAClientThatCancelsSomeCallsKeepsItsConnection(t *testing.T) {
	f := &fake{tables: []*lookup.Table{products(t)}, get: respond(absent)}
	s := start(t, both(Limits{}), Deps{Lookup: f})
	client := qosproxyv1.NewQosProxyClient(dial(t, s.Addr("grpc").String()))
	in := &qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "products", Keys: []*qosproxyv1.Key{key(text("a"))}}
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for n := range 6 * maxUnwanted / 8 {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				if n%3 == 0 {
					go cancel()
				}
				_, err := client.BatchGet(ctx, in)
				if n%3 != 0 {
					assert.NoError(t, err)
				}
				cancel()
			}
		})
	}
	callers.Wait()
	assert.Zero(t, testutil.ToFloat64(s.metrics.refused.WithLabelValues("grpc", string(refusedResets))))
	assert.Equal(t, 1.0, testutil.ToFloat64(s.metrics.open.WithLabelValues("grpc")))
}

// rapidReset opens and resets that many streams whose handlers do not notice. It returns how
// many ran at the same time at most, and the error of a good client.
func rapidReset(t *testing.T, bounds protocol, streams uint32) (most int, good error) {
	blocked := make(chan struct{})
	var mu sync.Mutex
	running, highest := 0, 0
	f := &fake{tables: []*lookup.Table{products(t)}, get: func(ctx context.Context, req *lookup.Request) (*lookup.Response, error) {
		if string(req.Keys[0].Routing()) == "good" {
			return respond(absent)(ctx, req)
		}
		mu.Lock()
		running++
		highest = max(highest, running)
		mu.Unlock()
		// Work that does not notice at once that it was cancelled.
		<-blocked
		mu.Lock()
		running--
		mu.Unlock()
		return respond(absent)(ctx, req)
	}}
	cfg := both(Limits{})
	cfg.protocol = bounds
	s := start(t, cfg, Deps{Lookup: f})
	defer close(blocked)
	p := newPeer(t, s, "grpc")
	go func() { _, _ = io.Copy(io.Discard, p.conn) }()
	message := askProducts(t)
	if bounds.streams == maxStreams { // the server stops reading at the limit
		_ = p.conn.SetWriteDeadline(time.Now().Add(2 * time.Second))
	}
	piled := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return highest > maxStreams
	}
	for i := range streams {
		if piled() {
			break
		}
		err := errors.Join(
			p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: p.headers(), EndHeaders: true}),
			p.framer.WriteData(2*i+1, true, message),
			p.framer.WriteRSTStream(2*i+1, http2.ErrCodeCancel))
		if err != nil {
			break // the server has stopped reading, or sent GOAWAY
		}
	}
	conn := dial(t, s.Addr("grpc").String())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, good = qosproxyv1.NewQosProxyClient(conn).BatchGet(ctx,
		&qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "products", Keys: []*qosproxyv1.Key{key(text("good"))}})
	if bounds.streams > maxStreams {
		// The calls that were sent become handlers.
		assert.Eventually(t, piled, patience, time.Millisecond)
	}
	mu.Lock()
	defer mu.Unlock()
	return highest, good
}

// The limits end the floods of the test below; without them, the floods go on. The largest
// frame is a constant of gRPC, which cannot be turned off.
func TestWithoutTheirLimitsFloodsGoOn(t *testing.T) {
	anyHeaders, anyPings := defaultProtocol, defaultProtocol
	anyHeaders.headerBytes, anyPings.pingInterval = math.MaxUint32, time.Nanosecond
	for name, c := range map[string]struct {
		bounds protocol
		flood  func(p *rawPeer)
	}{
		"continuation": {anyHeaders, func(p *rawPeer) {
			_ = p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.headers()})
			for range 200 {
				_ = p.framer.WriteContinuation(1, false, p.fields("x-a", strings.Repeat("v", 1000)))
			}
		}},
		"pings": {anyPings, func(p *rawPeer) {
			for range 50 {
				_ = p.framer.WritePing(false, [8]byte{})
			}
		}},
	} {
		for bounds, ended := range map[protocol]bool{defaultProtocol: true, c.bounds: false} {
			cfg := both(Limits{})
			cfg.protocol = bounds
			s := start(t, cfg, Deps{Lookup: &fake{tables: []*lookup.Table{products(t)}}})
			p := newPeer(t, s, "grpc")
			c.flood(p)
			wait := patience
			if !ended {
				wait = 300 * time.Millisecond
			}
			assert.Equal(t, ended, closedBy(p.conn, wait), "%s %+v", name, bounds)
			_ = p.conn.Close()
		}
	}
}

func TestFloodsEndTheConnectionAndNobodyElses(t *testing.T) {
	for name, flood := range map[string]func(p *rawPeer) error{
		"continuation": func(p *rawPeer) error {
			if err := p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.headers()}); err != nil {
				return err
			}
			for {
				if err := p.framer.WriteContinuation(1, false, p.fields("x-a", strings.Repeat("v", 1000))); err != nil {
					return err
				}
			}
		},
		"pings": func(p *rawPeer) error {
			for {
				if err := p.framer.WritePing(false, [8]byte{}); err != nil {
					return err
				}
			}
		},
		"a frame above the limit": func(p *rawPeer) error {
			if err := p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.headers(), EndHeaders: true}); err != nil {
				return err
			}
			for {
				if err := p.framer.WriteData(1, false, make([]byte, 1<<20)); err != nil {
					return err
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, both(Limits{}), Deps{Lookup: &fake{tables: []*lookup.Table{products(t)}}})
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			p := newPeer(t, s, "grpc")
			ended := make(chan error, 1)
			go func() { _, _ = io.Copy(io.Discard, p.conn) }()
			go func() { ended <- flood(p) }()
			good(t, s)
			select {
			case err := <-ended:
				var late net.Error
				assert.False(t, errors.As(err, &late) && late.Timeout(), "the connection is ended, not only not read")
			case <-time.After(patience):
				t.Error("the flood goes on")
			}
			good(t, s)
			runtime.GC()
			runtime.ReadMemStats(&after)
			assert.Less(t, int64(after.HeapInuse)-int64(before.HeapInuse), int64(32<<20))
		})
	}
}

func TestHeadersHaveALimit(t *testing.T) {
	s := start(t, both(Limits{}), Deps{Lookup: &fake{}})
	for size, want := range map[int]int{1 << 10: http.StatusOK, 64 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		req, err := http.NewRequest(http.MethodGet, "http://"+s.Addr("http").String()+"/v1/tables", nil)
		require.NoError(t, err)
		req.Header.Set("X-A", strings.Repeat("v", size))
		transport := &http.Transport{DisableKeepAlives: true}
		resp, err := (&http.Client{Transport: transport}).Do(req)
		require.NoError(t, err)
		_ = resp.Body.Close()
		assert.Equal(t, want, resp.StatusCode)
	}
}

func TestRequestsThatAreTooLargeAreNoResets(t *testing.T) {
	cfg := both(Limits{})
	cfg.MaxRequestBytes = 1 << 10
	s := start(t, cfg, Deps{Lookup: &fake{tables: []*lookup.Table{products(t)}, get: respond(absent)}})
	rpc := qosproxyv1.NewQosProxyClient(dial(t, s.Addr("grpc").String()))
	large := &qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "products", Keys: []*qosproxyv1.Key{key(text(strings.Repeat("x", 2<<10)))}}
	for range maxUnwanted + 50 {
		_, err := rpc.BatchGet(t.Context(), large)
		require.Equal(t, codes.ResourceExhausted, status.Code(err), "%v", err)
	}
	assert.Zero(t, testutil.ToFloat64(s.metrics.refused.WithLabelValues("grpc", string(refusedResets))))
}
