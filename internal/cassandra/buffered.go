package cassandra

import (
	"net"
	"time"
)

// readBytes is how much is read from a connection at once, in bytes. The answer for 25 keys
// of 450 bytes is 13 KiB; the driver's own 4 KiB would take three reads for it.
const readBytes = 16 << 10

// bufferedConn reads ahead as much as a connection has. It has no lock: the driver has one reader
// for each connection.
type bufferedConn struct {
	net.Conn
	buf []byte
	// buf[from:to] has not been read yet.
	from, to int
	// endless is set while reads have no deadline, which the driver clears before each read.
	endless bool
}

func newBufferedConn(c net.Conn) *bufferedConn { return &bufferedConn{Conn: c} }

// Read implements net.Conn.
func (c *bufferedConn) Read(p []byte) (int, error) {
	if c.from == c.to {
		if len(p) >= readBytes {
			return c.Conn.Read(p)
		}
		if c.buf == nil {
			c.buf = make([]byte, readBytes)
		}
		n, err := c.Conn.Read(c.buf)
		c.from, c.to = 0, n
		if n == 0 {
			return 0, err
		}
		// An error that came with bytes comes again with the next read.
	}
	n := copy(p, c.buf[c.from:c.to])
	c.from += n
	return n, nil
}

// SetReadDeadline implements net.Conn.
func (c *bufferedConn) SetReadDeadline(t time.Time) error {
	if c.endless && t.IsZero() {
		return nil
	}
	c.endless = t.IsZero()
	return c.Conn.SetReadDeadline(t)
}

// SetDeadline implements net.Conn.
func (c *bufferedConn) SetDeadline(t time.Time) error {
	c.endless = false
	return c.Conn.SetDeadline(t)
}
