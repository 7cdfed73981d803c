package chaos

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
)

// hold opens connections that send begin and nothing after it: nothing for half-open connections,
// the beginning of a preface for slowloris. open returns how many are still open; release closes
// them.
func hold(address, begin string, count int) (open func() int, release func(), err error) {
	var conns []net.Conn
	var gone atomic.Int64
	var reading sync.WaitGroup
	release = func() {
		for _, c := range conns {
			_ = c.Close()
		}
		reading.Wait()
	}
	for range count {
		c, err := net.Dial("tcp", address)
		if err != nil {
			release()
			return nil, nil, err
		}
		conns = append(conns, c)
		if begin != "" {
			// A connection that has sent something no longer counts as fresh once the server has read it.
			_, _ = io.WriteString(c, begin)
			time.Sleep(2 * time.Millisecond)
		}
		reading.Go(func() {
			_, _ = io.Copy(io.Discard, c)
			gone.Add(1)
		})
	}
	return func() int { return count - int(gone.Load()) }, release, nil
}

// peer speaks HTTP/2 frame by frame, to do what no client library does.
type peer struct {
	conn   net.Conn
	framer *http2.Framer
	hpack  *hpack.Encoder
	block  bytes.Buffer
}

// peerPatience is the write timeout of an abusive peer that is not read.
const peerPatience = 5 * time.Second

func newPeer(address string, settings ...http2.Setting) (*peer, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	_ = conn.SetWriteDeadline(time.Now().Add(peerPatience))
	p := &peer{conn: conn, framer: http2.NewFramer(conn, conn)}
	p.framer.AllowIllegalWrites = true
	p.hpack = hpack.NewEncoder(&p.block)
	_, err = io.WriteString(conn, http2.ClientPreface)
	return p, errors.Join(err, p.framer.WriteSettings(settings...))
}

// headers returns the header block of a BatchGet with a bearer token, if there is
// one.
func (p *peer) headers(token string) []byte {
	fields := []string{":method", "POST", ":scheme", "http", ":path", qosproxyv1.QosProxy_BatchGet_FullMethodName,
		":authority", "x", "content-type", "application/grpc", "te", "trailers"}
	if token != "" {
		fields = append(fields, "authorization", "Bearer "+token)
	}
	return p.fields(fields...)
}

// fields returns a header block of names and values.
func (p *peer) fields(fields ...string) []byte {
	p.block.Reset()
	for ; len(fields) > 0; fields = fields[2:] {
		_ = p.hpack.WriteField(hpack.HeaderField{Name: fields[0], Value: fields[1]})
	}
	return bytes.Clone(p.block.Bytes())
}

// ask begins a call on a stream.
func (p *peer) ask(stream uint32, token string, message []byte) error {
	return errors.Join(
		p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: p.headers(token), EndHeaders: true}),
		p.framer.WriteData(stream, true, message))
}

// message frames a request as gRPC does.
func message(in *qosproxyv1.BatchGetRequest) ([]byte, error) {
	body, err := proto.Marshal(in)
	n := len(body)
	return append([]byte{0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, body...), err
}

// readSlowly opens a connection that asks again and again with the windows of HTTP/2 wide open, and
// reads nothing.
func readSlowly(address, token string, request []byte) (net.Conn, error) {
	p, err := newPeer(address, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30})
	if err != nil {
		return nil, err
	}
	_ = p.conn.(*net.TCPConn).SetReadBuffer(4096)
	err = p.framer.WriteWindowUpdate(0, 1<<30)
	for stream := uint32(1); stream < 200 && err == nil; stream += 2 {
		err = p.ask(stream, token, request)
	}
	return p.conn, err
}

// floods are the ways to flood a server until it ends the connection. Each returns the error of its
// last write.
var floods = map[string]func(p *peer, token string, request []byte) error{
	"rapid reset": func(p *peer, token string, request []byte) error {
		for stream := uint32(1); stream < 4000; stream += 2 {
			if err := errors.Join(p.ask(stream, token, request), p.framer.WriteRSTStream(stream, http2.ErrCodeCancel)); err != nil {
				return err
			}
		}
		return nil
	},
	"continuation": func(p *peer, token string, _ []byte) error {
		err := p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.headers(token)})
		for n := 0; n < 2000 && err == nil; n++ {
			err = p.framer.WriteContinuation(1, false, p.fields("x-a", strings.Repeat("v", 1000)))
		}
		return err
	},
	"pings": func(p *peer, _ string, _ []byte) error {
		var err error
		for n := 0; n < 10_000 && err == nil; n++ {
			err = p.framer.WritePing(false, [8]byte{})
		}
		return err
	},
	"settings": func(p *peer, _ string, _ []byte) error {
		var err error
		for n := 0; n < 10_000 && err == nil; n++ {
			err = p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
		}
		return err
	},
}

// flood floods an address in every way, one after the other, until ctx ends. It returns how many
// connections it has used up. The pause in between leaves CPU to others on the machine, which the
// peer shares with the proxy.
func flood(ctx context.Context, address, token string, request []byte, pause time.Duration) (connections int) {
	for {
		for _, kind := range floods {
			select {
			case <-ctx.Done():
				return connections
			case <-time.After(pause):
			}
			p, err := newPeer(address)
			if p == nil {
				continue
			}
			connections++
			var reading sync.WaitGroup
			reading.Go(func() { _, _ = io.Copy(io.Discard, p.conn) })
			if err == nil {
				_ = kind(p, token, request)
			}
			_ = p.conn.Close()
			reading.Wait()
		}
	}
}
