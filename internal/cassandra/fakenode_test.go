package cassandra

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/require"
)

// fakeNode implements as much of version 4 of the native protocol as reads need. Tests with real
// nodes are in the lab; this one refuses, or fails, what a test wants.
type fakeNode struct {
	addr string
	// answer returns the answer to a statement at a level.
	answer func(cql string, level gocql.Consistency) fakeAnswer
}

// fakeAnswer is either columns and rows, or an error.
type fakeAnswer struct {
	columns []fakeColumn
	rows    [][][]byte
	code    int
	message string
}

// fakeColumn is a column of a result; its type is the option of the protocol.
type fakeColumn struct {
	name string
	typ  []byte
}

// Types of columns.
var (
	fakeText    = []byte{0, 0x0d}
	fakeTexts   = []byte{0, 0x22, 0, 0x0d}
	fakeTextMap = []byte{0, 0x21, 0, 0x0d, 0, 0x0d}
	fakeUUID    = []byte{0, 0x0c}
	fakeInet    = []byte{0, 0x10}
	fakeInt     = []byte{0, 0x09}
	fakeBigInt  = []byte{0, 0x02}
	fakeMoment  = []byte{0, 0x0b}
)

// fakeVersion is the version of the protocol, and these are the opcodes that a fakeNode knows.
const (
	fakeVersion = 4

	opError, opStartup, opReady, opOptions, opSupported = 0x00, 0x01, 0x02, 0x05, 0x06
	opQuery, opResult, opPrepare, opExecute, opRegister = 0x07, 0x08, 0x09, 0x0a, 0x0b
)

// start has the node listen until the test ends.
func (n *fakeNode) start(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	n.addr = l.Addr().String()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go n.serve(conn)
		}
	}()
}

// serve answers the frames of a connection.
func (n *fakeNode) serve(conn net.Conn) {
	defer conn.Close()
	header := make([]byte, 9)
	for {
		if _, err := io.ReadFull(conn, header); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(header[5:]))
		if _, err := io.ReadFull(conn, body); err != nil {
			return
		}
		op, out := byte(opError), fakeError(gocql.ErrCodeProtocol, "Invalid or unsupported protocol version (5)")
		if header[0] == fakeVersion {
			op, out = n.frame(header[4], body)
		} else {
			header[2], header[3] = 0, 0 // as Cassandra does, which has not read the stream id
		}
		frame := binary.BigEndian.AppendUint32([]byte{0x80 | fakeVersion, 0, header[2], header[3], op}, uint32(len(out)))
		if _, err := conn.Write(append(frame, out...)); err != nil {
			return
		}
	}
}

// frame answers one frame. The id of a prepared statement is its text.
func (n *fakeNode) frame(op byte, body []byte) (byte, []byte) {
	switch op {
	case opOptions:
		return opSupported, []byte{0, 0}
	case opStartup, opRegister:
		return opReady, nil
	case opPrepare:
		return opResult, fakePrepared(string(body[4:]))
	case opQuery:
		size := binary.BigEndian.Uint32(body)
		return n.result(string(body[4:4+size]), body[4+size:])
	case opExecute:
		size := binary.BigEndian.Uint16(body)
		return n.result(string(body[2:2+size]), body[2+size:])
	}
	return opError, fakeError(gocql.ErrCodeProtocol, "unknown opcode")
}

func (n *fakeNode) result(cql string, params []byte) (byte, []byte) {
	a := n.answer(cql, gocql.Consistency(binary.BigEndian.Uint16(params)))
	if a.message != "" {
		return opError, fakeError(a.code, a.message)
	}
	out := binary.BigEndian.AppendUint32([]byte{0, 0, 0, 2, 0, 0, 0, 1}, uint32(len(a.columns)))
	out = fakeString(fakeString(out, "keyspace"), "table")
	for _, c := range a.columns {
		out = append(fakeString(out, c.name), c.typ...)
	}
	out = binary.BigEndian.AppendUint32(out, uint32(len(a.rows)))
	for _, cell := range flatten(a.rows) {
		if cell == nil {
			out = append(out, 0xff, 0xff, 0xff, 0xff)
			continue
		}
		out = append(binary.BigEndian.AppendUint32(out, uint32(len(cell))), cell...)
	}
	return opResult, out
}

func flatten(rows [][][]byte) (cells [][]byte) {
	for _, r := range rows {
		cells = append(cells, r...)
	}
	return cells
}

// fakePrepared is the result of a PREPARE: limits are ints, other arguments texts.
func fakePrepared(cql string) []byte {
	out := fakeString([]byte{0, 0, 0, 4}, cql)
	parts := strings.Split(cql, "?")
	out = binary.BigEndian.AppendUint32(append(out, 0, 0, 0, 1), uint32(len(parts)-1))
	out = fakeString(fakeString(append(out, 0, 0, 0, 0), "keyspace"), "table")
	for _, before := range parts[:len(parts)-1] {
		typ := fakeText
		if strings.HasSuffix(before, "LIMIT ") {
			typ = fakeInt
		}
		out = append(fakeString(out, "argument"), typ...)
	}
	return append(out, 0, 0, 0, 4, 0, 0, 0, 0) // no metadata: it comes with each result
}

func fakeError(code int, message string) []byte {
	return fakeString(binary.BigEndian.AppendUint32(nil, uint32(code)), message)
}

func fakeString(to []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(to, uint16(len(s))), s...)
}
