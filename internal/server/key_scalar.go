package server

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"unsafe"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/cqltype"
)

// encodeScalar returns the bytes of a value of a type without elements.
func encodeScalar(t *cqltype.Type, v *qosproxyv1.Value) ([]byte, error) {
	switch t.Kind {
	case cqltype.BigInt, cqltype.Counter, cqltype.Int, cqltype.SmallInt, cqltype.TinyInt, cqltype.VarInt:
		return encodeInteger(t, v)
	case cqltype.Decimal, cqltype.Duration:
		return encodeCompound(t, v)
	default:
	}
	switch kind := v.GetKind().(type) {
	case *qosproxyv1.Value_Text:
		if t.Kind == cqltype.Text || t.Kind == cqltype.ASCII {
			// Without a copy: neither the message nor a key ever changes.
			return unsafe.Slice(unsafe.StringData(kind.Text), len(kind.Text)), nil
		}
	case *qosproxyv1.Value_Blob:
		if t.Kind == cqltype.Blob {
			return kind.Blob, nil
		}
	case *qosproxyv1.Value_Uuid:
		if t.Kind == cqltype.UUID || t.Kind == cqltype.TimeUUID {
			return sized(t, kind.Uuid, 16)
		}
	case *qosproxyv1.Value_Inet:
		if t.Kind == cqltype.Inet {
			return sized(t, kind.Inet, 4, 16)
		}
	case *qosproxyv1.Value_Custom:
		if t.Kind == cqltype.Custom || t.Kind == cqltype.Unknown {
			return kind.Custom, nil
		}
	default:
		return encodeFixed(t, v)
	}
	return nil, mismatch(t, v)
}

// sized refuses bytes of a length that the type does not have. Zero bytes would
// be an empty value, for which there is a kind of its own.
func sized(t *cqltype.Type, b []byte, sizes ...int) ([]byte, error) {
	if slices.Contains(sizes, len(b)) {
		return b, nil
	}
	return nil, fmt.Errorf("expected %s of %v bytes, got %d", t, sizes, len(b))
}

// encodeFixed encodes the types whose bytes are a single number.
func encodeFixed(t *cqltype.Type, v *qosproxyv1.Value) ([]byte, error) {
	switch kind := v.GetKind().(type) {
	case *qosproxyv1.Value_Boolean:
		if t.Kind == cqltype.Boolean {
			if kind.Boolean {
				return []byte{1}, nil
			}
			return []byte{0}, nil
		}
	case *qosproxyv1.Value_Double:
		if t.Kind == cqltype.Double {
			return binary.BigEndian.AppendUint64(nil, math.Float64bits(kind.Double)), nil
		}
	case *qosproxyv1.Value_Float:
		if t.Kind == cqltype.Float {
			return binary.BigEndian.AppendUint32(nil, math.Float32bits(kind.Float)), nil
		}
	case *qosproxyv1.Value_Timestamp:
		if t.Kind == cqltype.Timestamp {
			return binary.BigEndian.AppendUint64(nil, uint64(kind.Timestamp)), nil
		}
	case *qosproxyv1.Value_Date:
		if t.Kind == cqltype.Date {
			return binary.BigEndian.AppendUint32(nil, uint32(int64(kind.Date)+dateCentre)), nil
		}
	case *qosproxyv1.Value_Time:
		if t.Kind == cqltype.Time {
			return binary.BigEndian.AppendUint64(nil, uint64(kind.Time)), nil
		}
	}
	return nil, mismatch(t, v)
}

// dateCentre is the number as which Cassandra stores 1970-01-01 in a date.
const dateCentre = 1 << 31

// encodeInteger encodes the integer types from int, bigint or varint.
func encodeInteger(t *cqltype.Type, v *qosproxyv1.Value) ([]byte, error) {
	var n int64
	switch kind := v.GetKind().(type) {
	case *qosproxyv1.Value_Int:
		n = int64(kind.Int)
	case *qosproxyv1.Value_Bigint:
		n = kind.Bigint
	case *qosproxyv1.Value_Varint:
		if t.Kind == cqltype.VarInt && len(kind.Varint) > 0 {
			return minimal(kind.Varint), nil
		}
		return nil, mismatch(t, v)
	default:
		return nil, mismatch(t, v)
	}
	b := binary.BigEndian.AppendUint64(nil, uint64(n))
	if t.Kind == cqltype.VarInt {
		return minimal(b), nil
	}
	size := map[cqltype.Kind]int{cqltype.BigInt: 8, cqltype.Counter: 8, cqltype.Int: 4, cqltype.SmallInt: 2, cqltype.TinyInt: 1}[t.Kind]
	if limit := int64(1) << (8*size - 1); size < 8 && (n < -limit || n >= limit) {
		return nil, fmt.Errorf("%s out of range: %d to %d", t, -limit, limit-1)
	}
	return b[8-size:], nil
}

// minimal drops the leading bytes that only repeat the sign: with them, one
// number would have two encodings, and so two partitions.
func minimal(b []byte) []byte {
	for len(b) > 1 && (b[0] == 0 && b[1] < 0x80 || b[0] == 0xff && b[1] >= 0x80) {
		b = b[1:]
	}
	return b
}

// encodeCompound encodes the types that consist of several numbers.
func encodeCompound(t *cqltype.Type, v *qosproxyv1.Value) ([]byte, error) {
	if d := v.GetDecimal(); d != nil && t.Kind == cqltype.Decimal {
		if len(d.GetUnscaled()) == 0 {
			return nil, fmt.Errorf("expected %s with at least one byte of unscaled, got none", t)
		}
		return append(binary.BigEndian.AppendUint32(nil, uint32(d.GetScale())), minimal(d.GetUnscaled())...), nil
	}
	// A duration cannot be part of a key: it has no order.
	return nil, mismatch(t, v)
}
