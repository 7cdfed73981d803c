package server

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/memory"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/underrace"
)

// windows are how many bytes a peer may still send, by stream; 0 is the connection.
type windows struct {
	mu   sync.Mutex
	more *sync.Cond
	left map[uint32]int
	gone map[uint32]bool
	err  error
}

// follow reads the frames of the server, so that the peer respects its windows.
func (p *rawPeer) follow() *windows {
	w := &windows{left: map[uint32]int{0: 65535}, gone: map[uint32]bool{}}
	w.more = sync.NewCond(&w.mu)
	go func() {
		for {
			f, err := p.framer.ReadFrame()
			w.mu.Lock()
			switch f := f.(type) {
			case *http2.WindowUpdateFrame:
				w.left[f.StreamID] += int(f.Increment)
			case *http2.RSTStreamFrame:
				w.gone[f.StreamID] = true
			case *http2.HeadersFrame:
				w.gone[f.StreamID] = w.gone[f.StreamID] || f.StreamEnded()
			}
			w.err = err
			w.more.Broadcast()
			w.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return w
}

// take waits until n bytes may be sent on a stream; false if it has ended.
func (w *windows) take(stream uint32, n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.err == nil && !w.gone[stream] && (w.left[0] < n || w.left[stream] < n) {
		w.more.Wait()
	}
	w.left[0] -= n
	w.left[stream] -= n
	return w.err == nil && !w.gone[stream]
}

// unfinished begins that many requests of 4 MiB and sends all but the last 16 KiB of each, after
// a whole message unless that is nil.
func unfinished(p *rawPeer, requests int, fields []string, whole []byte) {
	w := p.follow()
	piece := make([]byte, 16<<10)
	prefix := make([]byte, len(piece))
	binary.BigEndian.PutUint32(prefix[1:], 4<<20)
	for i := range requests {
		id := uint32(2*i + 1)
		w.mu.Lock()
		w.left[id] = 65535
		w.mu.Unlock()
		if p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.fields(fields...), EndHeaders: true}) != nil {
			return
		}
		if whole != nil && (!w.take(id, len(whole)) || p.framer.WriteData(id, false, whole) != nil) {
			return
		}
		for sent := 0; sent < 4<<20-len(piece); sent += len(piece) {
			data := piece
			if sent == 0 {
				data = prefix
			}
			if !w.take(id, len(data)) || p.framer.WriteData(id, false, data) != nil {
				break
			}
		}
	}
}

var (
	grpcCall = []string{":method", "POST", ":scheme", "http", ":path", qosproxyv1.QosProxy_BatchGet_FullMethodName,
		":authority", "x", "content-type", "application/grpc", "te", "trailers"}
	healthCall = []string{":method", "POST", ":scheme", "http", ":path", "/grpc.health.v1.Health/Check",
		":authority", "x", "content-type", "application/grpc", "te", "trailers"}
	reflectionCall = []string{":method", "POST", ":scheme", "http", ":path", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
		":authority", "x", "content-type", "application/grpc", "te", "trailers"}
	explainCall = []string{":method", "POST", ":scheme", "http", ":path", qosproxyv1.QosProxy_Explain_FullMethodName,
		":authority", "x", "content-type", "application/grpc", "te", "trailers"}
	gzipped = []string{"grpc-encoding", "gzip"}
)

// heap returns the bytes of heap in use after a garbage collection, less what was allocated
// during the collection: that counts as in use though it is garbage, and is the more the longer
// the other programs of the machine delay the collection. It returns the maximum of three
// samples.
func heap() int64 {
	most := int64(0)
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		runtime.GC()
		runtime.ReadMemStats(&after)
		most = max(most, int64(after.HeapInuse)-int64(after.TotalAlloc-before.TotalAlloc))
	}
	return most
}

// whileFlooded runs a flood over some connections with good lookups beside it, and returns by how
// much the heap grew at most.
func whileFlooded(t *testing.T, s *Server, connections int, flood func(p *rawPeer)) int64 {
	t.Helper()
	underrace.Skip(t, "it measures memory")
	_ = heap() // the second collection frees what pools keep
	before, highest := heap(), int64(0)
	for range connections {
		p := newPeer(t, s, "grpc")
		_ = p.conn.SetWriteDeadline(time.Now().Add(time.Minute))
		go flood(p)
	}
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		good(t, s)
		highest = max(highest, heap()-before)
	}
	return highest
}

const mebibyte = 1 << 20

func TestRequestsThatNeverEndStayWithinTheBudget(t *testing.T) {
	for name, c := range map[string]struct {
		connections int
		fields      []string
		whole       []byte
		budget      int64
		within      bool
	}{
		"one connection":                   {1, grpcCall, nil, 16 * mebibyte, true},
		"eight connections":                {8, grpcCall, nil, 16 * mebibyte, true},
		"a service that is open to all":    {1, healthCall, nil, 16 * mebibyte, true},
		"the second message of a stream":   {1, reflectionCall, []byte{0, 0, 0, 0, 2, 0x3a, 0}, 16 * mebibyte, true},
		"control: a budget without limits": {1, grpcCall, nil, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			budget := memory.New(c.budget)
			s := start(t, both(Limits{}), Deps{Lookup: &fake{tables: []*lookup.Table{products(t)}}, Memory: budget})
			grown := whileFlooded(t, s, c.connections, func(p *rawPeer) { unfinished(p, maxStreams, c.fields, c.whole) })
			if !c.within {
				assert.Greater(t, grown, int64(64*mebibyte))
				return
			}
			assert.Less(t, grown, c.budget+64*mebibyte)
			assert.LessOrEqual(t, budget.Usage().Used, c.budget)
			assert.Positive(t, budget.Usage().Evicted[memory.Full])
		})
	}
}

// TestAnswersThatNobodyReadsStayWithinTheBudget asks for answers of 1 MiB and opens no window for
// them.
func TestAnswersThatNobodyReadsStayWithinTheBudget(t *testing.T) {
	row := partition.Row{[]byte("a"), bytes.Repeat([]byte("x"), mebibyte), nil}
	f := &fake{tables: []*lookup.Table{products(t)}, get: func(ctx context.Context, req *lookup.Request) (*lookup.Response, error) {
		if string(req.Keys[0].Routing()) == "a" {
			return respond(absent)(ctx, req)
		}
		return respond(partition.Result{Status: partition.Found, Rows: []partition.Row{row}, Bytes: mebibyte})(ctx, req)
	}}
	body, err := newCodec().Marshal(&qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "products", Keys: []*qosproxyv1.Key{key(text("large"))}})
	require.NoError(t, err)
	message := append([]byte{0, 0, 0, 0, byte(body.Len())}, body.Materialize()...)
	for name, c := range map[string]struct {
		connections int
		budget      int64
	}{"one connection": {1, 16 * mebibyte}, "eight connections": {8, 16 * mebibyte}, "control: a budget without limits": {1, 0}} {
		t.Run(name, func(t *testing.T) {
			budget := memory.New(c.budget)
			s := start(t, both(Limits{}), Deps{Lookup: f, Memory: budget})
			grown := whileFlooded(t, s, c.connections, func(p *rawPeer) {
				go func() { _, _ = io.Copy(io.Discard, p.conn) }()
				for i := range maxStreams {
					id := uint32(2*i + 1)
					if p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.fields(grpcCall...), EndHeaders: true}) != nil ||
						p.framer.WriteData(id, true, message) != nil {
						return
					}
				}
			})
			if c.budget == 0 {
				assert.Greater(t, grown, int64(128*mebibyte))
				return
			}
			assert.Less(t, grown, c.budget+64*mebibyte)
			assert.LessOrEqual(t, budget.Usage().Used, c.budget)
			assert.Positive(t, budget.Usage().Evicted[memory.Full])
		})
	}
}

// TestCallsThatEndHideNoOthers begins requests of 4 MiB, and ends many others that have sent
// nothing: the count for these must not make the first ones seem smaller.
func TestCallsThatEndHideNoOthers(t *testing.T) {
	const limit = 16 * mebibyte
	budget := memory.New(limit)
	s := start(t, both(Limits{}), Deps{Lookup: &fake{tables: []*lookup.Table{products(t)}}, Memory: budget})
	grown := whileFlooded(t, s, 1, func(p *rawPeer) {
		w := p.follow()
		piece := make([]byte, maxFrameBytes)
		binary.BigEndian.PutUint32(piece[1:], 4<<20)
		id := uint32(1)
		next := func() bool {
			w.mu.Lock()
			w.left[id] = 65535
			w.mu.Unlock()
			return p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.fields(healthCall...), EndHeaders: true}) == nil
		}
		for range maxStreams / 2 {
			if !next() {
				return
			}
			for sent := 0; sent < 4<<20-len(piece) && w.take(id, len(piece)); sent += len(piece) {
				if p.framer.WriteData(id, false, piece) != nil {
					return
				}
			}
			id += 2
			for range 100 {
				if !next() || p.framer.WriteData(id, true, nil) != nil {
					return
				}
				id += 2
			}
		}
	})
	assert.Less(t, grown, int64(limit+64*mebibyte))
	assert.LessOrEqual(t, budget.Usage().Used, int64(limit))
	assert.Positive(t, budget.Usage().Evicted[memory.Full])
}

// send begins a call and sends a message, in pieces that fit into a frame; false if the
// connection is gone.
func (p *rawPeer) send(w *windows, id uint32, fields []string, message []byte, end bool) bool {
	w.mu.Lock()
	w.left[id] = 65535
	w.mu.Unlock()
	if p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.fields(fields...), EndHeaders: true}) != nil {
		return false
	}
	for sent := 0; sent < len(message); sent += maxFrameBytes {
		piece := message[sent:min(sent+maxFrameBytes, len(message))]
		if !w.take(id, len(piece)) {
			break // the call has ended
		}
		if p.framer.WriteData(id, end && sent+len(piece) == len(message), piece) != nil {
			return false
		}
	}
	return true
}

// TestWhatIsCompressedStaysWithinTheBudget sends messages of some KiB that decompress to 4 MiB,
// and does not end their calls.
func TestWhatIsCompressedStaysWithinTheBudget(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write(marshal(t, &healthpb.HealthCheckRequest{Service: strings.Repeat("x", 4*mebibyte-100)}))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	bomb := message(1, packed.Len(), packed.Bytes())
	for name, limit := range map[string]int64{"held to the budget": 16 * mebibyte, "control: a budget without limits": 0} {
		t.Run(name, func(t *testing.T) {
			budget := memory.New(limit)
			s := start(t, both(Limits{}), Deps{Lookup: &fake{tables: []*lookup.Table{products(t)}}, Memory: budget})
			grown := whileFlooded(t, s, 1, func(p *rawPeer) {
				w := p.follow()
				for i := range maxStreams {
					if !p.send(w, uint32(2*i+1), slices.Concat(healthCall, gzipped), bomb, false) {
						return
					}
				}
			})
			if limit == 0 {
				assert.Greater(t, grown, int64(80*mebibyte))
				return
			}
			assert.Less(t, grown, limit+64*mebibyte)
			assert.LessOrEqual(t, budget.Usage().Used, limit)
			assert.Positive(t, budget.Usage().Evicted[memory.Full])
		})
	}
}

// TestWhatIsDecodedStaysWithinTheBudget sends requests in which two bytes are a key, or another
// element of a list.
func TestWhatIsDecodedStaysWithinTheBudget(t *testing.T) {
	table := []byte("\x0a\x02ks\x12\x08products")
	most := 4*mebibyte - len(table)
	listOf := func(element string) []byte {
		b := append(table, bytes.Repeat([]byte(element), most/len(element))...)
		return message(0, len(b), b)
	}
	longKey := bytes.Repeat([]byte{0x0a, 0}, most/2-8) // with many components
	post := func(body []byte) func(*Server, *rawPeer) {
		return func(s *Server, _ *rawPeer) {
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			for {
				resp, err := client.Post("http://"+s.Addr("http").String()+"/v1/ks/products:batchGet", "application/json", bytes.NewReader(body))
				if err != nil {
					return
				}
				_ = resp.Body.Close()
			}
		}
	}
	call := func(fields []string, message []byte) func(*Server, *rawPeer) {
		return func(_ *Server, p *rawPeer) {
			w := p.follow()
			for id := uint32(1); p.send(w, id, fields, message, true); id += 2 {
			}
		}
	}
	array := func(before, element, after string) []byte {
		return []byte(before + strings.Repeat(element+",", (4*mebibyte-100)/(len(element)+1)) + element + after)
	}
	for name, flood := range map[string]func(*Server, *rawPeer){
		"keys of Explain":     call(explainCall, listOf("\x1a\x00")),
		"components of a key": call(grpcCall, listOf(string(appendBytes(nil, requestKeys, longKey)))),
		"conditions":          call(grpcCall, listOf("\x62\x00")),
		"keys of a body":      post(array(`{"keys":[`, "1", "]}")),
		"columns of a body":   post(array(`{"keys":["a"],"columns":[`, `""`, "]}")),
	} {
		t.Run(name, func(t *testing.T) {
			const limit = 64 * mebibyte
			budget := memory.New(limit)
			s := start(t, both(Limits{}), Deps{Lookup: &fake{tables: []*lookup.Table{products(t)}}, Memory: budget})
			grown := whileFlooded(t, s, 8, func(p *rawPeer) { flood(s, p) })
			assert.Less(t, grown, int64(limit+64*mebibyte))
		})
	}
}

// TestAnAnswerIsCountedUntilItIsRead delays an answer and then reads it.
func TestAnAnswerIsCountedUntilItIsRead(t *testing.T) {
	long := make([]byte, mebibyte) // random, so that compression does not shorten it
	for i := range long {
		long[i] = byte(' ' + rand.IntN('~'-' '))
	}
	row := partition.Row{[]byte("a"), long, nil}
	budget := memory.New(16 * mebibyte)
	s := start(t, both(Limits{}), Deps{Memory: budget, Lookup: &fake{tables: []*lookup.Table{products(t)},
		get: respond(partition.Result{Status: partition.Found, Rows: []partition.Row{row}})}})
	for _, fields := range [][]string{grpcCall, slices.Concat(grpcCall, gzipped)} {
		p := newPeer(t, s, "grpc")
		go func() { _, _ = io.Copy(io.Discard, p.conn) }()
		require.NoError(t, p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.fields(fields...), EndHeaders: true}))
		require.NoError(t, p.framer.WriteData(1, true, askProducts(t)))
		require.Eventually(t, func() bool { return budget.Usage().Used > mebibyte && budget.Usage().Used < 2*mebibyte }, patience, time.Millisecond)
		require.Never(t, func() bool { return budget.Usage().Used < mebibyte }, time.Second, 10*time.Millisecond)
		require.NoError(t, p.framer.WriteWindowUpdate(0, 1<<24))
		require.NoError(t, p.framer.WriteWindowUpdate(1, 1<<24))
		require.Eventually(t, func() bool { return budget.Usage().Used == 0 }, patience, time.Millisecond)
	}

	resp, err := http.Get("http://" + s.Addr("http").String() + "/v1/ks/products/a")
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	assert.Eventually(t, func() bool { return budget.Usage().Used == 0 }, patience, time.Millisecond)
}

// TestWhoCallsIsAskedByTheHeaders sends no message.
func TestWhoCallsIsAskedByTheHeaders(t *testing.T) {
	clients := identity.NewRegistry(nil, nil)
	require.NoError(t, clients.Replace([]identity.Member{{Client: identity.Client{Name: "shop"}, SPIFFE: []string{"spiffe://x/shop"}}}))
	s := start(t, both(Limits{}), Deps{Lookup: &fake{}, Clients: clients, Memory: memory.New(mebibyte)})
	for name, timeout := range map[string][]string{"by the tap": nil, "by the handler": forever} {
		t.Run(name, func(t *testing.T) {
			for _, method := range []string{qosproxyv1.QosProxy_BatchGet_FullMethodName, qosproxyv1.QosProxy_StreamBatchGet_FullMethodName, "/no/such", "/malformed"} {
				p := newPeer(t, s, "grpc")
				fields := slices.Concat(grpcCall, timeout)
				fields[5] = method
				require.NoError(t, p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.fields(fields...), EndHeaders: true}))
				assert.True(t, p.until(http2.FrameHeaders, patience), "the call is refused")
				assert.Zero(t, s.memory.Usage().Used)
			}
		})
	}
}

// forever are the header fields of the longest timeout.
var forever = []string{"grpc-timeout", "99999999H"}

// TestRefusedCallsLeaveNothingBehind has a stranger call with the longest timeout.
func TestRefusedCallsLeaveNothingBehind(t *testing.T) {
	s := start(t, both(Limits{}), Deps{Lookup: &fake{}, Clients: known(t)})
	p := newPeer(t, s, "grpc")
	_ = p.conn.SetWriteDeadline(time.Now().Add(time.Minute))
	before := heap()
	const calls, atOnce = 20_000, 100
	for i := range uint32(calls) {
		require.NoError(t, p.framer.WriteHeaders(http2.HeadersFrameParam{
			StreamID: 2*i + 1, BlockFragment: p.fields(slices.Concat(grpcCall, forever)...), EndHeaders: true, EndStream: true}))
		if i%atOnce == atOnce-1 {
			for range atOnce {
				require.True(t, p.until(http2.FrameHeaders, patience))
			}
		}
	}
	assert.Less(t, heap()-before, int64(2*mebibyte))
}

// TestAStreamHoldsNoPermitForItsReader has clients that do not read what hosts have answered.
func TestAStreamHoldsNoPermitForItsReader(t *testing.T) {
	const keys = 100
	row := partition.Row{[]byte("a"), bytes.Repeat([]byte("x"), 4<<10), nil}
	results := make([]partition.Result, keys)
	for i := range results {
		results[i] = partition.Result{Status: partition.Found, Rows: []partition.Row{row}, Bytes: 4 << 10}
	}
	c := controller(t, 0)
	var ended atomic.Int32
	s := start(t, both(Limits{}), Deps{Admission: c, Memory: memory.New(64 * mebibyte), Lookup: &fake{tables: []*lookup.Table{products(t)},
		get: func(ctx context.Context, req *lookup.Request) (*lookup.Response, error) {
			ended.Add(1)
			return respond(results[:len(req.Keys)]...)(ctx, req)
		}}})
	in := &qosproxyv1.StreamBatchGetRequest{Keyspace: "ks", Table: "products"}
	for range keys {
		in.Keys = append(in.Keys, key(text("a")))
	}
	conn := dial(t, s.Addr("grpc").String())
	const readers = 20
	// The timeout of the table is short for a busy machine: some calls would never begin.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range readers {
		_, err := qosproxyv1.NewQosProxyClient(conn).StreamBatchGet(ctx, in)
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return ended.Load() == readers }, patience, time.Millisecond)
	assert.Eventually(t, func() bool { return c.Status().InflightKeys == 0 }, patience, time.Millisecond)
	assert.Greater(t, s.memory.Usage().Used, int64(readers*keys*2<<10), "what is not sent is counted")
}

// paced answers the keys of a stream, each when the one before has been received, but the last
// two at once.
type paced struct {
	*fake
	answer   partition.Result
	received chan struct{}
}

func (p paced) Stream(_ context.Context, req *lookup.Request, emit func(int, partition.Result) error) (lookup.Stats, error) {
	for i := range req.Keys {
		if 0 < i && i < len(req.Keys)-2 {
			<-p.received
		}
		if err := emit(i, p.answer); err != nil {
			return lookup.Stats{}, err
		}
	}
	return lookup.Stats{}, nil
}

// TestWhatAStreamHasSentTakesNoMemory has a reader receive all answers but the last three.
func TestWhatAStreamHasSentTakesNoMemory(t *testing.T) {
	const keys = 8
	row := partition.Row{[]byte("a"), bytes.Repeat([]byte("x"), mebibyte), nil}
	p := paced{fake: &fake{tables: []*lookup.Table{products(t)}}, received: make(chan struct{}),
		answer: partition.Result{Status: partition.Found, Rows: []partition.Row{row}, Bytes: mebibyte}}
	s := start(t, both(Limits{}), Deps{Memory: memory.New(64 * mebibyte), Lookup: p})
	in := &qosproxyv1.StreamBatchGetRequest{Keyspace: "ks", Table: "products"}
	for range keys {
		in.Keys = append(in.Keys, key(text("a")))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// A window that grows would take in what the reader has not asked for.
	fixed := dial(t, s.Addr("grpc").String(), grpc.WithInitialWindowSize(64<<10), grpc.WithInitialConnWindowSize(64<<10))
	stream, err := qosproxyv1.NewQosProxyClient(fixed).StreamBatchGet(ctx, in)
	require.NoError(t, err)
	_, err = stream.Recv() // the header
	require.NoError(t, err)
	for range keys - 3 {
		_, err = stream.Recv()
		require.NoError(t, err)
		p.received <- struct{}{}
	}
	require.Eventually(t, func() bool { return s.memory.Usage().Used > 2*mebibyte }, patience, time.Millisecond)
	// Besides the three, one answer that the reader has and whose sending has not returned, and
	// the buffers of messages. All answers would be nine and more.
	assert.Never(t, func() bool { return s.memory.Usage().Used > 7*mebibyte }, time.Second, 10*time.Millisecond)
}

// TestSendingAStreamHasItsTime stops reading for longer than allowed.
func TestSendingAStreamHasItsTime(t *testing.T) {
	row := partition.Row{[]byte("a"), bytes.Repeat([]byte("x"), 256<<10), nil}
	big := partition.Result{Status: partition.Found, Rows: []partition.Row{row}, Bytes: 256 << 10}
	for limit, ends := range map[time.Duration]bool{time.Second: true, time.Hour: false} {
		told := &observed{}
		s := start(t, both(Limits{WriteTimeout: limit}), Deps{Memory: memory.New(64 * mebibyte), Observer: told, Lookup: &fake{
			tables: []*lookup.Table{products(t)}, get: respond(big, big, big)}})
		stream, err := qosproxyv1.NewQosProxyClient(dial(t, s.Addr("grpc").String())).StreamBatchGet(t.Context(),
			&qosproxyv1.StreamBatchGetRequest{Keyspace: "ks", Table: "products", Keys: []*qosproxyv1.Key{key(text("a")), key(text("b")), key(text("c"))}})
		require.NoError(t, err)
		aborted := func() bool { return s.memory.Usage().Evicted[memory.Slow] > 0 }
		if !ends {
			assert.Never(t, aborted, 2500*time.Millisecond, 50*time.Millisecond)
			continue
		}
		require.Eventually(t, aborted, patience, 10*time.Millisecond)
		for err == nil {
			_, err = stream.Recv()
		}
		assert.NotErrorIs(t, err, io.EOF)
		assert.Eventually(t, func() bool { return told.last() == "CANCELLED" }, patience, time.Millisecond, "the hosts were not late")
	}
}

// TestBodiesThatNeverEndStayWithinTheBudget is the same over HTTP/1.1.
func TestBodiesThatNeverEndStayWithinTheBudget(t *testing.T) {
	for limit, refused := range map[int64]bool{4 * mebibyte: true, 0: false} {
		budget := memory.New(limit)
		s := start(t, both(Limits{}), Deps{Lookup: &fake{tables: []*lookup.Table{products(t)}}, Memory: budget})
		var tooMuch atomic.Int32
		for range 20 {
			conn := connect(t, s, "http")
			_, err := io.WriteString(conn, "POST /v1/ks/products:batchGet HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
			require.NoError(t, err)
			go func() {
				_, _ = conn.Write(bytes.Repeat([]byte(" "), 900_000))
			}()
			go func() {
				answer, _ := io.ReadAll(conn)
				if bytes.HasPrefix(answer, []byte("HTTP/1.1 429")) && bytes.Contains(answer, []byte("this connection holds the most")) {
					tooMuch.Add(1)
				}
			}()
		}
		if !refused {
			assert.Eventually(t, func() bool { return budget.Usage().Used > 17*mebibyte }, patience, time.Millisecond)
			continue
		}
		assert.Eventually(t, func() bool { return tooMuch.Load() >= 10 }, patience, time.Millisecond)
		assert.LessOrEqual(t, budget.Usage().Used, limit)
		good(t, s)
	}
}

// outcomesByMemory are the outcomes of a call by the memory that is left for what it sends.
var outcomesByMemory = map[string]struct {
	left int64
	code codes.Code
	told string
}{
	"no memory":      {0, codes.ResourceExhausted, "RESOURCE_EXHAUSTED"},
	"control: a lot": {mebibyte / 2, codes.OK, "OK"},
}

// TestAnAnswerWithoutMemoryIsObserved has answers of hosts that take all remaining memory.
func TestAnAnswerWithoutMemoryIsObserved(t *testing.T) {
	for name, c := range outcomesByMemory {
		t.Run(name, func(t *testing.T) {
			budget, told := memory.New(mebibyte), &observed{}
			s := start(t, both(Limits{}), Deps{Memory: budget, Observer: told, Lookup: &fake{tables: []*lookup.Table{products(t)},
				get: func(ctx context.Context, req *lookup.Request) (*lookup.Response, error) {
					budget.Hold(mebibyte-c.left-budget.Usage().Used, 1)
					return respond(absent)(ctx, req)
				}}})
			_, err := qosproxyv1.NewQosProxyClient(dial(t, s.Addr("grpc").String())).BatchGet(t.Context(),
				&qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "products", Keys: []*qosproxyv1.Key{key(text("a"))}})
			assert.Equal(t, c.code, status.Code(err))
			assert.Equal(t, c.told, told.last())
		})
	}
}

// full is a service that takes all memory but left before it lists or explains anything.
type full struct {
	*fake
	budget *memory.Budget
	left   int64
}

func (f full) Tables() []*lookup.Table {
	f.budget.Hold(f.budget.Usage().Limit-f.left-f.budget.Usage().Used, 1)
	return f.fake.Tables()
}

func (f full) Explain(ctx context.Context, req *lookup.Request) (*lookup.Plan, error) {
	f.Tables()
	return f.fake.Explain(ctx, req)
}

// TestAllAnswersOverHTTPTakeMemory asks for those that are not of lookups.
func TestAllAnswersOverHTTPTakeMemory(t *testing.T) {
	for name, c := range map[string]struct {
		method, path, body string
		left               int64
		code               int
	}{
		"tables, no memory":       {"GET", "/v1/tables", "", 0, http.StatusTooManyRequests},
		"tables, control: a lot":  {"GET", "/v1/tables", "", mebibyte / 2, http.StatusOK},
		"explain, no memory":      {"POST", "/v1/ks/products:explain", `{"keys": ["a"]}`, 0, http.StatusTooManyRequests},
		"explain, control: a lot": {"POST", "/v1/ks/products:explain", `{"keys": ["a"]}`, mebibyte / 2, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			f := full{&fake{tables: []*lookup.Table{products(t)}}, memory.New(mebibyte), c.left}
			s := start(t, both(Limits{}), Deps{Memory: f.budget, Lookup: f})
			r, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+s.Addr("http").String()+c.path, strings.NewReader(c.body))
			require.NoError(t, err)
			answer, err := http.DefaultClient.Do(r)
			require.NoError(t, err)
			_ = answer.Body.Close()
			assert.Equal(t, c.code, answer.StatusCode)
		})
	}
}

// spending is a service that takes all memory but left when the reader of a stream has received
// all keys, before it ends the stream.
type spending struct {
	*fake
	budget   *memory.Budget
	left     int64
	received chan struct{}
}

func (s spending) Stream(ctx context.Context, req *lookup.Request, emit func(int, partition.Result) error) (lookup.Stats, error) {
	before := s.budget.Usage().Used
	stats, err := s.fake.Stream(ctx, req, emit)
	<-s.received
	for s.budget.Usage().Used > before { // until gRPC has returned the buffers of what it has sent
		time.Sleep(time.Millisecond)
	}
	s.budget.Hold(s.budget.Usage().Limit-s.left-before, 1)
	return stats, err
}

// TestASummaryWithoutMemoryIsObserved leaves no memory for the last message of a stream.
func TestASummaryWithoutMemoryIsObserved(t *testing.T) {
	for name, c := range outcomesByMemory {
		t.Run(name, func(t *testing.T) {
			told := &observed{}
			p := spending{&fake{tables: []*lookup.Table{products(t)}}, memory.New(mebibyte), c.left, make(chan struct{})}
			s := start(t, both(Limits{}), Deps{Memory: p.budget, Observer: told, Lookup: p})
			stream, err := qosproxyv1.NewQosProxyClient(dial(t, s.Addr("grpc").String())).StreamBatchGet(t.Context(),
				&qosproxyv1.StreamBatchGetRequest{Keyspace: "ks", Table: "products", Keys: []*qosproxyv1.Key{key(text("a"))}})
			require.NoError(t, err)
			for range 2 { // the header and the key
				_, err = stream.Recv()
				require.NoError(t, err)
			}
			close(p.received)
			_, err = stream.Recv()
			assert.Equal(t, c.code, status.Code(err))
			for err == nil {
				_, err = stream.Recv()
			}
			assert.Equal(t, c.told, told.last())
		})
	}
}

// unspeakable is an error whose text cannot be made: Error panics.
type unspeakable struct{}

func (unspeakable) Error() string { panic("no text") }

// halting is a service whose streams answer one key and then wait to be cancelled.
type halting struct {
	*fake
	answer partition.Result
}

func (h halting) Stream(ctx context.Context, _ *lookup.Request, emit func(int, partition.Result) error) (lookup.Stats, error) {
	err := emit(0, h.answer)
	<-ctx.Done()
	return lookup.Stats{}, err
}

// TestAStreamThatCannotBeEncodedLeavesNothingBehind panics between the hosts and the reader of a
// stream.
func TestAStreamThatCannotBeEncodedLeavesNothingBehind(t *testing.T) {
	s := start(t, both(Limits{}), Deps{Memory: memory.New(0), Lookup: halting{&fake{tables: []*lookup.Table{products(t)}},
		partition.Result{Status: partition.Failed, Err: unspeakable{}, Bytes: mebibyte}}})
	stream, err := qosproxyv1.NewQosProxyClient(dial(t, s.Addr("grpc").String())).StreamBatchGet(t.Context(),
		&qosproxyv1.StreamBatchGetRequest{Keyspace: "ks", Table: "products", Keys: []*qosproxyv1.Key{key(text("a"))}})
	require.NoError(t, err)
	for err == nil {
		_, err = stream.Recv()
	}
	assert.Equal(t, codes.Internal, status.Code(err))
	assert.Eventually(t, func() bool { return s.memory.Usage().Used == 0 }, patience, time.Millisecond)
}
