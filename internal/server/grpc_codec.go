package server

import (
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that this one extends
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/memory"
)

// codec is gRPC's protobuf codec, except that it leaves the keys of a lookup encoded until the
// types of their columns are known. Decoded to messages they would cause most of the
// allocations of a request.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

// Marshal encodes a message. The buffer of an *outgoing counts until it has been written.
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
		out.answer.Sent() // gRPC does not pool, and so does not release, small buffers
	}
	if err != nil {
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(buf, pool)}, nil
}

// sentPool is how gRPC reports that it needs a buffer no longer: the buffer has been written,
// or its stream is gone.
type sentPool struct {
	mem.BufferPool
	answer *memory.Answer
}

// Put implements mem.BufferPool.
func (p sentPool) Put(b *[]byte) {
	p.answer.Sent()
	p.BufferPool.Put(b)
}

// Unmarshal decodes a message. The keys of a lookup become unknown fields of it, where
// encodedKeys finds them.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	in, counted := v.(*incoming)
	if counted {
		v, in.bytes = in.message, data.Len()
		if in.inflated == 0 { // else it was compressed, and its size on the wire is not known
			in.wire = in.bytes
		}
	}
	switch m := v.(type) {
	case *qosproxyv1.BatchGetRequest, *qosproxyv1.StreamBatchGetRequest, *qosproxyv1.ExplainRequest:
		return unmarshalLookup(data.Materialize(), m.(proto.Message), in)
	default: // the other requests have neither lists nor maps
		return c.CodecV2.Unmarshal(data, v)
	}
}

// The field numbers of the keys, in all requests that have keys, and of the components in a
// key.
const (
	requestKeys   = 3
	keyComponents = 1
)

// maxDepth is how deeply nested messages protobuf decodes.
const maxDepth = protowire.DefaultRecursionLimit

// countElements returns how many elements of a message count towards maxElements. It ignores
// messages that are nested more than depth levels deep.
func countElements(b []byte, of protoreflect.MessageDescriptor, depth int) int {
	count := 0
	for len(b) > 0 && depth > 0 {
		number, typ, n := protowire.ConsumeField(b)
		if n < 0 {
			break // protobuf reports the error
		}
		count++
		if field := of.Fields().ByNumber(number); field != nil && typ == protowire.BytesType {
			_, _, tag := protowire.ConsumeTag(b)
			content, _ := protowire.ConsumeBytes(b[tag:])
			switch kind := field.Kind(); {
			case kind == protoreflect.MessageKind:
				count += countElements(content, field.Message(), depth-1)
			case field.IsList() && kind != protoreflect.StringKind && kind != protoreflect.BytesKind:
				count += 4 * len(content) / elementBytes // packed integers
			}
		}
		b = b[n:]
	}
	return count
}

// unmarshalLookup decodes a request and keeps b. It takes the memory it needs from in, which
// may be nil.
func unmarshalLookup(b []byte, m proto.Message, in *incoming) error {
	keys, rest, longest := b[:0], []byte(nil), []byte(nil)
	of, elements := m.ProtoReflect().Descriptor(), 0
	for len(b) > 0 {
		field, typ, n := protowire.ConsumeField(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if field == requestKeys && typ == protowire.BytesType {
			keys = append(keys, b[:n]...)
			if n > len(longest) {
				longest = keys[len(keys)-n:]
			}
		} else {
			if elements += countElements(b[:n], of, maxDepth); elements > maxElements {
				break // before so much is copied
			}
			rest = append(rest, b[:n]...)
		}
		b = b[n:]
	}
	if err := in.expand(elements + countElements(longest, of, maxDepth)); err != nil {
		return in.refuse(err)
	}
	if err := proto.Unmarshal(rest, m); err != nil {
		return err
	}
	attach(m, keys)
	return nil
}

// countKeys returns how many keys encodedKeys returns.
func countKeys(in proto.Message) (keys int) {
	for b := in.ProtoReflect().GetUnknown(); len(b) > 0; keys++ {
		_, _, n := protowire.ConsumeField(b)
		b = b[n:]
	}
	return keys
}

// encodedKeys returns the keys that unmarshalLookup left encoded.
func encodedKeys(in proto.Message) [][]byte {
	keys := make([][]byte, 0, countKeys(in))
	for b := in.ProtoReflect().GetUnknown(); len(b) > 0; {
		_, _, tag := protowire.ConsumeTag(b)
		key, n := protowire.ConsumeBytes(b[tag:])
		keys = append(keys, key)
		b = b[tag+n:]
	}
	return keys
}

// lone returns the content of an encoded message whose only field has that number; ok is false
// for any other message.
func lone(message []byte, field protowire.Number) (content []byte, ok bool) {
	number, typ, tag := protowire.ConsumeTag(message)
	if tag < 0 || number != field || typ != protowire.BytesType {
		return nil, false
	}
	content, n := protowire.ConsumeBytes(message[tag:])
	return content, n >= 0 && tag+n == len(message)
}
