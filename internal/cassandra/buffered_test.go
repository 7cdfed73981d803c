package cassandra

import (
	"bytes"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// countedConn counts the reads of a connection.
type countedConn struct {
	net.Conn
	reads, deadlines int
}

func (c *countedConn) Read(p []byte) (int, error) { c.reads++; return c.Conn.Read(p) }

func (c *countedConn) SetReadDeadline(t time.Time) error {
	c.deadlines++
	return c.Conn.SetReadDeadline(t)
}

func TestBufferedConnReadsAllThatIsThere(t *testing.T) {
	host, proxy := net.Pipe()
	counted := &countedConn{Conn: proxy}
	c := newBufferedConn(counted)
	sent := make([]byte, 3*readBytes)
	for i := range sent {
		sent[i] = byte(i * 31 >> 3)
	}
	go func() {
		for _, part := range [][]byte{sent[:13000], sent[13000:]} {
			_, _ = host.Write(part)
		}
		_ = host.Close()
	}()

	// An answer as the driver reads it: header, payload and checksum.
	got := make([]byte, len(sent))
	for _, span := range [][2]int{{0, 6}, {6, 12996}, {12996, 13000}} {
		_, err := io.ReadFull(c, got[span[0]:span[1]])
		require.NoError(t, err)
	}
	assert.Equal(t, 1, counted.reads, "one read for the whole answer")
	_, err := io.ReadFull(c, got[13000:])
	require.NoError(t, err)
	assert.True(t, bytes.Equal(sent, got), "what came is what was sent")
	assert.Equal(t, 2, counted.reads, "a read of more than the buffer goes past it")
	_, err = c.Read(got[:1])
	assert.ErrorIs(t, err, io.EOF)
}

// lastConn returns bytes and the end at once, and then the end alone.
type lastConn struct {
	net.Conn
	left []byte
}

func (c *lastConn) Read(p []byte) (int, error) {
	n := copy(p, c.left)
	c.left = c.left[n:]
	return n, io.EOF
}

func TestBufferedConnReadsWhatCameWithAnError(t *testing.T) {
	got, err := io.ReadAll(newBufferedConn(&lastConn{left: []byte("the end")}))
	require.NoError(t, err)
	assert.Equal(t, "the end", string(got))
}

func TestBufferedConnKeepsDeadlines(t *testing.T) {
	host, proxy := net.Pipe()
	defer host.Close()
	counted := &countedConn{Conn: proxy}
	c := newBufferedConn(counted)
	for range 5 {
		require.NoError(t, c.SetReadDeadline(time.Time{}))
	}
	assert.Equal(t, 1, counted.deadlines, "no deadline is said once")

	timesOut := func() {
		t.Helper()
		_, err := c.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	}
	require.NoError(t, c.SetReadDeadline(time.Now().Add(-time.Second)))
	timesOut()
	ends := func() {
		t.Helper()
		require.NoError(t, c.SetReadDeadline(time.Time{}))
		go func() { _, _ = host.Write([]byte{7}) }()
		_, err := c.Read(make([]byte, 1))
		require.NoError(t, err, "a deadline ends")
	}
	ends()
	require.NoError(t, c.SetDeadline(time.Now().Add(-time.Second)))
	timesOut()
	ends()
}
