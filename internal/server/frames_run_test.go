package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
)

const (
	// framesOfTest is how many frames are sent unless QOSPROXY_FRAMES is set.
	framesOfTest = 60_000
	// framesOfRound is how many are sent between two checks of the proxy.
	framesOfRound = 30_000
	// heapOfFrames is how much the heap may have grown after a round, in bytes.
	heapOfFrames = 32 << 20
)

// panics counts the log lines about panics, which the proxy survives.
type panics struct {
	seen  *atomic.Int64
	first *atomic.Pointer[string]
}

func newPanics() panics {
	return panics{new(atomic.Int64), new(atomic.Pointer[string])}
}

// Enabled accepts all levels: panics that net/http recovers from are logged at debug level.
func (p panics) Enabled(context.Context, slog.Level) bool { return true }

func (p panics) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	if strings.Contains(line, "panic") {
		p.seen.Add(1)
		p.first.CompareAndSwap(nil, &line)
	}
	return nil
}

func (p panics) WithAttrs([]slog.Attr) slog.Handler { return p }
func (p panics) WithGroup(string) slog.Handler      { return p }

// attacked is a proxy on a unix socket, with a good client.
type attacked struct {
	socket string
	good   qosproxyv1.QosProxyClient
	panics panics
	sent   atomic.Int64
}

func attack(t *testing.T, l Lookup) *attacked {
	t.Helper()
	a := &attacked{socket: filepath.Join(t.TempDir(), "grpc.sock"), panics: newPanics()}
	start(t, Config{GRPC: Listener{Address: "unix://" + a.socket}}, Deps{Lookup: l, Log: slog.New(a.panics)})
	a.good = qosproxyv1.NewQosProxyClient(dial(t, "unix://"+a.socket))
	return a
}

// lookup sends a lookup as a real client does.
func (a *attacked) lookup(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := a.good.BatchGet(ctx, &qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "products", Keys: []*qosproxyv1.Key{key(text("a"))}}, grpc.WaitForReady(true))
	require.NoError(t, err, "a good lookup")
}

// send sends the frames of one connection, and reads the replies.
func (a *attacked) send(f *frames, n int) error {
	conn, err := net.Dial("unix", a.socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(io.Discard, conn)
	}()
	_ = conn.SetWriteDeadline(time.Now().Add(patience))
	_, _ = conn.Write(f.fill(n)) // the server may end the connection earlier
	a.sent.Add(int64(f.count))
	// The end of a connection cancels its calls, so most are given time to be answered.
	within(read, time.Duration(f.rnd.IntN(10))*time.Millisecond)
	_ = conn.(*net.UnixConn).CloseWrite()
	// The server keeps a connection for a while after it has said why it ends it.
	within(read, 50*time.Millisecond)
	_ = conn.Close()
	<-read
	return nil
}

// within waits until done is closed, but at most d.
func within(done <-chan struct{}, d time.Duration) {
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
	}
}

// round sends frames over many connections, some at a time, numbered from connection on. It
// returns the number after the last.
func (a *attacked) round(t *testing.T, seed, connection uint64, total int64) uint64 {
	t.Helper()
	var numbers atomic.Uint64
	numbers.Store(connection)
	end := a.sent.Load() + total
	var senders sync.WaitGroup
	for range 16 {
		senders.Go(func() {
			for a.sent.Load() < end {
				f := newFrames(seed, numbers.Add(1)-1)
				if err := a.send(f, f.length()); !assert.NoError(t, err) {
					return
				}
			}
		})
	}
	senders.Wait()
	return numbers.Load()
}

// fromEnvironment returns a number from the environment, or else a default.
func fromEnvironment(t *testing.T, name string, instead uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return instead
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, name)
	return n
}

// TestRandomFrames sends QOSPROXY_FRAMES frames, of which a share is broken. QOSPROXY_SEED
// and the number of a connection determine its frames. After every round a good lookup must
// be answered, and goroutines and memory must be back to normal.
func TestRandomFrames(t *testing.T) {
	total := int64(fromEnvironment(t, "QOSPROXY_FRAMES", framesOfTest))
	seed := fromEnvironment(t, "QOSPROXY_SEED", rand.Uint64())
	t.Logf("QOSPROXY_SEED=%d", seed)
	reached := new(atomic.Int64)
	a := attack(t, &fake{tables: []*lookup.Table{products(t)}, ring: twoHosts(t), get: func(_ context.Context, req *lookup.Request) (*lookup.Response, error) {
		reached.Add(1)
		return &lookup.Response{Results: slices.Repeat([]partition.Result{{Status: partition.NotFound}}, len(req.Keys))}, nil
	}})
	a.lookup(t)
	goroutines, heap := runtime.NumGoroutine(), heapInUse()

	began, connection, most := time.Now(), uint64(0), uint64(0)
	// The end of a connection cancels what has not been handled yet, and a busy machine is
	// slow to handle it: so frames are sent until enough calls were handled.
	least := total / 1000
	for (a.sent.Load() < total || reached.Load() < least && a.sent.Load() < 20*total) && !t.Failed() {
		connection = a.round(t, seed, connection, min(framesOfRound, max(total-a.sent.Load(), total/10)))
		a.lookup(t)
		if first := a.panics.first.Load(); first != nil {
			t.Fatalf("%d panics, the first: %s", a.panics.seen.Load(), *first)
		}
		require.Eventually(t, func() bool { return runtime.NumGoroutine() <= goroutines+2 }, patience, time.Millisecond,
			"goroutines that stay: before there were %d", goroutines)
		most = max(most, heapInUse())
		require.Less(t, most, heap+heapOfFrames, "bytes that stay")
	}
	took := time.Since(began)
	assert.GreaterOrEqual(t, reached.Load(), least, "lookups of random frames that came through")
	t.Logf("%d frames over %d connections in %s (%.0f a second), %d lookups; the heap had %.1f MiB before and at most %.1f MiB after a round",
		a.sent.Load(), connection, took.Round(time.Second), float64(a.sent.Load())/took.Seconds(), reached.Load(), float64(heap)/(1<<20), float64(most)/(1<<20))
}

// heapInUse returns the bytes of live objects.
func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestRandomFramesFindAPanic checks that TestRandomFrames would find a panic: here the
// handlers are reached, and panic.
func TestRandomFramesFindAPanic(t *testing.T) {
	reached := new(atomic.Int64)
	a := attack(t, &fake{tables: []*lookup.Table{products(t)}, get: func(context.Context, *lookup.Request) (*lookup.Response, error) {
		reached.Add(1)
		panic(errors.New("on purpose"))
	}})
	for connection := uint64(0); reached.Load() == 0 && a.sent.Load() < 1_000_000; {
		connection = a.round(t, 1, connection, 5000)
	}
	require.Positive(t, reached.Load(), "lookups that reached their handler")
	require.Eventually(t, func() bool { return a.panics.first.Load() != nil }, patience, time.Millisecond)
	assert.Contains(t, *a.panics.first.Load(), "panic incident=")
}

// The frames of a connection depend only on its numbers.
func TestFramesRepeat(t *testing.T) {
	for connection := range uint64(20) {
		first, second := newFrames(7, connection), newFrames(7, connection)
		require.Equal(t, first.fill(500), second.fill(500))
	}
	assert.NotEqual(t, newFrames(7, 1).fill(500), newFrames(8, 1).fill(500))
}
