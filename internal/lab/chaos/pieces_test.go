package chaos

import (
	"context"
	"io"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/admission"
	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
	"github.com/qosproxy/qosproxy/internal/server"
)

// These tests run the tools of the scenarios against a proxy in this process whose rows come from a
// function, so that a mistake shows before a cluster is booted.

// rows is a Lookup that takes some time. With leak, cancelled lookups stay until the test ends.
type rows struct {
	table  *lookup.Table
	took   time.Duration
	cell   []byte
	leak   chan struct{}
	asked  atomic.Int64
	active atomic.Int64
}

func newRows(took time.Duration) *rows {
	columns := []schema.Column{{Name: "id", Type: &cqltype.Type{Kind: cqltype.Text}, Kind: schema.PartitionKey}}
	s := schema.NewTable("chaos_rf3", "products", "", columns)
	return &rows{took: took, cell: []byte("x"), table: &lookup.Table{Schema: s, Columns: columns, Settings: &lookup.Settings{
		Keyspace: "chaos_rf3", Table: "products", MaxKeys: 100, MaxRowsPerKey: 10, MaxResponseBytes: 64 << 20, Timeout: time.Minute,
	}}}
}

func (r *rows) Table(string, string) (*lookup.Table, error) { return r.table, nil }
func (r *rows) Tables() []*lookup.Table                     { return []*lookup.Table{r.table} }
func (r *rows) Ring() *ring.Ring                            { return nil }
func (r *rows) Explain(context.Context, *lookup.Request) (*lookup.Plan, error) {
	return &lookup.Plan{}, nil
}

func (r *rows) Get(ctx context.Context, req *lookup.Request) (*lookup.Response, error) {
	r.asked.Add(1)
	r.active.Add(1)
	defer r.active.Add(-1)
	select {
	case <-time.After(r.took):
	case <-ctx.Done():
		if r.leak != nil {
			<-r.leak
		}
	}
	results := make([]partition.Result, len(req.Keys))
	for i := range results {
		results[i] = partition.Result{Status: partition.Found, Rows: []partition.Row{{r.cell}}, Bytes: len(r.cell)}
	}
	return &lookup.Response{Results: results}, nil
}

func (r *rows) Stream(context.Context, *lookup.Request, func(int, partition.Result) error) (lookup.Stats, error) {
	return lookup.Stats{}, nil
}

// proxyOf serves rows and returns the address of its gRPC listener.
func proxyOf(t *testing.T, r *rows, limits server.Limits) string {
	t.Helper()
	control, err := admission.New(admission.Config{Limits: admission.DefaultLimits()})
	require.NoError(t, err)
	s := server.New(server.Config{GRPC: server.Listener{Address: "127.0.0.1:0"}, Limits: limits}, server.Deps{Lookup: r, Admission: control})
	require.NoError(t, s.Start(t.Context()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = s.Shutdown(ctx)
	})
	return s.Addr("grpc").String()
}

func oneKey(int) *qosproxyv1.BatchGetRequest {
	return &qosproxyv1.BatchGetRequest{Keyspace: "chaos_rf3", Table: "products", Keys: []*qosproxyv1.Key{
		{Components: []*qosproxyv1.Value{{Kind: &qosproxyv1.Value_Text{Text: "a"}}}}}}
}

// A storm cancels lookups and cuts connections, and leaves nothing behind. If cancelled lookups
// stay, the goroutines show it.
func TestAStormLeavesNothingBehind(t *testing.T) {
	for _, leak := range []bool{false, true} {
		r := newRows(3 * time.Millisecond)
		if leak {
			r.leak = make(chan struct{})
		}
		s := storm{address: proxyOf(t, r, server.Limits{}), lookups: 500, callers: 8, patience: 6 * time.Millisecond, cut: 20, request: oneKey}
		before := runtime.NumGoroutine()
		seen, err := s.run(t.Context())
		require.NoError(t, err)
		assert.Equal(t, int64(500), seen.answered.Load()+seen.cancelled.Load()+seen.other.Load())
		assert.Positive(t, seen.cancelled.Load())
		assert.Positive(t, seen.cuts.Load())
		gone := func() bool { return r.active.Load() == 0 && runtime.NumGoroutine() <= before+5 }
		if leak {
			assert.Never(t, gone, 200*time.Millisecond, 10*time.Millisecond)
			close(r.leak)
		}
		assert.Eventually(t, gone, 20*time.Second, 10*time.Millisecond)
	}
}

// Half-open connections beyond a limit are dropped; those of slowloris at the end of the handshake
// timeout, and not before.
func TestHeldConnectionsGoByTheLimits(t *testing.T) {
	address := proxyOf(t, newRows(0), server.Limits{MaxConnections: 100, HandshakeTimeout: time.Hour})
	open, release, err := hold(address, "", 200)
	require.NoError(t, err)
	assert.Eventually(t, func() bool { return open() == 25 }, 20*time.Second, 10*time.Millisecond, "a quarter of the connections may be fresh")
	release()
	assert.Zero(t, open())
	for handshake, left := range map[time.Duration]int{50 * time.Millisecond: 0, time.Hour: 50} {
		address := proxyOf(t, newRows(0), server.Limits{MaxConnections: 1000, HandshakeTimeout: handshake})
		open, release, err := hold(address, "PRI * HTTP", 50)
		require.NoError(t, err)
		if left == 0 {
			assert.Eventually(t, func() bool { return open() == 0 }, 20*time.Second, 10*time.Millisecond)
		} else {
			assert.Never(t, func() bool { return open() < left }, 300*time.Millisecond, 10*time.Millisecond)
		}
		release()
	}
}

// A peer that does not read is cut off after the write timeout.
func TestSlowReadersAreCutOffByTheWriteTimeout(t *testing.T) {
	for timeout, ends := range map[time.Duration]bool{100 * time.Millisecond: true, time.Hour: false} {
		r := newRows(0)
		r.cell = make([]byte, 256<<10)
		request, err := message(oneKey(0))
		require.NoError(t, err)
		c, err := readSlowly(proxyOf(t, r, server.Limits{WriteTimeout: timeout}), "", request)
		require.NoError(t, err)
		assert.Eventually(t, func() bool { return r.asked.Load() > 0 }, 20*time.Second, time.Millisecond)
		framer := http2.NewFramer(c, nil)
		closed := func() bool { return framer.WriteWindowUpdate(0, 1) != nil }
		if ends {
			assert.Eventually(t, closed, 20*time.Second, 10*time.Millisecond)
		} else {
			assert.Never(t, closed, 300*time.Millisecond, 10*time.Millisecond)
		}
		_ = c.Close()
	}
}

// Every flood reaches the server, which ends those for which it has a limit.
func TestFloodsReachTheServer(t *testing.T) {
	r := newRows(time.Millisecond)
	address := proxyOf(t, r, server.Limits{})
	request, err := message(oneKey(0))
	require.NoError(t, err)
	once := func(name string, ended bool) {
		p, err := newPeer(address)
		require.NoError(t, err, name)
		gone := make(chan struct{})
		go func() {
			_, _ = io.Copy(io.Discard, p.conn)
			close(gone)
		}()
		_ = floods[name](p, "", request)
		if ended {
			select {
			case <-gone:
			case <-time.After(20 * time.Second):
				t.Error(name, "the connection stays")
			}
		}
		_ = p.conn.Close()
		<-gone
	}
	for name, ended := range map[string]bool{"pings": true, "continuation": true, "settings": false} {
		once(name, ended)
	}
	// The server does not begin a call whose reset it has read before it had a CPU for the call.
	for begin := time.Now(); r.asked.Load() <= 10 && time.Since(begin) < 20*time.Second; {
		once("rapid reset", false)
	}
	assert.Greater(t, r.asked.Load(), int64(10), "streams that are reset have been lookups")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(300*time.Millisecond, cancel)
	assert.Positive(t, flood(ctx, address, "", request, time.Millisecond))
	assert.Len(t, floods, 4)
	_, err = net.Dial("tcp", address)
	require.NoError(t, err, "the listener stays open")
}
