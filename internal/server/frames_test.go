package server

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
)

// frames generates what a peer of the gRPC listener sends over one connection: calls,
// and frames of all kinds between them, of which a share is broken.
type frames struct {
	rnd *rand.Rand
	// broken is the share of frames that are broken, 0 to 1. It is small on most
	// connections, since the first frame that is bad enough ends the connection.
	broken float64
	buf    []byte
	count  int
	// next is the id of the next stream.
	next uint32
}

// newFrames returns the start of a connection, which its numbers determine.
func newFrames(seed, connection uint64) *frames {
	f := &frames{rnd: rand.New(rand.NewPCG(seed, connection)), next: 1}
	f.broken = []float64{0, 0, 0.002, 0.01, 0.1, 1}[f.rnd.IntN(6)]
	f.buf = append(f.buf, http2.ClientPreface...)
	f.frame(http2.FrameSettings, 0, 0, nil)
	return f
}

// length returns how many frames a connection sends: frames long after the first
// broken one are mostly not read.
func (f *frames) length() int { return 1 + f.rnd.IntN(min(1000, 2+int(10/(f.broken+0.001)))) }

// fill adds frames until there are n.
func (f *frames) fill(n int) []byte {
	for f.count < n {
		f.add()
	}
	return f.buf
}

// add adds a call, or a frame of another kind.
func (f *frames) add() {
	some := f.rnd.Uint32()
	four := binary.BigEndian.AppendUint32(nil, some)
	switch p := f.rnd.IntN(100); {
	case p < 35:
		f.call()
	case p < 55:
		f.frame(http2.FrameData, http2.Flags(f.rnd.IntN(2)), f.stream(), f.body())
	case p < 65:
		f.frame(http2.FrameRSTStream, 0, f.stream(), four)
	case p < 80:
		f.frame(http2.FrameWindowUpdate, 0, f.stream()*uint32(f.rnd.IntN(2)), binary.BigEndian.AppendUint32(nil, 1+some%1000))
	case p < 88:
		f.frame(http2.FramePriority, 0, f.stream(), append(make([]byte, 4), byte(some)))
	case p < 92:
		f.settings(some)
	case p < 93:
		f.frame(http2.FramePing, http2.Flags(f.rnd.IntN(2)), 0, append(four, four...))
	case p < 94 && f.rnd.IntN(50) == 0:
		f.frame(http2.FrameGoAway, 0, 0, append(four, 0, 0, 0, byte(some%14)))
	default: // an unknown kind
		f.frame(http2.FrameType(0x10+some%0xe0), http2.Flags(some>>8), f.stream(), four)
	}
}

// stream returns the id of one of the last streams.
func (f *frames) stream() uint32 {
	return max(1, f.next-2-min(f.next-1, 2*f.rnd.Uint32N(8)))
}

// settings adds a setting that is allowed, or acknowledges those of the server.
func (f *frames) settings(some uint32) {
	if some%3 == 0 {
		f.frame(http2.FrameSettings, http2.FlagSettingsAck, 0, nil)
		return
	}
	of := []struct{ id, value uint32 }{{1, some % 8192}, {2, 0}, {3, some % 500}, {4, some % (1 << 20)}, {5, 16384 + some%100000}, {6, some % (1 << 20)}, {99, some}}
	s := of[f.rnd.IntN(len(of))]
	f.frame(http2.FrameSettings, 0, 0, binary.BigEndian.AppendUint32([]byte{0, byte(s.id)}, s.value))
}

// call adds the headers of a call, in one frame or more, and some of its messages.
func (f *frames) call() {
	id := f.next
	f.next += 2
	if f.rnd.IntN(3) == 0 { // a call that is answered
		which := f.rnd.IntN(len(wholeCalls))
		f.frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, id, wholeCalls[which][0])
		f.frame(http2.FrameData, http2.FlagDataEndStream, id, wholeCalls[which][1])
		return
	}
	block := blocks[f.rnd.IntN(len(blocks))]
	if f.rnd.Float64() < f.broken {
		block = f.garbled(block)
	}
	var flags http2.Flags
	if f.rnd.IntN(8) == 0 {
		flags = http2.FlagHeadersEndStream
	}
	kind := http2.FrameHeaders
	for f.rnd.IntN(6) == 0 {
		at := f.rnd.IntN(len(block) + 1)
		f.frame(kind, flags, id, block[:at])
		kind, flags, block = http2.FrameContinuation, 0, block[at:]
	}
	f.frame(kind, flags|http2.FlagHeadersEndHeaders, id, block)
	for f.rnd.IntN(4) > 0 {
		f.frame(http2.FrameData, http2.Flags(f.rnd.IntN(2)), id, f.body())
	}
}

// body returns messages of calls, whole or in parts.
func (f *frames) body() []byte {
	b := bodies[f.rnd.IntN(len(bodies))]
	switch f.rnd.IntN(6) {
	case 0:
		return b[:f.rnd.IntN(len(b)+1)]
	case 1:
		return f.garbled(b)
	default:
		return b
	}
}

// frame adds one frame, or something that is not a frame.
func (f *frames) frame(kind http2.FrameType, flags http2.Flags, stream uint32, payload []byte) {
	f.count++
	length := uint32(len(payload))
	if f.rnd.Float64() < f.broken {
		switch some := f.rnd.Uint32(); some % 6 {
		case 0:
			kind = http2.FrameType(f.rnd.IntN(12))
		case 1:
			flags ^= 1 << f.rnd.IntN(8)
		case 2:
			stream = f.rnd.Uint32() >> f.rnd.IntN(32)
		case 3:
			length = f.rnd.Uint32() >> (8 + f.rnd.IntN(24))
		default:
			payload = f.garbled(payload)
			length = uint32(len(payload))
		}
	}
	f.buf = append(f.buf, byte(length>>16), byte(length>>8), byte(length), byte(kind), byte(flags))
	f.buf = binary.BigEndian.AppendUint32(f.buf, stream)
	f.buf = append(f.buf, payload...)
}

// garbled returns a copy with some bytes changed, added or removed.
func (f *frames) garbled(b []byte) []byte {
	out := append([]byte(nil), b...)
	for range 1 + f.rnd.IntN(4) {
		at := f.rnd.IntN(len(out) + 1)
		switch f.rnd.IntN(3) {
		case 0:
			out = append(out[:at], append([]byte{byte(f.rnd.Uint32())}, out[at:]...)...)
		case 1:
			out = out[:at]
		default:
			if at < len(out) {
				out[at] = byte(f.rnd.Uint32())
			}
		}
	}
	return out
}

// wholeCalls are the headers and messages of calls that are answered.
var wholeCalls = func() (out [][2][]byte) {
	for path, body := range map[string][]byte{"BatchGet": bodies[0], "StreamBatchGet": bodies[5], "DescribeRing": bodies[15], "ListTables": bodies[20]} {
		out = append(out, [2][]byte{headerBlock(callTo("/qosproxy.v1.QosProxy/" + path)...), body})
	}
	slices.SortFunc(out, func(a, b [2][]byte) int { return bytes.Compare(a[0], b[0]) })
	return out
}()

// blocks are headers of calls, encoded independently: none needs the table of
// another.
var blocks = headerBlocks()

func headerBlocks() (out [][]byte) {
	const service = "/qosproxy.v1.QosProxy/"
	for _, path := range []string{
		service + "BatchGet", service + "BatchGet", service + "BatchGet", service + "StreamBatchGet", service + "StreamBatchGet",
		service + "Explain", service + "DescribeRing", service + "ListTables", service + "None", "/", "", "*",
		"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
	} {
		for _, more := range [][]string{
			nil, {"grpc-timeout", "50m"}, {"grpc-timeout", "1n"}, {"grpc-timeout", "-1S"}, {"grpc-encoding", "gzip"}, {"grpc-encoding", "none"},
			{"content-length", "7"}, {"authorization", "Bearer x"}, {"x-bin", "!"}, {"content-type", "text/plain"}, {"Upper", "case"},
			{":late", "pseudo"}, {"connection", "close"}, {"traceparent", "00-0-0-0"},
		} {
			out = append(out, headerBlock(append(callTo(path), more...)...))
		}
	}
	return append(out, headerBlock(":method", "GET", ":scheme", "http", ":path", "/"), headerBlock("only", "this"), nil)
}

func callTo(path string) []string {
	return []string{":method", "POST", ":scheme", "http", ":authority", "a", ":path", path, "content-type", "application/grpc", "te", "trailers"}
}

func headerBlock(fields ...string) []byte {
	var block blockWriter
	e := hpack.NewEncoder(&block)
	e.SetMaxDynamicTableSize(0)
	for i := 0; i+1 < len(fields); i += 2 {
		_ = e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return block
}

// blockWriter is a bytes.Buffer that can be read repeatedly.
type blockWriter []byte

func (w *blockWriter) Write(p []byte) (int, error) {
	*w = append(*w, p...)
	return len(p), nil
}

// bodies are messages with their prefixes, valid and invalid ones.
var bodies = messageBodies()

func messageBodies() (out [][]byte) {
	keys := func(n int) (keys []*qosproxyv1.Key) {
		for range n {
			keys = append(keys, key(text("a")))
		}
		return keys
	}
	for _, m := range []proto.Message{
		&qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "products", Keys: keys(1)},
		&qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "products", Keys: keys(20), Columns: []string{"name"}, Explain: true},
		&qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "none", Keys: keys(1)},
		&qosproxyv1.DescribeRingRequest{IncludeRanges: true},
		&qosproxyv1.ListTablesRequest{},
	} {
		b, _ := proto.Marshal(m)
		out = append(out, message(0, len(b), b), message(1, len(b), b), message(0, len(b)+1, b), message(0, 1<<30, b), message(7, len(b), b))
	}
	return append(out, message(0, 0, nil), []byte{0}, []byte("not a message at all"), nil)
}

// message returns a message with its prefix.
func message(compressed byte, length int, b []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{compressed}, uint32(length)), b...)
}
