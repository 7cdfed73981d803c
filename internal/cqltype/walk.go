package cqltype

import (
	"encoding/binary"
	"errors"
	"unicode/utf8"
)

// Visitor receives a value piece by piece, in order, from Type.Walk. Each method
// gets the type of the piece, so that no type of CQL loses its identity. Slices
// point into the cell: a Visitor that keeps them copies them.
type Visitor interface {
	// Null is a null, of any type.
	Null(t *Type)
	// Empty is the value of zero bytes that Cassandra allows for types in which
	// it has no other meaning, such as int. Text, ascii, blob and custom types
	// never report it.
	Empty(t *Type)
	// Bool is a boolean.
	Bool(t *Type, v bool)
	// Int is a tinyint, smallint, int, bigint or counter; a timestamp in
	// milliseconds since 1970-01-01T00:00:00Z; a date in days since 1970-01-01; or
	// a time in nanoseconds since midnight, which Cassandra does not check.
	Int(t *Type, v int64)
	// Float is a float or double; the float is exact.
	Float(t *Type, v float64)
	// Text is valid UTF-8: a text or ascii.
	Text(t *Type, v []byte)
	// Bytes are a blob, a custom type, a uuid or timeuuid (16 bytes), an inet (4
	// or 16), or a varint (two's complement, most significant byte first).
	Bytes(t *Type, v []byte)
	// Decimal is unscaled × 10^-scale, where unscaled is two's complement as in a
	// varint.
	Decimal(t *Type, unscaled []byte, scale int32)
	// Duration is a duration, whose parts have the same sign.
	Duration(t *Type, months, days int32, nanos int64)
	// Begin opens a composite value of n elements, which follow one by one up to
	// the matching End: elements of a list, set, tuple or vector, 2 × the entries
	// of a map with keys and values alternating, the fields of a UDT in the order
	// of its Fields. Tuples and UDTs always have all their elements, those missing
	// in the cell as Null. For other types n never exceeds what the cell can hold.
	Begin(t *Type, n int)
	// End closes the last open Begin.
	End(t *Type)
}

// Walk decodes the cell into v. A nil cell is one Null. It returns an error when
// the cell is no value of the type; v may then have received part of it.
func (t *Type) Walk(cell []byte, v Visitor) error {
	if cell == nil {
		v.Null(t)
		return nil
	}
	if t.composite() {
		return t.walkElements(cell, v)
	}
	switch t.Kind {
	case Text, ASCII:
		if err := t.checkText(cell); err != nil {
			return err
		}
		v.Text(t, cell)
		return nil
	case Blob, Custom:
		v.Bytes(t, cell)
		return nil
	default:
	}
	if len(cell) == 0 {
		v.Empty(t)
		return nil
	}
	return t.walkScalar(cell, v)
}

// walkElements walks over a composite value.
func (t *Type) walkElements(cell []byte, v Visitor) error {
	e, err := t.elements(cell)
	if err != nil {
		return err
	}
	v.Begin(t, e.n)
	for i := range e.n {
		c, err := e.next()
		if err != nil {
			return t.malformed(err)
		}
		if err := t.elem(i).Walk(c, v); err != nil {
			return err
		}
	}
	if err := e.end(); err != nil {
		return t.malformed(err)
	}
	v.End(t)
	return nil
}

// walkScalar walks over a cell that is not empty, of a type other than text and
// blob.
func (t *Type) walkScalar(cell []byte, v Visitor) error {
	if err := t.checkScalar(cell); err != nil {
		return err
	}
	switch t.Kind {
	case Boolean:
		v.Bool(t, cell[0] != 0)
	case TinyInt, SmallInt, Int, BigInt, Counter, Timestamp, Time:
		v.Int(t, integer(cell))
	case Date:
		v.Int(t, int64(dateDays(cell)))
	case Float, Double:
		f, err := t.float(cell)
		if err != nil {
			return err
		}
		v.Float(t, f)
	case Decimal:
		v.Decimal(t, cell[4:], int32(binary.BigEndian.Uint32(cell)))
	case Duration:
		d, err := t.duration(cell)
		if err != nil {
			return err
		}
		v.Duration(t, d.months, d.days, d.nanos)
	default:
		v.Bytes(t, cell)
	}
	return nil
}

// Validate returns an error unless Cassandra would accept the cell as a value of
// the type. A nil cell, a null, is valid. Unlike AppendJSON and Walk it refuses
// null elements of collections and vectors, and the empty value where Cassandra
// refuses it.
func (t *Type) Validate(cell []byte) error {
	if cell == nil {
		return nil
	}
	switch t.Kind {
	case Text, ASCII:
		return t.checkText(cell)
	case Blob, Custom:
		return nil
	case List, Set, Map, Vector:
		return t.each(cell, func(_ int, elem *Type, c []byte) error {
			if c == nil {
				return t.malformed(errors.New("a null element"))
			}
			return elem.Validate(c)
		})
	case Tuple, UDT:
		return t.each(cell, func(_ int, elem *Type, c []byte) error {
			return elem.Validate(c)
		})
	case TinyInt, SmallInt, Date, Time, Duration:
		if len(cell) == 0 {
			return t.malformed(errors.New("the type has no empty value"))
		}
	case Unknown:
		return t.malformed(errors.New("unknown type"))
	default:
	}
	if len(cell) == 0 {
		return nil
	}
	return t.checkScalar(cell)
}

// checkScalar returns an error unless a cell that is not empty is a value of the
// type, which is neither composite nor text or blob.
func (t *Type) checkScalar(cell []byte) error {
	switch t.Kind {
	case VarInt:
		return nil
	case Boolean:
		return t.size(cell, 1)
	case TinyInt, SmallInt, Int, BigInt, Counter:
		return t.size(cell, t.Kind.intSize())
	case Date, Float:
		return t.size(cell, 4)
	case Time, Timestamp, Double:
		return t.size(cell, 8)
	case Decimal:
		if len(cell) < 5 {
			return t.malformed(errTruncated)
		}
		return nil
	case Duration:
		_, err := t.duration(cell)
		return err
	case UUID, TimeUUID:
		return t.checkUUID(cell)
	case Inet:
		if len(cell) != 4 && len(cell) != 16 {
			return t.malformed(errors.New("neither 4 nor 16 bytes"))
		}
		return nil
	default:
		return t.malformed(errors.New("bytes of a type without values"))
	}
}

// checkText returns an error unless the cell is text in the type's encoding.
func (t *Type) checkText(cell []byte) error {
	if t.Kind == ASCII {
		for _, c := range cell {
			if c >= utf8.RuneSelf {
				return t.malformed(errors.New("a byte over 127"))
			}
		}
		return nil
	}
	if !utf8.Valid(cell) {
		return t.malformed(errors.New("not UTF-8"))
	}
	return nil
}
