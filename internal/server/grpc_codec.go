package server

import (
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that this one extends
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/memory"
)

// codec is gRPC's own for protobuf, but that it leaves the keys of a lookup
// encoded until the types of their columns are known: as messages they would be
// most of what a request allocates.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

// Marshal encodes a message into a buffer that is counted until it has been written.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	out, ok := v.(*outgoing)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	pool := sentPool{mem.DefaultBufferPool(), out.answer}
	buf := pool.Get(proto.Size(out.message))
	b, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend((*buf)[:0], out.message)
	*buf = b
	if err != nil || mem.IsBelowBufferPoolingThreshold(cap(b)) {
		out.answer.Sent() // gRPC keeps no count of so few
	}
	if err != nil {
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(buf, pool)}, nil
}

// sentPool is told by gRPC when a buffer is needed no longer: it has been written, or its
// stream is gone.
type sentPool struct {
	mem.BufferPool
	answer *memory.Answer
}

// Put implements mem.BufferPool.
func (p sentPool) Put(b *[]byte) {
	p.answer.Sent()
	p.BufferPool.Put(b)
}

// Unmarshal decodes a message. The keys of a lookup become its unknown fields,
// where encodedKeys finds them.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	switch in := v.(type) {
	case *incoming:
		in.bytes = data.Len()
		return c.Unmarshal(data, in.message)
	case *qosproxyv1.BatchGetRequest:
		return unmarshalLookup(data.Materialize(), in)
	case *qosproxyv1.StreamBatchGetRequest:
		return unmarshalLookup(data.Materialize(), in)
	default:
		return c.CodecV2.Unmarshal(data, v)
	}
}

// The numbers of the fields with the keys in both requests, and with the
// components in a key.
const (
	requestKeys   = 3
	keyComponents = 1
)

// unmarshalLookup decodes a request from bytes that become its own.
func unmarshalLookup(b []byte, in proto.Message) error {
	keys, rest := b[:0], []byte(nil)
	for len(b) > 0 {
		field, typ, n := protowire.ConsumeField(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if field == requestKeys && typ == protowire.BytesType {
			keys = append(keys, b[:n]...)
		} else {
			rest = append(rest, b[:n]...)
		}
		b = b[n:]
	}
	if err := proto.Unmarshal(rest, in); err != nil {
		return err
	}
	attach(in, keys)
	return nil
}

// encodedKeys returns the keys that unmarshalLookup has left encoded.
func encodedKeys(in proto.Message) [][]byte {
	keys := make([][]byte, 0, 64)
	for b := in.ProtoReflect().GetUnknown(); len(b) > 0; {
		_, _, tag := protowire.ConsumeTag(b)
		key, n := protowire.ConsumeBytes(b[tag:])
		keys = append(keys, key)
		b = b[tag+n:]
	}
	return keys
}

// lone returns the content of an encoded message that has one field alone, of
// that number; ok is false for another message.
func lone(message []byte, field protowire.Number) (content []byte, ok bool) {
	number, typ, tag := protowire.ConsumeTag(message)
	if tag < 0 || number != field || typ != protowire.BytesType {
		return nil, false
	}
	content, n := protowire.ConsumeBytes(message[tag:])
	return content, n >= 0 && tag+n == len(message)
}
