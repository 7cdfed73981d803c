package server

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/qosproxy/qosproxy/internal/cqltype"
)

// The field numbers of Value in value.proto.
const (
	kindNull        = 1
	kindText        = 2
	kindInt         = 3
	kindBigint      = 4
	kindDouble      = 5
	kindFloat       = 6
	kindBoolean     = 7
	kindBlob        = 8
	kindUUID        = 9
	kindTimestamp   = 10
	kindList        = 11
	kindMap         = 12
	kindCql         = 13
	kindUDT         = 14
	kindSet         = 15
	kindDate        = 16
	kindTime        = 17
	kindInet        = 18
	kindVarint      = 19
	kindDecimal     = 20
	kindDuration    = 21
	kindTuple       = 22
	kindFloatVector = 23
	kindVector      = 24
	kindCustom      = 25
	kindEmpty       = 26
)

// The field numbers of the messages in a Value.
const (
	elements            = 1 // of every message that repeats something
	entryKey            = 1
	entryValue          = 2
	decimalUnscaled     = 1
	decimalScale        = 2
	durationMonths      = 1
	durationDays        = 2
	durationNanoseconds = 3
)

// composite is a list, set, map, tuple, UDT or vector whose elements are being
// encoded. A message is identified by the offset at which it begins.
type composite struct {
	shape shape
	// message is the composite value; inner is the packed field of its floats.
	message, inner int
	// next is the number of elements so far. element is the Value of the last
	// one, and entry the map entry that contains it.
	next, element, entry int
}

// shape is how the elements of a composite value are encoded.
type shape uint8

const (
	// values are a sequence of Value messages.
	values shape = iota
	// entries are pairs of a key and a value.
	entries
	// floats are a packed field.
	floats
)

// top returns the innermost open composite; nil if the next piece is the cell
// itself.
func (e *encoder) top() *composite {
	if len(e.open) == 0 {
		return nil
	}
	return &e.open[len(e.open)-1]
}

// enter begins the Value of the next piece, unless that is the cell, whose Value
// has begun.
func (e *encoder) enter() {
	c := e.top()
	switch {
	case c == nil:
	case c.shape == values:
		c.element = e.begin(elements)
	case c.next%2 == 0:
		c.entry = e.begin(elements)
		c.element = e.begin(entryKey)
	default:
		c.element = e.begin(entryValue)
	}
}

// leave ends what enter began.
func (e *encoder) leave() {
	c := e.top()
	if c == nil {
		return
	}
	e.end(c.element)
	if c.shape == entries && c.next%2 == 1 {
		e.end(c.entry)
	}
	c.next++
}

// integer appends a piece that is encoded as a varint.
func (e *encoder) integer(kind protowire.Number, v uint64) {
	e.enter()
	e.buf = appendVarint(e.buf, kind, v)
	e.leave()
}

func appendVarint(buf []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(buf, field, protowire.VarintType), v)
}

// bytes appends a piece that is encoded as bytes.
func (e *encoder) bytes(kind protowire.Number, v []byte) {
	e.enter()
	e.buf = appendBytes(e.buf, kind, v)
	e.leave()
}

func appendBytes(buf []byte, field protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(buf, field, protowire.BytesType), v)
}

// Null and the methods after it make encoder a cqltype.Visitor.
func (e *encoder) Null(*cqltype.Type) { e.integer(kindNull, 0) }

// Empty is part of cqltype.Visitor.
func (e *encoder) Empty(*cqltype.Type) { e.integer(kindEmpty, protowire.EncodeBool(true)) }

// Bool is part of cqltype.Visitor.
func (e *encoder) Bool(_ *cqltype.Type, v bool) { e.integer(kindBoolean, protowire.EncodeBool(v)) }

// Int is part of cqltype.Visitor.
func (e *encoder) Int(t *cqltype.Type, v int64) {
	kind := protowire.Number(kindInt)
	switch t.Kind {
	case cqltype.Timestamp:
		kind = kindTimestamp
	case cqltype.Date:
		kind = kindDate
	case cqltype.Time:
		kind = kindTime
	case cqltype.BigInt, cqltype.Counter:
		kind = kindBigint
	default:
	}
	e.integer(kind, protowire.EncodeZigZag(v))
}

// Float is part of cqltype.Visitor.
func (e *encoder) Float(t *cqltype.Type, v float64) {
	if c := e.top(); c != nil && c.shape == floats {
		e.buf = protowire.AppendFixed32(e.buf, math.Float32bits(float32(v)))
		return
	}
	e.enter()
	if t.Kind == cqltype.Float {
		e.buf = protowire.AppendTag(e.buf, kindFloat, protowire.Fixed32Type)
		e.buf = protowire.AppendFixed32(e.buf, math.Float32bits(float32(v)))
	} else {
		e.buf = protowire.AppendTag(e.buf, kindDouble, protowire.Fixed64Type)
		e.buf = protowire.AppendFixed64(e.buf, math.Float64bits(v))
	}
	e.leave()
}

// Text is part of cqltype.Visitor.
func (e *encoder) Text(_ *cqltype.Type, v []byte) { e.bytes(kindText, v) }

// Bytes is part of cqltype.Visitor.
func (e *encoder) Bytes(t *cqltype.Type, v []byte) {
	kind := protowire.Number(kindCustom)
	switch t.Kind {
	case cqltype.Blob:
		kind = kindBlob
	case cqltype.UUID, cqltype.TimeUUID:
		kind = kindUUID
	case cqltype.Inet:
		kind = kindInet
	case cqltype.VarInt:
		kind = kindVarint
	default:
	}
	e.bytes(kind, v)
}

// Decimal is part of cqltype.Visitor.
func (e *encoder) Decimal(_ *cqltype.Type, unscaled []byte, scale int32) {
	e.enter()
	at := e.begin(kindDecimal)
	e.buf = appendBytes(e.buf, decimalUnscaled, unscaled)
	e.buf = appendVarint(e.buf, decimalScale, protowire.EncodeZigZag(int64(scale)))
	e.end(at)
	e.leave()
}

// Duration is part of cqltype.Visitor.
func (e *encoder) Duration(_ *cqltype.Type, months, days int32, nanos int64) {
	e.enter()
	at := e.begin(kindDuration)
	e.buf = appendVarint(e.buf, durationMonths, protowire.EncodeZigZag(int64(months)))
	e.buf = appendVarint(e.buf, durationDays, protowire.EncodeZigZag(int64(days)))
	e.buf = appendVarint(e.buf, durationNanoseconds, protowire.EncodeZigZag(nanos))
	e.end(at)
	e.leave()
}

// Begin is part of cqltype.Visitor.
func (e *encoder) Begin(t *cqltype.Type, _ int) {
	e.enter()
	var c composite
	switch {
	case t.Kind == cqltype.Map:
		c = composite{shape: entries, message: e.begin(kindMap)}
	case t.Kind == cqltype.Vector && t.Elems[0].Kind == cqltype.Float:
		c = composite{shape: floats, message: e.begin(kindFloatVector)}
		c.inner = e.begin(elements)
	default:
		c = composite{shape: values, message: e.begin(kindOf(t.Kind))}
	}
	e.open = append(e.open, c)
}

// kindOf returns the field of Value for a composite type other than a map or a
// float vector.
func kindOf(kind cqltype.Kind) protowire.Number {
	switch kind {
	case cqltype.List:
		return kindList
	case cqltype.Set:
		return kindSet
	case cqltype.UDT:
		return kindUDT
	case cqltype.Vector:
		return kindVector
	default:
		return kindTuple
	}
}

// End is part of cqltype.Visitor.
func (e *encoder) End(*cqltype.Type) {
	c := *e.top()
	e.open = e.open[:len(e.open)-1]
	if c.shape == floats {
		e.end(c.inner)
	}
	e.end(c.message)
	e.leave()
}
